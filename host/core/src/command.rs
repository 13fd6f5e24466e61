//! Commands: requests to run native programs, and the port to shells and sandboxes. The crate `mimir-commands` parses
//! programs.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::BoxFuture;
use crate::call::CallObserver;
use crate::code_language::CodeLanguage;
use crate::error::{ToolError, ToolErrorCode};
use crate::pipeline::PermittedCommand;

mod pattern;
mod verdict;

use mimir_commands::InvalidProgram;

pub use mimir_commands::{
    CommandProgram, ParsedCommand, ParsedProgram, ShellRedirection, ShellWord,
};

pub use pattern::CommandPattern;
pub use verdict::CommandVerdict;

/// A command as a tool requests it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRequest {
    /// The program.
    pub program: CommandProgram,
    /// The working directory, relative to the workspace root, with `/` between components. `None` is the root.
    pub directory: Option<String>,
    /// Environment variables, in addition to the default environment.
    pub environment: Vec<(String, String)>,
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The time limit, capped by the call's.
    pub timeout: Option<Duration>,
    /// The requested sandbox. The settings determine which sandboxes are permitted.
    pub target: CommandTarget,
}

/// The sandbox that a command runs in. The policy checks do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandTarget {
    /// The configured sandbox.
    #[default]
    Default,
    /// A sandbox with the host's programs, which containers do not have.
    HostPrograms,
    /// A container of the image configured for this language.
    Container(CodeLanguage),
}

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The result of a completed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit code; 128 plus the signal number if a signal killed the command, as in shells.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: CapturedOutput,
    /// Standard error.
    pub stderr: CapturedOutput,
    /// Both streams in the order of arrival.
    pub combined: CapturedOutput,
    /// The running time.
    pub duration: Duration,
    /// Workspace files created or changed by the command that agents or build tools execute automatically.
    pub changed_auto_run_files: Vec<String>,
}

/// Captured output. The middle of output beyond the limit is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedOutput {
    /// The captured bytes, with a note in place of dropped bytes.
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
    /// The id of the command.
    pub id: JobId,
    /// The command as requested.
    pub command: String,
    /// The exit code, once it has ended.
    pub exit_code: Option<i32>,
    /// The time since the start, or the total running time of an ended command.
    pub duration: Duration,
}

/// Output of a background command, both streams in the order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputChunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The position of the next chunk.
    pub next: u64,
    /// Number of bytes between the requested position and this chunk that are no longer stored.
    pub omitted_bytes: u64,
}

/// The owner of a background command. Other owners cannot see the command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobOwner {
    /// The session. Its end kills the command.
    pub session: String,
    /// The location of the plugin that started the command.
    pub plugin: String,
}

/// An open connection to a server of a session. Its type is opaque to this crate: the runner and the backend use a
/// [`std::net::TcpStream`].
pub struct SessionConnection(Box<dyn std::any::Any + Send>);

impl SessionConnection {
    /// Wraps a stream.
    pub fn new<T: Send + 'static>(stream: T) -> Self {
        Self(Box::new(stream))
    }

    /// Returns the stream if it has the type `T`.
    pub fn into_stream<T: 'static>(self) -> Option<T> {
        self.0.downcast().ok().map(|stream| *stream)
    }
}

/// The port to shells and sandboxes.
pub trait CommandRunner: Send + Sync {
    /// Parses a program into the commands that it runs, including those inside wrappers such as `xargs`. Fails with
    /// [`ToolErrorCode::InvalidInput`] for text that cannot be a program. Parts that cannot be analysed are in
    /// [`ParsedProgram::unknown`].
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError>;

    /// Returns the workspace root inside the sandbox, as an absolute path with `/` between components and no trailing
    /// `/`.
    fn root(&self) -> Option<&str>;

    /// Returns the workspace file that may select the version of a program in a folder. Both paths are relative to the
    /// root. `None` if there is no such file.
    fn version_file(&self, program: &str, folder: &str) -> Option<String> {
        let _ = (program, folder);
        None
    }

    /// Returns true if commands have no network access, or only through requests that are checked one by one.
    fn confines_network(&self) -> bool {
        false
    }

    /// Returns the name of the sandbox that a command would run in. Fails if the sandbox is not available, or if the
    /// sandbox uses host programs and `program` is missing. Container images are not searched for the program.
    fn sandbox_name<'a>(
        &'a self,
        target: CommandTarget,
        program: &'a str,
    ) -> BoxFuture<'a, Result<&'static str, ToolError>> {
        let _ = (target, program);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Runs a command until it ends. Dropping the future kills the command and its descendants.
    fn run(
        &self,
        command: PermittedCommand,
        observer: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, Result<CommandOutput, ToolError>> {
        drop((command, observer));
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Starts a command in the background. It is killed when its session ends.
    fn start(&self, command: PermittedCommand) -> BoxFuture<'_, Result<JobId, ToolError>> {
        drop(command);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Lists the background commands of an owner.
    fn jobs(&self, owner: &JobOwner) -> Vec<JobStatus> {
        let _ = owner;
        Vec::new()
    }

    /// Returns the output of a command from position `begin` on, a byte offset in the combined streams.
    fn output(&self, owner: &JobOwner, job: JobId, begin: u64) -> Result<OutputChunk, ToolError> {
        let _ = (owner, job, begin);
        Err(unavailable())
    }

    /// Kills a command and its descendants, and waits until they have exited.
    fn stop<'a>(
        &'a self,
        owner: &'a JobOwner,
        job: JobId,
    ) -> BoxFuture<'a, Result<JobStatus, ToolError>> {
        let _ = (owner, job);
        Box::pin(std::future::ready(Err(unavailable())))
    }

    /// Returns the ports declared by background commands of a session. The session's requests can reach their servers.
    fn served_ports(&self, session: &str) -> Vec<u16> {
        let _ = session;
        Vec::new()
    }

    /// Connects to a declared port on the loopback interface of the session's commands.
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

/// A runner for hosts without commands: every method fails or returns nothing.
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

/// Maximum length of a command on a line of an approval card, in characters.
const DISPLAY_LINE_MAX: usize = 160;

/// Formats a command for display: shortened to one line, and safe to print.
pub(crate) fn display_line(command: &ParsedCommand) -> String {
    let line = command.to_line();
    let cut = crate::text::prefix(&line, DISPLAY_LINE_MAX);
    let dots = if cut.len() < line.len() { "…" } else { "" };
    format!("{}{dots}", crate::text::visible(cut))
}

impl From<InvalidProgram> for ToolError {
    fn from(error: InvalidProgram) -> Self {
        Self::new(ToolErrorCode::InvalidInput, error.to_string())
    }
}
