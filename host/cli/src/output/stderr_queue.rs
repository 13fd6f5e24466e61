//! Non-blocking stderr for servers. A client may leave a server's stderr unread, and a full pipe would block the
//! writer, so a thread writes the lines and drops what it cannot write.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// Channel to the thread, once it exists.
static QUEUE: OnceLock<SyncSender<StderrChunk>> = OnceLock::new();

enum StderrChunk {
    Bytes(Vec<u8>),
    /// Signals that everything before it has been written.
    Flush(SyncSender<()>),
}

/// Queue length in chunks: far more than accumulate while a client reads.
const QUEUE_CAPACITY: usize = 512;

/// Time to wait for a reader when the program exits.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Makes stderr non-blocking from now on.
pub fn detach_stderr() {
    let (sender, chunks) = sync_channel(QUEUE_CAPACITY);
    if QUEUE.set(sender).is_ok() {
        std::thread::spawn(move || write(&chunks));
    }
}

fn write(chunks: &Receiver<StderrChunk>) {
    for chunk in chunks {
        match chunk {
            StderrChunk::Bytes(bytes) => {
                let _ = anstream::stderr().write_all(&bytes);
            }
            StderrChunk::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

/// Writes output that is still held back, and waits for queued output if stderr is being read.
pub fn flush() {
    // A question that was abandoned may still be open.
    let held = lock_held_output().take();
    let _ = StderrQueue.write_all(&held.unwrap_or_default());
    let Some(sender) = QUEUE.get() else { return };
    let (done, is_done) = sync_channel(1);
    if sender.try_send(StderrChunk::Flush(done)).is_ok() {
        let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// Output held back while a full-screen view or a question is open.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Size limit of held output.
const MAX_HELD_BYTES: usize = 64 << 10;

/// Holds back stderr output until it is dropped.
pub struct StderrHold(());

impl StderrHold {
    /// Returns true if there was output meanwhile.
    pub fn has_output(&self) -> bool {
        lock_held_output()
            .as_ref()
            .is_some_and(|bytes| !bytes.is_empty())
    }
}

/// Holds back stderr output, so that nothing is written across the screen.
pub fn hold_output() -> StderrHold {
    lock_held_output().get_or_insert_default();
    StderrHold(())
}

/// Returns true while a full-screen view or a question is open.
pub fn is_output_held() -> bool {
    lock_held_output().is_some()
}

fn lock_held_output() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock()
}

impl Drop for StderrHold {
    fn drop(&mut self) {
        let bytes = lock_held_output().take();
        let _ = StderrQueue.write_all(&bytes.unwrap_or_default());
    }
}

/// A writer to stderr.
#[derive(Debug, Clone, Copy, Default)]
pub struct StderrQueue;

impl Write for StderrQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(held_output) = &mut *lock_held_output() {
            let room = MAX_HELD_BYTES.saturating_sub(held_output.len());
            held_output.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return Ok(bytes.len());
        }
        match QUEUE.get() {
            Some(sender) => {
                let _ = sender.try_send(StderrChunk::Bytes(bytes.to_vec()));
            }
            None => super::progress::suspend(|| anstream::stderr().write_all(bytes))?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
