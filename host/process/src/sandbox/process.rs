//! Sandbox from Linux kernel features: namespaces, mounts, Landlock, a system call filter, control groups and resource
//! limits. This process builds it without a setuid helper, or with bubblewrap where the system does not allow that, or
//! without namespaces where none is allowed (see [`confined`]).
//!
//! A command has access to the programs and libraries of this machine and the user's toolchains, read-only; its
//! workspace, writable except for paths covered by the path rules; a private home, temporary folder and devices; only
//! its own processes; and a network without other machines.
//!
//! Requires Linux 5.12, the first version that can set attributes of a whole mount tree; without namespaces Linux 6.12.

mod bubblewrap;
mod cgroup;
mod cgroup_thread;
mod child_plan;
mod child_process;
mod confined;
mod forked_handle;
mod landlock;
mod machine_view;
mod root_plan;
mod session_namespaces;
mod start;
mod syscall_filter;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use ::landlock::ABI;
use mimir_core::backend::BoxFuture;
use mimir_core::platform::PlatformGuarantee;
use seccompiler::BpfProgram;

use super::environment::AmbientEnvironment;
use super::{
    CommandNetwork, CommandSpec, ResourceBound, ResourceBounds, Sandbox, SandboxChild,
    SandboxError, program_lookup, sys,
};
pub(super) use session_namespaces::SessionNamespaces;

use cgroup::CgroupTree;
use cgroup_thread::CgroupThreadPool;
use machine_view::MachineView;

const NAME: &str = "process";

/// Time limit for building a sandbox. It normally takes milliseconds, even on a busy machine.
const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

/// Exit code that a shell reports for a killed program.
const KILLED: i32 = 128 + libc::SIGKILL;

/// The sandbox `process`.
pub struct ProcessSandbox {
    ambient: AmbientEnvironment,
    view: MachineView,
    groups: CgroupTree,
    cgroup_threads: CgroupThreadPool,
    landlock: Option<ABI>,
    /// Memory of this process's command line.
    argv: Option<sys::ArgvMemory>,
    filter: Result<BpfProgram, String>,
    /// The filter of programs with a sandbox of their own, built on first use.
    nested_filter: OnceLock<Result<BpfProgram, String>>,
    /// True if bubblewrap must build the sandbox, even if this process could.
    force_bubblewrap: bool,
    /// Result of the first test command, which shows if commands can run.
    trial: OnceLock<Result<TrialResult, String>>,
}

/// Builder of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SandboxMaker {
    Native,
    Bubblewrap(&'static Path),
    /// No namespaces: Landlock and a system call filter only.
    Confined,
}

/// Result of the test command.
#[derive(Debug, Clone, Copy)]
struct TrialResult {
    maker: SandboxMaker,
    /// True if a command sees its own processes in `/proc`, which some containers do not allow mounting.
    proc: bool,
}

impl Default for ProcessSandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessSandbox {
    /// Inspects the machine: reads some files, but runs no program.
    pub fn new() -> Self {
        let ambient = AmbientEnvironment::of_this_process();
        Self {
            view: MachineView::of_this_machine(&ambient),
            ambient,
            groups: CgroupTree::find(),
            cgroup_threads: CgroupThreadPool::default(),
            landlock: landlock::abi(),
            argv: sys::ArgvMemory::of_this_process(),
            filter: syscall_filter::filter().map_err(|error| error.to_string()),
            nested_filter: OnceLock::new(),
            force_bubblewrap: false,
            trial: OnceLock::new(),
        }
    }

    /// Creates a sandbox built by bubblewrap, even if this process could build it.
    pub fn by_bubblewrap() -> Self {
        Self {
            force_bubblewrap: true,
            ..Self::new()
        }
    }

    /// Creates a sandbox without namespaces, even if they are available.
    pub fn without_namespaces() -> Self {
        let trial = TrialResult {
            maker: SandboxMaker::Confined,
            proc: false,
        };
        let sandbox = Self::new();
        let trial = sandbox.confinement_abi().map(|_| trial);
        Self {
            trial: OnceLock::from(trial),
            ..sandbox
        }
    }

    /// Creates a sandbox without control groups, even if they are available.
    pub fn without_control_groups() -> Self {
        Self {
            groups: CgroupTree::default(),
            ..Self::new()
        }
    }

    fn trial_result(&self) -> Result<TrialResult, SandboxError> {
        let trial = self.trial.get_or_init(|| self.run_trial());
        trial
            .clone()
            .map_err(|why| SandboxError::Unavailable { sandbox: NAME, why })
    }

