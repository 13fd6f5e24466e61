//! A process that takes with it what it has started: its group on Unix, a job object on Windows.

use std::io;
use std::process::ExitStatus;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// A process that was started.
#[cfg(not(windows))]
pub(super) type Process = tokio::process::Child;
#[cfg(windows)]
pub(super) type Process = Box<dyn process_wrap::tokio::ChildWrapper>;

#[cfg(not(windows))]
pub(super) fn spawn(mut command: Command) -> io::Result<Process> {
    command.spawn()
}

/// Has it begin a session when it starts, which makes it the leader of a group, too.
#[cfg(target_os = "macos")]
pub(super) fn leads_session(command: &mut Command) {
    let begin = || rustix::process::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: it runs between the fork and the program, where only what is safe in a handler of signals may be called:
    // `setsid` is, and turning its number into an error allocates nothing.
    unsafe { command.pre_exec(begin) };
}

/// Started asleep and put into its job before it runs, so that nothing it starts is outside.
#[cfg(windows)]
pub(super) fn spawn(command: Command) -> io::Result<Process> {
    use process_wrap::tokio::{CommandWrap, JobObject, KillOnDrop};

    CommandWrap::from(command)
        .wrap(KillOnDrop)
        .wrap(JobObject)
        .spawn()
}

/// The pipes of a process. There is none to a standard input that is the null device.
pub(super) type Pipes = (Option<ChildStdin>, ChildStdout, ChildStderr);

#[cfg(not(windows))]
pub(super) fn pipes(process: &mut Process) -> Option<Pipes> {
    let (stdin, stdout) = (process.stdin.take(), process.stdout.take()?);
    Some((stdin, stdout, process.stderr.take()?))
}

#[cfg(windows)]
pub(super) fn pipes(process: &mut Process) -> Option<Pipes> {
    let (stdin, stdout) = (process.stdin().take(), process.stdout().take()?);
    Some((stdin, stdout, process.stderr().take()?))
}

#[cfg(not(windows))]
pub(super) async fn wait(process: &mut Process) -> io::Result<ExitStatus> {
    process.wait().await
}

/// Waits for the command itself; what it has left behind is ended then, not waited for.
#[cfg(windows)]
pub(super) async fn wait(process: &mut Process) -> io::Result<ExitStatus> {
    let status = process.inner_mut().wait().await;
    let _ = process.start_kill();
    status
}
