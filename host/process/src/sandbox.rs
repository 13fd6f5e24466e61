//! Where commands run: one trait, and what the machine has behind it.
//!
//! `process` makes a sandbox of what the Linux kernel has, or of what macOS has (untested), `container` asks Docker or Podman for one, `none` runs the
//! command as it is and must be asked for by name. A sandbox gives all that a [`Spec`] asks for or refuses to start.
//!
//! Never here: which command may run, and how long its output is kept.

mod choose;
#[cfg(unix)]
mod container;
mod environment;
mod error;
mod find;
mod folders;
mod ground;
mod none;
#[cfg(unix)]
mod person;
#[cfg(target_os = "linux")]
mod process;
#[cfg(any(test, target_os = "macos"))]
mod seatbelt;
mod seen;
mod session;
#[cfg(unix)]
mod shield;
#[cfg(unix)]
mod sockets;
mod spec;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod wire;

use mimir_core::backend::BoxFuture;
use std::path::Path;
use tokio::io::{AsyncRead, AsyncWrite};

pub use choose::{Chosen, choose, survey};
#[cfg(unix)]
pub use container::ContainerSandbox;
pub use error::{Fault, Stopped};
pub(crate) use folders::{INNER, NOT_OURS, OBEYED, denied_below, inner, named_by_rules};
pub(crate) use ground::{Ground, beside, closed};
pub use none::NoSandbox;
#[cfg(target_os = "linux")]
pub use process::ProcessSandbox;
#[cfg(target_os = "macos")]
pub use seatbelt::SeatbeltSandbox;
pub use seen::Seen;
#[cfg(target_os = "linux")]
pub(crate) use seen::open_by_no_link;
pub use session::Session;
pub use spec::{Bound, Bounds, Mount, Network, Reach, Spec, Stdin};

/// The line about a sandbox in which each command is by itself.
const APART: &str = "shared by the commands of one session: nothing; start a server and what asks it in one command";

/// What runs commands.
pub trait Sandbox: Send + Sync {
    /// The name that settings have for it.
    fn name(&self) -> &'static str;

    /// Describes what it provides on this machine, in lines for a person; the error says why it is not available.
    fn available(&self) -> Result<Vec<String>, Fault> {
        self.gives(&Bounds::default())
    }

    /// Describes what it provides for commands with these bounds.
    fn gives(&self, bounds: &Bounds) -> Result<Vec<String>, Fault>;

    /// Whether it holds the rules about paths.
    fn shields(&self) -> bool {
        true
    }

    /// Succeeds if the commands of one session share a network, so that a server of one is reached by the next.
    fn shares_network(&self) -> Result<(), Fault> {
        Err(Fault::CannotHold {
            sandbox: self.name(),
            what: "named ports",
            why: "each command has a network of its own; leave `ports` out, and start a server and what asks it in one \
                  command"
                .to_owned(),
        })
    }

    /// Whether it has this program, as far as that is known before it starts. `directory` is where a command starts.
    fn has(&self, program: &str, directory: &Path) -> Result<(), Fault> {
        let _ = (program, directory);
        Ok(())
    }

    /// Whether it can hold what was asked for. What is usual, and was not asked for, it need not.
    fn holds(&self, spec: &Spec) -> Result<(), Fault>;

    /// Starts a command. When this is done, the program itself is running.
    fn start<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<Child, Fault>>;
}

/// The writer of a standard input. Discards everything where the command has the null device.
pub(crate) fn input_writer<W: AsyncWrite + Send + Sync + Unpin + 'static>(
    pipe: Option<W>,
) -> Box<dyn AsyncWrite + Send + Sync + Unpin> {
    match pipe {
        Some(pipe) => Box::new(pipe),
        None => Box::new(tokio::io::sink()),
    }
}

/// A command that runs. Dropping it kills it with all that it started.
pub struct Child {
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The command itself. Dropping it kills it with all that it started.
    pub handle: Box<dyn Handle>,
    /// What it may not change or read, and what is covered for it as long as nothing else takes its place.
    pub covered: Vec<Seen>,
}

/// The hold on a command with all that it started. Dropping it kills them.
pub trait Handle: Send + Sync {
    /// Waits until all of it is gone. May be dropped and called again.
    fn wait(&mut self) -> BoxFuture<'_, Result<Exit, Fault>>;

    /// Asks all of it to end.
    fn terminate(&mut self) -> BoxFuture<'_, ()>;

    /// Kills all of it.
    fn kill(&mut self) -> BoxFuture<'_, ()>;
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// What it ended with; 128 and the number of the signal that ended it.
    pub code: i32,
    /// Whether it was ended because of its memory.
    pub out_of_memory: bool,
}