    /// Returns the system call filter of a command.
    fn filter_for(&self, spec: &CommandSpec) -> Result<&BpfProgram, SandboxError> {
        let filter = if spec.nested_sandbox {
            self.nested_filter.get_or_init(|| {
                syscall_filter::filter_for_nested_sandbox().map_err(|error| error.to_string())
            })
        } else {
            &self.filter
        };
        filter.as_ref().map_err(|why| SandboxError::Unavailable {
            sandbox: NAME,
            why: why.clone(),
        })
    }

    /// Returns the memory limit in bytes for each process of a command if no control group limits their total: the
    /// limit of the command, or half of the machine's memory if that is less.
    fn memory_per_process(&self, bounds: &ResourceBounds) -> Option<u64> {
        if self.groups.can_limit_memory() {
            return None;
        }
        Some(memory_limit(bounds))
    }

    /// Returns true if the number of processes can be limited, by a control group or by the kernel's limit per user,
    /// from which root is exempt.
    fn can_limit_processes(&self) -> bool {
        self.groups.can_limit_processes() || !rustix::process::geteuid().is_root()
    }
}

/// Returns the memory limit in bytes for each process of a command: the limit of the command, or half of the machine's
/// memory if that is less.
fn memory_limit(bounds: &ResourceBounds) -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(machine.mem_unit.into());
    bounds.memory.value().min(machine / 2)
}

impl Sandbox for ProcessSandbox {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe_guarantees(&self, bounds: &ResourceBounds) -> Result<Vec<String>, SandboxError> {
        let trial = self.trial_result()?;
        if trial.maker == SandboxMaker::Confined {
            let mut lines = vec![
                "without namespaces, which this machine does not allow: Landlock and a system call filter".to_owned(),
                "programs and toolchains read-only, workspace writable, private home and temporary folder".to_owned(),
                "network: none".to_owned(),
                format!(
                    "memory: {} of private memory for each process (RLIMIT_DATA)",
                    mimir_core::text::bytes(memory_limit(bounds))
                ),
            ];
            lines.extend(self.landlock.map(|abi| format!("Landlock: version {abi}")));
            return Ok(lines);
        }
        let with_enforcement = |enforced: bool, what: String| {
            if enforced {
                what
            } else {
                format!("{what} (not enforced: no control group can be created here)")
            }
        };
        let bound = |bound: ResourceBound| mimir_core::text::bytes(bound.value());
        let bubblewrap = match trial.maker {
            SandboxMaker::Native | SandboxMaker::Confined => None,
            SandboxMaker::Bubblewrap(bwrap) => Some(bwrap.display()),
        };
        let mut lines: Vec<String> = bubblewrap
            .iter()
            .map(|bwrap| {
                format!(
                    "built by bubblewrap ({bwrap}), because mimir itself may not create namespaces here"
                )
            })
            .collect();
        lines.extend([
            "programs and toolchains read-only, workspace writable, private home".to_owned(),
            match bubblewrap {
                None => "shared by the commands of one session: /tmp and the network",
                Some(_) => super::APART,
            }
            .to_owned(),
            "namespaces: user, processes, mounts, network, ipc, host name, control groups"
                .to_owned(),
            if trial.proc {
                "/proc: its own processes, read-only"
            } else {
                "/proc: empty, because this machine does not allow mounting it (a container?)"
            }
            .to_owned(),
            "network: only its own loopback; with `networkAccess: true`, what `network` allows, through a proxy"
                .to_owned(),
            match self.landlock {
                _ if bubblewrap.is_some() => "Landlock: not applied by bubblewrap; the mounts protect files without it".to_owned(),
                Some(abi) => format!("Landlock: version {abi}"),
                None => "Landlock: not supported by this kernel; the mounts protect files without it".to_owned(),
            },
            "system calls: filtered".to_owned(),
            match self.memory_per_process(bounds) {
                None => format!("memory: {}", bound(bounds.memory)),
                Some(each) => format!(
                    "memory: {} for each process (RLIMIT_DATA); not limited in total, because no control group can be \
                     created here",
                    mimir_core::text::bytes(each)
                ),
            },
            with_enforcement(
                self.can_limit_processes(),
                format!("processes: {}", bounds.processes.value()),
            ),
            with_enforcement(
                self.groups.can_limit_cpu(),
                "processor time: if a limit is set".to_owned(),
            ),
        ]);
        Ok(lines)
    }

