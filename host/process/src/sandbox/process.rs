//! A sandbox of what the Linux kernel has: namespaces, mounts, Landlock, a filter of system calls, control groups and
//! limits. Made in this process, without any program that has rights of its own; where that is not let, by bubblewrap.
//!
//! What a command sees: the programs and libraries of this machine and the person's toolchains, read-only; its
//! workspace, writable but for what the rules cover; a home, a temporary folder and devices of its own; the processes
//! that it starts itself; and a network of which it is the only machine.
//!
//! Linux 5.12 or newer, as the first that sets attributes of a whole tree of mounts.

mod berth;
mod bubblewrap;
mod cgroup;
mod filter;
mod handle;
mod inside;
mod landlock;
mod plan;
mod root;
mod shared;
mod start;
mod view;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use ::landlock::ABI;
use mimir_core::backend::BoxFuture;
use seccompiler::BpfProgram;

use super::environment::Ambient;
use super::{Bound, Bounds, Child, Fault, Network, Sandbox, Spec, find, sys};
pub(super) use shared::Shared;

use berth::Berths;
use cgroup::Tree;
use view::View;

const NAME: &str = "process";

/// How long it may take until a sandbox stands. It takes milliseconds; more than this on a busy machine is a fault.
const SETUP_MOST: Duration = Duration::from_secs(20);

/// What a shell says of a program that was killed.
const KILLED: i32 = 128 + libc::SIGKILL;

/// The sandbox `process`.
pub struct ProcessSandbox {
    ambient: Ambient,
    view: View,
    groups: Tree,
    berths: Berths,
    landlock: Option<ABI>,
    /// What this process was called with.
    called: Option<sys::Called>,
    filter: Result<BpfProgram, String>,
    /// Whether bubblewrap is to make it, whatever this process could.
    wrapped: bool,
    /// Whether a command can be run in it: found out by running one.
    tried: OnceLock<Result<Gives, String>>,
}

/// Who makes the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Us,
    Bubblewrap(&'static Path),
}

/// What a trial has shown.
#[derive(Debug, Clone, Copy)]
struct Gives {
    by: By,
    /// Whether a command sees its own processes in `/proc`. In some containers nobody may mount that.
    proc: bool,
}

impl Default for ProcessSandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessSandbox {
    /// Looks at what this machine has. That costs some files to be looked at, and nothing is run.
    pub fn new() -> Self {
        let ambient = Ambient::of_this_process();
        Self {
            view: View::of_this_machine(&ambient),
            ambient,
            groups: Tree::find(),
            berths: Berths::default(),
            landlock: landlock::abi(),
            called: sys::Called::here(),
            filter: filter::filter().map_err(|error| error.to_string()),
            wrapped: false,
            tried: OnceLock::new(),
        }
    }

    /// A sandbox made by bubblewrap, even where this process could make it.
    pub fn by_bubblewrap() -> Self {
        Self {
            wrapped: true,
            ..Self::new()
        }
    }

    /// A sandbox without control groups, even where some could be made.
    pub fn without_control_groups() -> Self {
        Self {
            groups: Tree::default(),
            ..Self::new()
        }
    }

    fn tried(&self) -> Result<Gives, Fault> {
        let tried = self.tried.get_or_init(|| self.try_out());
        tried
            .clone()
            .map_err(|why| Fault::Unavailable { sandbox: NAME, why })
    }

    /// Bytes of memory that each process of a command may have, where no control group holds all of them together: the
    /// bound of the command, or half of what the machine has.
    fn memory_of_each(&self, bounds: &Bounds) -> Option<u64> {
        if self.groups.holds_memory() {
            return None;
        }
        let machine = rustix::system::sysinfo();
        let machine = machine.totalram.saturating_mul(machine.mem_unit.into());
        Some(bounds.memory.value().min(machine / 2))
    }

    /// By a group, or by the limit that the kernel has for each user, from which root is exempt.
    fn holds_processes(&self) -> bool {
        self.groups.holds_processes() || !rustix::process::geteuid().is_root()
    }
}

