//! Starts a command from its [`Spec`].

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use mimir_core::command::Program;
use rustix::fd::{AsFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, WaitId, WaitIdOptions, getrlimit, waitid};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::berth::Lent;
use super::cgroup::{self, Groups};
use super::handle::Held;
use super::landlock::Landlock;
use super::plan::{Plan, Record, Stage, c_path};
use super::root::{Identity, Root};
use super::shared::{Lease, Shared};
use super::{By, Gives, NAME, ProcessSandbox, SETUP_MOST, bubblewrap, inside};
use crate::sandbox::environment::{PROXY, Variables};
use crate::sandbox::sys::{self, Pointers};
use crate::sandbox::{Bounds, Child, Fault, Seen, Spec, find, input_writer, wire};

/// A forked command that has not yet reported that its program runs.
struct Forked {
    held: Held,
    /// The write end of its standard input, unless that is the null device.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// The socket that its proxy listens on, if it has one.
    listener: Option<Lease>,
    /// A description of each step of the child.
    about: Vec<String>,
    covered: Vec<Seen>,
}

impl ProcessSandbox {
    pub(super) async fn start_with(&self, spec: &Spec, gives: Gives) -> Result<Child, Fault> {
        let mut forked = self.fork(spec, gives)?;
        let doing = "the output of a command cannot be read";
        match timeout(SETUP_MOST, forked.held.started()).await {
            Ok(Ok(())) => {}
            Ok(Err((stage, error))) => return Err(fault(stage, error, spec, &forked.about)),
            Err(_) => return Err(setup("waiting for it", io::ErrorKind::TimedOut.into())),
        }
        if let (Some(lease), Some(proxy)) = (forked.listener, &spec.proxy) {
            let serving = lease
                .socket()
                .and_then(|socket| wire::Serving::begin(socket, proxy.clone()));
            let serving = serving.map_err(Fault::io("the proxy of a command cannot listen"))?;
            forked.held.hold(serving, lease);
        }
        let reader = |fd: OwnedFd| pipe::Receiver::from_owned_fd(fd).map_err(Fault::io(doing));
        let writer = forked.stdin.map(pipe::Sender::from_owned_fd).transpose();
        Ok(Child {
            stdin: input_writer(writer.map_err(Fault::io(doing))?),
            stdout: Box::new(reader(forked.stdout)?),
            stderr: Box::new(reader(forked.stderr)?),
            handle: Box::new(forked.held),
            covered: forked.covered,
        })
    }

