//! The sandbox `process` built by bubblewrap, for systems that allow only certain programs to create namespaces.
//!
//! A command sees the same files as in the native sandbox. Differences: bubblewrap does not apply Landlock. Commands of
//! one session share no network and no temporary folder. A shell starts the command: it prints the signal that ended
//! the command, drops variables with names that are not valid in a shell, and calls the program by its path. Programs
//! are checked before the start instead of by the kernel, so formats that need a handler of this machine
//! (`binfmt_misc`) are refused. Starting is slower, so bubblewrap is used only if nothing else is available.
//!
//! Bubblewrap itself runs outside the sandbox, so it gets no environment variables. It reads the variables of the
//! command, like all its options, from a file in memory, since every user of this machine can read its command line.

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

/// Usual install locations. A search path could lead to another program of this name.
const INSTALL_PATHS: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// First process of the namespace: a shell that starts the program and ends with it. Bubblewrap's own first process is
/// neither filtered nor unprivileged, and could be inspected by processes of the same user; the shell is filtered and
/// unprivileged like all others.
const SHELL: &str = "/bin/sh";
const SHELL_SCRIPT: &str = "\"$@\"; exit $?";

/// Maximum number of arguments to bubblewrap (`MAX_ARGS`).
const MAX_ARGUMENTS: usize = 9_000;

/// Number of file descriptors reserved for this process in addition to the open ones: pipes, groups, and those that
/// other commands open meanwhile.
const RESERVED_FDS: usize = 64;

/// Returns the path of bubblewrap if it is installed.
pub(super) fn find() -> Option<&'static Path> {
    INSTALL_PATHS
        .map(Path::new)
        .into_iter()
        .find(|path| path.is_file())
}

/// A command ready to be started by bubblewrap.
struct BubblewrapCommand {
    command: Command,
    /// Descriptors that stay open during the start.
    inherited: Vec<OwnedFd>,
    root: RootPlan,
}

impl ProcessSandbox {
    /// Starts a command with bubblewrap.
    pub(super) async fn start_wrapped(
        &self,
        bwrap: &Path,
        spec: &CommandSpec,
        trial: TrialResult,
    ) -> Result<SandboxChild, SandboxError> {
        let preparation_failed = SandboxError::io_error("cannot prepare a command");
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
        let ((status, to_status), (held_back, go)) = pipes()
            .and_then(|one| Ok((one, pipes()?)))
            .map_err(preparation_failed)?;
        let inherited = vec![("--json-status-fd", to_status), ("--block-fd", held_back)];
        let mut ready = self.wrap(bwrap, spec, trial, inherited)?;
        let groups = self.groups.make(&spec.bounds, cgroup::FIRST_PROCESS)?;
        let mut child = ready.command.spawn().map_err(spawn_error)?;
        drop(ready.inherited);
        let no_status = SandboxError::io_error("cannot read the status of bubblewrap");
        let mut report =
            BubblewrapReport::new(pipe::Receiver::from_owned_fd(status).map_err(no_status)?);
        let Ok(Some(first)) = timeout(SETUP_TIMEOUT, report.process()).await else {
            return Err(startup_error(&mut child).await);
        };
        let closed = || {
            SandboxError::io_error("a command has no input or output")(
                io::ErrorKind::BrokenPipe.into(),
            )
        };
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on, dropping `handle` kills the command.
        let mut handle = BubblewrapHandle::new(child, first, report, groups)?;
        handle.set_limits(&limits(&spec.bounds, self.memory_per_process(&spec.bounds)))?;
        if let Some(proxy) = &spec.proxy {
            let proxy_task = handle.open_proxy(proxy).await;
            handle.proxy_task = Some(proxy_task.map_err(SandboxError::io_error(
                "cannot connect the proxy of a command",
            ))?);
        }
        rustix::io::write(&go, b"0")
            .map_err(|error| SandboxError::io_error("cannot start a command")(error.into()))?;
        Ok(SandboxChild {
            stdin: input_writer(stdin),
            stdout: Box::new(stdout.ok_or_else(closed)?),
            stderr: Box::new(stderr.ok_or_else(closed)?),
            handle: Box::new(handle),
            masked: ready.root.covered,
        })
    }

