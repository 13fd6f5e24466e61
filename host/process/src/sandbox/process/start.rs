//! Starts a command from its [`CommandSpec`].

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
use super::{
    NAME, ProcessSandbox, SETUP_TIMEOUT, SandboxMaker, TrialResult, bubblewrap, child_process,
};
use crate::sandbox::environment::{PROXY, VariableMap};
use crate::sandbox::sys::{self, CStringArray};
use crate::sandbox::{
    CommandSpec, FileIdentity, ResourceBounds, SandboxChild, SandboxError, input_writer,
    loopback_proxy, program_lookup,
};

/// A forked command that has not yet reported that its program runs.
struct ForkedCommand {
    held: ForkedHandle,
    /// The write end of its standard input, unless that is the null device.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// The socket that its proxy listens on, if it has one.
    listener: Option<ListenerGuard>,
    /// A description of each step of the child.
    about: Vec<String>,
    covered: Vec<FileIdentity>,
}

impl ProcessSandbox {
    pub(super) async fn start_with(
        &self,
        spec: &CommandSpec,
        gives: TrialResult,
    ) -> Result<SandboxChild, SandboxError> {
        let mut forked = self.fork(spec, gives)?;
        let doing = "the output of a command cannot be read";
        match timeout(SETUP_TIMEOUT, forked.held.wait_until_started()).await {
            Ok(Ok(())) => {}
            Ok(Err((stage, error))) => return Err(fault(stage, error, spec, &forked.about)),
            Err(_) => return Err(setup("waiting for it", io::ErrorKind::TimedOut.into())),
        }
        if let (Some(lease), Some(proxy)) = (forked.listener, &spec.proxy) {
            let serving = lease
                .socket()
                .and_then(|socket| loopback_proxy::ProxyTask::begin(socket, proxy.clone()));
            let serving = serving.map_err(SandboxError::io_error(
                "the proxy of a command cannot listen",
            ))?;
            forked.held.attach_proxy(serving, lease);
        }
        let reader =
            |fd: OwnedFd| pipe::Receiver::from_owned_fd(fd).map_err(SandboxError::io_error(doing));
        let writer = forked.stdin.map(pipe::Sender::from_owned_fd).transpose();
        Ok(SandboxChild {
            stdin: input_writer(writer.map_err(SandboxError::io_error(doing))?),
            stdout: Box::new(reader(forked.stdout)?),
            stderr: Box::new(reader(forked.stderr)?),
            handle: Box::new(forked.held),
            masked: forked.covered,
        })
    }