impl Sandbox for ProcessSandbox {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gives(&self, bounds: &Bounds) -> Result<Vec<String>, Fault> {
        let gives = self.tried()?;
        let held = |holds: bool, what: String| match holds {
            true => what,
            false => format!("{what}: cannot be held here, no control group can be made"),
        };
        let bound = |bound: Bound| mimir_core::text::bytes(bound.value());
        let wrapped = match gives.by {
            By::Us => None,
            By::Bubblewrap(bwrap) => Some(bwrap.display()),
        };
        let mut lines: Vec<String> = wrapped
            .iter()
            .map(|bwrap| {
                format!(
                    "made by bubblewrap ({bwrap}), since mimir may make no namespaces here itself"
                )
            })
            .collect();
        lines.extend([
            "programs and toolchains read-only, workspace writable, home its own".to_owned(),
            match wrapped {
                None => "shared by the commands of one session: /tmp and the network",
                Some(_) => super::APART,
            }
            .to_owned(),
            "namespaces: user, processes, mounts, network, ipc, host name, control groups"
                .to_owned(),
            match gives.proc {
                true => "/proc: its own processes, read-only".to_owned(),
                false => "/proc: empty, since this machine lets nobody mount it (a container?)"
                    .to_owned(),
            },
            "network: none but its own loopback; with `networkAccess: true`, what `network` lets through a proxy"
                .to_owned(),
            match self.landlock {
                _ if wrapped.is_some() => "Landlock: bubblewrap applies none; the mounts hold without it".to_owned(),
                Some(abi) => format!("Landlock: version {abi}"),
                None => "Landlock: this kernel has none; the mounts hold without it".to_owned(),
            },
            "system calls: filtered".to_owned(),
            match self.memory_of_each(bounds) {
                None => format!("memory: {}", bound(bounds.memory)),
                Some(each) => format!(
                    "memory: {} for each process (RLIMIT_DATA); all of them together are not bounded, since no control \
                     group can be made",
                    mimir_core::text::bytes(each)
                ),
            },
            held(
                self.holds_processes(),
                format!("processes: {}", bounds.processes.value()),
            ),
            held(
                self.groups.holds_cpu(),
                "processor time: where it is asked for".to_owned(),
            ),
        ]);
        Ok(lines)
    }

    fn has(&self, program: &str, directory: &Path) -> Result<(), Fault> {
        find::program(program, &self.view.path, directory)
    }

    fn shares_network(&self) -> Result<(), Fault> {
        match self.tried()?.by {
            By::Us => Ok(()),
            By::Bubblewrap(_) => Err(Fault::CannotHold {
                sandbox: NAME,
                what: "named ports",
                why: "it is made by bubblewrap here, where each command has a network of its own; leave `ports` out, \
                      and start a server and what asks it in one command"
                    .to_owned(),
            }),
        }
    }

    fn holds(&self, spec: &Spec) -> Result<(), Fault> {
        let cannot = |what, why: &str| {
            Err(Fault::CannotHold {
                sandbox: NAME,
                what,
                why: why.to_owned(),
            })
        };
        let no_group = "no control group can be made below the one that this process is in";
        if spec.network == Network::Host {
            return cannot(
                "the network of this machine",
                "it has a network of its own, and a proxy as the way out of it",
            );
        }
        if spec.bounds.memory.asked() && !self.groups.holds_memory() {
            return cannot("a bound of memory", no_group);
        }
        if spec.bounds.cpu.is_some() && !self.groups.holds_cpu() {
            return cannot("a bound of processor time", no_group);
        }
        if spec.bounds.processes.asked() && !self.holds_processes() {
            return cannot("a bound of processes", no_group);
        }
        if !self.view.takes(&spec.workspace) {
            return Err(Fault::Workspace(spec.workspace.clone()));
        }
        Ok(())
    }

    fn start<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<Child, Fault>> {
        Box::pin(async move {
            let gives = self.tried()?;
            self.holds(spec)?;
            if spec.network == Network::Proxy && spec.proxy.is_none() {
                return Err(Fault::CannotHold {
                    sandbox: NAME,
                    what: "access to the network",
                    why: "nobody is here to judge its requests".to_owned(),
                });
            }
            match gives.by {
                By::Us => self.start_with(spec, gives).await,
                By::Bubblewrap(bwrap) => self.start_wrapped(bwrap, spec, gives).await,
            }
        })
    }
}
