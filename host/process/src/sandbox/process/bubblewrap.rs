//! The process sandbox built by bubblewrap, for systems that allow only certain programs to create namespaces.
//!
//! A command sees the same files as in the native sandbox, with these differences. Landlock is missing, since
//! bubblewrap does not apply it. Commands of one session share no network and no temporary folder. A shell starts the
//! command: it writes the signal that ended the command into its output, passes on no variable whose name is not valid
//! in a shell, and calls the program by its path. Files are checked to be programs before the start, instead of by the
//! kernel: formats that only a handler of this machine runs (`binfmt_misc`) are refused. It is slower to start, and is
//! used only if nothing else is available.
//!
//! Bubblewrap itself runs outside the sandbox, so it is started without any variables. It reads those of the command,
//! like all its options, from a file in memory, because every user of this machine can read its command line.

mod bubblewrap_arguments;
mod bubblewrap_handle;
mod program_image;

use std::io::{self, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::time::timeout;

use super::cgroup;
use super::root_plan::{RootPlan, SandboxIdentity};
use super::start::limits;
use super::{NAME, ProcessSandbox, SETUP_TIMEOUT, TrialResult};
use crate::sandbox::environment::PROXY;
use crate::sandbox::{CommandSpec, SandboxChild, SandboxError, input_writer, program_lookup, sys};
use bubblewrap_arguments::BubblewrapArguments;
use bubblewrap_handle::{BubblewrapHandle, BubblewrapReport};

/// The usual install locations. A search path could lead to another program of this name.
const INSTALL_PATHS: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// The first process of the namespace: a shell that starts the program and ends with it. Bubblewrap's own first
/// process is neither filtered nor unprivileged, and processes of the same user can inspect it; the shell is filtered
/// and unprivileged like all others.
const SHELL: &str = "/bin/sh";
const SHELL_SCRIPT: &str = "\"$@\"; exit $?";

/// The maximum number of arguments that bubblewrap takes (`MAX_ARGS`).
const MAX_ARGUMENTS: usize = 9_000;

/// The number of file descriptors reserved for the rest of this process, in addition to the open ones: pipes, groups,
/// and those that other commands open in the meantime.
const RESERVED_FDS: usize = 64;

/// Returns the path of bubblewrap if it is installed.
pub(super) fn find() -> Option<&'static Path> {
    INSTALL_PATHS
        .map(Path::new)
        .into_iter()
        .find(|path| path.is_file())
}

/// A command that is ready to be started by bubblewrap.
struct BubblewrapCommand {
    command: Command,
    /// The descriptors that stay open during the start.
    handed: Vec<OwnedFd>,
    root: RootPlan,
}

impl ProcessSandbox {
    /// Starts a command with bubblewrap.
    pub(super) async fn start_wrapped(
        &self,
        bwrap: &Path,
        spec: &CommandSpec,
        gives: TrialResult,
    ) -> Result<SandboxChild, SandboxError> {
        let failed = SandboxError::io_error("a command could not be prepared");
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
        let ((status, to_status), (held_back, go)) = pipes()
            .and_then(|one| Ok((one, pipes()?)))
            .map_err(failed)?;
        let handed = vec![("--json-status-fd", to_status), ("--block-fd", held_back)];
        let mut ready = self.wrap(bwrap, spec, gives, handed)?;
        let groups = self.groups.make(&spec.bounds, cgroup::FIRST)?;
        let mut child = ready.command.spawn().map_err(not_started)?;
        drop(ready.handed);
        let no_status = SandboxError::io_error("the status of bubblewrap cannot be read");
        let mut report =
            BubblewrapReport::new(pipe::Receiver::from_owned_fd(status).map_err(no_status)?);
        let Ok(Some(first)) = timeout(SETUP_TIMEOUT, report.process()).await else {
            return Err(setup(&mut child).await);
        };
        let closed = || {
            SandboxError::io_error("a command has no input or output")(
                io::ErrorKind::BrokenPipe.into(),
            )
        };
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on, dropping `held` kills the command.
        let mut held = BubblewrapHandle::new(child, first, report, groups)?;
        held.set_limits(&limits(&spec.bounds, self.memory_per_process(&spec.bounds)))?;
        if let Some(proxy) = &spec.proxy {
            let serving = held.open_proxy(proxy).await;
            held.serving = Some(serving.map_err(SandboxError::io_error(
                "the proxy of a command cannot be connected",
            ))?);
        }
        rustix::io::write(&go, b"0").map_err(|error| {
            SandboxError::io_error("a command could not be started")(error.into())
        })?;
        Ok(SandboxChild {
            stdin: input_writer(stdin),
            stdout: Box::new(stdout.ok_or_else(closed)?),
            stderr: Box::new(stderr.ok_or_else(closed)?),
            handle: Box::new(held),
            masked: ready.root.covered,
        })
    }