    /// Prepares the plan and forks.
    fn fork(&self, spec: &CommandSpec, gives: TrialResult) -> Result<ForkedCommand, SandboxError> {
        let filter = self
            .filter
            .clone()
            .map_err(|why| SandboxError::Unavailable { sandbox: NAME, why })?;
        let found =
            program_lookup::resolve_program(&spec.program, &self.view.path, &spec.directory)?;
        let failed = |error| setup("making the network and the temporary folder", error);
        let shared = match &spec.session {
            Some(session) => session.shared(SessionNamespaces::new),
            None => SessionNamespaces::new().map(Arc::new),
        };
        let shared = shared.map_err(failed)?;
        let temporary = shared.folder().map_err(failed)?;
        let listener = match &spec.proxy {
            Some(_) => Some(shared.listener().map_err(SandboxError::io_error(
                "the proxy of a command cannot listen",
            ))?),
            None => None,
        };
        let variables =
            self.variables(spec, listener.as_ref().map_or(PROXY, ListenerGuard::port))?;
        let root = RootPlan::new(&self.view, spec, gives, Some(temporary))?;
        let landlock = self
            .landlock
            .map(|abi| LandlockRules::new(abi, &root.writable))
            .transpose();
        let groups = match self.groups.is_version_one() {
            true => CgroupHandle::Pooled(self.cgroup_threads.acquire(&self.groups, &spec.bounds)?),
            false => CgroupHandle::Own(self.groups.make(&spec.bounds, cgroup::FIRST)?),
        };
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
        type ParentPipes = (Option<OwnedFd>, OwnedFd, OwnedFd);
        let make = || -> io::Result<(ChildPlan, ParentPipes, OwnedFd, OwnedFd, OwnedFd)> {
            let (stdin, to_stdin) = match spec.stdin.is_null() {
                true => (std::fs::File::open("/dev/null")?.into(), None),
                false => pipes().map(|(stdin, to_stdin)| (stdin, Some(to_stdin)))?,
            };
            let (from_stdout, stdout) = pipes()?;
            let (from_stderr, stderr) = pipes()?;
            let (status, to_status) = pipes()?;
            let (lifeline, life) = pipes()?;
            let (here, door) = loopback_proxy::handover_pair()?;
            let arguments = found
                .arguments
                .iter()
                .map(|word| c_string(word.clone().into_bytes()));
            let variables = variables.into_iter().map(|(name, value)| {
                let mut pair = name.into_vec();
                pair.push(b'=');
                pair.extend(value.into_vec());
                c_string(pair)
            });
            let identity = SandboxIdentity::of_sandbox();
            // In the session's user namespace the process already has its final ids.
            let map = |id: u32| format!("{id} {id} 1").into_bytes();
            let plan = ChildPlan {
                called: self.called.clone(),
                uid_map: map(identity.user),
                gid_map: map(identity.group),
                steps: root.steps,
                directory: c_path(&spec.directory)?,
                landlock: landlock?,
                limits: limits(&spec.bounds, self.memory_per_process(&spec.bounds)),
                filter,
                program: c_path(&found.file)?,
                arguments: CStringArray::new(arguments.collect::<io::Result<_>>()?),
                environment: CStringArray::new(variables.collect::<io::Result<_>>()?),
                stdin,
                stdout,
                stderr,
                status: to_status,
                lifeline,
                shared,
                handover_socket: door,
                stack: vec![0; ChildPlan::STACK],
                failed: None,
            };
            Ok((
                plan,
                (to_stdin, from_stdout, from_stderr),
                status,
                life,
                here,
            ))
        };
        let (plan, (stdin, stdout, stderr), status, life, here) =
            make().map_err(SandboxError::io_error("a command could not be prepared"))?;
        let pidfd = groups
            .fork(plan)
            .and_then(|between| first_of(&between, &here))
            .map_err(|error| setup("making its namespaces", error))?;
        let held = ForkedHandle::new(pidfd, status, life, groups)
            .map_err(SandboxError::io_error("a command cannot be waited for"))?;
        Ok(ForkedCommand {
            held,
            stdin,
            stdout,
            stderr,
            listener,
            about: root.about,
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
        // The default path of this file depends on how git was built.
        variables.insert("GIT_CONFIG_SYSTEM".into(), "/etc/gitconfig".into());
        Ok(variables)
    }

    /// Runs a command that does nothing, to find out if and by which builder commands can run.
    pub(super) fn try_out(&self) -> Result<TrialResult, String> {
        let workspace = tempfile_free_folder();
        let mut spec = CommandSpec::new(CommandProgram::Vector(vec!["true".into()]), workspace);
        spec.path_rules = mimir_core::paths::PathRules::none();
        let mut all = Vec::new();
        for by in self.makers() {
            let mut last = String::new();
            for proc in [true, false] {
                let gives = TrialResult { maker: by, proc };
                let tried = match by {
                    SandboxMaker::Us => self.try_forked(&spec, gives),
                    SandboxMaker::Bubblewrap(bwrap) => self.try_wrapped(bwrap, &spec, gives),
                };
                match tried {
                    Ok(()) => return Ok(gives),
                    Err(why) => last = why,
                }
            }
            all.push(match by {
                SandboxMaker::Us => last,
                SandboxMaker::Bubblewrap(_) => format!("bubblewrap: {last}"),
            });
        }
        if bubblewrap::find().is_none() {
            all.push("bubblewrap, which works on some systems that restrict namespaces, is not installed".to_owned());
        }
        Err(all.join("; "))
    }

    /// Returns the available sandbox builders, best first.
    fn makers(&self) -> impl Iterator<Item = SandboxMaker> {
        let us = (!self.wrapped).then_some(SandboxMaker::Us);
        us.into_iter()
            .chain(bubblewrap::find().map(SandboxMaker::Bubblewrap))
    }

    fn try_forked(&self, spec: &CommandSpec, gives: TrialResult) -> Result<(), String> {
        let mut forked = self.fork(spec, gives).map_err(|fault| fault.to_string())?;
        let started = forked.held.started_blocking();
        started.map_err(|(stage, error)| format!("{}: {error}", stage.describe(&forked.about)))
    }
}

/// The control groups of a running command.
pub(super) enum CgroupHandle {
    Own(CommandCgroups),
    Pooled(CgroupThreadGuard),
}

/// Waits for the intermediate process and returns the pidfd of the first process of the namespace, a child of this
/// process. After that the control groups no longer count the intermediate process, and the program may start.
fn first_of(between: &OwnedFd, here: &OwnedFd) -> io::Result<OwnedFd> {
    // The exit status does not matter: the result arrives through the socket.
    let _ = waitid(WaitId::PidFd(between.as_fd()), WaitIdOptions::EXITED);
    let first = loopback_proxy::receive_fds(here)?
        .pop()
        .ok_or(io::ErrorKind::BrokenPipe)?;
    loopback_proxy::release_child(here);
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
            Self::Pooled(lent) => {
                lent.run(move || sys::fork(0, None, &mut plan, child_process::enter))?
            }
        }
    }

