//! The description of a command and its permissions, independent of the sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::command::CommandProgram;
use mimir_core::config::{DEFAULT_MEMORY_MB, DEFAULT_PROCESSES};
use mimir_core::paths::PathRules;
use mimir_net::Proxy;

use super::command_session::CommandSession;
use crate::command_proxy::Refusals;

/// A command and everything that it gets. Anything that is not listed here is not available to it.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The program to run.
    pub program: CommandProgram,
    /// The workspace, canonical. The command may change it.
    pub workspace: PathBuf,
    /// The working directory: the workspace, or a folder in it; canonical.
    pub directory: PathBuf,
    /// The visible parts of the workspace.
    pub visible_parts: Vec<WorkspacePart>,
    /// The path rules: files of the workspace that it may not change, or not even read.
    pub path_rules: PathRules,
    /// Files and folders of this machine that replace hidden ones, keyed by the hidden path. A hidden path without a
    /// replacement shows up as an unreadable file or an empty folder.
    pub stand_ins: BTreeMap<PathBuf, PathBuf>,
    /// Git settings that take precedence over those of a repository.
    pub git: Vec<(String, String)>,
    /// Mounts that are known to be repositories: the files that git obeys in them are read-only.
    pub repositories: Vec<PathBuf>,
    /// The tool that runs the command, as the settings name it; notes about hidden files mention `tools.NAME.reveal`.
    pub tool: String,
    /// Mounted folders outside the workspace.
    pub mounts: Vec<HostMount>,
    /// The mounts that belong to this command alone, by their paths on this machine: path rules do not apply there.
    pub private_mounts: Vec<PathBuf>,
    /// Variables in addition to the default ones; these take precedence.
    pub environment: Vec<(String, String)>,
    /// The standard input.
    pub stdin: CommandStdin,
    /// The network access.
    pub network: CommandNetwork,
    /// The proxy that checks its requests; required by [`CommandNetwork::Proxy`].
    pub proxy: Option<Proxy>,
    /// The tunnels that the proxy refused.
    pub refusals: Refusals,
    /// The session whose resources it shares, if the sandbox supports that.
    pub session: Option<Arc<CommandSession>>,
    /// The resource limits.
    pub bounds: ResourceBounds,
    /// The time limit.
    pub timeout: Option<Duration>,
    /// The number of bytes that are stored of each output.
    pub output_limit: usize,
}

/// The standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandStdin {
    /// The null device. Programs such as `rg` search their input instead of the folder if it is a pipe.
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// A pipe that the caller of [`Sandbox::start`](super::Sandbox::start) writes to.
    Pipe,
}

impl CommandStdin {
    /// Returns [`CommandStdin::Null`] if there are no bytes.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() {
            Self::Null
        } else {
            Self::Bytes(bytes)
        }
    }

    /// Returns true if the command reads from the null device.
    pub(super) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub(super) fn stdio(&self) -> std::process::Stdio {
        if self.is_null() {
            std::process::Stdio::null()
        } else {
            std::process::Stdio::piped()
        }
    }
}

impl CommandSpec {
    /// Creates a command in `workspace` with the defaults: the built-in path rules, no network, the default limits.
    pub fn new(program: CommandProgram, workspace: impl Into<PathBuf>) -> Self {
        let workspace = workspace.into();
        Self {
            program,
            directory: workspace.clone(),
            workspace,
            visible_parts: vec![WorkspacePart::whole_workspace()],
            path_rules: PathRules::protected(),
            stand_ins: BTreeMap::new(),
            git: Vec::new(),
            repositories: Vec::new(),
            tool: "exec".to_owned(),
            mounts: Vec::new(),
            private_mounts: Vec::new(),
            environment: Vec::new(),
            stdin: CommandStdin::Null,
            network: CommandNetwork::None,
            proxy: None,
            refusals: Refusals::default(),
            session: None,
            bounds: ResourceBounds::default(),
            timeout: None,
            // The largest output that a call may return.
            output_limit: 1 << 20,
        }
    }

    /// Returns the visible parts of the workspace and whether each is writable. Parts that lead out of the workspace
    /// or do not exist are left out.
    pub(super) fn parts(&self) -> Vec<(PathBuf, bool)> {
        let real = self.visible_parts.iter().filter_map(|part| {
            let at = self.workspace.join(&part.below).canonicalize().ok()?;
            at.starts_with(&self.workspace)
                .then_some((at, part.writable))
        });
        real.collect()
    }
}

/// A part of the workspace that is visible to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacePart {
    /// The path relative to the workspace; empty for the whole workspace.
    pub below: PathBuf,
    /// True if the command may change it.
    pub writable: bool,
}

impl WorkspacePart {
    /// Returns the whole workspace, writable.
    pub fn whole_workspace() -> Self {
        Self {
            below: PathBuf::new(),
            writable: true,
        }
    }
}

/// A folder or file outside the workspace that is visible to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    /// The path on this machine, canonical.
    pub from: PathBuf,
    /// The path in the sandbox.
    pub at: PathBuf,
    /// True if the command may change it.
    pub writable: bool,
}

impl HostMount {
    /// Returns a read-only mount with the same path inside and outside.
    pub fn read_only(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self::read_only_at(path, path)
    }

    /// Returns a read-only mount at another path.
    pub(crate) fn read_only_at(from: impl Into<PathBuf>, at: impl Into<PathBuf>) -> Self {
        Self {
            from: from.into(),
            at: at.into(),
            writable: false,
        }
    }
}

/// The network access of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandNetwork {
    /// Only its own loopback.
    #[default]
    None,
    /// Only the requests that `mimir-net` allows.
    Proxy,
    /// The full network of this machine. Only the sandbox `none` provides it.
    Host,
}

/// The resource limits of a command and all its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceBounds {
    /// Bytes of memory.
    pub memory: ResourceBound,
    /// The number of processes and threads at once.
    pub processes: ResourceBound,
    /// Percent of one processor; values above 100 mean more than one.
    pub cpu: Option<u32>,
    /// The size of a single file that it writes, in bytes.
    pub file_size: u64,
    /// The number of open files per process.
    pub open_files: u64,
}

impl ResourceBounds {
    /// Returns the first limit that was set explicitly.
    pub(super) fn first_requested(&self) -> Option<&'static str> {
        if self.memory.is_requested() {
            Some("a memory limit")
        } else if self.processes.is_requested() {
            Some("a limit of processes")
        } else {
            self.cpu.map(|_| "a limit of processor time")
        }
    }
}

impl Default for ResourceBounds {
    fn default() -> Self {
        Self {
            memory: ResourceBound::Default(DEFAULT_MEMORY_MB << 20),
            processes: ResourceBound::Default(DEFAULT_PROCESSES),
            cpu: None,
            // Larger than any build artefact; stops a program that writes without end.
            file_size: 32 << 30,
            // Enough for file watchers of large trees.
            open_files: 65_536,
        }
    }
}

/// A limit. An explicit one is enforced, or the command does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceBound {
    /// A default, enforced if the machine supports it.
    Default(u64),
    /// An explicit setting.
    Requested(u64),
}

impl ResourceBound {
    /// Returns the limit itself.
    pub fn value(self) -> u64 {
        match self {
            Self::Default(value) | Self::Requested(value) => value,
        }
    }

    /// Returns true if it was set explicitly.
    pub fn is_requested(self) -> bool {
        matches!(self, Self::Requested(_))
    }
}
