//! The record as files of JSON lines that form a chain.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::SystemTime;

use crate::config::{AuditSettings, Durability, OnFailure};

use super::chain::Chain;
use super::commit::Commit;
use super::line::Draft;
use super::place::Place;
use super::{AuditError, AuditSink, Event, reserve};

/// A log that several threads and processes share; its form is described in the [module](super). Opened at the
/// first event, so that what records nothing makes no file.
pub struct FileAudit {
    place: Place,
    settings: AuditSettings,
    chain: Mutex<Option<Chain>>,
    commit: Commit,
    /// Whether all was well, the reserve included, when it was looked at last.
    sound: AtomicBool,
}

/// How often the lock between threads is tried before a thread goes to sleep: for about as long as the holder's
/// few writes take. Sleeping and being woken takes longer than they do.
const SPINS: u32 = 400;

impl FileAudit {
    /// A log at `path`; its folder is made when it is needed.
    pub fn new(path: impl Into<PathBuf>, settings: AuditSettings) -> Self {
        Self {
            place: Place::of(path.into()),
            settings,
            chain: Mutex::new(None),
            commit: Commit::new(File::sync_data),
            sound: AtomicBool::new(false),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.place.log()
    }

    fn failed(&self, source: io::Error) -> AuditError {
        self.sound.store(false, Ordering::Relaxed);
        AuditError {
            place: crate::text::visible(&self.place.log().display().to_string()),
            source,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Chain>> {
        for _ in 0..SPINS {
            match self.chain.try_lock() {
                Ok(chain) => return chain,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the end of the log while nobody else does. After an error it is opened anew.
    fn locked<T>(&self, work: impl FnOnce(&mut Chain) -> io::Result<T>) -> io::Result<T> {
        let mut slot = self.lock();
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
        let result = work(chain).and_then(|done| chain.leave().map(|()| done));
        if result.is_err() {
            *slot = None;
        }
        result
    }

    fn append(&self, event: &Event) -> io::Result<()> {
        let draft = Draft::new(event)?;
        let file = self.locked(|chain| self.write(chain, draft, event.time))?;
        match self.settings.durability {
            Durability::Write => Ok(()),
            Durability::Fsync => unhurried(|| self.commit.wait(file)),
        }
    }

    fn write(&self, chain: &mut Chain, draft: Draft, time: SystemTime) -> io::Result<Arc<File>> {
        chain.append(draft, time, &self.place, &self.settings)?;
        if chain.was_strained() {
            self.sound.store(false, Ordering::Relaxed);
        }
        Ok(chain.log())
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
        match (self.append(event), self.settings.on_failure) {
            (Ok(()), _) => Ok(()),
            (Err(error), OnFailure::Refuse) => Err(self.failed(error)),
            (Err(error), OnFailure::Run) => {
                let error = self.failed(error);
                tracing::error!(event = %event.event, "an event is not on record (audit.onFailure: run): {error}");
                Ok(())
            }
        }
    }

    fn wants_arguments(&self) -> bool {
        self.settings.log_args
    }
}
