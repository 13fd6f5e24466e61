//! Start of a command from its [`CommandSpec`].

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use mimir_core::command::CommandProgram;
use rustix::fd::{AsFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, WaitId, WaitIdOptions, getrlimit, waitid};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::cgroup::{self, CommandCgroups};
use super::cgroup_thread::CgroupThreadGuard;
use super::child_plan::{ChildPlan, SetupStage, StatusRecord, c_path};
use super::forked_handle::ForkedHandle;
use super::landlock::LandlockRules;
use super::root_plan::{RootPlan, SandboxIdentity};
use super::session_namespaces::{ListenerGuard, SessionNamespaces};
use super::{ProcessSandbox, SETUP_TIMEOUT, SandboxMaker, TrialResult, bubblewrap, child_process};
use crate::sandbox::environment::{PROXY, VariableMap};
use crate::sandbox::sys::{self, CStringArray};
use crate::sandbox::{
    CommandSpec, FileIdentity, ResourceBounds, SandboxChild, SandboxError, input_writer,
    loopback_proxy, program_lookup,
};

/// A forked command whose program may not be running yet.
struct ForkedCommand {
    handle: ForkedHandle,
    /// Write end of its standard input, unless that is the null device.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// Socket that its proxy listens on, if it has one.
    listener: Option<ListenerGuard>,
    /// Description of each step of the child.
    step_names: Vec<String>,
    covered: Vec<FileIdentity>,
}

impl ProcessSandbox {
    pub(super) async fn start_with(
        &self,
        spec: &CommandSpec,
        trial: TrialResult,
    ) -> Result<SandboxChild, SandboxError> {
        let mut forked = self.fork(spec, trial)?;
        let doing = "cannot read the output of a command";
        match timeout(SETUP_TIMEOUT, forked.handle.wait_until_started()).await {
            Ok(Ok(())) => {}
            Ok(Err((stage, error))) => {
                return Err(stage_error(stage, error, spec, &forked.step_names));
            }
            Err(_) => {
                return Err(setup_error(
                    "waiting for it",
                    io::ErrorKind::TimedOut.into(),
                ));
            }
        }
        if let (Some(listener), Some(proxy)) = (forked.listener, &spec.proxy) {
            let serving = listener
                .socket()
                .and_then(|socket| loopback_proxy::ProxyTask::begin(socket, proxy.clone()));
            let serving =
                serving.map_err(SandboxError::io_error("cannot open the proxy of a command"))?;
            forked.handle.attach_proxy(serving, listener);
        }
        let reader =
            |fd: OwnedFd| pipe::Receiver::from_owned_fd(fd).map_err(SandboxError::io_error(doing));
        let writer = forked.stdin.map(pipe::Sender::from_owned_fd).transpose();
        Ok(SandboxChild {
            stdin: input_writer(writer.map_err(SandboxError::io_error(doing))?),
            stdout: Box::new(reader(forked.stdout)?),
            stderr: Box::new(reader(forked.stderr)?),
            handle: Box::new(forked.handle),
            masked: forked.covered,
        })
    }

