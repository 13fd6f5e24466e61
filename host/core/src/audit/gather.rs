//! Events of calls that end at about the same time, written together: each waits for a turn of the others, and
//! the first that has its turn again writes for all that have come meanwhile.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::SystemTime;

use super::line::Draft;

/// How often a lock is tried before a thread goes to sleep for it: for about as long as a holder's few writes
/// take. Sleeping and being woken takes longer than they do.
const SPINS: u32 = 400;

/// The lock of something that is held shortly.
pub(super) fn soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..SPINS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether somebody holds the lock at the moment.
pub(super) fn is_busy<T>(mutex: &Mutex<T>) -> bool {
    matches!(mutex.try_lock(), Err(TryLockError::WouldBlock))
}

/// What several threads change, in a line of the processor's cache of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

/// An event that is to be written, and its time.
pub(super) type Entry = (Draft, SystemTime);

/// Events that are written together: what came of it, set once for all. Held while they are written.
#[derive(Default)]
pub(super) struct Batch(Mutex<Option<Result<(), Failed>>>);

/// An error that several are told.
#[derive(Clone)]
struct Failed {
    kind: io::ErrorKind,
    text: String,
}

impl Batch {
    /// Whether somebody is writing it.
    pub(super) fn is_busy(&self) -> bool {
        is_busy(&self.0)
    }
}

/// Where events gather.
#[derive(Default)]
pub(super) struct Gather(Apart<Mutex<Open>>);

/// The batch that can be joined, and its events.
#[derive(Default)]
struct Open {
    batch: Arc<Batch>,
    events: Vec<Entry>,
}

impl Gather {
    /// Joins those that are gathering.
    pub(super) fn join(&self, event: Entry) -> Arc<Batch> {
        let mut open = soon(&self.0.0);
        open.events.push(event);
        Arc::clone(&open.batch)
    }

    /// Writes all events of a batch with `write`, if nobody has done that yet. From then on nobody joins it.
    pub(super) fn settle(
        &self,
        batch: &Arc<Batch>,
        write: impl FnOnce(Vec<Entry>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut result = soon(&batch.0);
        let result = result.get_or_insert_with(|| {
            write(self.close(batch)).map_err(|error| Failed {
                kind: error.kind(),
                text: error.to_string(),
            })
        });
        match result {
            Ok(()) => Ok(()),
            Err(failed) => Err(io::Error::new(failed.kind, failed.text.clone())),
        }
    }

    fn close(&self, batch: &Arc<Batch>) -> Vec<Entry> {
        let next = Arc::default();
        let mut open = soon(&self.0.0);
        if !Arc::ptr_eq(&open.batch, batch) {
            return Vec::new();
        }
        open.batch = next;
        std::mem::take(&mut open.events)
    }
}
