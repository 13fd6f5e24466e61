//! Runs a command from start to end: writes its input, reads its outputs and enforces its timeout.
//!
//! No process of the command is left when [`run`] has finished or is dropped.

mod line_forwarder;
mod output_buffer;
mod output_notes;
mod output_tail;
pub(crate) mod workspace_guard;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::command::{CommandOutput, CommandStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::sandbox::{
    CommandExit, CommandSpec, CommandStdin, Sandbox, SandboxChild, SandboxError, StoppedCommand,
};
pub(crate) use line_forwarder::LineForwarder;
use output_buffer::OutputBuffer;
use output_notes::OutputNotes;
pub(crate) use output_tail::OutputTail;
use workspace_guard::{GuardBreach, WorkspaceGuard};
#[cfg(unix)]
pub(crate) use workspace_guard::{HiddenKind, HiddenPath};

/// Time between the request to end a command and its kill.
const GRACE: Duration = Duration::from_secs(2);

/// Time for reading outputs after the command has exited. Its own output has been written by then.
const DRAIN: Duration = Duration::from_millis(500);

/// Time that a killed command may take to exit. It takes moments, unless the kernel waits for a disk.
const GONE: Duration = Duration::from_secs(10);

/// Interval of the search for files that may not be created.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Bytes read at once: the capacity of a pipe.
const CHUNK: usize = 64 * 1024;

/// A callback that receives output as it arrives.
pub type OutputCallback<'a> = &'a mut (dyn FnMut(CommandStream, &[u8]) + Send);

/// Runs a command to its end. Dropping the future kills it and all processes that it started.
pub async fn run(
    sandbox: &dyn Sandbox,
    spec: &CommandSpec,
    watch: OutputCallback<'_>,
) -> Result<CommandOutput, SandboxError> {
    RunningCommand::begin(sandbox, spec)
        .await?
        .wait(watch)
        .await
}

/// The outputs of a command, as far as they are stored.
struct CommandOutputs {
    stdout: OutputBuffer,
    stderr: OutputBuffer,
    combined: OutputBuffer,
    /// True if the last line of both has ended.
    at_line_start: bool,
}

impl CommandOutputs {
    fn new(keep: usize) -> Self {
        Self {
            stdout: OutputBuffer::new(keep),
            stderr: OutputBuffer::new(keep),
            combined: OutputBuffer::new(keep),
            at_line_start: true,
        }
    }

    fn add(&mut self, stream: CommandStream, bytes: &[u8]) {
        match stream {
            CommandStream::Stdout => self.stdout.add(bytes),
            CommandStream::Stderr => self.stderr.add(bytes),
        }
        self.combined.add(bytes);
        if let Some(last) = bytes.last() {
            self.at_line_start = *last == b'\n';
        }
    }

    fn finished(self, exit_code: i32, duration: Duration, obeyed: Vec<String>) -> CommandOutput {
        CommandOutput {
            exit_code,
            stdout: self.stdout.into_captured(),
            stderr: self.stderr.into_captured(),
            combined: self.combined.into_captured(),
            duration,
            changed_auto_run_files: obeyed,
        }
    }
}

/// The phase of a command's execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandPhase {
    Running,
    /// It was asked to end.
    Terminating,
    /// It was killed.
    Killed,
    /// It has exited; its remaining output is still read.
    Gone,
}

/// Why a command was stopped.
enum CommandStopReason {
    Time,
    /// A caller requested it.
    Requested,
    /// It created something that it may not create, or could change something that is protected.
    Breached(GuardBreach),
}

/// A running command. Dropping it kills the command and all processes that it started.
pub(crate) struct RunningCommand {
    child: SandboxChild,
    outputs: CommandOutputs,
    guard: WorkspaceGuard,
    phase: CommandPhase,
    begun: Instant,
    /// The end of the phase, if it is limited in time.
    until: Option<Instant>,
    stopped: Option<CommandStopReason>,
    /// Notified when the command is to end.
    stop: Arc<Notify>,
    stdin: Vec<u8>,
    /// Its memory limit in bytes, for the error message.
    memory: u64,
    notes: OutputNotes,
    /// Files that agents and tools obey and that the command created or changed.
    obeyed: Vec<String>,
}