    /// Prepares the plan and forks.
    fn fork(&self, spec: &CommandSpec, trial: TrialResult) -> Result<ForkedCommand, SandboxError> {
        let filter = self.filter_for(spec)?.clone();
        let program =
            program_lookup::resolve_program(&spec.program, &self.view.path, &spec.directory)?;
        let session_error =
            |error| setup_error("making the network and the temporary folder", error);
        let shared = match &spec.session {
            Some(session) => session.shared(SessionNamespaces::new),
            None => SessionNamespaces::new().map(Arc::new),
        };
        let shared = shared.map_err(session_error)?;
        let temporary = shared.folder().map_err(session_error)?;
        let listener = match &spec.proxy {
            Some(_) => Some(
                shared
                    .listener()
                    .map_err(SandboxError::io_error("cannot open the proxy of a command"))?,
            ),
            None => None,
        };
        let variables =
            self.variables(spec, listener.as_ref().map_or(PROXY, ListenerGuard::port))?;
        let root = RootPlan::new(&self.view, spec, trial, Some(temporary))?;
        let landlock = self
            .landlock
            .map(|abi| LandlockRules::new(abi, &root.writable))
            .transpose();
        let groups = if self.groups.is_version_one() {
            CgroupHandle::Pooled(self.cgroup_threads.acquire(&self.groups, &spec.bounds)?)
        } else {
            CgroupHandle::Own(self.groups.make(&spec.bounds, cgroup::FIRST_PROCESS)?)
        };
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
        type ParentPipes = (Option<OwnedFd>, OwnedFd, OwnedFd);
        let prepare = || -> io::Result<(ChildPlan, ParentPipes, OwnedFd, OwnedFd, OwnedFd)> {
            let (stdin, to_stdin) = if spec.stdin.is_null() {
                (std::fs::File::open("/dev/null")?.into(), None)
            } else {
                pipes().map(|(stdin, to_stdin)| (stdin, Some(to_stdin)))?
            };
            let (from_stdout, stdout) = pipes()?;
            let (from_stderr, stderr) = pipes()?;
            let (status, to_status) = pipes()?;
            let (lifeline, lifeline_end) = pipes()?;
            let (parent_socket, child_socket) = loopback_proxy::handover_pair()?;
            let arguments = program
                .arguments
                .iter()
                .map(|word| c_string(word.clone().into_bytes()));
            let variables = variables.into_iter().map(|(name, value)| {
                let mut pair = name.into_vec();
                pair.push(b'=');
                pair.extend(value.into_vec());
                c_string(pair)
            });
            let identity = SandboxIdentity::for_commands();
            // In the session's user namespace the process already has its final ids.
            let map = |id: u32| format!("{id} {id} 1").into_bytes();
            let plan = ChildPlan {
                argv: self.argv.clone(),
                uid_map: map(identity.user),
                gid_map: map(identity.group),
                steps: root.steps,
                directory: c_path(&spec.directory)?,
                landlock: landlock?,
                limits: limits(&spec.bounds, self.memory_per_process(&spec.bounds)),
                filter,
                program: c_path(&program.file)?,
                arguments: CStringArray::new(arguments.collect::<io::Result<_>>()?),
                environment: CStringArray::new(variables.collect::<io::Result<_>>()?),
                stdin,
                stdout,
                stderr,
                status: to_status,
                lifeline,
                shared,
                handover_socket: child_socket,
                stack: vec![0; ChildPlan::STACK],
                failure: None,
            };
            Ok((
                plan,
                (to_stdin, from_stdout, from_stderr),
                status,
                lifeline_end,
                parent_socket,
            ))
        };
        let (plan, (stdin, stdout, stderr), status, lifeline_end, parent_socket) =
            prepare().map_err(SandboxError::io_error("cannot prepare a command"))?;
        let pidfd = groups
            .fork(plan)
            .and_then(|intermediate| receive_first_process(&intermediate, &parent_socket))
            .map_err(|error| setup_error("making its namespaces", error))?;
        let handle = ForkedHandle::new(pidfd, status, lifeline_end, groups)
            .map_err(SandboxError::io_error("cannot wait for a command"))?;
        Ok(ForkedCommand {
            handle,
            stdin,
            stdout,
            stderr,
            listener,
            step_names: root.step_names,
            covered: root.covered,
        })
    }

    /// Returns the environment of a command.
    pub(super) fn variables(
        &self,
        spec: &CommandSpec,
        proxy: u16,
    ) -> Result<VariableMap, SandboxError> {
        let (path, home) = (&self.view.path, &self.view.home);
        let mut variables =
            self.ambient
                .command_variables(spec, path, home, Path::new("/tmp"), proxy)?;
        // Git's default path of this file depends on how git was built.
        variables.insert("GIT_CONFIG_SYSTEM".into(), "/etc/gitconfig".into());
        Ok(variables)
    }

