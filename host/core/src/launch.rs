//! The port to long-running programs: third-party servers, started in the command sandbox.
//!
//! Out of scope: the selection of servers, and the protocol of the connection.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::backend::BoxFuture;
use crate::config::{McpPackage, SandboxSettings};
use crate::error::ToolError;
use crate::network::HostPattern;

/// A program to start. Only a person's settings define programs: models cannot influence them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchSpec {
    /// The name in the settings, used in the audit log.
    pub name: String,
    /// The program and its arguments, run without a shell. For a [`package`](Self::package), only the arguments.
    pub args: Vec<String>,
    /// The installed package that contains the program.
    pub package: Option<McpPackage>,
    /// The working directory, relative to the workspace root. `None` is an empty folder of the program's own.
    pub directory: Option<String>,
    /// True if the program may run code of the workspace without a sandbox or with secrets.
    pub workspace_code: bool,
    /// True if the environment variables contain secrets.
    pub secrets: bool,
    /// Environment variables, in addition to the default environment.
    pub environment: Vec<(String, String)>,
    /// The sandbox that the program runs in.
    pub sandbox: SandboxSettings,
    /// The reachable hosts if the sandbox allows network access. If empty, those of `network.allowedHosts`.
    pub hosts: Vec<HostPattern>,
    /// The visible folders of the workspace; `None` for the whole workspace.
    pub folders: Option<Vec<LaunchFolder>>,
    /// Writable folders outside the workspace that only this program uses, such as its home. Path rules do not apply
    /// there.
    pub private: Vec<std::path::PathBuf>,
    /// True if the program builds a sandbox of its own for parts of itself, as browsers do: it may create namespaces of
    /// users, processes and networks, and change its root. It still may not mount anything.
    pub nested_sandbox: bool,
}

/// A workspace folder that a program can access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchFolder {
    /// The path relative to the workspace root; `.` is the root.
    pub path: String,
    /// True if the program may change the folder.
    pub writable: bool,
}

/// A running program. Dropping it kills the program and its descendants.
pub struct LaunchedProgram {
    /// Standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Standard output.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The handle. Dropping it kills the program.
    pub handle: Box<dyn ProgramHandle>,
}

/// A handle to a running program.
pub trait ProgramHandle: Send + Sync {
    /// Waits until all processes of the program have exited. Returns the exit code, or the reason why the program was
    /// killed. Cancel-safe.
    fn wait(&mut self) -> BoxFuture<'_, Result<i32, ToolError>>;

    /// Asks the program to exit.
    fn terminate(&mut self) -> BoxFuture<'_, ()>;

    /// Kills the program.
    fn kill(&mut self) -> BoxFuture<'_, ()>;
}

/// Starts programs.
pub trait ProcessLauncher: Send + Sync {
    /// Starts a program. Returns when it is running.
    fn launch(&self, launch: LaunchSpec) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>>;
}
