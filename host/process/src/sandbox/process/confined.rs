//! The sandbox `process` without namespaces, for places that allow none: unprivileged containers, dev containers, and
//! systems that restrict user namespaces.
//!
//! Landlock decides which files a command can open, run and change, and which processes it can signal. A system call
//! filter denies all sockets, the calls that reach other processes, and the calls on files that Landlock does not check;
//! changes of file modes are [made here](mode_changes). No capability remains. All processes of a command stay in one
//! session, which is killed as a whole: the filter denies leaving it.
//!
//! A Landlock rule for a folder applies to everything below it and cannot be taken back there. So a folder with a hidden
//! or read-only path gets no rule that would reach this path; its other entries get one each, and nothing can be created
//! in the folder itself. [`ProcessSandbox::confined_guarantees`] lists everything that the namespaces would add.

mod access_rules;
mod confined_filter;
mod mode_changes;

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ::landlock::ABI;
use mimir_core::backend::BoxFuture;
use mimir_core::platform::PlatformGuarantee;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit, setsid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};
use seccompiler::BpfProgram;
use tokio::process::Command;
use tokio::time::timeout;

use super::start::limits;
use super::{NAME, ProcessSandbox, SETUP_TIMEOUT, memory_limit};
use crate::sandbox::environment::PROXY;
use crate::sandbox::{
    CommandExit, CommandHandle, CommandNetwork, CommandSpec, HostMount, ResourceBounds,
    SandboxChild, SandboxError, loopback_proxy, none, program_lookup, sys, toolchain_homes,
};
use access_rules::AccessRules;

/// First Landlock version that keeps signals from processes outside (Linux 6.12).
const MIN_LANDLOCK: ABI = ABI::V6;

/// Everything that a process applies to itself before it becomes the program.
struct Confinement {
    ruleset: OwnedFd,
    limits: Vec<(Resource, Rlimit)>,
    filters: Vec<BpfProgram>,
    mode_filter: BpfProgram,
    /// Socket for the descriptor on which the changes of file modes arrive.
    handover: OwnedFd,
}

impl Confinement {
    /// Confines this process. Called between fork and exec: makes only system calls.
    fn enter(&self) -> Result<(), Errno> {
        // A new session has no terminal that a command could type into.
        setsid()?;
        sys::close_range(3, i32::MAX, true)?;
        for (resource, limit) in &self.limits {
            setrlimit(*resource, *limit)?;
        }
        set_no_new_privs(true)?;
        sys::landlock_restrict(self.ruleset.as_fd())?;
        // Root would regain its capabilities with the next program. Without the right to set these bits there is
        // nothing to regain beyond the bounding set of this process, which is emptied too, as far as it may be.
        let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        let _ = set_capabilities_secure_bits(bits);
        sys::drop_bounding_set();
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none)?;
        sys::reset_signals();
        self.filters.iter().try_for_each(sys::install_filter)?;
        let listener = sys::install_listener(&self.mode_filter)?;
        loopback_proxy::send_fds(&self.handover, &[listener.as_fd()])
    }
}

impl ProcessSandbox {
    /// Checks that this kernel can confine a command without namespaces.
    pub(super) fn confinement_abi(&self) -> Result<ABI, String> {
        match self.landlock {
            Some(abi) if abi >= MIN_LANDLOCK => Ok(abi),
            Some(abi) => Err(format!(
                "Landlock: the kernel has version {abi}, but without namespaces version {MIN_LANDLOCK} is needed (Linux 6.12), \
                 the first that keeps signals from other processes"
            )),
            None => Err("Landlock: not supported by this kernel".to_owned()),
        }
    }

