//! No sandbox: the command runs with all permissions of the current user. It must be selected by name.
//!
//! The environment is still built from scratch. On Linux all processes of the command are killed when it ends, unless
//! they hide on purpose: they are found by their process group and by a variable that all of them inherit. Other Unix
//! systems use the group alone, Windows a job object; both compile but are untested. The processes are also killed
//! when mimir itself is killed.

mod tree;
#[cfg(unix)]
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mimir_core::backend::BoxFuture;
use tokio::process::Command;

use super::environment::{Ambient, PROXY, Variables};
use super::{
    Bounds, Child, Exit, Fault, Handle, Network, Reach, Sandbox, Seen, Spec, find, input_writer,
};

const NAME: &str = "none";

/// The variable that all processes of a command inherit, used to find them.
const MARK: &str = "MIMIR_COMMAND";

/// The sandbox `none`.
#[derive(Debug)]
pub struct NoSandbox {
    ambient: Ambient,
}

impl Default for NoSandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl NoSandbox {
    /// Reads the environment of this process.
    pub fn new() -> Self {
        Self {
            ambient: Ambient::of_this_process(),
        }
    }
}

impl Sandbox for NoSandbox {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gives(&self, _: &Bounds) -> Result<Vec<String>, Fault> {
        let mut lines = Vec::new();
        if cfg!(not(target_os = "linux")) {
            lines.push("untested: it compiles, but has never been run on this system".to_owned());
        }
        lines.push(
            "no limits: commands can use all files, network and processes of the user who runs mimir".to_owned(),
        );
        lines.push(
            "the environment is built from scratch, and a timeout kills all started processes"
                .to_owned(),
        );
        Ok(lines)
    }

    fn shields(&self) -> bool {
        false
    }

    fn has(&self, program: &str, directory: &Path) -> Result<(), Fault> {
        find::program(program, &self.ambient.path, directory)
    }

    fn holds(&self, spec: &Spec) -> Result<(), Fault> {
        let what = if spec.network == Network::Proxy {
            "network access through a proxy"
        } else if let Some(bound) = spec.bounds.asked() {
            bound
        } else if !spec.reach.contains(&Reach::all()) {
            "showing only a part of the workspace"
        } else if !spec.mounts.is_empty() {
            "mounts"
        } else {
            return Ok(());
        };
        Err(Fault::CannotHold {
            sandbox: NAME,
            what,
            why: "commands run without a sandbox".to_owned(),
        })
    }

    fn start<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<Child, Fault>> {
        Box::pin(async move {
            self.holds(spec)?;
            start(&self.ambient, spec)
        })
    }
}

fn start(ambient: &Ambient, spec: &Spec) -> Result<Child, Fault> {
    let found = find::resolve(&spec.program, &ambient.path, &spec.directory)?;
    let home = ambient.home.clone().unwrap_or_else(|| PathBuf::from("/"));
    let temp = std::env::temp_dir();
    let variables = ambient.of(spec, &ambient.path, &home, &temp, PROXY)?;
    let file = if found.file.is_absolute() {
        found.file
    } else {
        spec.directory.join(found.file)
    };
    let mut command = Command::new(file);
    command.args(found.arguments.get(1..).unwrap_or_default());
    #[cfg(unix)]
    if let Some(name) = found.arguments.first() {
        command.arg0(name);
    }
    run(command, variables, spec, Lead::Group)
        .map_err(|error| refused(error, spec, &found.arguments))?
        .child(Vec::new())
}

/// The unit that a started program leads. Its descendants belong to the same unit and are killed with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// A process group.
    Group,
    /// A session, which has no terminal to type into.
    #[cfg(target_os = "macos")]
    Session,
}

/// Starts a program with only these variables. The returned handle covers all its descendants.
pub(super) fn run(
    mut command: Command,
    variables: Variables,
    spec: &Spec,
    lead: Lead,
) -> io::Result<Running> {
    let mark = mark();
    #[cfg(unix)]
    let mut watch = watch::Watch::begin(&format!("{MARK}={mark}"))?;
    command
        .env_clear()
        .envs(variables)
        .env(MARK, &mark)
        .current_dir(&spec.directory)
        .stdin(spec.stdin.stdio())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    match lead {
        #[cfg(unix)]
        Lead::Group => {
            command.process_group(0);
        }
        #[cfg(not(unix))]
        Lead::Group => {}
        #[cfg(target_os = "macos")]
        Lead::Session => tree::leads_session(&mut command),
    }
    let process = tree::spawn(command)?;
    let group = process.id();
    #[cfg(unix)]
    if let Some(group) = group {
        watch.follow(group)?;
    }
    Ok(Running {
        group,
        process,
        mark,
        exit: None,
        #[cfg(unix)]
        watch: Some(watch),
    })
}

