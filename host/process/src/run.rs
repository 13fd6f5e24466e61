//! Runs a command from start to end: writes its input, reads its outputs and enforces its timeout.
//!
//! No process of the command is left when [`run`] has finished or is dropped.

pub(crate) mod guard;
mod lines;
mod notes;
mod output;
mod tail;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::command::{Finished, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::sandbox::{Child, Exit, Fault, Sandbox, Spec, Stdin, Stopped};
use guard::{Breach, Guard};
#[cfg(unix)]
pub(crate) use guard::{Hidden, HiddenKind};
pub(crate) use lines::Lines;
use notes::Notes;
use output::Kept;
pub(crate) use tail::Tail;

/// Time between the request to end a command and its kill.
const GRACE: Duration = Duration::from_secs(2);

/// Time for reading outputs after the command has exited. Its own output has been written by then.
const DRAIN: Duration = Duration::from_millis(500);

/// Time that a killed command may take to exit. It takes moments, unless the kernel waits for a disk.
const GONE: Duration = Duration::from_secs(10);

/// Interval of the search for files that may not be created.
const LOOK: Duration = Duration::from_millis(50);

/// Bytes read at once: the capacity of a pipe.
const CHUNK: usize = 64 * 1024;

/// A callback that receives output as it arrives.
pub type Watch<'a> = &'a mut (dyn FnMut(Stream, &[u8]) + Send);

/// Runs a command to its end. Dropping the future kills it and all processes that it started.
pub async fn run(sandbox: &dyn Sandbox, spec: &Spec, watch: Watch<'_>) -> Result<Finished, Fault> {
    Running::begin(sandbox, spec).await?.end(watch).await
}

/// The outputs of a command, as far as they are stored.
struct Outputs {
    stdout: Kept,
    stderr: Kept,
    combined: Kept,
    /// True if the last line of both has ended.
    at_line_start: bool,
}

impl Outputs {
    fn new(keep: usize) -> Self {
        Self {
            stdout: Kept::new(keep),
            stderr: Kept::new(keep),
            combined: Kept::new(keep),
            at_line_start: true,
        }
    }

    fn add(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.add(bytes),
            Stream::Stderr => self.stderr.add(bytes),
        }
        self.combined.add(bytes);
        if let Some(last) = bytes.last() {
            self.at_line_start = *last == b'\n';
        }
    }

    fn finished(self, exit_code: i32, duration: Duration, obeyed: Vec<String>) -> Finished {
        Finished {
            exit_code,
            stdout: self.stdout.captured(),
            stderr: self.stderr.captured(),
            combined: self.combined.captured(),
            duration,
            obeyed,
        }
    }
}

/// The phase of a command's execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Runs,
    /// It was asked to end.
    Asked,
    /// It was killed.
    Killed,
    /// It has exited; its remaining output is still read.
    Gone,
}

/// Why a command was stopped.
enum Why {
    Time,
    /// A caller requested it.
    Asked,
    /// It created something that it may not create, or could change something that is protected.
    Shielded(Breach),
}

/// A running command. Dropping it kills the command and all processes that it started.
pub(crate) struct Running {
    child: Child,
    outputs: Outputs,
    guard: Guard,
    phase: Phase,
    begun: Instant,
    /// The end of the phase, if it is limited in time.
    until: Option<Instant>,
    stopped: Option<Why>,
    /// Notified when the command is to end.
    stop: Arc<Notify>,
    stdin: Vec<u8>,
    /// Its memory limit in bytes, for the error message.
    memory: u64,
    notes: Notes,
    /// Files that agents and tools obey and that the command created or changed.
    obeyed: Vec<String>,
}

impl Running {
    /// Starts a command.
    pub(crate) async fn begin(sandbox: &dyn Sandbox, spec: &Spec) -> Result<Self, Fault> {
        let begun = Instant::now();
        let mut spec = spec.clone();
        let mut guard = Guard::idle();
        if sandbox.shields() {
            #[cfg(unix)]
            crate::git::show_repository(&mut spec);
            guard = Guard::new(&spec);
            #[cfg(unix)]
            crate::git::prepare(&mut spec, guard.hidden(), guard.repositories());
        }
        let spec = &spec;
        let mut child = sandbox.start(spec).await?;
        guard.watch(std::mem::take(&mut child.covered));
        Ok(Self {
            notes: Notes::new(spec, guard.hidden()),
            obeyed: Vec::new(),
            child,
            outputs: Outputs::new(spec.keep),
            guard,
            phase: Phase::Runs,
            begun,
            until: spec.timeout.map(|timeout| begun + timeout),
            stopped: None,
            stop: Arc::default(),
            stdin: match &spec.stdin {
                Stdin::Bytes(bytes) => bytes.clone(),
                Stdin::Null | Stdin::Pipe => Vec::new(),
            },
            memory: spec.bounds.memory.value(),
        })
    }

    /// Returns the notification that ends the command.
    pub(crate) fn stop(&self) -> Arc<Notify> {
        Arc::clone(&self.stop)
    }

