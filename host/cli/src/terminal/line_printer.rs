//! Non-blocking lines on stderr: a slow reader does not delay a call.

use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Duration;

use parking_lot::Mutex;

use crate::output::note;

/// Queue length for a slow reader, after which lines are dropped: as many lines as one call may log.
const QUEUE_CAPACITY: usize = 1_000;

/// Time to wait for the last lines at the end of a call.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Prints lines in order, from a thread that starts with the first line.
#[derive(Default)]
pub struct LinePrinter(Mutex<LinePrinterState>);

#[derive(Default)]
struct LinePrinterState {
    printer: Option<PrinterThread>,
    dropped: usize,
}

struct PrinterThread {
    lines: SyncSender<Box<dyn FnOnce() + Send>>,
    done: Receiver<()>,
}

impl LinePrinter {
    /// Queues `print` for writing a line. It is dropped if the queue is full.
    pub fn push(&self, print: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        let printer = state.printer.get_or_insert_with(PrinterThread::start);
        match printer.lines.try_send(Box::new(print)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => state.dropped += 1,
        }
    }

    /// Waits briefly until the lines are written.
    pub fn finish(&self) {
        let mut state = self.0.lock();
        let Some(PrinterThread { lines, done }) = state.printer.take() else {
            return;
        };
        drop(lines);
        // The thread ends once all is written; if it is blocked by a reader, it is abandoned.
        let was_read = !matches!(
            done.recv_timeout(FLUSH_TIMEOUT),
            Err(mpsc::RecvTimeoutError::Timeout)
        );
        if was_read && state.dropped > 0 {
            note(format_args!(
                "({} lines were dropped because stderr was not read)",
                state.dropped
            ));
        }
    }
}

impl PrinterThread {
    fn start() -> Self {
        let (lines, queue) = mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(QUEUE_CAPACITY);
        let (ended, done) = mpsc::channel();
        std::thread::spawn(move || {
            queue.into_iter().for_each(|print| print());
            drop(ended);
        });
        Self { lines, done }
    }
}