    /// Builds the command line and the descriptors that it refers to. `more` contains further options with a
    /// descriptor.
    fn wrap(
        &self,
        bwrap: &Path,
        spec: &CommandSpec,
        trial: TrialResult,
        more: Vec<(&'static str, OwnedFd)>,
    ) -> Result<BubblewrapCommand, SandboxError> {
        let filter = self.filter_for(spec)?;
        let program =
            program_lookup::resolve_program(&spec.program, &self.view.path, &spec.directory)?;
        let variables = self.variables(spec, PROXY)?;
        let root = RootPlan::new(&self.view, spec, trial, None)?;
        if !spec.directory.is_dir() || !program_image::is_visible_in(&root, &spec.directory) {
            return Err(SandboxError::NoDirectory(
                spec.directory.display().to_string(),
            ));
        }
        program_image::check_runnable(&program, &spec.directory, &root)?;
        check_fd_limit(&root)?;
        let SandboxIdentity { user, group } = SandboxIdentity::for_commands();
        let mut bwrap_args = BubblewrapArguments::default();
        for (name, value) in &variables {
            bwrap_args.option("--setenv", name);
            bwrap_args.arg(value);
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
            bwrap_args.arg(option);
        }
        bwrap_args.option("--cap-drop", "ALL");
        bwrap_args.option("--hostname", "mimir");
        bwrap_args.option("--uid", user.to_string());
        bwrap_args.option("--gid", group.to_string());
        bwrap_args.root(&root, trial).map_err(preparation_error)?;
        let filter: Vec<u8> = filter
            .iter()
            .flat_map(bubblewrap_arguments::instruction)
            .collect();
        let file = bubblewrap_arguments::memory_file(&filter).map_err(SandboxError::io_error(
            "cannot prepare the system call filter",
        ))?;
        bwrap_args.fd_option("--seccomp", file);
        for (option, fd) in more {
            bwrap_args.fd_option(option, fd);
        }
        bwrap_args.option("--chdir", &spec.directory);
        let shell = [SHELL, "-c", SHELL_SCRIPT, SHELL];
        let arguments = program.arguments.get(1..).unwrap_or_default();
        // Bubblewrap's own name, `--args`, the descriptor, `--` and the program.
        let count = bwrap_args.args.len() + shell.len() + arguments.len() + 5;
        if count > MAX_ARGUMENTS {
            return Err(too_many_resources(format!(
                "bubblewrap takes at most {MAX_ARGUMENTS} arguments, but {count} are needed: one for each argument of the \
                 command, and up to five for each file that is read-only or hidden",
            )));
        }
        let inherited = bwrap_args.into_fds().map_err(preparation_error)?;
        let mut command = Command::new(bwrap);
        command
            .arg("--args")
            .arg(inherited.args_file.as_raw_fd().to_string())
            .arg("--")
            .args(shell)
            .arg(&program.file)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(spec.stdin.stdio())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let inherited = inherited.into_fds();
        sys::inherit_fds(
            command.as_std_mut(),
            inherited.iter().map(AsRawFd::as_raw_fd).collect(),
        );
        Ok(BubblewrapCommand {
            command,
            inherited,
            root,
        })
    }

    /// Runs a test command that does nothing. Fails with the reason.
    pub(super) fn try_wrapped(
        &self,
        bwrap: &Path,
        spec: &CommandSpec,
        trial: TrialResult,
    ) -> Result<(), String> {
        let mut ready = self
            .wrap(bwrap, spec, trial, Vec::new())
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
        let mut message = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            // All writers of the pipe have ended with the child.
            let _ = stderr.take(4096).read_to_end(&mut message);
        }
        Err(last_line(&message))
    }
}

/// Returns true if the process ends within `time_limit`.
fn ends_within(child: &std::process::Child, time_limit: Duration) -> io::Result<bool> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let until = Timespec::try_from(time_limit).map_err(io::Error::other)?;
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&until))?;
    Ok(ended > 0)
}

/// Checks that the limit of open files is sufficient for bubblewrap.
fn check_fd_limit(root: &RootPlan) -> Result<(), SandboxError> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let open_fds = Path::new("/proc/self/fd").read_dir();
    let open_fds = open_fds.map_or(0, Iterator::count);
    let inherited = bubblewrap_arguments::count_fds(&root.steps);
    if inherited + open_fds + RESERVED_FDS > limit {
        return Err(too_many_resources(format!(
            "bubblewrap needs {inherited} open files, most of them for read-only or hidden files in the workspace, \
             but this process may open only {limit}; raise the limit with `ulimit -n {}`",
            (inherited + open_fds + RESERVED_FDS).next_power_of_two()
        )));
    }
    Ok(())
}

fn too_many_resources(why: String) -> SandboxError {
    SandboxError::unsupported(NAME, "so many arguments or files", why)
}

fn preparation_error(error: io::Error) -> SandboxError {
    match Errno::from_io_error(&error) {
        // Other threads may have opened files since the check.
        Some(Errno::MFILE | Errno::NFILE) => {
            too_many_resources(format!("{error}; `ulimit -n` shows the limit"))
        }
        _ => SandboxError::io_error("cannot prepare a command")(error),
    }
}

fn spawn_error(error: io::Error) -> SandboxError {
    match Errno::from_io_error(&error) {
        Some(Errno::TOOBIG) => super::start::arguments_too_long(),
        _ => SandboxError::io_error("cannot start bubblewrap")(error),
    }
}

/// Builds the error for a bubblewrap process that did not start the command.
async fn startup_error(child: &mut tokio::process::Child) -> SandboxError {
    let mut message = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = timeout(SETUP_TIMEOUT, stderr.take(4096).read_to_end(&mut message)).await;
    }
    SandboxError::Setup {
        stage: format!("bubblewrap ({})", last_line(&message)),
        error: io::ErrorKind::Other.into(),
    }
}

fn last_line(message: &[u8]) -> String {
    let message = String::from_utf8_lossy(message);
    let last = message
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