    /// Runs a test command that does nothing, to find a builder with which commands can run.
    pub(super) fn run_trial(&self) -> Result<TrialResult, String> {
        let workspace = existing_folder();
        let mut spec = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), workspace);
        spec.path_rules = mimir_core::paths::PathRules::none();
        let mut reasons = Vec::new();
        // True if this machine forbids what namespaces need, so that it makes no sense to try again.
        let mut is_forbidden = false;
        for maker in self.available_makers() {
            if maker == SandboxMaker::Confined && !is_forbidden {
                reasons.push(
                    "without namespaces: not used, because the error may be temporary".to_owned(),
                );
                continue;
            }
            let mut reason = String::new();
            for proc in [true, false] {
                let trial = TrialResult { maker, proc };
                let result = match maker {
                    SandboxMaker::Native => self.try_forked(&spec, trial).map_err(|failure| {
                        is_forbidden = failure.is_forbidden;
                        failure.why
                    }),
                    SandboxMaker::Bubblewrap(bwrap) => self.try_wrapped(bwrap, &spec, trial),
                    SandboxMaker::Confined => self.try_confined(&spec),
                };
                match result {
                    Ok(()) => {
                        if maker == SandboxMaker::Confined {
                            warn_confined(&reasons);
                        }
                        return Ok(trial);
                    }
                    Err(why) => reason = why,
                }
            }
            reasons.push(match maker {
                SandboxMaker::Native => reason,
                SandboxMaker::Confined => format!("without namespaces: {reason}"),
                SandboxMaker::Bubblewrap(_) => format!("bubblewrap: {reason}"),
            });
        }
        if bubblewrap::find().is_none() {
            reasons.push("bubblewrap, which works on some systems that restrict namespaces, is not installed".to_owned());
        }
        Err(reasons.join("; "))
    }

    /// Returns the available sandbox builders, best first.
    fn available_makers(&self) -> impl Iterator<Item = SandboxMaker> {
        let native = (!self.force_bubblewrap).then_some(SandboxMaker::Native);
        let confined = (!self.force_bubblewrap).then_some(SandboxMaker::Confined);
        native
            .into_iter()
            .chain(bubblewrap::find().map(SandboxMaker::Bubblewrap))
            .chain(confined)
    }

    fn try_forked(&self, spec: &CommandSpec, trial: TrialResult) -> Result<(), TrialFailure> {
        let mut forked = self.fork(spec, trial).map_err(|fault| TrialFailure {
            is_forbidden: matches!(&fault, SandboxError::Setup { error, .. } if is_forbidden(error)),
            why: fault.to_string(),
        })?;
        let started = forked.handle.started_blocking();
        started.map_err(|(stage, error)| TrialFailure {
            is_forbidden: is_forbidden(&error),
            why: format!("{}: {error}", stage.describe(&forked.step_names)),
        })
    }
}

/// Failure of a test command.
struct TrialFailure {
    why: String,
    /// True if the machine forbids something, rather than having run out of it for now.
    is_forbidden: bool,
}

/// Returns true if the system always refuses the call: by a rule, because its kernel lacks the feature, or because the
/// number of namespaces is limited to zero.
fn is_forbidden(error: &io::Error) -> bool {
    let always = [
        libc::EPERM,
        libc::EACCES,
        libc::ENOSYS,
        libc::EINVAL,
        libc::ENOSPC,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| always.contains(&code))
}

/// Logs once per process that commands run without namespaces.
fn warn_confined(reasons: &[String]) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            reasons = reasons.join("; "),
            "commands run without namespaces; `mimir doctor` lists what that does not enforce"
        );
    });
}

/// Control groups of a running command.
pub(super) enum CgroupHandle {
    Own(CommandCgroups),
    Pooled(CgroupThreadGuard),
}

/// Waits for the intermediate process, and returns the pidfd of the first process of the namespace, a child of this
/// process. Then the control groups no longer count the intermediate process, and the program may start.
fn receive_first_process(intermediate: &OwnedFd, parent_socket: &OwnedFd) -> io::Result<OwnedFd> {
    // The exit status is irrelevant: the result arrives through the socket.
    let _ = waitid(WaitId::PidFd(intermediate.as_fd()), WaitIdOptions::EXITED);
    let first = loopback_proxy::receive_fds(parent_socket)?
        .pop()
        .ok_or(io::ErrorKind::BrokenPipe)?;
    loopback_proxy::release_child(parent_socket);
    Ok(first)
}

impl CgroupHandle {
    /// Forks the intermediate process.
    fn fork(&self, mut plan: ChildPlan) -> io::Result<OwnedFd> {
        match self {
            Self::Own(groups) => {
                let group = groups.start_cgroup()?;
                let group = group.as_ref().map(OwnedFd::as_fd);
                sys::fork(0, group, &mut plan, child_process::enter)
            }
            Self::Pooled(thread) => {
                thread.run(move || sys::fork(0, None, &mut plan, child_process::enter))?
            }
        }
    }

    pub(super) fn out_of_memory(&self) -> bool {
        match self {
            Self::Own(groups) => groups.out_of_memory(),
            Self::Pooled(thread) => thread.out_of_memory(),
        }
    }
}

/// Returns a folder that exists on every machine. Its content is not used.
fn existing_folder() -> std::path::PathBuf {
    std::env::temp_dir()
        .canonicalize()
        .unwrap_or_else(|_| "/tmp".into())
}

fn c_string(bytes: Vec<u8>) -> io::Result<std::ffi::CString> {
    Ok(std::ffi::CString::new(bytes)?)
}

