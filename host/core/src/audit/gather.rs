//! Events of calls that end at about the same time, written together: each waits for one turn of the others,
//! and the first that has its turn again writes for all that have come meanwhile.

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

/// An event that is to be written, and its time.
pub(super) type Entry = (Draft, SystemTime);

/// Events that are written together.
#[derive(Default)]
pub(super) struct Batch(Mutex<State>);

#[derive(Default)]
struct State {
    events: Vec<Entry>,
    /// What came of it; set once, for all.
    result: Option<Result<(), Failed>>,
}

/// An error that several are told.
#[derive(Clone)]
struct Failed {
    kind: io::ErrorKind,
    text: String,
}

impl Batch {
    /// Writes all events with `write`, if nobody has done that yet.
    pub(super) fn settle(
        &self,
        write: impl FnOnce(Vec<Entry>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = soon(&self.0);
        let result = match state.result.take() {
            Some(result) => result,
            None => write(std::mem::take(&mut state.events)).map_err(|error| Failed {
                kind: error.kind(),
                text: error.to_string(),
            }),
        };
        state.result = Some(result.clone());
        result.map_err(|failed| io::Error::new(failed.kind, failed.text))
    }
}

/// Where events gather.
#[derive(Default)]
pub(super) struct Gather(Mutex<Arc<Batch>>);

impl Gather {
    /// Joins those that are gathering.
    pub(super) fn join(&self, event: Entry) -> Arc<Batch> {
        let open = soon(&self.0);
        soon(&open.0).events.push(event);
        Arc::clone(&open)
    }

    /// Nobody joins this batch any more.
    pub(super) fn close(&self, batch: &Arc<Batch>) {
        let mut open = soon(&self.0);
        if Arc::ptr_eq(&open, batch) {
            *open = Arc::default();
        }
    }
}