    /// Prepares the plan and forks.
    fn fork(&self, spec: &Spec, gives: Gives) -> Result<Forked, Fault> {
        let filter = self
            .filter
            .clone()
            .map_err(|why| Fault::Unavailable { sandbox: NAME, why })?;
        let found = find::resolve(&spec.program, &self.view.path, &spec.directory)?;
        let failed = |error| setup("making the network and the temporary folder", error);
        let shared = match &spec.session {
            Some(session) => session.shared(Shared::new),
            None => Shared::new().map(Arc::new),
        };
        let shared = shared.map_err(failed)?;
        let temporary = shared.folder().map_err(failed)?;
        let listener = match &spec.proxy {
            Some(_) => Some(
                shared
                    .listener()
                    .map_err(Fault::io("the proxy of a command cannot listen"))?,
            ),
            None => None,
        };
        let variables = self.variables(spec, listener.as_ref().map_or(PROXY, Lease::port))?;
        let root = Root::new(&self.view, spec, gives, Some(temporary))?;
        let landlock = self
            .landlock
            .map(|abi| Landlock::new(abi, &root.writable))
            .transpose();
        let groups = match self.groups.is_first() {
            true => Hold::Lent(self.berths.take(&self.groups, &spec.bounds)?),
            false => Hold::Own(self.groups.make(&spec.bounds, cgroup::FIRST)?),
        };
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
        type Outside = (Option<OwnedFd>, OwnedFd, OwnedFd);
        let make = || -> io::Result<(Plan, Outside, OwnedFd, OwnedFd, OwnedFd)> {
            let (stdin, to_stdin) = match spec.stdin.is_null() {
                true => (std::fs::File::open("/dev/null")?.into(), None),
                false => pipes().map(|(stdin, to_stdin)| (stdin, Some(to_stdin)))?,
            };
            let (from_stdout, stdout) = pipes()?;
            let (from_stderr, stderr) = pipes()?;
            let (status, to_status) = pipes()?;
            let (lifeline, life) = pipes()?;
            let (here, door) = wire::door()?;
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
            let identity = Identity::inside();
            // In the session's user namespace the process already has its final ids.
            let map = |id: u32| format!("{id} {id} 1").into_bytes();
            let plan = Plan {
                called: self.called.clone(),
                uid_map: map(identity.user),
                gid_map: map(identity.group),
                steps: root.steps,
                directory: c_path(&spec.directory)?,
                landlock: landlock?,
                limits: limits(&spec.bounds, self.memory_of_each(&spec.bounds)),
                filter,
                program: c_path(&found.file)?,
                arguments: Pointers::new(arguments.collect::<io::Result<_>>()?),
                environment: Pointers::new(variables.collect::<io::Result<_>>()?),
                stdin,
                stdout,
                stderr,
                status: to_status,
                lifeline,
                shared,
                door,
                stack: vec![0; Plan::STACK],
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
            make().map_err(Fault::io("a command could not be prepared"))?;
        let pidfd = groups
            .fork(plan)
            .and_then(|between| first_of(&between, &here))
            .map_err(|error| setup("making its namespaces", error))?;
        let held = Held::new(pidfd, status, life, groups)
            .map_err(Fault::io("a command cannot be waited for"))?;
        Ok(Forked {
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
    pub(super) fn variables(&self, spec: &Spec, proxy: u16) -> Result<Variables, Fault> {
        let (path, home) = (&self.view.path, &self.view.home);
        let mut variables = self
            .ambient
            .of(spec, path, home, Path::new("/tmp"), proxy)?;
        // The default path of this file depends on how git was built.
        variables.insert("GIT_CONFIG_SYSTEM".into(), "/etc/gitconfig".into());
        Ok(variables)
    }

    /// Runs a command that does nothing, to find out if and by which builder commands can run.
    pub(super) fn try_out(&self) -> Result<Gives, String> {
        let workspace = tempfile_free_folder();
        let mut spec = Spec::new(Program::Vector(vec!["true".into()]), workspace);
        spec.shield = mimir_core::paths::PathRules::none();
        let mut all = Vec::new();
        for by in self.makers() {
            let mut last = String::new();
            for proc in [true, false] {
                let gives = Gives { by, proc };
                let tried = match by {
                    By::Us => self.try_forked(&spec, gives),
                    By::Bubblewrap(bwrap) => self.try_wrapped(bwrap, &spec, gives),
                };
                match tried {
                    Ok(()) => return Ok(gives),
                    Err(why) => last = why,
                }
            }
            all.push(match by {
                By::Us => last,
                By::Bubblewrap(_) => format!("bubblewrap: {last}"),
            });
        }
        if bubblewrap::find().is_none() {
            all.push("bubblewrap, which works on some systems that restrict namespaces, is not installed".to_owned());
        }
        Err(all.join("; "))
    }

    /// Returns the available sandbox builders, best first.
    fn makers(&self) -> impl Iterator<Item = By> {
        let us = (!self.wrapped).then_some(By::Us);
        us.into_iter().chain(bubblewrap::find().map(By::Bubblewrap))
    }

    fn try_forked(&self, spec: &Spec, gives: Gives) -> Result<(), String> {
        let mut forked = self.fork(spec, gives).map_err(|fault| fault.to_string())?;
        let started = forked.held.started_blocking();
        started.map_err(|(stage, error)| format!("{}: {error}", stage.words(&forked.about)))
    }
}

/// The control groups of a running command.
pub(super) enum Hold {
    Own(Groups),
    Lent(Lent),
}

/// Waits for the intermediate process and returns the pidfd of the first process of the namespace, a child of this
/// process. After that the control groups no longer count the intermediate process, and the program may start.
fn first_of(between: &OwnedFd, here: &OwnedFd) -> io::Result<OwnedFd> {
    // The exit status does not matter: the result arrives through the socket.
    let _ = waitid(WaitId::PidFd(between.as_fd()), WaitIdOptions::EXITED);
    let first = wire::take(here)?.pop().ok_or(io::ErrorKind::BrokenPipe)?;
    wire::let_go(here);
    Ok(first)
}

impl Hold {
    /// Forks the intermediate process.
    fn fork(&self, mut plan: Plan) -> io::Result<OwnedFd> {
        match self {
            Self::Own(groups) => {
                let group = groups.begins_in()?;
                let group = group.as_ref().map(OwnedFd::as_fd);
                sys::fork(0, group, &mut plan, inside::enter)
            }
            Self::Lent(lent) => lent.run(move || sys::fork(0, None, &mut plan, inside::enter))?,
        }
    }

    pub(super) fn out_of_memory(&self) -> bool {
        match self {
            Self::Own(groups) => groups.out_of_memory(),
            Self::Lent(lent) => lent.out_of_memory(),
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
pub(super) fn limits(bounds: &Bounds, memory: Option<u64>) -> Vec<(Resource, Rlimit)> {
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

fn setup(stage: &str, error: io::Error) -> Fault {
    Fault::Setup {
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
pub(super) fn too_long() -> Fault {
    Fault::Unfit {
        what: "the arguments".to_owned(),
        why: "together with the environment they are longer than the system allows",
    }
}

/// Converts a failed stage into an error for the caller.
fn fault(stage: Stage, error: io::Error, spec: &Spec, about: &[String]) -> Fault {
    let program = match &spec.program {
        Program::Vector(words) => words.first().map_or("", String::as_str),
        Program::Script(_) => "sh",
    };
    let not_executable = |why| Fault::NotExecutable {
        program: program.to_owned(),
        why,
    };
    match (stage, error.kind()) {
        (Stage::Execute, io::ErrorKind::NotFound) => not_executable(NOT_IN_THERE),
        (Stage::Execute, io::ErrorKind::PermissionDenied) => {
            not_executable("the system refuses to run it")
        }
        (Stage::Execute, _) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            not_executable(NO_PROGRAM)
        }
        (Stage::Execute, _) if error.raw_os_error() == Some(libc::E2BIG) => too_long(),
        (Stage::Directory, _) => Fault::NoDirectory(spec.directory.display().to_string()),
        (Stage::Fork, io::ErrorKind::WouldBlock) => setup("starting a process", error),
        (stage, _) => Fault::Setup {
            stage: stage.words(about),
            error,
        },
    }
}

/// Converts the first record into a result.
pub(super) fn begun(record: Option<Record>) -> Result<(), (Stage, io::Error)> {
    match record {
        Some(Record::Started) => Ok(()),
        Some(Record::Failed(stage, errno)) => Err((stage, errno.into())),
        // The process was killed before it could report an error.
        Some(Record::Exited(_)) | None => Err((Stage::Fork, io::ErrorKind::BrokenPipe.into())),
    }
}

/// Reads one record.
pub(super) async fn record(status: &mut pipe::Receiver) -> Option<Record> {
    let mut bytes = [0; Record::BYTES];
    status.read_exact(&mut bytes).await.ok()?;
    Record::read(bytes)
}