    pub(super) fn out_of_memory(&self) -> bool {
        match self {
            Self::Own(groups) => groups.out_of_memory(),
            Self::Pooled(lent) => lent.out_of_memory(),
        }
    }
}

/// Returns a folder that exists on every machine; its content is not used.
fn tempfile_free_folder() -> std::path::PathBuf {
    std::env::temp_dir()
        .canonicalize()
        .unwrap_or_else(|_| "/tmp".into())
}

fn c_string(bytes: Vec<u8>) -> io::Result<std::ffi::CString> {
    Ok(std::ffi::CString::new(bytes)?)
}

/// Returns the limits that all processes of a command inherit. `memory` is the limit for each process if there is no
/// memory control group.
///
/// It limits data (`RLIMIT_DATA`), which is private writable memory. A limit of the address space (`RLIMIT_AS`) would
/// break node, java and go, which reserve far more than they use.
pub(super) fn limits(bounds: &ResourceBounds, memory: Option<u64>) -> Vec<(Resource, Rlimit)> {
    let limit = |resource: Resource, most: u64| {
        // A limit that is already tighter stays in force.
        let most = getrlimit(resource)
            .maximum
            .map_or(most, |maximum| maximum.min(most));
        let (current, maximum) = (Some(most), Some(most));
        (resource, Rlimit { current, maximum })
    };
    let mut all = vec![
        limit(Resource::Core, 0),
        limit(Resource::Fsize, bounds.file_size),
        limit(Resource::Nofile, bounds.open_files),
        // Counted only in the namespace of the command, including its first process.
        limit(Resource::Nproc, bounds.processes.value().saturating_add(1)),
        limit(Resource::Memlock, 64 << 20),
        limit(Resource::Msgqueue, 800 << 10),
    ];
    all.extend(memory.map(|most| limit(Resource::Data, most)));
    all
}

fn setup(stage: &str, error: io::Error) -> SandboxError {
    SandboxError::Setup {
        stage: stage.to_owned(),
        error,
    }
}

/// The error text for a file that is missing in the sandbox, or whose interpreter is.
pub(super) const NOT_IN_THERE: &str =
    "it, or the interpreter named in its first line, does not exist in the sandbox";

/// The error text for a file that is not a program.
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
fn fault(
    stage: SetupStage,
    error: io::Error,
    spec: &CommandSpec,
    about: &[String],
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
        (SetupStage::Fork, io::ErrorKind::WouldBlock) => setup("starting a process", error),
        (stage, _) => SandboxError::Setup {
            stage: stage.describe(about),
            error,
        },
    }
}

/// Converts the first record into a result.
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
