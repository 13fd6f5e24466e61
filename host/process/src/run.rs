//! Runs a command from start to end: writes its input, reads its output and enforces its timeout.
//!
//! When [`run`] returns or its future is dropped, all processes of the command are killed.

mod output_buffer;
mod output_notes;
mod output_tail;
pub(crate) mod workspace_guard;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::command::{CommandOutput, CommandStream};
use mimir_core::merged_lines::MergedLines;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::sandbox::{
    CommandExit, CommandSpec, CommandStdin, Sandbox, SandboxChild, SandboxError, StoppedCommand,
};
use output_buffer::OutputBuffer;
use output_notes::OutputNotes;
pub(crate) use output_tail::OutputTail;
use workspace_guard::{GuardBreach, WorkspaceGuard};
#[cfg(unix)]
pub(crate) use workspace_guard::{HiddenKind, HiddenPath};

/// Time between the request to terminate a command and its kill.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Time limit for reading the rest of the output after the command has exited. The command itself has written all of
/// its output by then.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Time limit for the exit of a killed command. It exits at once, unless the kernel waits for a disk.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of the checks for forbidden files.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of bytes per read: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// Callback for output as it arrives.
pub type OutputCallback<'a> = &'a mut (dyn FnMut(CommandStream, &[u8]) + Send);

/// Runs a command to its end. Dropping the future kills the command and all processes that it started.
pub async fn run(
    sandbox: &dyn Sandbox,
    spec: &CommandSpec,
    on_output: OutputCallback<'_>,
) -> Result<CommandOutput, SandboxError> {
    RunningCommand::begin(sandbox, spec)
        .await?
        .wait(on_output)
        .await
}

/// The stored output of a command.
struct CommandOutputs {
    stdout: OutputBuffer,
    stderr: OutputBuffer,
    combined: OutputBuffer,
    merged: MergedLines,
    /// True if the combined output ends with a line break.
    at_line_start: bool,
}

impl CommandOutputs {
    fn new(limit: usize) -> Self {
        Self {
            stdout: OutputBuffer::new(limit),
            stderr: OutputBuffer::new(limit),
            combined: OutputBuffer::new(limit),
            merged: MergedLines::default(),
            at_line_start: true,
        }
    }

    fn add(&mut self, stream: CommandStream, bytes: &[u8]) {
        match stream {
            CommandStream::Stdout => self.stdout.add(bytes),
            CommandStream::Stderr => self.stderr.add(bytes),
        }
        self.merged.add(stream, bytes, |bytes| {
            self.combined.add(bytes);
            self.at_line_start = bytes
                .last()
                .map_or(self.at_line_start, |last| *last == b'\n');
        });
    }

    /// Adds a note of the host on a line of its own, and returns its text.
    fn add_note(&mut self, note: &str) -> String {
        self.finish_lines();
        let end = if self.at_line_start { "" } else { "\n" };
        let note = format!("{end}[{note}]\n");
        self.stderr.add(note.as_bytes());
        self.combined.add(note.as_bytes());
        self.at_line_start = true;
        note
    }

    /// Adds the unfinished lines to the combined output.
    fn finish_lines(&mut self) {
        self.merged.finish(|bytes| {
            self.combined.add(bytes);
            self.at_line_start &= bytes.is_empty();
        });
    }

