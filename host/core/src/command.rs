//! Native programs: the request to run one, and the port to the shells and sandboxes.
//!
//! Out of scope: parsing and classifying programs, which the crate `mimir-commands` does.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::BoxFuture;
use crate::call::CallObserver;
use crate::code_language::CodeLanguage;
use crate::error::{ToolError, ToolErrorCode};
use crate::pipeline::PermittedCommand;

mod container_image;
mod pattern;
mod verdict;

use mimir_commands::InvalidProgram;

pub use mimir_commands::{
    CommandProgram, ParsedCommand, ParsedProgram, ShellRedirection, ShellWord,
};

pub use container_image::{ContainerImageId, InvalidImageId};
pub use pattern::CommandPattern;
pub use verdict::CommandVerdict;

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
    /// A container of this image, without network and without the mounts of the settings.
    Image(ContainerImageId),
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
    /// Both streams line by line, in the order in which the lines ended.
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

/// An open connection to a server of a session: a TCP stream of the standard library. Core only passes it on from the
/// runner to the backend.
pub struct SessionConnection(Box<dyn std::any::Any + Send>);

impl SessionConnection {
    /// Wraps a stream.
    pub fn new<T: Send + 'static>(stream: T) -> Self {
        Self(Box::new(stream))
    }

    /// Returns the stream, or `None` if it is of another type.
    pub fn into_stream<T: 'static>(self) -> Option<T> {
        self.0.downcast().ok().map(|stream| *stream)
    }
}

/// The port to shells and sandboxes.
pub trait CommandRunner: Send + Sync {
    /// Parses a program into the commands it runs, looking inside wrappers. Returns [`ToolErrorCode::InvalidInput`] for
    /// a text that cannot be a program; parts that cannot be analysed are [`ParsedProgram::unknown`].
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError>;

    /// Returns the workspace root inside the sandbox, if known: an absolute path, with `/` between components and no
    /// trailing `/`.
    fn root(&self) -> Option<&str>;

    /// Returns the workspace file that may select the version of this program for a folder. The file and `folder` are
    /// paths relative to the root. `None` if there is no such file.
    fn version_file(&self, program: &str, folder: &str) -> Option<String> {
        let _ = (program, folder);
        None
    }

    /// Returns true if commands reach the network only by requests that are checked one by one, or not at all.
    fn confines_network(&self) -> bool {
        false
    }

    /// Returns the name of the sandbox that a command would run in. Fails with the reason if no sandbox is available,
    /// or if the sandbox uses the programs of this machine and `program` is not among them. The content of an image is
    /// not checked.
    fn sandbox_name<'a>(
        &'a self,
        target: CommandTarget,
        program: &'a str,
    ) -> BoxFuture<'a, Result<&'static str, ToolError>> {
        let _ = (target, program);
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

    /// Lists the background commands of `owner`.
    fn jobs(&self, owner: &JobOwner) -> Vec<JobStatus> {
        let _ = owner;
        Vec::new()
    }

    /// Lists the background commands of all owners that have not ended.
    fn running_jobs(&self) -> Vec<(JobOwner, JobStatus)> {
        Vec::new()
    }

    /// Returns the output of a command from byte `begin` of both streams together.
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

    /// Returns the ports declared for background commands of this session, at which requests of the session reach their
    /// servers.
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

/// A runner for hosts that cannot run commands: every method fails or returns nothing.
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

/// Maximum characters of a command on one line of an approval card.
const DISPLAY_LINE_MAX: usize = 160;

/// Returns the command for display: shortened to one line, and safe to print.
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
