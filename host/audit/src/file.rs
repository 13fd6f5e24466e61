//! The record as files of JSON lines that form a chain.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use mimir_core::backend::BoxFuture;
use mimir_core::config::{AuditSettings, Durability, OnFailure};

use super::chain::Chain;
use super::commit::Commit;
use super::gather::{Apart, Batch, Entry, Gather, is_busy, soon};
use super::line::Draft;
use super::place::Place;
use super::{AuditError, AuditSink, Event, Head, reserve};

/// A log that several threads and processes share; its form is described in the [module](super). Opened at the
/// first event, so that what records nothing makes no file.
pub struct FileAudit {
    place: Place,
    settings: AuditSettings,
    chain: Apart<Mutex<Option<Chain>>>,
    /// The last line when the log was first opened.
    opened: OnceLock<Head>,
    commit: Commit,
    gather: Gather,
    /// Whether all was well, the reserve included, when it was looked at last.
    sound: AtomicBool,
}

impl FileAudit {
    /// A log at `path`; its folder is made when it is needed.
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

    /// The same with another way to wait for the disk.
    #[cfg(test)]
    pub(super) fn syncing(mut self, sync: fn(&File) -> io::Result<()>) -> Self {
        self.commit = Commit::new(sync);
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.place.log()
    }

    /// The last line when this writer first opened the log, and the last line now, as it knows it. Nothing if it
    /// has not opened the log, or could not write at the end.
    pub fn course(&self) -> Option<(Head, Head)> {
        let now = soon(&self.chain.0).as_ref().map(Chain::tip)?;
        Some((*self.opened.get()?, now))
    }

    fn failed(&self, source: io::Error) -> AuditError {
        self.sound.store(false, Ordering::Relaxed);
        AuditError {
            place: mimir_core::text::visible(&self.place.log().display().to_string()),
            source,
        }
    }

    /// Does something with the end of the log while nobody else does. After an error it is opened anew.
    fn locked<T>(&self, work: impl FnOnce(&mut Chain) -> io::Result<T>) -> io::Result<T> {
        let mut slot = soon(&self.chain.0);
        let known = match slot.as_mut() {
            Some(chain) => chain.resume(&self.place),
            None => Ok(false),
        };
        if !matches!(known, Ok(true)) {
            // Closing the head gives up the lock.
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

    /// Does what may wait for the disk.
    fn unhurried<T>(&self, wait: impl FnOnce() -> T) -> T {
        match self.settings.durability {
            Durability::Write => wait(),
            Durability::Fsync => unhurried(wait),
        }
    }

    /// Writes all events of a batch, unless somebody has.
    fn settle(&self, batch: &Arc<Batch>) -> Result<(), AuditError> {
        let settle = || {
            self.gather
                .settle(batch, |events| self.append(events.iter()))
        };
        let result = self.unhurried(settle);
        self.judged(result)
    }

    /// What a failure means for the call.
    fn judged(&self, result: io::Result<()>) -> Result<(), AuditError> {
        let Err(error) = result else {
            return Ok(());
        };
        let error = self.failed(error);
        match self.settings.on_failure {
            OnFailure::Refuse => Err(error),
            OnFailure::Run => {
                tracing::error!("an event is not on record (audit.onFailure: run): {error}");
                Ok(())
            }
        }
    }

    /// Looks whether the log can be written and has its reserve.
    fn look(&self) -> io::Result<()> {
        if self.sound.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.locked(|_| reserve::keep(self.place.reserve()))?;
        self.sound.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// What only the log says about itself is not taken from others: readers act on it.
fn draft(event: &Event) -> io::Result<Draft> {
    if event.event.is_own() {
        let message = "only the log itself says that";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Draft::event(event)
}

/// An event that waits for a turn of the others.
struct Gathered<'a> {
    log: &'a FileAudit,
    batch: Option<Arc<Batch>>,
    turns: u32,
}

/// How many turns an event waits for at most: one to gather, and more while somebody else is writing, which is
/// a better use of the time than to wait for a lock.
const TURNS: u32 = 4;

impl Gathered<'_> {
    fn waits(&self) -> bool {
        let busy = || self.batch.as_ref().is_some_and(|batch| batch.is_busy());
        self.turns == 0 || (self.turns < TURNS && (busy() || is_busy(&self.log.chain.0)))
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

/// Waits without keeping the other tasks of this thread from running, where the runtime has more threads.
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
            // Whether an event is lost is seen when there is one.
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
