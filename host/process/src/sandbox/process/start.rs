//! From a [`Spec`] to a command that runs.

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

/// A command that was forked and has not said yet whether it runs.
struct Forked {
    held: Held,
    /// The end that its standard input is written to, unless that is the null device.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// The socket that its proxy listens on, if it has one.
    listener: Option<Lease>,
    /// What each step of the child was about.
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

    /// Makes the plan and forks.
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
            // In the namespace of the session it is who it is to be already.
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

    /// The variables that a command has.
    pub(super) fn variables(&self, spec: &Spec, proxy: u16) -> Result<Variables, Fault> {
        let (path, home) = (&self.view.path, &self.view.home);
        let mut variables = self
            .ambient
            .of(spec, path, home, Path::new("/tmp"), proxy)?;
        // Where git looks by itself depends on how it was built.
        variables.insert("GIT_CONFIG_SYSTEM".into(), "/etc/gitconfig".into());
        Ok(variables)
    }

    /// Runs a command that does nothing, to see whether one can be run, and who has to make the sandbox.
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
            all.push("bubblewrap, which some systems let, is not installed".to_owned());
        }
        Err(all.join("; "))
    }

    /// Who could make a sandbox here, the better one first.
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

/// The groups of a command, while it runs.
pub(super) enum Hold {
    Own(Groups),
    Lent(Lent),
}

/// The first process of the namespace, a child of this process, when the process between has ended. From then on that
/// one is not counted in the control groups of the command, and the program may start.
fn first_of(between: &OwnedFd, here: &OwnedFd) -> io::Result<OwnedFd> {
    // Whether anybody hears of its end or not: it has said what came of it.
    let _ = waitid(WaitId::PidFd(between.as_fd()), WaitIdOptions::EXITED);
    let first = wire::take(here)?.pop().ok_or(io::ErrorKind::BrokenPipe)?;
    wire::let_go(here);
    Ok(first)
}

impl Hold {
    /// Forks the process between.
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

/// A folder that is there on every machine, and in which nothing is looked for.
fn tempfile_free_folder() -> std::path::PathBuf {
    std::env::temp_dir()
        .canonicalize()
        .unwrap_or_else(|_| "/tmp".into())
}

fn c_string(bytes: Vec<u8>) -> io::Result<std::ffi::CString> {
    Ok(std::ffi::CString::new(bytes)?)
}

/// The limits that everything in a command inherits. `memory` is that of each process, where nothing else bounds it.
///
/// It is a limit of data (`RLIMIT_DATA`): what a process may write to and does not share. One of its addresses
/// (`RLIMIT_AS`) would stop node, java and go, which reserve far more than they use.
pub(super) fn limits(bounds: &Bounds, memory: Option<u64>) -> Vec<(Resource, Rlimit)> {
    let limit = |resource: Resource, most: u64| {
        // A bound that is tighter already stays.
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
        // Counted in the namespace of the command alone, together with its first process.
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

/// What is said of a file that the sandbox does not have, or whose interpreter it does not have.
pub(super) const NOT_IN_THERE: &str =
    "it, or the program that its first line names, is not in the sandbox";

/// What is said of a file that holds something else.
pub(super) const NO_PROGRAM: &str =
    "it is neither a program for this machine nor a script that begins with `#!`";

/// Arguments and variables that the kernel takes from nobody.
pub(super) fn too_long() -> Fault {
    Fault::Unfit {
        what: "the arguments".to_owned(),
        why: "together with the variables they are longer than the system allows",
    }
}

/// What a failure means to whoever asked for the command.
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

/// What a record at the start means.
pub(super) fn begun(record: Option<Record>) -> Result<(), (Stage, io::Error)> {
    match record {
        Some(Record::Started) => Ok(()),
        Some(Record::Failed(stage, errno)) => Err((stage, errno.into())),
        // It was killed before it could say anything.
        Some(Record::Exited(_)) | None => Err((Stage::Fork, io::ErrorKind::BrokenPipe.into())),
    }
}

/// Reads one record.
pub(super) async fn record(status: &mut pipe::Receiver) -> Option<Record> {
    let mut bytes = [0; Record::BYTES];
    status.read_exact(&mut bytes).await.ok()?;
    Record::read(bytes)
}