    /// Builds the command line and the descriptors that it refers to. `more` are options that take a descriptor.
    fn wrap(
        &self,
        bwrap: &Path,
        spec: &CommandSpec,
        gives: TrialResult,
        more: Vec<(&'static str, OwnedFd)>,
    ) -> Result<BubblewrapCommand, SandboxError> {
        let filter = self.filter.as_ref();
        let filter = filter.map_err(|why| SandboxError::Unavailable {
            sandbox: NAME,
            why: why.clone(),
        })?;
        let found =
            program_lookup::resolve_program(&spec.program, &self.view.path, &spec.directory)?;
        let variables = self.variables(spec, PROXY)?;
        let root = RootPlan::new(&self.view, spec, gives, None)?;
        if !spec.directory.is_dir() || !program_image::is_in(&root, &spec.directory) {
            return Err(SandboxError::NoDirectory(
                spec.directory.display().to_string(),
            ));
        }
        program_image::check_runnable(&found, &spec.directory, &root)?;
        room(&root)?;
        let SandboxIdentity { user, group } = SandboxIdentity::of_sandbox();
        let mut words = BubblewrapArguments::default();
        for (name, value) in &variables {
            words.option("--setenv", name);
            words.word(value);
        }
        for option in [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            "--as-pid-1",
        ] {
            words.word(option);
        }
        words.option("--cap-drop", "ALL");
        words.option("--hostname", "mimir");
        words.option("--uid", user.to_string());
        words.option("--gid", group.to_string());
        words.root(&root, gives).map_err(prepared)?;
        let filter: Vec<u8> = filter
            .iter()
            .flat_map(bubblewrap_arguments::instruction)
            .collect();
        let file = bubblewrap_arguments::memory_file(&filter)
            .map_err(SandboxError::io_error("a filter could not be prepared"))?;
        words.fd_option("--seccomp", file);
        for (option, descriptor) in more {
            words.fd_option(option, descriptor);
        }
        words.option("--chdir", &spec.directory);
        let own = [SHELL, "-c", SHELL_SCRIPT, SHELL];
        let arguments = found.arguments.get(1..).unwrap_or_default();
        // The program's own name, `--args`, the descriptor, `--` and the shell.
        let all = words.words.len() + own.len() + arguments.len() + 5;
        if all > MAX_ARGUMENTS {
            return Err(too_much(format!(
                "bubblewrap takes at most {MAX_ARGUMENTS} arguments, but {all} are needed: one for each argument of the \
                 command, and up to five for each file that is read-only or hidden",
            )));
        }
        let handed = words.into_fds().map_err(prepared)?;
        let mut command = Command::new(bwrap);
        command
            .arg("--args")
            .arg(handed.words.as_raw_fd().to_string())
            .arg("--")
            .args(own)
            .arg(&found.file)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(spec.stdin.stdio())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let handed = handed.all();
        sys::inherit_fds(
            command.as_std_mut(),
            handed.iter().map(AsRawFd::as_raw_fd).collect(),
        );
        Ok(BubblewrapCommand {
            command,
            handed,
            root,
        })
    }

    /// Runs a command that does nothing.
    pub(super) fn try_wrapped(
        &self,
        bwrap: &Path,
        spec: &CommandSpec,
        gives: TrialResult,
    ) -> Result<(), String> {
        let mut ready = self
            .wrap(bwrap, spec, gives, Vec::new())
            .map_err(|fault| fault.to_string())?;
        let command = ready
            .command
            .as_std_mut()
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if !ends_within(&child, SETUP_TIMEOUT).map_err(|error| error.to_string())? {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "it did not finish within {} s",
                SETUP_TIMEOUT.as_secs()
            ));
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(());
        }
        let mut said = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            // All writers of the pipe have ended with it.
            let _ = stderr.take(4096).read_to_end(&mut said);
        }
        Err(last_line(&said))
    }
}

/// Returns true if the process ends within `most`.
fn ends_within(child: &std::process::Child, most: Duration) -> io::Result<bool> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let until = Timespec::try_from(most).map_err(io::Error::other)?;
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&until))?;
    Ok(ended > 0)
}

/// Checks that the limit of open files allows for the descriptors that bubblewrap needs.
fn room(root: &RootPlan) -> Result<(), SandboxError> {
    let Some(most) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let open = Path::new("/proc/self/fd").read_dir();
    let open = open.map_or(0, Iterator::count);
    let handed = bubblewrap_arguments::count_fds(&root.steps);
    if handed + open + RESERVED_FDS > most {
        return Err(too_much(format!(
            "bubblewrap needs {handed} open files, most of them for read-only or hidden files in the workspace, \
             but this process may open only {most}; raise the limit with `ulimit -n {}`",
            (handed + open + RESERVED_FDS).next_power_of_two()
        )));
    }
    Ok(())
}

fn too_much(why: String) -> SandboxError {
    SandboxError::unsupported(NAME, "so many arguments or files", why)
}

fn prepared(error: io::Error) -> SandboxError {
    match Errno::from_io_error(&error) {
        // Other threads may have opened files since they were counted.
        Some(Errno::MFILE | Errno::NFILE) => {
            too_much(format!("{error}; `ulimit -n` shows the limit"))
        }
        _ => SandboxError::io_error("a command could not be prepared")(error),
    }
}

fn not_started(error: io::Error) -> SandboxError {
    match Errno::from_io_error(&error) {
        Some(Errno::TOOBIG) => super::start::arguments_too_long(),
        _ => SandboxError::io_error("bubblewrap cannot be started")(error),
    }
}

/// Builds the error for a bubblewrap process that did not start the command.
async fn setup(child: &mut tokio::process::Child) -> SandboxError {
    let mut said = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = timeout(SETUP_TIMEOUT, stderr.take(4096).read_to_end(&mut said)).await;
    }
    SandboxError::Setup {
        stage: format!("bubblewrap ({})", last_line(&said)),
        error: io::ErrorKind::Other.into(),
    }
}

fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let last = said
        .trim()
        .lines()
        .next_back()
        .unwrap_or("no error message");
    mimir_core::text::visible(last.trim_start_matches("bwrap: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_that_hangs_times_out() {
        let sleeping = |seconds: &str| std::process::Command::new("sleep").arg(seconds).spawn();
        let soon = Duration::from_millis(50);
        let mut long = sleeping("60").unwrap();
        assert!(!ends_within(&long, soon).unwrap());
        long.kill().unwrap();
        long.wait().unwrap();
        let mut short = sleeping("0").unwrap();
        assert!(ends_within(&short, SETUP_TIMEOUT).unwrap());
        short.wait().unwrap();
    }
}
