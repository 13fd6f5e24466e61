//! Events of calls that end at about the same time, written together: each waits for a turn of the others, and
//! the first that has its turn again writes for all that have come meanwhile.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::SystemTime;

use sha2::Sha256;

use super::line::Piece;

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
pub(super) type Entry<'a> = (Piece<'a>, SystemTime);

/// Events that are to be written together. Their texts are copied: what one thread allocates and another frees
/// costs both more than that.
#[derive(Default)]
pub(super) struct Events {
    texts: Vec<u8>,
    marks: Vec<Mark>,
}

/// What belongs to a text.
struct Mark {
    /// Where it ends.
    end: usize,
    digest: Sha256,
    time: SystemTime,
}

impl Events {
    fn push(&mut self, (piece, time): Entry<'_>) {
        self.texts.extend_from_slice(piece.text);
        self.marks.push(Mark {
            end: self.texts.len(),
            digest: piece.digest,
            time,
        });
    }

    fn clear(&mut self) {
        self.texts.clear();
        self.marks.clear();
    }

    /// Each of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut from = 0;
        self.marks.iter().map(move |mark| {
            let text = &self.texts[from..mark.end];
            from = mark.end;
            let digest = mark.digest.clone();
            (Piece { text, digest }, mark.time)
        })
    }
}

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
    events: Events,
    /// What the last batch was kept in.
    spare: Events,
}

impl Gather {
    /// Joins those that are gathering.
    pub(super) fn join(&self, event: Entry<'_>) -> Arc<Batch> {
        let mut open = soon(&self.0.0);
        open.events.push(event);
        Arc::clone(&open.batch)
    }

    /// Writes all events of a batch with `write`, if nobody has done that yet. From then on nobody joins it.
    pub(super) fn settle(
        &self,
        batch: &Arc<Batch>,
        write: impl FnOnce(&Events) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut result = soon(&batch.0);
        let result = result.get_or_insert_with(|| {
            let mut events = self.close(batch);
            let written = write(&events);
            events.clear();
            soon(&self.0.0).spare = events;
            written.map_err(|error| Failed {
                kind: error.kind(),
                text: error.to_string(),
            })
        });
        match result {
            Ok(()) => Ok(()),
            Err(failed) => Err(io::Error::new(failed.kind, failed.text.clone())),
        }
    }

    fn close(&self, batch: &Arc<Batch>) -> Events {
        let next = Arc::default();
        let mut open = soon(&self.0.0);
        if !Arc::ptr_eq(&open.batch, batch) {
            return Events::default();
        }
        open.batch = next;
        let spare = std::mem::take(&mut open.spare);
        std::mem::replace(&mut open.events, spare)
    }
}
