//! The audit log as files of JSON lines that form a chain.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use mimir_core::backend::BoxFuture;
use mimir_core::config::{AuditDurability, AuditFailureMode, AuditSettings};
use parking_lot::Mutex;

use super::batch::{BatchResult, CacheAligned, EventBatcher, TimedLine};
use super::chain_writer::ChainWriter;
use super::group_commit::GroupCommit;
use super::line::LineDraft;
use super::log_paths::LogPaths;
use super::{AuditError, AuditEvent, AuditSink, LogHead, reserve};

/// An audit log that several threads and processes share; the [crate](super) describes the format. The log is opened at
/// the first event, so that a process without events creates no file.
pub struct FileAuditSink {
    paths: LogPaths,
    settings: AuditSettings,
    chain: CacheAligned<Mutex<Option<ChainWriter>>>,
    /// Last line when the log was first opened.
    opened: OnceLock<LogHead>,
    commit: GroupCommit,
    batcher: EventBatcher,
    /// True if the log, including the reserve, was intact at the last check.
    healthy: AtomicBool,
}

impl FileAuditSink {
    /// Creates a sink for the log at `path`. The folder is created at the first event.
    pub fn new(path: impl Into<PathBuf>, settings: AuditSettings) -> Self {
        Self {
            paths: LogPaths::from_log(path.into()),
            settings,
            chain: CacheAligned::default(),
            opened: OnceLock::new(),
            commit: GroupCommit::new(File::sync_data),
            batcher: EventBatcher::default(),
            healthy: AtomicBool::new(false),
        }
    }

    /// Replaces the function that waits for the disk.
    #[cfg(test)]
    pub(super) fn with_sync(mut self, sync: fn(&File) -> io::Result<()>) -> Self {
        self.commit = GroupCommit::new(sync);
        self
    }

    /// Returns the path of the current file.
    pub fn path(&self) -> &Path {
        self.paths.log()
    }

    /// Returns the last line when this sink first opened the log, and the current last line as known to it. Returns
    /// `None` if the log is not open, or after a failed write.
    pub fn opened_and_current(&self) -> Option<(LogHead, LogHead)> {
        let current = self.chain.0.lock().as_ref().map(ChainWriter::tip)?;
        Some((*self.opened.get()?, current))
    }

    /// Marks the log as unhealthy, so that the next call checks it, and returns the error to report.
    fn record_failure(&self, source: io::Error) -> AuditError {
        self.healthy.store(false, Ordering::Relaxed);
        AuditError {
            place: mimir_core::text::visible(&self.paths.log().display().to_string()),
            source,
        }
    }

    /// Runs `work` with exclusive access to the end of the log. After an error, the log is reopened.
    fn with_lock<T>(&self, work: impl FnOnce(&mut ChainWriter) -> io::Result<T>) -> io::Result<T> {
        let mut slot = self.chain.0.lock();
        let resumed = match slot.as_mut() {
            Some(chain) => chain.resume(&self.paths),
            None => Ok(false),
        };
        if !matches!(resumed, Ok(true)) {
            // Closing the head releases the lock.
            *slot = None;
            // Another process may have used the reserve.
            self.healthy.store(false, Ordering::Relaxed);
        }
        let chain = match slot.as_mut() {
            Some(chain) => chain,
            None => slot.insert(ChainWriter::open(&self.paths)?),
        };
        self.opened.get_or_init(|| chain.tip());
        let result = work(chain).and_then(|value| chain.unlock_log().map(|()| value));
        if result.is_err() {
            *slot = None;
        }
        result
    }

