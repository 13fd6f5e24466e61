//! Native programs: what is to run, which commands that comes to, and the port to whatever runs it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::BoxFuture;
use crate::call::Observer;
use crate::code::Language;
use crate::error::{Code, ToolError};
use crate::pipeline::Permitted;

mod pattern;
mod plain;
mod variables;
mod verdict;
mod word;

pub(crate) use plain::Plain;
pub(crate) use variables::is_harmless;

pub use pattern::CommandPattern;
pub use verdict::CommandVerdict;

/// What is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// An argument vector, the program first. No shell is involved.
    Vector(Vec<String>),
    /// Text for a shell.
    Script(String),
}

/// A command as a tool asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What is to run.
    pub program: Program,
    /// Where, relative to the workspace root, with `/` between components; the root itself where none is named.
    pub directory: Option<String>,
    /// Variables beside the few that every command gets.
    pub environment: Vec<(String, String)>,
    /// What it reads from its standard input.
    pub stdin: Vec<u8>,
    /// How long it may run; the call's own limit holds all the same.
    pub timeout: Option<Duration>,
    /// In which of the sandboxes that the settings let.
    pub place: Place,
}

/// Where a command runs. What it may do is judged the same wherever that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// In the sandbox of commands.
    #[default]
    Usual,
    /// Likewise, but with the programs of this machine, which a container does not have.
    Machine,
    /// In a container of the image that the settings have for code of this language.
    Container(Language),
}

/// A program as it was read: every simple command in it, wherever it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// In the order of the text, those inside of substitutions, functions and wrappers such as `sudo` too. A wrapper
    /// that does nothing by itself, such as `nice`, is left out.
    pub commands: Vec<Simple>,
    /// What stands outside of any simple command and cannot be judged: in words for a person.
    pub unknown: Vec<String>,
}

/// One simple command: a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    /// The program and its arguments, quotes removed.
    pub words: Vec<Word>,
    /// `NAME=value` before the program, for this command alone.
    pub assignments: Vec<(String, Word)>,
    /// Files that the shell opens for it.
    pub redirections: Vec<Redirection>,
    /// Where it stands in the text, in bytes.
    pub span: Range<usize>,
    /// What runs it, outermost first: `sudo`, `xargs`, `find -exec`, `sh -c`.
    pub through: Vec<String>,
    /// The command of the script, by its number, whose output it reads through a pipe.
    pub fed_by: Option<usize>,
    /// The command of the script, by its number, that ends well right before this one begins, in the same shell, with
    /// nothing between them: as in `a && b`.
    pub after: Option<usize>,
    /// Why it cannot be judged by its words alone, if so.
    pub unknown: Vec<String>,
    /// Whether it runs something that its words do not say: a program, or a text for a shell.
    pub hides: bool,
    /// Whether it starts the function anew that it stands in, beside the one that runs: then there is no end to them.
    pub multiplies: bool,
}

/// One word of a simple command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Word {
    /// What the program will get.
    Known(String),
    /// A glob over names that begin with its literal part: one word or many, and nothing else that is unknown.
    Glob(String),
    /// One name that such a glob finds, or the glob itself where it finds none: what a loop over files has.
    Found(String),
    /// What only the shell will know, be it one word, many or none: as it is written.
    Unknown(String),
}

/// A file that the shell opens for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// Whether it is written to; else it is read.
    pub writes: bool,
    /// Whether what is written comes behind what the file has.
    pub appends: bool,
    /// Which file.
    pub target: Word,
}

/// Where bytes of a command came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What came of a command that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What it ended with; 128 and the number of a signal that ended it, as shells have it.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// Both as they came.
    pub combined: Captured,
    /// How long it ran.
    pub duration: Duration,
    /// Files of the workspace that agents or build tools obey by themselves, and that it made or changed.
    pub obeyed: Vec<String>,
}

/// Output as far as it was kept: too much of it loses its middle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// The bytes that were kept; where some are missing, a note stands in their place.
    pub bytes: Vec<u8>,
    /// How many bytes are missing.
    pub missing: u64,
}

/// Names a command that runs in the background, within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// How a command in the background is getting on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// What runs, as it was asked for.
    pub command: String,
    /// What it ended with, once it has.
    pub exit_code: Option<i32>,
    /// Since when it has been running, or how long it ran.
    pub duration: Duration,
}

/// Output of a command in the background, both streams as they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// What is there.
    pub bytes: Vec<u8>,
    /// Where the next piece begins.
    pub next: u64,
    /// Bytes between the place that was asked for and this piece that are not kept any more.
    pub missing: u64,
}