    /// Runs the command until it has exited.
    pub(crate) async fn end(mut self, watch: Watch<'_>) -> Result<Finished, Fault> {
        let stdin = std::mem::take(&mut self.stdin);
        let exit = self.finish(&stdin, watch).await?;
        self.obeyed = self.guard.take_obeyed();
        for note in self.notes.end(&self.obeyed) {
            let end = if self.outputs.at_line_start { "" } else { "\n" };
            let note = format!("{end}[{note}]\n");
            self.outputs.add(Stream::Stderr, note.as_bytes());
            watch(Stream::Stderr, note.as_bytes());
        }
        self.verdict(exit)
    }

    async fn finish(&mut self, stdin: &[u8], watch: Watch<'_>) -> Result<Exit, Fault> {
        let (mut out, mut err) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut out_open, mut err_open) = (true, true);
        let mut input = Some(stdin);
        let mut exit = None;
        let mut look = tokio::time::interval(LOOK);
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
                    out_open = self.took(Stream::Stdout, read, &out, watch);
                }
                read = self.child.stderr.read(&mut err), if err_open => {
                    err_open = self.took(Stream::Stderr, read, &err, watch);
                }
                wrote = feed(&mut self.child.stdin, input), if input.is_some() => {
                    input = wrote.and_then(|count| input?.get(count..)).filter(|rest| !rest.is_empty());
                    if input.is_none() {
                        self.child.stdin = Box::new(tokio::io::sink());
                    }
                }
                ended = self.child.handle.wait(), if exit.is_none() => {
                    exit = Some(ended?);
                    self.last_look().await;
                    (self.phase, self.until) = (Phase::Gone, Some(Instant::now() + DRAIN));
                }
                () = at(until), if until.is_some() => {
                    if let Some(exit) = self.time_is_up(exit).await? {
                        return Ok(exit);
                    }
                }
                () = self.stop.notified(), if self.phase == Phase::Runs => {
                    self.stopped.get_or_insert(Why::Asked);
                    self.ask().await;
                }
                _ = look.tick(), if exit.is_none() => {
                    if self.look() {
                        self.kill().await;
                    }
                }
            }
        }
    }

    /// Stores output that was read. Returns true if there may be more.
    fn took(
        &mut self,
        stream: Stream,
        read: io::Result<usize>,
        bytes: &[u8],
        watch: &mut (dyn FnMut(Stream, &[u8]) + Send),
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

    async fn time_is_up(&mut self, exit: Option<Exit>) -> Result<Option<Exit>, Fault> {
        match self.phase {
            Phase::Runs => {
                self.stopped.get_or_insert(Why::Time);
                self.ask().await;
                Ok(None)
            }
            Phase::Asked => {
                self.kill().await;
                Ok(None)
            }
            Phase::Killed => Err(Fault::Io {
                doing: "a command was killed and has not exited",
                error: io::ErrorKind::TimedOut.into(),
            }),
            // A process outside of the sandbox holds the output open.
            Phase::Gone => Ok(exit),
        }
    }

    async fn ask(&mut self) {
        self.child.handle.terminate().await;
        (self.phase, self.until) = (Phase::Asked, Some(Instant::now() + GRACE));
    }

    async fn kill(&mut self) {
        self.child.handle.kill().await;
        (self.phase, self.until) = (Phase::Killed, Some(Instant::now() + GONE));
    }

    /// Looks for files that may not be created. Returns true if the command must be killed for them.
    fn look(&mut self) -> bool {
        if matches!(self.stopped, Some(Why::Shielded(_))) {
            return false;
        }
        let Some(breach) = self.guard.look() else {
            return false;
        };
        self.stopped = Some(Why::Shielded(breach));
        true
    }

    /// Repeats the search after the command has exited. Its findings take precedence over any other reason for the
    /// end.
    async fn last_look(&mut self) {
        let breach = self.guard.last_look().await;
        if let Some(breach) = breach.filter(|_| !matches!(self.stopped, Some(Why::Shielded(_)))) {
            self.stopped = Some(Why::Shielded(breach));
        }
    }

    fn verdict(self, exit: Exit) -> Result<Finished, Fault> {
        let after = self.begun.elapsed();
        let finished = self.outputs.finished(exit.code, after, self.obeyed);
        let stopped = |bound, finished| {
            Box::new(Stopped {
                after,
                bound,
                finished,
            })
        };
        match self.stopped {
            Some(Why::Time) => Err(Fault::Timeout(stopped(0, finished))),
            Some(Why::Shielded(Breach::Uncovered(path))) => Err(Fault::Uncovered {
                path,
                stopped: stopped(0, finished),
            }),
            Some(Why::Shielded(Breach::Made(made))) => Err(Fault::Shielded {
                path: made.path,
                rule: made.rule,
                kept: made.kept,
                others: made.others,
                stopped: stopped(0, finished),
            }),
            // Something was killed for its memory. If the command went on all the same and reports success, that
            // counts.
            None if exit.out_of_memory && exit.code != 0 => {
                Err(Fault::Memory(stopped(self.memory, finished)))
            }
            Some(Why::Asked) | None => Ok(finished),
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
