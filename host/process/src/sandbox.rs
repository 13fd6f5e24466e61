//! Sandboxes in which commands run: the trait and its implementations.
//!
//! `process` builds a sandbox from features of the Linux or macOS kernel (macOS is untested), `container` uses Docker
//! or Podman, and `none` runs commands without a sandbox and must be selected explicitly. A sandbox enforces everything
//! that a [`CommandSpec`] requests, or refuses to start the command.
//!
//! Out of scope: the decision which commands may run, and the storage of their output.

mod choose;
mod command_session;
mod command_spec;
#[cfg(unix)]
mod container;
mod environment;
mod error;
mod file_identity;
#[cfg(unix)]
mod git_identity;
#[cfg(target_os = "linux")]
mod loopback_proxy;
#[cfg(unix)]
mod mount_mask;
mod none;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod procfs;
mod program_lookup;
mod ruled_folder;
#[cfg(any(all(test, unix), target_os = "macos"))]
mod seatbelt;
#[cfg(unix)]
mod sockets;
mod special_folders;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(any(all(test, unix), target_os = "linux", target_os = "macos"))]
mod toolchain_homes;

use mimir_core::backend::BoxFuture;
use mimir_core::platform::PlatformGuarantee;
use std::path::Path;
use tokio::io::{AsyncRead, AsyncWrite};

pub use choose::{ChosenSandbox, choose_sandbox, survey_sandboxes};
pub use command_session::CommandSession;
pub use command_spec::{
    CommandNetwork, CommandSpec, CommandStdin, HostMount, ResourceBound, ResourceBounds,
    WorkspacePart,
};
#[cfg(unix)]
pub use container::ContainerSandbox;
pub use error::{SandboxError, StoppedCommand};
pub use file_identity::FileIdentity;
#[cfg(target_os = "linux")]
pub(crate) use file_identity::open_by_no_link;
pub use none::NoSandbox;
#[cfg(target_os = "linux")]
pub use process::ProcessSandbox;
pub(crate) use ruled_folder::{RuledFolder, read_only_mounts, writable_outside_folders};
#[cfg(target_os = "macos")]
pub use seatbelt::SeatbeltSandbox;
pub(crate) use special_folders::{
    BUILD_FOLDERS, INNER, OBEYED, OBJECTS, denied_below, has_entry_rules, inner_repositories,
};

/// Description line of a sandbox that isolates every command from the others.
#[cfg(unix)]
const APART: &str =
    "shared by the commands of one session: nothing; start a server and its client in one command";

/// A backend that runs commands.
pub trait Sandbox: Send + Sync {
    /// Returns the name of this backend in the settings.
    fn name(&self) -> &'static str;

    /// Describes the guarantees on this machine, in lines for the user. Fails with the reason if the sandbox is
    /// unavailable.
    fn available(&self) -> Result<Vec<String>, SandboxError> {
        self.describe_guarantees(&ResourceBounds::default())
    }

    /// Describes the guarantees for commands with these limits, in lines for the user.
    fn describe_guarantees(&self, bounds: &ResourceBounds) -> Result<Vec<String>, SandboxError>;

    /// Lists what the sandbox guarantees for commands with these limits, and how far this machine enforces each. Fails
    /// like [`Sandbox::describe_guarantees`].
    fn guarantees(&self, bounds: &ResourceBounds) -> Result<Vec<PlatformGuarantee>, SandboxError>;

    /// Returns true if another sandbox is better where one is available.
    fn is_last_resort(&self) -> bool {
        false
    }

    /// Returns true if commands can see a file of this machine at another path.
    fn mounts_at_other_paths(&self) -> bool {
        true
    }

    /// Returns true if the sandbox enforces the path rules.
    fn enforces_path_rules(&self) -> bool {
        true
    }

    /// Succeeds if the commands of one session share a network, so that one command can reach a server started by
    /// another.
    fn shares_network(&self) -> Result<(), SandboxError> {
        Err(SandboxError::unsupported(
            self.name(),
            "named ports",
            "each command has its own network; leave `ports` out and start a server and its client in one command",
        ))
    }

    /// Checks that the program exists in the sandbox, as far as this is known before the start. `directory` is the
    /// working directory of the command.
    fn check_program(&self, program: &str, directory: &Path) -> Result<(), SandboxError> {
        let _ = (program, directory);
        Ok(())
    }

    /// Checks that the sandbox can enforce all explicit limits and requests. Default limits may go unenforced.
    fn check_support(&self, spec: &CommandSpec) -> Result<(), SandboxError>;

    /// Starts a command. The future completes when the program itself is running.
    fn start<'a>(
        &'a self,
        spec: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<SandboxChild, SandboxError>>;
}

/// Returns a writer for standard input. Without a pipe, the writer discards everything.
pub(crate) fn input_writer<W: AsyncWrite + Send + Sync + Unpin + 'static>(
    pipe: Option<W>,
) -> Box<dyn AsyncWrite + Send + Sync + Unpin> {
    match pipe {
        Some(pipe) => Box::new(pipe),
        None => Box::new(tokio::io::sink()),
    }
}

/// A running command. Dropping it kills the command and all its descendants.
pub struct SandboxChild {
    /// Standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Standard output.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Handle to the command. Dropping it kills the command and all its descendants.
    pub handle: Box<dyn CommandHandle>,
    /// Files that the command may not read or change. Each is covered by a mount until another file replaces it.
    pub masked: Vec<FileIdentity>,
}

/// Handle to a command and all its descendants. Dropping it kills them.
pub trait CommandHandle: Send + Sync {
    /// Waits until all processes have exited. The future is cancel-safe.
    fn wait(&mut self) -> BoxFuture<'_, Result<CommandExit, SandboxError>>;

    /// Asks all processes to exit.
    fn terminate(&mut self) -> BoxFuture<'_, ()>;

    /// Kills all processes.
    fn kill(&mut self) -> BoxFuture<'_, ()>;
}

/// Exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandExit {
    /// The exit code, or 128 plus the signal number if a signal killed it.
    pub code: i32,
    /// True if a process was killed because it ran out of memory.
    pub out_of_memory: bool,
}
