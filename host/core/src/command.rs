//! Native programs: the request to run one, the simple commands it consists of, and the port to the shells and
//! sandboxes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::BoxFuture;
use crate::call::CallObserver;
use crate::code::CodeLanguage;
use crate::error::{ToolError, ToolErrorCode};
use crate::pipeline::PermittedCommand;

mod pattern;
mod plain_command;
mod variables;
mod verdict;
mod word;

pub(crate) use plain_command::PlainCommand;
pub(crate) use variables::is_harmless;

pub use pattern::CommandPattern;
pub use verdict::CommandVerdict;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandProgram {
    /// An argument vector, the program first. No shell is involved.
    Vector(Vec<String>),
    /// Text for a shell.
    Script(String),
}

/// A command as a tool requests it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRequest {
    /// The program.
    pub program: CommandProgram,
    /// The working directory, relative to the workspace root, with `/` between components; the root itself if `None`.
    pub directory: Option<String>,
    /// Variables in addition to the few that every command gets.
    pub environment: Vec<(String, String)>,
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The time limit, within the limit of the call.
    pub timeout: Option<Duration>,
    /// The sandbox to use, among those that the settings permit.
    pub target: CommandTarget,
}

/// The environment that a command runs in. The policy checks do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandTarget {
    /// The default sandbox of commands.
    #[default]
    Default,
    /// The default sandbox, but with the programs of this machine, which a container does not have.
    HostPrograms,
    /// A container of the image that the settings name for code of this language.
    Container(CodeLanguage),
}

/// A parsed program: every simple command in it, at any depth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedProgram {
    /// In the order of the text, including those inside of substitutions, functions and wrappers such as `sudo`. A
    /// wrapper without an effect of its own, such as `nice`, is left out.
    pub commands: Vec<ParsedCommand>,
    /// Parts outside of any simple command that cannot be analysed: descriptions for a person.
    pub unknown: Vec<String>,
}

/// One simple command: a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedCommand {
    /// The program and its arguments, without quotes.
    pub words: Vec<ShellWord>,
    /// `NAME=value` before the program, for this command alone.
    pub assignments: Vec<(String, ShellWord)>,
    /// Files that the shell opens for the command.
    pub redirections: Vec<ShellRedirection>,
    /// The byte range in the text.
    pub span: Range<usize>,
    /// The wrappers that run it, outermost first: `sudo`, `xargs`, `find -exec`, `sh -c`.
    pub wrappers: Vec<String>,
    /// Index of the command in the script whose output this one reads through a pipe.
    pub piped_from: Option<usize>,
    /// Index of the command in the script that must succeed right before this one starts in the same shell, as in `a
    /// && b`.
    pub follows: Option<usize>,
    /// The reasons why its words alone do not determine its effects, if any.
    pub unknown: Vec<String>,
    /// True if it runs a program or a shell text that its words do not show.
    pub hides_command: bool,
    /// True if it starts the function that contains it again in parallel, so that processes multiply without end.
    pub may_fork_bomb: bool,
}

/// One word of a simple command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShellWord {
    /// The exact text that the program receives.
    Known(String),
    /// A glob over names that begin with its literal part: one word or many, and nothing else that is unknown.
    Glob(String),
    /// One name matched by such a glob, or the glob itself if nothing matches: the variable of a loop over files.
    GlobMatch(String),
    /// A word that only the shell can expand, to any number of words: the text as written.
    Unknown(String),
}

/// A file that the shell opens for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRedirection {
    /// True if the file is written; otherwise it is read.
    pub writes: bool,
    /// True if output is appended to the file.
    pub appends: bool,
    /// The file.
    pub target: ShellWord,
}

/// The output stream of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The result of a command that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit code; 128 plus the signal number for a command ended by a signal, as in shells.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: CapturedOutput,
    /// Standard error.
    pub stderr: CapturedOutput,
    /// Both streams in the order of arrival.
    pub combined: CapturedOutput,
    /// The running time.
    pub duration: Duration,
    /// Workspace files that agents or build tools execute automatically and that the command created or changed.
    pub changed_auto_run_files: Vec<String>,
}

/// Output within the limit: the middle of a longer output is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedOutput {
    /// The captured bytes, with a note in place of dropped ones.
    pub bytes: Vec<u8>,
    /// The number of dropped bytes.
    pub omitted_bytes: u64,
}

/// Identifies a background command within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// The status of a background command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// Its id.
    pub id: JobId,
    /// The command as requested.
    pub command: String,
    /// The exit code, once it has ended.
    pub exit_code: Option<i32>,
    /// The time since it was started, or its total running time.
    pub duration: Duration,
}

/// Output of a background command, both streams in the order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputChunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The position of the next chunk.
    pub next: u64,
    /// Bytes between the requested position and this chunk that are no longer stored.
    pub omitted_bytes: u64,
}

/// The owner of a background command. Others cannot see the command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobOwner {
    /// The session, whose end kills the command.
    pub session: String,
    /// The location of the plugin that started it.
    pub plugin: String,
}

/// A stream that a runner has connected to a server of a session. Core neither opens nor reads it, and only passes on
/// the type that the runner and the backend agree on: a `TcpStream` of the standard library.
pub struct SessionConnection(Box<dyn std::any::Any + Send>);

impl SessionConnection {
    /// Wraps a stream.
    pub fn new<T: Send + 'static>(stream: T) -> Self {
        Self(Box::new(stream))
    }

    /// The stream, if it is of this type.
    pub fn into_stream<T: 'static>(self) -> Option<T> {
        self.0.downcast().ok().map(|stream| *stream)
    }
}