/// Returns the resource limits that all processes of a command inherit. `memory` is the limit in bytes for each process
/// if no control group limits memory.
///
/// Memory is limited by `RLIMIT_DATA`, which counts private writable memory. `RLIMIT_AS`, which limits the address
/// space, would break node, java and go, which reserve far more than they use.
pub(super) fn limits(bounds: &ResourceBounds, memory: Option<u64>) -> Vec<(Resource, Rlimit)> {
    let limit = |resource: Resource, value: u64| {
        // A tighter existing limit stays in force.
        let value = getrlimit(resource)
            .maximum
            .map_or(value, |maximum| maximum.min(value));
        let (current, maximum) = (Some(value), Some(value));
        (resource, Rlimit { current, maximum })
    };
    let mut limits = vec![
        limit(Resource::Core, 0),
        limit(Resource::Fsize, bounds.file_size),
        limit(Resource::Nofile, bounds.open_files),
        // Counted only in the namespace of the command, including its first process.
        limit(Resource::Nproc, bounds.processes.value().saturating_add(1)),
        limit(Resource::Memlock, 64 << 20),
        limit(Resource::Msgqueue, 800 << 10),
    ];
    limits.extend(memory.map(|value| limit(Resource::Data, value)));
    limits
}

fn setup_error(stage: &str, error: io::Error) -> SandboxError {
    SandboxError::Setup {
        stage: stage.to_owned(),
        error,
    }
}

/// Error text if a file or its interpreter is missing in the sandbox.
pub(super) const NOT_IN_THERE: &str =
    "it, or the interpreter named in its first line, does not exist in the sandbox";

/// Error text for a file that is not a program.
pub(super) const NO_PROGRAM: &str =
    "it is neither a program for this processor nor a script that begins with `#!`";

/// Returns the error for arguments and variables that exceed the kernel's limit.
pub(super) fn arguments_too_long() -> SandboxError {
    SandboxError::InvalidInput {
        what: "the arguments".to_owned(),
        why: "together with the environment they are longer than the system allows",
    }
}

/// Converts a failed stage into an error for the caller.
fn stage_error(
    stage: SetupStage,
    error: io::Error,
    spec: &CommandSpec,
    step_names: &[String],
) -> SandboxError {
    let program = match &spec.program {
        CommandProgram::Vector(words) => words.first().map_or("", String::as_str),
        CommandProgram::Script(_) => "sh",
    };
    let not_executable = |why| SandboxError::NotExecutable {
        program: program.to_owned(),
        why,
    };
    match (stage, error.kind()) {
        (SetupStage::Execute, io::ErrorKind::NotFound) => not_executable(NOT_IN_THERE),
        (SetupStage::Execute, io::ErrorKind::PermissionDenied) => {
            not_executable("the system refuses to run it")
        }
        (SetupStage::Execute, _) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            not_executable(NO_PROGRAM)
        }
        (SetupStage::Execute, _) if error.raw_os_error() == Some(libc::E2BIG) => {
            arguments_too_long()
        }
        (SetupStage::Directory, _) => {
            SandboxError::NoDirectory(spec.directory.display().to_string())
        }
        (SetupStage::Fork, io::ErrorKind::WouldBlock) => setup_error("starting a process", error),
        (stage, _) => SandboxError::Setup {
            stage: stage.describe(step_names),
            error,
        },
    }
}

/// Converts the first status record into a result.
pub(super) fn check_started(record: Option<StatusRecord>) -> Result<(), (SetupStage, io::Error)> {
    match record {
        Some(StatusRecord::Started) => Ok(()),
        Some(StatusRecord::Failed(stage, errno)) => Err((stage, errno.into())),
        // The process was killed before it could report an error.
        Some(StatusRecord::Exited(_)) | None => {
            Err((SetupStage::Fork, io::ErrorKind::BrokenPipe.into()))
        }
    }
}

/// Reads one record.
pub(super) async fn read_record(status: &mut pipe::Receiver) -> Option<StatusRecord> {
    let mut bytes = [0; StatusRecord::BYTES];
    status.read_exact(&mut bytes).await.ok()?;
    StatusRecord::read(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_errors_do_not_select_the_weaker_sandbox() {
        for (code, expected) in [
            (libc::EPERM, true),
            (libc::EACCES, true),
            (libc::ENOSYS, true),
            (libc::ENOSPC, true),
            (libc::EAGAIN, false),
            (libc::EMFILE, false),
            (libc::ENOMEM, false),
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(is_forbidden(&error), expected, "{error}");
        }
        assert!(!is_forbidden(&io::ErrorKind::TimedOut.into()));
        assert!(!is_forbidden(&io::ErrorKind::BrokenPipe.into()));
    }
}
