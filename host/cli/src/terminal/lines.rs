//! Lines on stderr that nobody has to wait for: a reader who does not read stops no call.

use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::output::note;

/// How many lines wait for a slow reader before more are dropped: as many as one call may log.
const WAITING: usize = 1_000;

/// How long the end of a call waits for its last lines to be read.
const LAST: Duration = Duration::from_secs(1);

/// Prints lines in their order, from a thread that begins with the first.
#[derive(Default)]
pub struct Lines(Mutex<State>);

#[derive(Default)]
struct State {
    printer: Option<Printer>,
    dropped: usize,
}

struct Printer {
    lines: SyncSender<Box<dyn FnOnce() + Send>>,
    done: Receiver<()>,
}

impl Lines {
    /// Lets `print` write a line when its turn comes. If too many wait already, it is dropped.
    pub fn push(&self, print: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let printer = state.printer.get_or_insert_with(Printer::start);
        match printer.lines.try_send(Box::new(print)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => state.dropped += 1,
        }
    }

    /// Waits a moment until the lines are written.
    pub fn finish(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Printer { lines, done }) = state.printer.take() else {
            return;
        };
        drop(lines);
        // It ends when it has written everything; one that waits for a reader is left behind.
        let read = !matches!(
            done.recv_timeout(LAST),
            Err(mpsc::RecvTimeoutError::Timeout)
        );
        if read && state.dropped > 0 {
            note(format_args!(
                "({} lines were dropped: nobody read them)",
                state.dropped
            ));
        }
    }
}

impl Printer {
    fn start() -> Self {
        let (lines, all) = mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(WAITING);
        let (ended, done) = mpsc::channel();
        std::thread::spawn(move || {
            all.into_iter().for_each(|print| print());
            drop(ended);
        });
        Self { lines, done }
    }
}
