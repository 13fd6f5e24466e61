//! Non-blocking stderr. A client may not read a server's stderr, and a full pipe blocks the writer. A thread therefore
//! writes the output of servers, and output that does not fit into its queue is dropped.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// Queue of the thread, if [`detach_stderr`] has started it.
static QUEUE: OnceLock<SyncSender<StderrChunk>> = OnceLock::new();

enum StderrChunk {
    Bytes(Vec<u8>),
    /// Request to signal that all earlier chunks have been written.
    Flush(SyncSender<()>),
}

/// Maximum number of queued chunks, far more than accumulate while a client reads.
const QUEUE_CAPACITY: usize = 512;

/// Maximum time to wait for a reader when the program exits.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Makes writes of [`StderrQueue`] non-blocking from now on.
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

/// Writes output that is still held back, and waits up to half a second until queued output is written.
pub fn flush() {
    // An abandoned question may still hold back output.
    release_held_output();
    let Some(sender) = QUEUE.get() else { return };
    let (done, is_done) = sync_channel(1);
    if sender.try_send(StderrChunk::Flush(done)).is_ok() {
        let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// Output that is held back while a full-screen view or a question is open; `None` if output is not held back.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Maximum number of bytes that are held back. Further output is dropped.
const MAX_HELD_BYTES: usize = 64 << 10;

/// Guard that holds back stderr output until it is dropped.
pub struct StderrHold(());

impl StderrHold {
    /// Returns true if output was held back.
    pub fn has_output(&self) -> bool {
        lock_held_output()
            .as_ref()
            .is_some_and(|bytes| !bytes.is_empty())
    }
}

/// Holds back stderr output, so that it does not overwrite the screen. Dropping the guard writes the output.
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
        release_held_output();
    }
}

/// Writes the held output. The lock is kept until it is written: otherwise, another thread could write later output before
/// it, or end the program.
fn release_held_output() {
    let mut held = lock_held_output();
    if let Some(bytes) = held.take() {
        let _ = write_now(&bytes);
    }
}

/// Writes to stderr, or to the queue of its thread.
fn write_now(bytes: &[u8]) -> io::Result<()> {
    match QUEUE.get() {
        Some(sender) => {
            let _ = sender.try_send(StderrChunk::Bytes(bytes.to_vec()));
            Ok(())
        }
        None => super::progress::suspend(|| anstream::stderr().write_all(bytes)),
    }
}

/// Writer to stderr that respects [`hold_output`] and [`detach_stderr`].
#[derive(Debug, Clone, Copy, Default)]
pub struct StderrQueue;

impl Write for StderrQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = lock_held_output();
        if let Some(held_output) = &mut *held {
            let room = MAX_HELD_BYTES.saturating_sub(held_output.len());
            held_output.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return Ok(bytes.len());
        }
        // A write that waits for a reader does not keep others from holding output back.
        drop(held);
        write_now(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