    /// Starts a command without namespaces.
    pub(super) fn start_confined(&self, spec: &CommandSpec) -> Result<SandboxChild, SandboxError> {
        let unavailable = |why| SandboxError::Unavailable { sandbox: NAME, why };
        let abi = self.confinement_abi().map_err(unavailable)?;
        let filter = self.filter.clone().map_err(unavailable)?;
        let more = confined_filter::filters().map_err(|error| unavailable(error.to_string()))?;
        let program =
            program_lookup::resolve_program(&spec.program, &self.view.path, &spec.directory)?;
        let scratch = ScratchFolder::new(&self.view.git_identity.settings()).map_err(
            SandboxError::io_error("cannot create the temporary folder of a command"),
        )?;
        let rules = AccessRules::new(abi, &self.view, spec, &scratch.0)?;
        let prepare = || SandboxError::io_error("cannot prepare a command");
        let mut limits = limits(&spec.bounds, Some(memory_limit(&spec.bounds)));
        limit_processes(&mut limits, &spec.bounds).map_err(prepare())?;
        let mode_filter =
            confined_filter::mode_filter().map_err(|error| unavailable(error.to_string()))?;
        let (modes, handover) = loopback_proxy::handover_pair().map_err(prepare())?;
        let confinement = Confinement {
            ruleset: rules.ruleset().map_err(prepare())?,
            limits,
            filters: [filter].into_iter().chain(more).collect(),
            mode_filter,
            handover,
        };
        let (home, temporary) = (scratch.0.join("home"), scratch.0.join("tmp"));
        let mut variables =
            self.ambient
                .command_variables(spec, &self.view.path, &home, &temporary, PROXY)?;
        variables.insert(
            "GIT_CONFIG_SYSTEM".into(),
            scratch.0.join("gitconfig").into(),
        );
        // The private home is an empty folder, where toolchains would not find themselves.
        let (homes, _) = toolchain_homes::toolchains(&self.view.home);
        for (name, folder) in homes {
            variables.entry(name.into()).or_insert(folder.into());
        }
        let file = spec.directory.join(&program.file);
        let mut command = Command::new(file);
        if let Some((name, arguments)) = program.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        sys::before_exec(command.as_std_mut(), confinement, Confinement::enter);
        let running = none::spawn_command(
            command,
            variables,
            spec,
            none::ProcessLeader::Own,
            Some(&scratch.0),
        )
        .map_err(|error| none::start_error(error, spec, &program.arguments))?;
        let listener = loopback_proxy::receive_fds(&modes).map_err(prepare())?;
        for listener in listener {
            mode_changes::serve_mode_changes(listener, rules.writable()).map_err(prepare())?;
        }
        let mut child = running.into_child(rules.masked)?;
        child.handle = Box::new(ConfinedCommand {
            handle: child.handle,
            scratch: Some(scratch),
        });
        Ok(child)
    }

    /// Runs a test command that does nothing.
    pub(super) fn try_confined(&self, spec: &CommandSpec) -> Result<(), String> {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let exit = runtime.block_on(async {
                let mut child = self.start_confined(spec)?;
                match timeout(SETUP_TIMEOUT, child.handle.wait()).await {
                    Ok(exit) => exit.map(Some),
                    // Dropping the child kills it.
                    Err(_) => Ok(None),
                }
            });
            match exit {
                Ok(Some(exit)) if exit.code == 0 => Ok(()),
                Ok(Some(exit)) => Err(format!("a test command ended with exit code {}", exit.code)),
                Ok(None) => Err(format!(
                    "a test command did not end within {} s",
                    SETUP_TIMEOUT.as_secs()
                )),
                Err(fault) => Err(fault.to_string()),
            }
        };
        // A thread of its own: the caller may be in a runtime, in which no other may block.
        std::thread::scope(|scope| {
            let thread = scope.spawn(run);
            thread
                .join()
                .unwrap_or_else(|_| Err("the test command panicked".to_owned()))
        })
    }

    /// Rejects what only namespaces can provide.
    pub(super) fn check_confined_support(spec: &CommandSpec) -> Result<(), SandboxError> {
        let is_elsewhere = |mount: &HostMount| {
            let real = mount.at.canonicalize();
            real.map_or(true, |real| real != mount.from)
        };
        let elsewhere = spec.mounts.iter().any(is_elsewhere);
        let what = if spec.network != CommandNetwork::None {
            "network access"
        } else if let Some(bound) = spec.bounds.first_requested() {
            bound
        } else if elsewhere {
            "mounting a folder at another path"
        } else {
            return Ok(());
        };
        let why = "it needs namespaces or control groups, and this machine allows mimir neither";
        Err(SandboxError::unsupported(NAME, what, why))
    }

    /// Lists what holds without namespaces.
    pub(super) fn confined_guarantees() -> Vec<PlatformGuarantee> {
        let processes = if rustix::process::geteuid().is_root() {
            "not limited in number, because mimir runs as root without control groups"
        } else {
            "limited in number together with all your other processes"
        };
        vec![
            PlatformGuarantee::enforced("content of files outside"),
            PlatformGuarantee::weaker(
                "names of files outside",
                "commands can see whether a path exists, its size and its times, and set its times; in the workspace, \
                 also the names in hidden folders",
            ),
            PlatformGuarantee::weaker(
                "new files",
                "nothing can be created next to a hidden or read-only path, so not at the top of a workspace with .mimir or \
                 .git, nor in .git itself: git add and git commit fail; create files in other folders",
            ),
            PlatformGuarantee::enforced("modes and owners of files outside"),
            PlatformGuarantee::weaker(
                "owners and attributes of files",
                "commands cannot change owners, nor read or change extended attributes and access control lists",
            ),
            PlatformGuarantee::enforced("network of commands"),
            PlatformGuarantee::refused(
                "loopback and granted hosts",
                "commands have no sockets at all, not even between each other",
            ),
            PlatformGuarantee::weaker(
                "/proc",
                "not readable, so bash's <(…) does not work; nor can a command start a session",
            ),
            PlatformGuarantee::enforced("signals"),
            PlatformGuarantee::enforced("end of commands"),
            PlatformGuarantee::weaker(
                "memory",
                "the private memory of each process is limited, not shared memory, and not the total",
            ),
            PlatformGuarantee::weaker("processes", processes),
            PlatformGuarantee::refused("processor time", "no control group can be created here"),
        ]
    }
}

