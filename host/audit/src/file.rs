//! The audit log as files of JSON lines that form a chain.

use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use mimir_core::backend::BoxFuture;
use mimir_core::config::{AuditSettings, Durability, OnFailure};

use super::chain::Chain;
use super::commit::Commit;
use super::gather::{Apart, Batch, Entry, Gather};
use super::line::Draft;
use super::place::Place;
use super::{AuditError, AuditSink, Event, Head, reserve};

/// A log shared by several threads and processes; the [module](super) describes its format. It is opened at the first
/// event, so that a process without events creates no file.
pub struct FileAudit {
    place: Place,
    settings: AuditSettings,
    chain: Apart<Mutex<Option<Chain>>>,
    /// The last line when the log was first opened.
    opened: OnceLock<Head>,
    commit: Commit,
    gather: Gather,
    /// True if the log, including the reserve, was intact at the last check.
    sound: AtomicBool,
}

impl FileAudit {
    /// Creates a log at `path`; its folder is created when needed.
    pub fn new(path: impl Into<PathBuf>, settings: AuditSettings) -> Self {
        Self {
            place: Place::of(path.into()),
            settings,
            chain: Apart::default(),
            opened: OnceLock::new(),
            commit: Commit::new(File::sync_data),
            gather: Gather::default(),
            sound: AtomicBool::new(false),
        }
    }

    /// Replaces the function that waits for the disk.
    #[cfg(test)]
    pub(super) fn syncing(mut self, sync: fn(&File) -> io::Result<()>) -> Self {
        self.commit = Commit::new(sync);
        self
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        self.place.log()
    }

    /// The last line when this writer first opened the log, and the current last line as known to it. `None` if it has
    /// not opened the log, or could not write.
    pub fn course(&self) -> Option<(Head, Head)> {
        let now = self.chain.0.lock().as_ref().map(Chain::tip)?;
        Some((*self.opened.get()?, now))
    }

    fn failed(&self, source: io::Error) -> AuditError {
        self.sound.store(false, Ordering::Relaxed);
        AuditError {
            place: mimir_core::text::visible(&self.place.log().display().to_string()),
            source,
        }
    }

    /// Runs `work` with exclusive access to the end of the log. After an error, the log is reopened.
    fn locked<T>(&self, work: impl FnOnce(&mut Chain) -> io::Result<T>) -> io::Result<T> {
        let mut slot = self.chain.0.lock();
        let known = match slot.as_mut() {
            Some(chain) => chain.resume(&self.place),
            None => Ok(false),
        };
        if !matches!(known, Ok(true)) {
            // Closing the head releases the lock.
            *slot = None;
            // Another process may have used the reserve.
            self.sound.store(false, Ordering::Relaxed);
        }
        let chain = match slot.as_mut() {
            Some(chain) => chain,
            None => slot.insert(Chain::open(&self.place)?),
        };
        self.opened.get_or_init(|| chain.tip());
        let result = work(chain).and_then(|done| chain.leave().map(|()| done));
        if result.is_err() {
            *slot = None;
        }
        result
    }

    fn append<'a>(&self, events: impl IntoIterator<Item = Entry<'a>>) -> io::Result<()> {
        let file = self.locked(|chain| {
            chain.append(events, &self.place, &self.settings)?;
            if chain.was_strained() {
                self.sound.store(false, Ordering::Relaxed);
            }
            Ok(chain.log())
        })?;
        match self.settings.durability {
            Durability::Write => Ok(()),
            Durability::Fsync => self.commit.wait(file),
        }
    }

    /// Runs an operation that may wait for the disk.
    fn unhurried<T>(&self, wait: impl FnOnce() -> T) -> T {
        match self.settings.durability {
            Durability::Write => wait(),
            Durability::Fsync => unhurried(wait),
        }
    }

    /// Writes all events of a batch, unless another thread has.
    fn settle(&self, batch: &Arc<Batch>) -> Result<(), AuditError> {
        let settle = || {
            self.gather
                .settle(batch, |events| self.append(events.iter()))
        };
        let result = self.unhurried(settle);
        self.judged(result)
    }

    /// Applies `audit.onFailure` to a result.
    fn judged(&self, result: io::Result<()>) -> Result<(), AuditError> {
        let Err(error) = result else {
            return Ok(());
        };
        let error = self.failed(error);
        match self.settings.on_failure {
            OnFailure::Refuse => Err(error),
            OnFailure::Run => {
                tracing::error!("an event was not recorded (audit.onFailure: run): {error}");
                Ok(())
            }
        }
    }

    /// Checks that the log is writable and has its reserve.
    fn look(&self) -> io::Result<()> {
        if self.sound.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.locked(|_| reserve::keep(self.place.reserve()))?;
        self.sound.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Rejects events that only the log itself may write, because readers rely on them.
fn draft(event: &Event) -> io::Result<Draft> {
    if event.event.is_own() {
        let message = "this kind of event is reserved for the log itself";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Draft::event(event)
}

/// An event that waits for others to be written with it.
struct Gathered<'a> {
    log: &'a FileAudit,
    batch: Option<Arc<Batch>>,
    turns: u32,
}

/// Maximum number of polls that an event waits for: one to gather, and more while another thread is writing, because
/// waiting for its lock would waste time.
const TURNS: u32 = 4;

impl Gathered<'_> {
    fn waits(&self) -> bool {
        let busy = || self.batch.as_ref().is_some_and(|batch| batch.is_busy());
        self.turns == 0 || (self.turns < TURNS && (busy() || self.log.chain.0.is_locked()))
    }
}

impl Future for Gathered<'_> {
    type Output = Result<(), AuditError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.waits() {
            self.turns += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let settled = self.batch.take().map(|batch| self.log.settle(&batch));
        Poll::Ready(settled.unwrap_or(Ok(())))
    }
}

impl Drop for Gathered<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take()
            && let Err(error) = self.log.settle(&batch)
        {
            tracing::error!(%error, "a cancelled call could not be recorded");
        }
    }
}

/// Waits without blocking the other tasks of this thread, if the runtime has several threads.
fn unhurried<T>(wait: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

impl AuditSink for FileAudit {
    fn ready(&self) -> Result<(), AuditError> {
        match (self.look(), self.settings.on_failure) {
            (Err(error), OnFailure::Refuse) => Err(self.failed(error)),
            // With `run`, an event that is lost is reported when it occurs.
            (Ok(()), _) | (Err(_), OnFailure::Run) => Ok(()),
        }
    }

    fn record(&self, event: &Event) -> Result<(), AuditError> {
        let result = draft(event).and_then(|draft| {
            self.unhurried(|| self.append(std::iter::once((draft.piece(), event.time))))
        });
        self.judged(result)
    }

    fn record_with_others<'a>(&'a self, event: &Event) -> BoxFuture<'a, Result<(), AuditError>> {
        match draft(event) {
            Ok(draft) => Box::pin(Gathered {
                log: self,
                batch: Some(self.gather.join((draft.piece(), event.time))),
                turns: 0,
            }),
            Err(error) => Box::pin(std::future::ready(self.judged(Err(error)))),
        }
    }

    fn wants_arguments(&self) -> bool {
        self.settings.log_args
    }
}
