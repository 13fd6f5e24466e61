//! The port to long-running programs: third-party servers, started in the sandbox of commands.
//!
//! Out of scope: the choice of the server, and the protocol of the connection.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::backend::BoxFuture;
use crate::config::{McpPackage, SandboxSettings};
use crate::error::ToolError;
use crate::network::HostPattern;

/// The program to start. It is defined by a person's settings, and out of reach for models.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchSpec {
    /// Its name in the settings, used in the audit log.
    pub name: String,
    /// The program and its arguments. No shell is involved. For a [`package`](Self::package), the arguments alone.
    pub args: Vec<String>,
    /// The installed package that contains the program.
    pub package: Option<McpPackage>,
    /// The working directory, from the workspace root; if `None`, an empty folder that no other program writes to.
    pub directory: Option<String>,
    /// True if it may run code of the workspace without a sandbox or with secrets.
    pub workspace_code: bool,
    /// True if its variables contain secrets.
    pub secrets: bool,
    /// Variables in addition to the few that every command gets.
    pub environment: Vec<(String, String)>,
    /// The sandbox that it runs in.
    pub sandbox: SandboxSettings,
    /// The hosts that it may reach if the sandbox allows network access; those of `network.allowedHosts` if empty.
    pub hosts: Vec<HostPattern>,
    /// The visible parts of the workspace; `None` for all of it.
    pub folders: Option<Vec<LaunchFolder>>,
    /// Folders outside the workspace that belong to this program alone, such as its home. They are writable, and path
    /// rules do not apply there.
    pub private: Vec<std::path::PathBuf>,
}

/// A workspace folder that a program can access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchFolder {
    /// Relative to the workspace; `.` is all of it.
    pub path: String,
    /// True if it may be changed.
    pub writable: bool,
}

/// A running program. Dropping it kills the program with its descendants.
pub struct LaunchedProgram {
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The handle. Dropping it kills the program.
    pub handle: Box<dyn ProgramHandle>,
}

/// A handle on a running program.
pub trait ProgramHandle: Send + Sync {
    /// Waits until all of its processes have exited, and returns the exit code, or an error with the reason why it was
    /// killed. Cancel-safe.
    fn wait(&mut self) -> BoxFuture<'_, Result<i32, ToolError>>;

    /// Asks it to exit.
    fn terminate(&mut self) -> BoxFuture<'_, ()>;

    /// Kills it.
    fn kill(&mut self) -> BoxFuture<'_, ()>;
}

/// Starts programs.
pub trait ProcessLauncher: Send + Sync {
    /// Starts a program. On success it is running.
    fn launch(&self, launch: LaunchSpec) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>>;
}