/// Who a command in the background belongs to: nobody else hears of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The session, at whose end it is killed.
    pub session: String,
    /// Where the plugin is that has started it.
    pub plugin: String,
}

/// A stream that a runner has connected to a server of a session. Core opens and reads none: it passes on what the runner
/// and the backend agree on, which is a `TcpStream` of the standard library.
pub struct Connection(Box<dyn std::any::Any + Send>);

impl Connection {
    /// Wraps a stream.
    pub fn new<T: Send + 'static>(stream: T) -> Self {
        Self(Box::new(stream))
    }

    /// The stream, if it is of this type.
    pub fn into_stream<T: 'static>(self) -> Option<T> {
        self.0.downcast().ok().map(|stream| *stream)
    }
}

/// The port to shells and sandboxes. What only reads runs nothing, and says so.
pub trait Runner: Send + Sync {
    /// Reads a program: which commands it runs, looked through what only runs others. What can be no program at all is
    /// [`Code::InvalidInput`]; what cannot be read is [`Script::unknown`].
    fn read(&self, program: &Program) -> Result<Script, ToolError>;

    /// Where commands see the workspace: an absolute path, with `/` between components and none at its end.
    fn root(&self) -> Option<&str>;

    /// The file of the workspace that may say which program runs by this name in a folder of it: a path from its root,
    /// `folder` likewise. Nothing if there is none.
    fn chooses(&self, program: &str, folder: &str) -> Option<String> {
        let _ = (program, folder);
        None
    }

    /// Returns true if commands reach the network only by requests that are judged one by one, or not at all.
    fn confines(&self) -> bool {
        false
    }

    /// The name of the sandbox that a command would run in there. Why not, if there is none, or if the programs of this
    /// machine are those that it has and `program` is none of them. Of what is in an image nothing is known here.
    fn offers<'a>(
        &'a self,
        place: Place,
        program: &'a str,
    ) -> BoxFuture<'a, Result<&'static str, ToolError>> {
        let _ = (place, program);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Runs a command to its end. Dropping the future kills it and all that it started.
    fn run(
        &self,
        command: Permitted,
        observer: Arc<dyn Observer>,
    ) -> BoxFuture<'_, Result<Finished, ToolError>> {
        drop((command, observer));
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Starts a command that goes on when the call has ended, until its session does.
    fn start(&self, command: Permitted) -> BoxFuture<'_, Result<JobId, ToolError>> {
        drop(command);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// The commands that were started.
    fn jobs(&self, owner: &Owner) -> Vec<Job> {
        let _ = owner;
        Vec::new()
    }

    /// What a command has written from `begin` on, in bytes of both streams together.
    fn output(&self, owner: &Owner, job: JobId, begin: u64) -> Result<Piece, ToolError> {
        let _ = (owner, job, begin);
        Err(unavailable())
    }

    /// Kills a command and all that it started, and waits until it is gone.
    fn stop<'a>(&'a self, owner: &'a Owner, job: JobId) -> BoxFuture<'a, Result<Job, ToolError>> {
        let _ = (owner, job);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// The ports that were named for commands which go on in the background of this session: requests of the session
    /// reach their servers there.
    fn served(&self, session: &str) -> Vec<u16> {
        let _ = session;
        Vec::new()
    }

    /// Connects to one of them, on the loopback that the commands of the session have.
    fn connect<'a>(
        &'a self,
        session: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<Connection>> {
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

/// Runs nothing and reads nothing.
pub struct NoRunner;

impl Runner for NoRunner {
    fn read(&self, _: &Program) -> Result<Script, ToolError> {
        Err(unavailable())
    }

    fn root(&self) -> Option<&str> {
        None
    }
}

fn unavailable() -> ToolError {
    ToolError::new(Code::Unavailable, "no native programs can be run here")
}

impl Program {
    /// As a person wrote it, or would.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Program::Vector(words) => words.join(" ").into(),
            Program::Script(text) => text.into(),
        }
    }
}

impl Simple {
    /// The program as it is named, if that is known.
    pub fn program(&self) -> Option<&str> {
        self.words.first().and_then(Word::known)
    }

    /// The command as a person reads it: no more of it than fits a line, and safe to print.
    pub fn shown(&self) -> String {
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
                Word::Known(text) if text.is_empty() || text.contains([' ', '\t', '\n']) => {
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
        // From the innermost outwards: what a shell is given as a text stands between quotes.
        let mut is_text = false;
        for how in self.through.iter().rev() {
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

/// As many characters of a command as a line of a card has room for.
const SHOWN: usize = 160;
