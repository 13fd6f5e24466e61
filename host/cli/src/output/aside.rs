//! stderr that nobody may read: a server's client can leave it alone, and a pipe that is full stops whoever writes to
//! it. So a server hands its lines to a thread, and what that cannot get rid of is dropped.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The way to the thread, once there is one.
static WAY: OnceLock<SyncSender<Piece>> = OnceLock::new();

enum Piece {
    Words(Vec<u8>),
    /// Says that everything before it has been written.
    Flush(SyncSender<()>),
}

/// Pieces that wait to be written: many more than there are at a time while somebody reads.
const WAITING: usize = 512;

/// How long the end of the program waits for a reader.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// From now on no line for stderr stops anybody.
pub fn detach() {
    let (way, pieces) = sync_channel(WAITING);
    if WAY.set(way).is_ok() {
        std::thread::spawn(move || write(&pieces));
    }
}

fn write(pieces: &Receiver<Piece>) {
    for piece in pieces {
        match piece {
            Piece::Words(words) => {
                let _ = anstream::stderr().write_all(&words);
            }
            Piece::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

/// Waits for what is still to be written, if somebody reads it.
pub fn flush() {
    let Some(way) = WAY.get() else { return };
    let (done, is_done) = sync_channel(1);
    if way.try_send(Piece::Flush(done)).is_ok() {
        let _ = is_done.recv_timeout(LAST_WORDS);
    }
}

/// What is kept back while the screen is somebody's.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// As much of it is kept.
const HELD_MOST: usize = 64 << 10;

/// Keeps back what is for stderr, until this is dropped.
pub struct Held(());

/// From now on nothing is written across the screen.
pub fn hold() -> Held {
    held().get_or_insert_default();
    Held(())
}

/// Whether the screen is somebody's.
pub fn is_held() -> bool {
    held().is_some()
}

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Held {
    fn drop(&mut self) {
        let words = held().take();
        let _ = Aside.write_all(&words.unwrap_or_default());
    }
}

/// A writer to stderr.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aside;

impl Write for Aside {
    fn write(&mut self, words: &[u8]) -> io::Result<usize> {
        if let Some(kept) = &mut *held() {
            let room = HELD_MOST.saturating_sub(kept.len());
            kept.extend_from_slice(&words[..words.len().min(room)]);
            return Ok(words.len());
        }
        match WAY.get() {
            Some(way) => {
                let _ = way.try_send(Piece::Words(words.to_vec()));
            }
            None => super::progress::suspend(|| anstream::stderr().write_all(words))?,
        }
        Ok(words.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