/// The port to shells and sandboxes. Methods that only read run nothing, and are documented so.
pub trait CommandRunner: Send + Sync {
    /// Parses a program into the commands it runs, looking inside wrappers. Returns [`ToolErrorCode::InvalidInput`] for a text
    /// that cannot be a program; parts that cannot be analysed are [`ParsedProgram::unknown`].
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError>;

    /// The workspace root inside the sandbox: an absolute path, with `/` between components and no trailing `/`.
    fn root(&self) -> Option<&str>;

    /// The workspace file that may select the version of this program for a folder, as a path from the root; `folder`
    /// likewise. `None` if there is no such file.
    fn version_file(&self, program: &str, folder: &str) -> Option<String> {
        let _ = (program, folder);
        None
    }

    /// Returns true if commands reach the network only by requests that are checked one by one, or not at all.
    fn confines_network(&self) -> bool {
        false
    }

    /// The name of the sandbox that a command would run in. Fails with the reason if no sandbox is available, or if
    /// `program` is missing where the sandbox uses the programs of this machine. The content of an image is not known
    /// here.
    fn sandbox_name<'a>(
        &'a self,
        place: CommandTarget,
        program: &'a str,
    ) -> BoxFuture<'a, Result<&'static str, ToolError>> {
        let _ = (place, program);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Runs a command to its end. Dropping the future kills it with its descendants.
    fn run(
        &self,
        command: PermittedCommand,
        observer: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, Result<CommandOutput, ToolError>> {
        drop((command, observer));
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Starts a command in the background, which runs until its session ends.
    fn start(&self, command: PermittedCommand) -> BoxFuture<'_, Result<JobId, ToolError>> {
        drop(command);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Lists the background commands.
    fn jobs(&self, owner: &JobOwner) -> Vec<JobStatus> {
        let _ = owner;
        Vec::new()
    }

    /// The output of a command from `begin` on, in bytes of both streams together.
    fn output(&self, owner: &JobOwner, job: JobId, begin: u64) -> Result<OutputChunk, ToolError> {
        let _ = (owner, job, begin);
        Err(unavailable())
    }

    /// Kills a command with its descendants, and waits until they have exited.
    fn stop<'a>(
        &'a self,
        owner: &'a JobOwner,
        job: JobId,
    ) -> BoxFuture<'a, Result<JobStatus, ToolError>> {
        let _ = (owner, job);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// The ports declared for background commands of this session: requests of the session reach their servers there.
    fn served_ports(&self, session: &str) -> Vec<u16> {
        let _ = session;
        Vec::new()
    }

    /// Connects to one of these ports, on the loopback of the session's commands.
    fn connect<'a>(
        &'a self,
        session: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<SessionConnection>> {
        let _ = (session, port);
        Box::pin(std::future::ready(Err(
            std::io::ErrorKind::ConnectionRefused.into(),
        )))
    }

    /// Kills all commands of a session.
    fn end_session(&self, session: &str) {
        let _ = session;
    }
}

/// A runner that runs and parses nothing.
pub struct NoCommandRunner;

impl CommandRunner for NoCommandRunner {
    fn parse_program(&self, _: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        Err(unavailable())
    }

    fn root(&self) -> Option<&str> {
        None
    }
}

fn unavailable() -> ToolError {
    ToolError::new(
        ToolErrorCode::Unavailable,
        "native programs cannot be run here",
    )
}

impl CommandProgram {
    /// The program as a person would write it.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            CommandProgram::Vector(words) => words.join(" ").into(),
            CommandProgram::Script(text) => text.into(),
        }
    }
}

impl ParsedCommand {
    /// The name of the program, if known.
    pub fn program(&self) -> Option<&str> {
        self.words.first().and_then(ShellWord::known)
    }

    /// The command for a person: shortened to one line, and safe to print.
    pub fn display_line(&self) -> String {
        let mut line = String::new();
        let mut add = |parts: [&str; 3]| {
            if !line.is_empty() {
                line.push(' ');
            }
            parts.iter().for_each(|part| line.push_str(part));
        };
        for (name, value) in &self.assignments {
            add([name, "=", value.text()]);
        }
        for word in &self.words {
            match word {
                ShellWord::Known(text) if text.is_empty() || text.contains([' ', '\t', '\n']) => {
                    add(["'", text, "'"]);
                }
                word => add([word.text(), "", ""]),
            }
        }
        for one in &self.redirections {
            let arrow = match (one.writes, one.appends) {
                (true, true) => ">>",
                (true, false) => ">",
                _ => "<",
            };
            add([arrow, one.target.text(), ""]);
        }
        // From the innermost wrapper outwards: a text passed to a shell needs quotes.
        let mut is_text = false;
        for how in self.wrappers.iter().rev() {
            let takes_text = how.ends_with(" -c") || matches!(how.as_str(), "eval" | "trap");
            let line_in = match takes_text && !is_text {
                true if line.contains('\'') => format!("\"{line}\""),
                true => format!("'{line}'"),
                false => line,
            };
            is_text |= takes_text;
            line = format!("{how} {line_in}");
        }
        let cut = crate::text::prefix(&line, SHOWN);
        let dots = if cut.len() < line.len() { "…" } else { "" };
        format!("{}{dots}", crate::text::visible(cut))
    }
}

/// Maximum characters of a command on a line of a card.
const SHOWN: usize = 160;
