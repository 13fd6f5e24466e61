//! What is to run and what it gets, in words that every sandbox understands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::command::Program;
use mimir_core::paths::PathRules;
use mimir_net::Proxy;

use super::session::Session;
use crate::outside::Refusals;

/// One command, with all that it gets. What is not in here, it does not get.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What is to run.
    pub program: Program,
    /// The folder that it works in and may change, canonical.
    pub workspace: PathBuf,
    /// Where it starts: the workspace, or a folder in it; canonical.
    pub directory: PathBuf,
    /// How much of the workspace it sees.
    pub reach: Vec<Reach>,
    /// What of that it may not change or not even read.
    pub shield: PathRules,
    /// Files and folders of this machine that are shown in the place of hidden ones, by the paths of those. A hidden
    /// path without one is an unreadable file or an empty folder.
    pub stand_ins: BTreeMap<PathBuf, PathBuf>,
    /// Settings of git that go before those of a repository.
    pub git: Vec<(String, String)>,
    /// Mounts that are known to be repositories: what git obeys in them is read-only.
    pub repositories: Vec<PathBuf>,
    /// The tool that runs it, as the settings name it; notes about hidden files say `tools.NAME.reveal`.
    pub tool: String,
    /// Folders beside the workspace.
    pub mounts: Vec<Mount>,
    /// The mounts that belong to this command alone, by their paths on this machine: no rule about paths holds there.
    pub private: Vec<PathBuf>,
    /// Variables beside those that every command gets; these win.
    pub environment: Vec<(String, String)>,
    /// What it reads from its standard input.
    pub stdin: Stdin,
    /// What it reaches over the network.
    pub network: Network,
    /// What lets its requests through, where it is to reach the network by [`Network::Proxy`].
    pub proxy: Option<Proxy>,
    /// The tunnels that were refused to it.
    pub refusals: Refusals,
    /// The session whose resources it shares, where the sandbox supports that; `None` otherwise.
    pub session: Option<Arc<Session>>,
    /// What it may use up.
    pub bounds: Bounds,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// Bytes that are kept of each of its outputs.
    pub keep: usize,
}

/// The standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// The null device. Programs such as `rg` search their input instead of the folder where it is a pipe.
    Null,
    /// These bytes, then its end.
    Bytes(Vec<u8>),
    /// A pipe that the caller of [`Sandbox::start`](super::Sandbox::start) writes to.
    Pipe,
}

impl Stdin {
    /// The null device where there are no bytes.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        match bytes.is_empty() {
            true => Self::Null,
            false => Self::Bytes(bytes),
        }
    }

    /// Whether the command has the null device.
    pub(super) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub(super) fn stdio(&self) -> std::process::Stdio {
        match self.is_null() {
            true => std::process::Stdio::null(),
            false => std::process::Stdio::piped(),
        }
    }
}

impl Spec {
    /// A command in `workspace` with what is usual: the rules that are always on, no network, the usual bounds.
    pub fn new(program: Program, workspace: impl Into<PathBuf>) -> Self {
        let workspace = workspace.into();
        Self {
            program,
            directory: workspace.clone(),
            workspace,
            reach: vec![Reach::all()],
            shield: PathRules::protected(),
            stand_ins: BTreeMap::new(),
            git: Vec::new(),
            repositories: Vec::new(),
            tool: "exec".to_owned(),
            mounts: Vec::new(),
            private: Vec::new(),
            environment: Vec::new(),
            stdin: Stdin::Null,
            network: Network::None,
            proxy: None,
            refusals: Refusals::default(),
            session: None,
            bounds: Bounds::default(),
            timeout: None,
            // As much as a call may hand back as a whole.
            keep: 1 << 20,
        }
    }

    /// The parts of the workspace that it sees, and whether it may change them. One that leads out of it, or is not
    /// there, is none.
    pub(super) fn parts(&self) -> Vec<(PathBuf, bool)> {
        let real = self.reach.iter().filter_map(|part| {
            let at = self.workspace.join(&part.below).canonicalize().ok()?;
            at.starts_with(&self.workspace)
                .then_some((at, part.writable))
        });
        real.collect()
    }
}

/// A part of the workspace that a command sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Below the workspace; empty for all of it.
    pub below: PathBuf,
    /// Whether it may be changed.
    pub writable: bool,
}

impl Reach {
    /// The whole workspace, to be changed.
    pub fn all() -> Self {
        Self {
            below: PathBuf::new(),
            writable: true,
        }
    }
}

/// A folder or file of this machine that a command sees beside its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// What, canonical.
    pub from: PathBuf,
    /// Where the command sees it.
    pub at: PathBuf,
    /// Whether it may be changed.
    pub writable: bool,
}

impl Mount {
    /// A folder or file where it is anyway, read-only.
    pub fn here(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self {
            from: path.to_owned(),
            at: path.to_owned(),
            writable: false,
        }
    }
}

/// What a command reaches over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Nothing but itself.
    #[default]
    None,
    /// What `mimir-net` lets through, and nothing else.
    Proxy,
    /// All that this machine reaches. Only the sandbox that is none gives it.
    Host,
}

/// What a command may use up, with all that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory.
    pub memory: Bound,
    /// Processes and threads at once.
    pub processes: Bound,
    /// Percent of one processor; more than 100 is more than one.
    pub cpu: Option<u32>,
    /// Bytes of one file that it writes.
    pub file_size: u64,
    /// Files that one process has open.
    pub open_files: u64,
}

impl Bounds {
    /// The first of those that a person asked for.
    pub(super) fn asked(&self) -> Option<&'static str> {
        if self.memory.asked() {
            Some("a bound of memory")
        } else if self.processes.asked() {
            Some("a bound of processes")
        } else {
            self.cpu.map(|_| "a bound of processor time")
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // What links a large program in debug mode; a machine for development has more than that.
            memory: Bound::Usual(8 << 30),
            // A build on many processors with a runtime of many threads in each of its compilers stays below.
            processes: Bound::Usual(4096),
            cpu: None,
            // No artefact of a build is larger; a program that writes without end is stopped.
            file_size: 32 << 30,
            // What watchers of large trees need.
            open_files: 65_536,
        }
    }
}

/// A bound, and whether a person asked for it: then it is held, or the command does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// What is usual, held where the machine lets us.
    Usual(u64),
    /// What was asked for.
    Asked(u64),
}

impl Bound {
    /// The number.
    pub fn value(self) -> u64 {
        match self {
            Self::Usual(value) | Self::Asked(value) => value,
        }
    }

    /// Whether a person asked for it.
    pub fn asked(self) -> bool {
        matches!(self, Self::Asked(_))
    }
}
