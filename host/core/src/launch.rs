//! The port to programs that go on beside the calls: a server of other people's, started in the sandbox of commands.
//!
//! Never here: which server is started, and what is said to it.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::backend::BoxFuture;
use crate::config::{McpPackage, SandboxSettings};
use crate::error::{Code, ToolError};
use crate::network::HostPattern;

/// What is to be started. A person's settings say so, and nothing that a model can reach.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Launch {
    /// The name that a person gave it; the record of its requests has it.
    pub name: String,
    /// The program and its arguments. No shell is involved. For a [`package`](Self::package), the arguments alone.
    pub words: Vec<String>,
    /// The installed package whose program is started.
    pub package: Option<McpPackage>,
    /// Where, from the workspace root; an empty folder that nobody else writes to where none is named.
    pub directory: Option<String>,
    /// Whether it may run what lies in the workspace although it is in no sandbox, or has secrets.
    pub workspace_code: bool,
    /// Whether there are secrets among its variables.
    pub secrets: bool,
    /// Variables beside the few that every command gets.
    pub environment: Vec<(String, String)>,
    /// The sandbox that it runs in.
    pub sandbox: SandboxSettings,
    /// The hosts that it may reach, where the sandbox gives it the network. Without any, those of
    /// `network.allowedHosts`.
    pub hosts: Vec<HostPattern>,
    /// The parts of the workspace that it sees; `None` is all of it.
    pub folders: Option<Vec<LaunchFolder>>,
    /// Folders of mimir's own that belong to this program alone, such as its home. It may change them, and no rule
    /// about paths holds there.
    pub private: Vec<std::path::PathBuf>,
}

/// A folder of the workspace that a program was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchFolder {
    /// Relative to the workspace; `.` is all of it.
    pub path: String,
    /// True if it may be changed.
    pub writable: bool,
}

/// A program that runs. Dropping it kills it with all that it started.
pub struct Launched {
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The hold on it. Dropping it kills the program.
    pub hold: Box<dyn Hold>,
}

/// The hold on a program.
pub trait Hold: Send + Sync {
    /// Waits until all of it is gone, and says what it ended with, or why it was ended. May be dropped and called
    /// again.
    fn wait(&mut self) -> BoxFuture<'_, Result<i32, ToolError>>;

    /// Asks it to end.
    fn terminate(&mut self) -> BoxFuture<'_, ()>;

    /// Kills it.
    fn kill(&mut self) -> BoxFuture<'_, ()>;
}

/// Starts programs.
pub trait Launcher: Send + Sync {
    /// Starts one. When this is done, the program itself is running.
    fn launch(&self, launch: Launch) -> BoxFuture<'_, Result<Launched, ToolError>>;
}

/// Starts nothing.
pub struct NoLauncher;

impl Launcher for NoLauncher {
    fn launch(&self, _: Launch) -> BoxFuture<'_, Result<Launched, ToolError>> {
        let error = ToolError::new(Code::Unavailable, "no native programs can be run here");
        Box::pin(std::future::ready(Err(error)))
    }
}
