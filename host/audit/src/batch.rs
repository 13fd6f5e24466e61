//! Batching of events from calls that end at about the same time: each event lets other tasks run first, and the first
//! one that continues writes all events gathered meanwhile.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use sha2::Sha256;

use super::line::UnsealedLine;

/// Data changed by several threads, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct CacheAligned<T>(pub(super) T);

/// An event to be written, and its time.
pub(super) type TimedLine<'a> = (UnsealedLine<'a>, SystemTime);

/// Events to be written together. Their texts are copied, which is faster than freeing memory that another thread has
/// allocated.
#[derive(Default)]
pub(super) struct BatchEvents {
    texts: Vec<u8>,
    boundaries: Vec<EventBoundary>,
}

/// The end, hash and time of an event's text.
struct EventBoundary {
    /// Offset of the end of the text.
    end: usize,
    digest: Sha256,
    time: SystemTime,
}

impl BatchEvents {
    fn push(&mut self, (line, time): TimedLine<'_>) {
        self.texts.extend_from_slice(line.text);
        self.boundaries.push(EventBoundary {
            end: self.texts.len(),
            digest: line.digest,
            time,
        });
    }

    fn clear(&mut self) {
        self.texts.clear();
        self.boundaries.clear();
    }

    /// Iterates over the events.
    pub(super) fn iter(&self) -> impl Iterator<Item = TimedLine<'_>> {
        let mut start = 0;
        self.boundaries.iter().map(move |boundary| {
            let text = &self.texts[start..boundary.end];
            start = boundary.end;
            let digest = boundary.digest.clone();
            (UnsealedLine { text, digest }, boundary.time)
        })
    }
}

/// The result of a batch, shared by the callers of its events and set once. Locked while the batch is written.
#[derive(Default)]
pub(super) struct BatchResult(Mutex<Option<Result<(), SharedIoError>>>);

/// An error that is returned to several callers.
#[derive(Clone)]
struct SharedIoError {
    kind: io::ErrorKind,
    text: String,
}

impl BatchResult {
    /// Returns true while a thread writes the batch.
    pub(super) fn is_busy(&self) -> bool {
        self.0.is_locked()
    }
}

/// The events that gather for the next write.
#[derive(Default)]
pub(super) struct EventBatcher(CacheAligned<Mutex<OpenBatch>>);

/// The batch that is open for further events, and its events.
#[derive(Default)]
struct OpenBatch {
    batch: Arc<BatchResult>,
    events: BatchEvents,
    /// The reused buffers of the last batch.
    spare: BatchEvents,
}

impl EventBatcher {
    /// Adds an event to the open batch.
    pub(super) fn join(&self, event: TimedLine<'_>) -> Arc<BatchResult> {
        let mut open = self.0.0.lock();
        open.events.push(event);
        Arc::clone(&open.batch)
    }

    /// Writes all events of a batch with `write`, unless another caller has. The batch takes no further events.
    pub(super) fn write_once(
        &self,
        batch: &Arc<BatchResult>,
        write: impl FnOnce(&BatchEvents) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut result = batch.0.lock();
        let result = result.get_or_insert_with(|| {
            let mut events = self.close(batch);
            let written = write(&events);
            events.clear();
            self.0.0.lock().spare = events;
            written.map_err(|error| SharedIoError {
                kind: error.kind(),
                text: error.to_string(),
            })
        });
        match result {
            Ok(()) => Ok(()),
            Err(failed) => Err(io::Error::new(failed.kind, failed.text.clone())),
        }
    }

    /// Opens the next batch and returns the events of this one. Returns no events if the batch was closed before.
    fn close(&self, batch: &Arc<BatchResult>) -> BatchEvents {
        let next = Arc::default();
        let mut open = self.0.0.lock();
        if !Arc::ptr_eq(&open.batch, batch) {
            return BatchEvents::default();
        }
        open.batch = next;
        let spare = std::mem::take(&mut open.spare);
        std::mem::replace(&mut open.events, spare)
    }
}
