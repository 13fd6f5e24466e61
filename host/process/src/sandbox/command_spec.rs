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

/// A command and everything available to it. Anything not listed here is unavailable.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The program to run.
    pub program: CommandProgram,
    /// The canonical path of the workspace.
    pub workspace: PathBuf,
    /// The working directory: the workspace, or a folder in it; canonical.
    pub directory: PathBuf,
    /// The visible parts of the workspace.
    pub visible_parts: Vec<WorkspacePart>,
    /// The path rules: workspace files that the command may not change or not read.
    pub path_rules: PathRules,
    /// Stand-ins for hidden files and folders, keyed by the hidden path. A hidden path without a stand-in becomes an
    /// unreadable file or an empty folder.
    pub stand_ins: BTreeMap<PathBuf, PathBuf>,
    /// Git settings that take precedence over those of a repository.
    pub git: Vec<(String, String)>,
    /// Mounts known to be repositories, whose settings and hooks are read-only.
    pub repositories: Vec<PathBuf>,
    /// Name of the tool that runs the command, for notes about `tools.NAME.reveal`.
    pub tool: String,
    /// Mounted folders outside the workspace.
    pub mounts: Vec<HostMount>,
    /// Host paths of the mounts that belong to this command alone, to which path rules do not apply.
    pub private_mounts: Vec<PathBuf>,
    /// Environment variables, in addition to the default ones. These take precedence.
    pub environment: Vec<(String, String)>,
    /// The standard input.
    pub stdin: CommandStdin,
    /// The network access.
    pub network: CommandNetwork,
    /// The proxy that checks the command's requests. Required by [`CommandNetwork::Proxy`].
    pub proxy: Option<Proxy>,
    /// Tunnels refused by the proxy.
    pub refusals: Refusals,
    /// The session whose resources the command shares, if the sandbox supports that.
    pub session: Option<Arc<CommandSession>>,
    /// True if the program builds a sandbox of its own for parts of itself.
    pub nested_sandbox: bool,
    /// The resource limits.
    pub bounds: ResourceBounds,
    /// The time limit.
    pub timeout: Option<Duration>,
    /// Maximum number of bytes to store of each output.
    pub output_limit: usize,
}

/// The standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandStdin {
    /// The null device. With a pipe, programs such as `rg` would search their input instead of the folder.
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
            nested_sandbox: false,
            bounds: ResourceBounds::default(),
            timeout: None,
            // The largest output that a call may return.
            output_limit: 1 << 20,
        }
    }

    /// Returns the canonical visible parts of the workspace, with `true` for writable parts. Omits parts that do not
    /// exist or that lead out of the workspace.
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
    /// The canonical path on the host.
    pub from: PathBuf,
    /// The path in the sandbox.
    pub at: PathBuf,
    /// True if the command may change it.
    pub writable: bool,
}

impl HostMount {
    /// Returns a read-only mount at its host path.
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
    /// Memory in bytes.
    pub memory: ResourceBound,
    /// Number of concurrent processes and threads.
    pub processes: ResourceBound,
    /// Processor time in percent of one processor; may exceed 100.
    pub cpu: Option<u32>,
    /// Size of a single written file, in bytes.
    pub file_size: u64,
    /// Number of open files per process.
    pub open_files: u64,
}

impl ResourceBounds {
    /// Returns the name of the first explicit limit.
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
            // Larger than any build artifact; stops a program that writes endlessly.
            file_size: 32 << 30,
            // Enough for file watchers of large trees.
            open_files: 65_536,
        }
    }
}

/// A limit. If an explicit limit cannot be enforced, the command does not start.
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

    /// Returns true if the limit was set explicitly.
    pub fn is_requested(self) -> bool {
        matches!(self, Self::Requested(_))
    }
}