    fn guarantees(&self, bounds: &ResourceBounds) -> Result<Vec<PlatformGuarantee>, SandboxError> {
        let trial = self.trial_result()?;
        if trial.maker == SandboxMaker::Confined {
            return Ok(Self::confined_guarantees());
        }
        let unless = |holds: bool, name, because: &'static str| {
            if holds {
                PlatformGuarantee::enforced(name)
            } else {
                PlatformGuarantee::weaker(name, because)
            }
        };
        let refused_unless = |holds: bool, name, because: &'static str| {
            if holds {
                PlatformGuarantee::enforced(name)
            } else {
                PlatformGuarantee::refused(name, because)
            }
        };
        let no_group = "no control group can be created here";
        let is_native = trial.maker == SandboxMaker::Native;
        Ok(vec![
            PlatformGuarantee::enforced("files of commands"),
            PlatformGuarantee::enforced("network of commands"),
            PlatformGuarantee::enforced("end of commands"),
            unless(
                is_native && self.landlock.is_some(),
                "files of commands, twice",
                "only the mounts protect files: no Landlock in addition",
            ),
            refused_unless(
                is_native,
                "shared network of a session",
                "bubblewrap gives each command its own network and temporary folder",
            ),
            unless(
                trial.proc,
                "/proc",
                "empty, because this machine does not allow mounting it (a container?)",
            ),
            unless(
                self.memory_per_process(bounds).is_none(),
                "memory",
                "limited for each process, not in total: no control group can be created here",
            ),
            refused_unless(self.can_limit_processes(), "processes", no_group),
            refused_unless(self.groups.can_limit_cpu(), "processor time", no_group),
        ])
    }

    fn mounts_at_other_paths(&self) -> bool {
        !self.is_last_resort()
    }

    fn is_last_resort(&self) -> bool {
        let trial = self.trial_result();
        trial.is_ok_and(|trial| trial.maker == SandboxMaker::Confined)
    }

    fn check_program(&self, program: &str, directory: &Path) -> Result<(), SandboxError> {
        program_lookup::check_program(program, &self.view.path, directory)
    }

    fn shares_network(&self) -> Result<(), SandboxError> {
        match self.trial_result()?.maker {
            SandboxMaker::Native => Ok(()),
            SandboxMaker::Confined => Err(SandboxError::unsupported(
                NAME,
                "named ports",
                "this machine allows no namespaces, so commands have no network; with `sandbox: container` they have one",
            )),
            SandboxMaker::Bubblewrap(_) => Err(SandboxError::unsupported(
                NAME,
                "named ports",
                "bubblewrap builds it here and gives each command its own network; leave `ports` out and start a \
                 server and its client in one command",
            )),
        }
    }

    fn check_support(&self, spec: &CommandSpec) -> Result<(), SandboxError> {
        let unsupported = |what, why: &str| Err(SandboxError::unsupported(NAME, what, why));
        let no_group = "no control group can be created below the one of this process";
        if spec.network == CommandNetwork::Host {
            return unsupported(
                "the network of this machine",
                "its commands have their own network and reach others only through a proxy",
            );
        }
        if self.is_last_resort() {
            Self::check_confined_support(spec)?;
        }
        if spec.nested_sandbox {
            let trial = self.trial_result()?;
            if trial.maker != SandboxMaker::Native || !trial.proc {
                return unsupported(
                    "a program with a sandbox of its own, such as a browser",
                    "this machine does not allow mimir to create the namespaces that it needs",
                );
            }
        }
        if spec.bounds.memory.is_requested() && !self.groups.can_limit_memory() {
            return unsupported("a memory limit", no_group);
        }
        if spec.bounds.cpu.is_some() && !self.groups.can_limit_cpu() {
            return unsupported("a limit of processor time", no_group);
        }
        if spec.bounds.processes.is_requested() && !self.can_limit_processes() {
            return unsupported("a limit of processes", no_group);
        }
        if !self.view.accepts_workspace(&spec.workspace) {
            return Err(SandboxError::Workspace(spec.workspace.clone()));
        }
        Ok(())
    }

    fn start<'a>(
        &'a self,
        spec: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<SandboxChild, SandboxError>> {
        Box::pin(async move {
            let trial = self.trial_result()?;
            self.check_support(spec)?;
            if spec.network == CommandNetwork::Proxy && spec.proxy.is_none() {
                return Err(SandboxError::unsupported(
                    NAME,
                    "network access",
                    "no proxy is available to check its requests",
                ));
            }
            match trial.maker {
                SandboxMaker::Native => self.start_with(spec, trial).await,
                SandboxMaker::Bubblewrap(bwrap) => self.start_wrapped(bwrap, spec, trial).await,
                SandboxMaker::Confined => self.start_confined(spec),
            }
        })
    }
}
