//! Non-blocking lines on stderr: a slow reader does not delay a call.

use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Duration;

use parking_lot::Mutex;

use crate::output::note;

/// Number of lines that are queued for a slow reader; further lines are dropped. A call may log as many by default.
const QUEUE_CAPACITY: usize = 1_000;

/// Maximum time to wait for the queued lines at the end of a call.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Prints lines in order on a thread, which starts with the first line.
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
    /// Queues `print`, which writes a line. Drops it if the queue is full.
    pub fn push(&self, print: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        let printer = state.printer.get_or_insert_with(PrinterThread::start);
        match printer.lines.try_send(Box::new(print)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => state.dropped += 1,
        }
    }

    /// Waits until the queued lines are written, for at most a second. Then reports the number of dropped lines.
    pub fn finish(&self) {
        let mut state = self.0.lock();
        let Some(PrinterThread { lines, done }) = state.printer.take() else {
            return;
        };
        drop(lines);
        // The thread ends once all lines are written. A thread that is blocked by the reader is abandoned.
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