fn refused(error: io::Error, spec: &Spec, arguments: &[String]) -> Fault {
    let program = arguments.first().cloned().unwrap_or_default();
    match error.kind() {
        _ if !spec.directory.is_dir() => Fault::NoDirectory(spec.directory.display().to_string()),
        io::ErrorKind::PermissionDenied => Fault::NotExecutable {
            program,
            why: "the system refuses to run it",
        },
        io::ErrorKind::NotFound => Fault::NotExecutable {
            program,
            why: "the interpreter named in its first line does not exist",
        },
        _ => Fault::io("a command could not be started")(error),
    }
}

/// Returns a unique value for [`MARK`].
pub(super) fn mark() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_nanos());
    format!(
        "{}-{}-{now}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A running command and all its descendants.
pub(super) struct Running {
    process: tree::Process,
    group: Option<u32>,
    mark: String,
    exit: Option<Exit>,
    /// Kills the command when this process dies.
    #[cfg(unix)]
    watch: Option<watch::Watch>,
}

impl Running {
    /// Converts it to the type that every sandbox returns.
    pub(super) fn child(mut self, covered: Vec<Seen>) -> Result<Child, Fault> {
        let (stdin, stdout, stderr) = tree::pipes(&mut self.process).ok_or_else(|| {
            Fault::io("a command has no input or output")(io::ErrorKind::BrokenPipe.into())
        })?;
        Ok(Child {
            stdin: input_writer(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            handle: Box::new(self),
            covered,
        })
    }

    async fn ended(&mut self) -> Result<Exit, Fault> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let status = tree::wait(&mut self.process)
            .await
            .map_err(Fault::io("a command cannot be waited for"))?;
        // Background processes that it left behind are killed with it.
        signal(self.group, &self.mark, Signal::Kill);
        let exit = Exit {
            code: code(status),
            out_of_memory: false,
        };
        self.exit = Some(exit);
        #[cfg(unix)]
        {
            self.watch = None;
        }
        Ok(exit)
    }
}

impl Handle for Running {
    fn wait(&mut self) -> BoxFuture<'_, Result<Exit, Fault>> {
        Box::pin(self.ended())
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        signal(self.group, &self.mark, Signal::Terminate);
        Box::pin(std::future::ready(()))
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        signal(self.group, &self.mark, Signal::Kill);
        let _ = self.process.start_kill();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.exit.is_none() {
            signal(self.group, &self.mark, Signal::Kill);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Terminate,
    Kill,
}

#[cfg(unix)]
fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(1)
}

#[cfg(not(unix))]
fn code(status: std::process::ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

/// The number of scans for processes of a command: it may start more of them during a scan.
#[cfg(target_os = "linux")]
const ROUNDS: usize = 50;

/// Signals the process group of the command and all processes that carry its mark.
#[cfg(target_os = "linux")]
fn signal(group: Option<u32>, mark: &str, signal: Signal) {
    use rustix::process::{Pid, kill_process, kill_process_group};
    let number = match signal {
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    let pid = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw);
    if let Some(group) = group.and_then(pid) {
        let _ = kill_process_group(group, number);
    }
    let wanted = format!("{MARK}={mark}");
    for _ in 0..ROUNDS {
        let found: Vec<u32> = marked(wanted.as_bytes()).collect();
        for id in &found {
            if let Some(pid) = pid(*id) {
                let _ = kill_process(pid, number);
            }
        }
        if found.is_empty() || signal == Signal::Terminate {
            return;
        }
    }
}

/// Returns the live processes that have this environment variable.
#[cfg(target_os = "linux")]
fn marked(variable: &[u8]) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let variables = std::fs::read(entry.path().join("environ")).ok()?;
        variables
            .split(|byte| *byte == 0)
            .any(|one| one == variable)
            .then_some(id)
    })
}

/// Signals the process group of the command.
#[cfg(all(unix, not(target_os = "linux")))]
fn signal(group: Option<u32>, _: &str, signal: Signal) {
    use rustix::process::{Pid, kill_process_group};
    let number = match signal {
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    let group = group.and_then(|id| i32::try_from(id).ok());
    if let Some(group) = group.and_then(Pid::from_raw) {
        let _ = kill_process_group(group, number);
    }
}

#[cfg(not(unix))]
fn signal(_: Option<u32>, _: &str, _: Signal) {
    // Dropping the handle closes the job object. Windows has no signal that asks a process to exit.
}