/// Raises the limit of processes by those that the user runs already: without namespaces, the kernel counts them too.
fn limit_processes(
    limits: &mut Vec<(Resource, Rlimit)>,
    bounds: &ResourceBounds,
) -> io::Result<()> {
    let running = count_threads_of_user()?;
    let value = Some(bounds.processes.value().saturating_add(running));
    let maximum = rustix::process::getrlimit(Resource::Nproc).maximum;
    let value = value.min(maximum.or(value));
    let (current, maximum) = (value, value);
    limits.retain(|(resource, _)| *resource != Resource::Nproc);
    limits.push((Resource::Nproc, Rlimit { current, maximum }));
    Ok(())
}

/// Counts the threads of all processes of this user.
fn count_threads_of_user() -> io::Result<u64> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let mut threads = 0;
    for entry in Path::new("/proc").read_dir()?.flatten() {
        // Other entries are no processes, and a process may have ended meanwhile.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        };
        if field("Uid:") == Some(&*user) {
            threads += field("Threads:").map_or(1, |count| count.parse::<u64>().unwrap_or(1));
        }
    }
    if threads == 0 {
        // Not even this process.
        return Err(io::Error::other(
            "/proc does not show the processes of this user",
        ));
    }
    Ok(threads)
}

/// The private home and the temporary folder of a command, removed with it.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new(git_settings: &str) -> io::Result<Self> {
        let temporary = std::env::temp_dir().canonicalize()?;
        let folder = temporary.join(format!("mimir-{}", none::unique_mark()));
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(&folder)?;
        let folder = Self(folder);
        for name in ["home", "tmp"] {
            builder.create(folder.0.join(name))?;
        }
        std::fs::write(folder.0.join("gitconfig"), git_settings)?;
        Ok(folder)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.0).is_err() {
            // The command may have made folders read-only, as `go` does with its modules.
            make_writable(&self.0);
            if let Err(error) = std::fs::remove_dir_all(&self.0) {
                tracing::warn!(folder = %self.0.display(), %error, "the temporary folder of a command was not removed");
            }
        }
    }
}

/// Makes a folder writable for its owner, and the folders in it. Links are not followed; no process changes the folder
/// any more.
fn make_writable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

/// A command and its temporary folder.
struct ConfinedCommand {
    /// Dropped first, so that no process writes to the folder when it is removed.
    handle: Box<dyn CommandHandle>,
    scratch: Option<ScratchFolder>,
}

impl CommandHandle for ConfinedCommand {
    fn wait(&mut self) -> BoxFuture<'_, Result<CommandExit, SandboxError>> {
        Box::pin(async move {
            let exit = self.handle.wait().await?;
            self.scratch = None;
            Ok(exit)
        })
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        self.handle.terminate()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        self.handle.kill()
    }
}