    fn into_output(
        mut self,
        exit_code: i32,
        duration: Duration,
        obeyed: Vec<String>,
    ) -> CommandOutput {
        self.finish_lines();
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
    /// The command was asked to terminate.
    Terminating,
    /// The command was killed.
    Killed,
    /// The command has exited; its remaining output is being read.
    Exited,
}

/// Reason for stopping a command.
enum CommandStopReason {
    Timeout,
    /// A caller requested the stop.
    Requested,
    /// The command created a forbidden path, or a protected path was no longer covered.
    Breach(GuardBreach),
}

/// A running command. Dropping it kills the command and all processes that it started.
pub(crate) struct RunningCommand {
    child: SandboxChild,
    outputs: CommandOutputs,
    guard: WorkspaceGuard,
    phase: CommandPhase,
    begun: Instant,
    /// The deadline of the phase, if it has one.
    deadline: Option<Instant>,
    stopped: Option<CommandStopReason>,
    /// Notified to stop the command.
    stop: Arc<Notify>,
    stdin: Vec<u8>,
    /// The memory limit in bytes, for the error message.
    memory: u64,
    notes: OutputNotes,
    /// Instruction files of agents and tools that the command created or changed.
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
            {
                let stands_in = sandbox.mounts_at_other_paths();
                let hidden = if stands_in { guard.hidden() } else { &[] };
                crate::git::prepare(&mut spec, hidden, guard.repositories());
            }
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
            deadline: spec.timeout.map(|timeout| begun + timeout),
            stopped: None,
            stop: Arc::default(),
            stdin: match &spec.stdin {
                CommandStdin::Bytes(bytes) => bytes.clone(),
                CommandStdin::Null | CommandStdin::Pipe => Vec::new(),
            },
            memory: spec.bounds.memory.value(),
        })
    }

    /// Returns the notification that stops the command.
    pub(crate) fn stop_signal(&self) -> Arc<Notify> {
        Arc::clone(&self.stop)
    }

    /// Runs the command until it has exited.
    pub(crate) async fn wait(
        mut self,
        on_output: OutputCallback<'_>,
    ) -> Result<CommandOutput, SandboxError> {
        let stdin = std::mem::take(&mut self.stdin);
        let exit = self.run_until_exit(&stdin, on_output).await?;
        self.obeyed = self.guard.take_obeyed();
        let unattributed = self.guard.take_unattributed();
        for note in self.notes.finish(&self.obeyed, &unattributed) {
            let note = self.outputs.add_note(&note);
            on_output(CommandStream::Stderr, note.as_bytes());
        }
        self.into_result(exit)
    }

    async fn run_until_exit(
        &mut self,
        stdin: &[u8],
        on_output: OutputCallback<'_>,
    ) -> Result<CommandExit, SandboxError> {
        let (mut out, mut err) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let (mut out_open, mut err_open) = (true, true);
        let mut input = Some(stdin);
        let mut exit = None;
        let mut guard_poll = tokio::time::interval(POLL_INTERVAL);
        guard_poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if let Some(exit) = exit
                && !(out_open || err_open)
            {
                return Ok(exit);
            }
            let deadline = self.deadline;
            tokio::select! {
                read = self.child.stdout.read(&mut out), if out_open => {
                    out_open = self.store(CommandStream::Stdout, read, &out, on_output);
                }
                read = self.child.stderr.read(&mut err), if err_open => {
                    err_open = self.store(CommandStream::Stderr, read, &err, on_output);
                }
                wrote = write_input(&mut self.child.stdin, input), if input.is_some() => {
                    input = wrote.and_then(|count| input?.get(count..)).filter(|rest| !rest.is_empty());
                    if input.is_none() {
                        self.child.stdin = Box::new(tokio::io::sink());
                    }
                }
                ended = self.child.handle.wait(), if exit.is_none() => {
                    exit = Some(ended?);
                    self.final_check().await;
                    (self.phase, self.deadline) = (CommandPhase::Exited, Some(Instant::now() + DRAIN_TIMEOUT));
                }
                () = sleep_until_deadline(deadline), if deadline.is_some() => {
                    if let Some(exit) = self.handle_deadline(exit).await? {
                        return Ok(exit);
                    }
                }
                () = self.stop.notified(), if self.phase == CommandPhase::Running => {
                    self.stopped.get_or_insert(CommandStopReason::Requested);
                    self.request_end().await;
                }
                _ = guard_poll.tick(), if exit.is_none() => {
                    if self.check_guard() {
                        self.kill().await;
                    }
                }
            }
        }
    }

    /// Stores output that was read. Returns false at the end of the output.
    fn store(
        &mut self,
        stream: CommandStream,
        read: io::Result<usize>,
        bytes: &[u8],
        on_output: &mut (dyn FnMut(CommandStream, &[u8]) + Send),
    ) -> bool {
        // A read error counts as the end of the output.
        let bytes = bytes.get(..read.unwrap_or(0)).unwrap_or_default();
        self.outputs.add(stream, bytes);
        self.notes.scan(stream, bytes);
        if !bytes.is_empty() {
            on_output(stream, bytes);
        }
        !bytes.is_empty()
    }

    async fn handle_deadline(
        &mut self,
        exit: Option<CommandExit>,
    ) -> Result<Option<CommandExit>, SandboxError> {
        match self.phase {
            CommandPhase::Running => {
                self.stopped.get_or_insert(CommandStopReason::Timeout);
                self.request_end().await;
                Ok(None)
            }
            CommandPhase::Terminating => {
                self.kill().await;
                Ok(None)
            }
            CommandPhase::Killed => Err(SandboxError::Io {
                doing: "a killed command has not exited",
                error: io::ErrorKind::TimedOut.into(),
            }),
            // A process outside of the sandbox keeps the output open.
            CommandPhase::Exited => Ok(exit),
        }
    }

    async fn request_end(&mut self) {
        self.child.handle.terminate().await;
        (self.phase, self.deadline) = (
            CommandPhase::Terminating,
            Some(Instant::now() + GRACE_PERIOD),
        );
    }

    async fn kill(&mut self) {
        self.child.handle.kill().await;
        (self.phase, self.deadline) = (CommandPhase::Killed, Some(Instant::now() + KILL_TIMEOUT));
    }

    /// Checks for forbidden files. Returns true if the command must be killed.
    fn check_guard(&mut self) -> bool {
        if matches!(self.stopped, Some(CommandStopReason::Breach(_))) {
            return false;
        }
        let Some(breach) = self.guard.check() else {
            return false;
        };
        self.stopped = Some(CommandStopReason::Breach(breach));
        true
    }

    /// Checks for forbidden files after the command has exited. A breach takes precedence over other stop reasons.
    async fn final_check(&mut self) {
        let breach = self.guard.final_check().await;
        if let Some(breach) =
            breach.filter(|_| !matches!(self.stopped, Some(CommandStopReason::Breach(_))))
        {
            self.stopped = Some(CommandStopReason::Breach(breach));
        }
    }

    fn into_result(self, exit: CommandExit) -> Result<CommandOutput, SandboxError> {
        let after = self.begun.elapsed();
        let output = self.outputs.into_output(exit.code, after, self.obeyed);
        let stopped = |bound, output| {
            Box::new(StoppedCommand {
                after,
                bound,
                finished: output,
            })
        };
        match self.stopped {
            Some(CommandStopReason::Timeout) => Err(SandboxError::Timeout(stopped(0, output))),
            Some(CommandStopReason::Breach(GuardBreach::Uncovered(path))) => {
                Err(SandboxError::Uncovered {
                    path,
                    stopped: stopped(0, output),
                })
            }
            Some(CommandStopReason::Breach(GuardBreach::Created(created))) => {
                Err(SandboxError::ForbiddenPathCreated {
                    path: created.path,
                    rule: created.rule,
                    renamed_to: created.renamed_to,
                    others: created.more,
                    stopped: stopped(0, output),
                })
            }
            Some(CommandStopReason::Breach(GuardBreach::CreatedConcurrently(created))) => {
                Err(SandboxError::ForbiddenPathCreatedConcurrently {
                    created: created.describe(),
                    stopped: stopped(0, output),
                })
            }
            // A process ran out of memory and was killed. This is ignored if the command continued and succeeded.
            None if exit.out_of_memory && exit.code != 0 => {
                Err(SandboxError::Memory(stopped(self.memory, output)))
            }
            Some(CommandStopReason::Requested) | None => Ok(output),
        }
    }
}

/// Writes a part of the input, and returns its length in bytes, or `None` if nothing can be written. A closed pipe is
/// not an error.
async fn write_input(
    to: &mut (dyn tokio::io::AsyncWrite + Send + Sync + Unpin),
    input: Option<&[u8]>,
) -> Option<usize> {
    match input {
        Some(bytes) if !bytes.is_empty() => to.write(bytes).await.ok(),
        _ => None,
    }
}

async fn sleep_until_deadline(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        sleep_until(deadline).await;
    }
}
