//! A process tree that is killed as a whole: a process group on Unix, a job object on Windows.

use std::io;
use std::process::ExitStatus;

#[cfg(windows)]
use super::job_limits::JobLimits;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// The root process.
#[cfg(not(windows))]
pub(super) type SpawnedProcess = tokio::process::Child;
#[cfg(windows)]
pub(super) type SpawnedProcess = Box<dyn process_wrap::tokio::ChildWrapper>;

#[cfg(not(windows))]
pub(super) fn spawn(mut command: Command) -> io::Result<SpawnedProcess> {
    command.spawn()
}

/// Makes the command start a new session, which also makes it a group leader.
#[cfg(target_os = "macos")]
#[expect(
    unsafe_code,
    reason = "`pre_exec` is the only way to call `setsid` in the child"
)]
pub(super) fn leads_session(command: &mut Command) {
    let begin = || rustix::process::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe functions are allowed: `setsid` is
    // one, and converting its error code does not allocate.
    unsafe { command.pre_exec(begin) };
}

/// Starts the process suspended and assigns it to its jobs before it runs, so that no child can escape them: the job
/// with the limits, and in it the job that ends with the command.
#[cfg(windows)]
pub(super) fn spawn(command: Command, limits: JobLimits) -> io::Result<SpawnedProcess> {
    use process_wrap::tokio::{CommandWrap, JobObject, KillOnDrop};

    CommandWrap::from(command)
        .wrap(KillOnDrop)
        .wrap(limits)
        .wrap(JobObject)
        .spawn()
}

#[cfg(windows)]
impl process_wrap::tokio::CommandWrapper for JobLimits {
    fn post_spawn(
        &mut self,
        _: &mut Command,
        child: &mut tokio::process::Child,
        _: &process_wrap::tokio::CommandWrap,
    ) -> io::Result<()> {
        // On an error the process is killed on drop, before it has run.
        match child.raw_handle() {
            Some(process) => self.apply(process),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Standard input, output and error of a process. The first is `None` if standard input is the null device.
pub(super) type ProcessPipes = (Option<ChildStdin>, ChildStdout, ChildStderr);

#[cfg(not(windows))]
pub(super) fn pipes(process: &mut SpawnedProcess) -> Option<ProcessPipes> {
    let (stdin, stdout) = (process.stdin.take(), process.stdout.take()?);
    Some((stdin, stdout, process.stderr.take()?))
}

#[cfg(windows)]
pub(super) fn pipes(process: &mut SpawnedProcess) -> Option<ProcessPipes> {
    let (stdin, stdout) = (process.stdin().take(), process.stdout().take()?);
    Some((stdin, stdout, process.stderr().take()?))
}

#[cfg(not(windows))]
pub(super) async fn wait(process: &mut SpawnedProcess) -> io::Result<ExitStatus> {
    process.wait().await
}

/// Waits for the command itself, and kills its background processes.
#[cfg(windows)]
pub(super) async fn wait(process: &mut SpawnedProcess) -> io::Result<ExitStatus> {
    let status = process.inner_mut().wait().await;
    let _ = process.start_kill();
    status
}