    /// Writes events, and waits for the disk if `audit.durability` is `fsync`.
    fn append<'a>(&self, events: impl IntoIterator<Item = TimedLine<'a>>) -> io::Result<()> {
        let file = self.with_lock(|chain| {
            chain.append(events, &self.paths, &self.settings)?;
            if chain.take_reserve_used() {
                self.healthy.store(false, Ordering::Relaxed);
            }
            Ok(chain.log())
        })?;
        match self.settings.durability {
            AuditDurability::Write => Ok(()),
            AuditDurability::Fsync => self.commit.wait(file),
        }
    }

    /// Runs an operation that may wait for the disk.
    fn run_blocking<T>(&self, operation: impl FnOnce() -> T) -> T {
        match self.settings.durability {
            AuditDurability::Write => operation(),
            AuditDurability::Fsync => run_blocking(operation),
        }
    }

    /// Writes all events of a batch, unless another thread has.
    fn write_batch(&self, batch: &Arc<BatchResult>) -> Result<(), AuditError> {
        let write = || {
            self.batcher
                .write_once(batch, |events| self.append(events.iter()))
        };
        let result = self.run_blocking(write);
        self.apply_failure_mode(result)
    }

    /// Applies `audit.onFailure` to a result.
    fn apply_failure_mode(&self, result: io::Result<()>) -> Result<(), AuditError> {
        let Err(error) = result else {
            return Ok(());
        };
        let error = self.record_failure(error);
        match self.settings.on_failure {
            AuditFailureMode::Refuse => Err(error),
            AuditFailureMode::Run => {
                tracing::error!("an event was not recorded (audit.onFailure: run): {error}");
                Ok(())
            }
        }
    }

    /// Checks that the log is writable and has its reserve.
    fn check_health(&self) -> io::Result<()> {
        if self.healthy.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.with_lock(|_| reserve::create(self.paths.reserve()))?;
        self.healthy.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Encodes an event. Fails for kinds of events that only the log itself may write, because verification relies on them.
fn draft_line(event: &AuditEvent) -> io::Result<LineDraft> {
    if event.event.is_own() {
        let message = "this kind of event is reserved for the log itself";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    LineDraft::new(event)
}

/// Future of an event that is written in a batch with others.
struct BatchWait<'a> {
    log: &'a FileAuditSink,
    batch: Option<Arc<BatchResult>>,
    poll_count: u32,
}

/// Maximum number of polls for which an event waits: one to gather others, and more while another thread is writing,
/// because waiting for the lock would block this thread.
const MAX_POLLS: u32 = 4;

impl BatchWait<'_> {
    fn must_wait(&self) -> bool {
        let is_busy = || self.batch.as_ref().is_some_and(|batch| batch.is_busy());
        self.poll_count == 0
            || (self.poll_count < MAX_POLLS && (is_busy() || self.log.chain.0.is_locked()))
    }
}

impl Future for BatchWait<'_> {
    type Output = Result<(), AuditError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.must_wait() {
            self.poll_count += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let result = self.batch.take().map(|batch| self.log.write_batch(&batch));
        Poll::Ready(result.unwrap_or(Ok(())))
    }
}

impl Drop for BatchWait<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take()
            && let Err(error) = self.log.write_batch(&batch)
        {
            tracing::error!(%error, "a cancelled call could not be recorded");
        }
    }
}

/// Waits without blocking the other tasks of this thread, if the runtime has several threads.
fn run_blocking<T>(operation: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(operation),
        _ => operation(),
    }
}

impl AuditSink for FileAuditSink {
    fn ready(&self) -> Result<(), AuditError> {
        match (self.check_health(), self.settings.on_failure) {
            (Err(error), AuditFailureMode::Refuse) => Err(self.record_failure(error)),
            // With `run`, the loss of an event is logged when it occurs.
            (Ok(()), _) | (Err(_), AuditFailureMode::Run) => Ok(()),
        }
    }

    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        let result = draft_line(event).and_then(|draft| {
            self.run_blocking(|| self.append(std::iter::once((draft.unsealed(), event.time))))
        });
        self.apply_failure_mode(result)
    }

    fn record_with_others<'a>(
        &'a self,
        event: &AuditEvent,
    ) -> BoxFuture<'a, Result<(), AuditError>> {
        match draft_line(event) {
            Ok(draft) => Box::pin(BatchWait {
                log: self,
                batch: Some(self.batcher.join((draft.unsealed(), event.time))),
                poll_count: 0,
            }),
            Err(error) => Box::pin(std::future::ready(self.apply_failure_mode(Err(error)))),
        }
    }

    fn wants_arguments(&self) -> bool {
        self.settings.log_args
    }
}