impl RunningCommand {
    /// Starts a command.
    pub(crate) async fn begin(
        sandbox: &dyn Sandbox,
        spec: &CommandSpec,
    ) -> Result<Self, SandboxError> {
        let begun = Instant::now();
        #[cfg_attr(
            not(unix),
            expect(
                unused_mut,
                reason = "only changed for git, whose files this platform does not protect"
            )
        )]
        let mut spec = spec.clone();
        let mut guard = WorkspaceGuard::disabled();
        if sandbox.enforces_path_rules() {
            #[cfg(unix)]
            crate::git::show_repository(&mut spec);
            guard = WorkspaceGuard::new(&spec);
            #[cfg(unix)]
            crate::git::prepare(&mut spec, guard.hidden(), guard.repositories());
        }
        let spec = &spec;
        let mut child = sandbox.start(spec).await?;
        guard.watch(std::mem::take(&mut child.masked));
        Ok(Self {
            notes: OutputNotes::new(spec, guard.hidden()),
            obeyed: Vec::new(),
            child,
            outputs: CommandOutputs::new(spec.output_limit),
            guard,
            phase: CommandPhase::Running,
            begun,
            until: spec.timeout.map(|timeout| begun + timeout),
            stopped: None,
            stop: Arc::default(),
            stdin: match &spec.stdin {
                CommandStdin::Bytes(bytes) => bytes.clone(),
                CommandStdin::Null | CommandStdin::Pipe => Vec::new(),
            },
            memory: spec.bounds.memory.value(),
        })
    }

    /// Returns the notification that ends the command.
    pub(crate) fn stop_signal(&self) -> Arc<Notify> {
        Arc::clone(&self.stop)
    }

    /// Runs the command until it has exited.
    pub(crate) async fn wait(
        mut self,
        watch: OutputCallback<'_>,
    ) -> Result<CommandOutput, SandboxError> {
        let stdin = std::mem::take(&mut self.stdin);
        let exit = self.finish(&stdin, watch).await?;
        self.obeyed = self.guard.take_obeyed();
        let unattributed = self.guard.take_unattributed();
        for note in self.notes.finish(&self.obeyed, &unattributed) {
            let end = if self.outputs.at_line_start { "" } else { "\n" };
            let note = format!("{end}[{note}]\n");
            self.outputs.add(CommandStream::Stderr, note.as_bytes());
            watch(CommandStream::Stderr, note.as_bytes());
        }
        self.verdict(exit)
    }

    async fn finish(
        &mut self,
        stdin: &[u8],
        watch: OutputCallback<'_>,
    ) -> Result<CommandExit, SandboxError> {
        let (mut out, mut err) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut out_open, mut err_open) = (true, true);
        let mut input = Some(stdin);
        let mut exit = None;
        let mut look = tokio::time::interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if let Some(exit) = exit
                && !(out_open || err_open)
            {
                return Ok(exit);
            }
            let until = self.until;
            tokio::select! {
                read = self.child.stdout.read(&mut out), if out_open => {
                    out_open = self.store(CommandStream::Stdout, read, &out, watch);
                }
                read = self.child.stderr.read(&mut err), if err_open => {
                    err_open = self.store(CommandStream::Stderr, read, &err, watch);
                }
                wrote = feed(&mut self.child.stdin, input), if input.is_some() => {
                    input = wrote.and_then(|count| input?.get(count..)).filter(|rest| !rest.is_empty());
                    if input.is_none() {
                        self.child.stdin = Box::new(tokio::io::sink());
                    }
                }
                ended = self.child.handle.wait(), if exit.is_none() => {
                    exit = Some(ended?);
                    self.final_check().await;
                    (self.phase, self.until) = (CommandPhase::Gone, Some(Instant::now() + DRAIN));
                }
                () = at(until), if until.is_some() => {
                    if let Some(exit) = self.time_is_up(exit).await? {
                        return Ok(exit);
                    }
                }
                () = self.stop.notified(), if self.phase == CommandPhase::Running => {
                    self.stopped.get_or_insert(CommandStopReason::Requested);
                    self.request_end().await;
                }
                _ = look.tick(), if exit.is_none() => {
                    if self.check_guard() {
                        self.kill().await;
                    }
                }
            }
        }
    }

    /// Stores output that was read. Returns true if there may be more.
    fn store(
        &mut self,
        stream: CommandStream,
        read: io::Result<usize>,
        bytes: &[u8],
        watch: &mut (dyn FnMut(CommandStream, &[u8]) + Send),
    ) -> bool {
        // A read error counts as the end of the output.
        let bytes = bytes.get(..read.unwrap_or(0)).unwrap_or_default();
        self.outputs.add(stream, bytes);
        self.notes.read(stream, bytes);
        if !bytes.is_empty() {
            watch(stream, bytes);
        }
        !bytes.is_empty()
    }

    async fn time_is_up(
        &mut self,
        exit: Option<CommandExit>,
    ) -> Result<Option<CommandExit>, SandboxError> {
        match self.phase {
            CommandPhase::Running => {
                self.stopped.get_or_insert(CommandStopReason::Time);
                self.request_end().await;
                Ok(None)
            }
            CommandPhase::Terminating => {
                self.kill().await;
                Ok(None)
            }
            CommandPhase::Killed => Err(SandboxError::Io {
                doing: "a command was killed and has not exited",
                error: io::ErrorKind::TimedOut.into(),
            }),
            // A process outside of the sandbox holds the output open.
            CommandPhase::Gone => Ok(exit),
        }
    }

    async fn request_end(&mut self) {
        self.child.handle.terminate().await;
        (self.phase, self.until) = (CommandPhase::Terminating, Some(Instant::now() + GRACE));
    }

    async fn kill(&mut self) {
        self.child.handle.kill().await;
        (self.phase, self.until) = (CommandPhase::Killed, Some(Instant::now() + GONE));
    }

    /// Looks for files that may not be created. Returns true if the command must be killed for them.
    fn check_guard(&mut self) -> bool {
        if matches!(self.stopped, Some(CommandStopReason::Breached(_))) {
            return false;
        }
        let Some(breach) = self.guard.check() else {
            return false;
        };
        self.stopped = Some(CommandStopReason::Breached(breach));
        true
    }

    /// Repeats the search after the command has exited. Its findings take precedence over any other reason for the
    /// end.
    async fn final_check(&mut self) {
        let breach = self.guard.final_check().await;
        if let Some(breach) =
            breach.filter(|_| !matches!(self.stopped, Some(CommandStopReason::Breached(_))))
        {
            self.stopped = Some(CommandStopReason::Breached(breach));
        }
    }

    fn verdict(self, exit: CommandExit) -> Result<CommandOutput, SandboxError> {
        let after = self.begun.elapsed();
        let finished = self.outputs.finished(exit.code, after, self.obeyed);
        let stopped = |bound, finished| {
            Box::new(StoppedCommand {
                after,
                bound,
                finished,
            })
        };
        match self.stopped {
            Some(CommandStopReason::Time) => Err(SandboxError::Timeout(stopped(0, finished))),
            Some(CommandStopReason::Breached(GuardBreach::Uncovered(path))) => {
                Err(SandboxError::Uncovered {
                    path,
                    stopped: stopped(0, finished),
                })
            }
            Some(CommandStopReason::Breached(GuardBreach::Made(made))) => {
                Err(SandboxError::Shielded {
                    path: made.path,
                    rule: made.rule,
                    kept: made.renamed_to,
                    others: made.more,
                    stopped: stopped(0, finished),
                })
            }
            Some(CommandStopReason::Breached(GuardBreach::MadeBySome(made))) => {
                Err(SandboxError::ConcurrentlyShielded {
                    made: made.describe(),
                    stopped: stopped(0, finished),
                })
            }
            // Something was killed for its memory. If the command went on all the same and reports success, that
            // counts.
            None if exit.out_of_memory && exit.code != 0 => {
                Err(SandboxError::Memory(stopped(self.memory, finished)))
            }
            Some(CommandStopReason::Requested) | None => Ok(finished),
        }
    }
}

/// Writes some of the input. A closed pipe is not an error: the command has closed it, or has exited.
async fn feed(
    to: &mut (dyn tokio::io::AsyncWrite + Send + Sync + Unpin),
    input: Option<&[u8]>,
) -> Option<usize> {
    match input {
        Some(bytes) if !bytes.is_empty() => to.write(bytes).await.ok(),
        _ => None,
    }
}

async fn at(until: Option<Instant>) {
    if let Some(until) = until {
        sleep_until(until).await;
    }
}
