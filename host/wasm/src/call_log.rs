//! Output of a guest in addition to its result, as limited log lines.

use std::collections::VecDeque;
use std::sync::Arc;

use mimir_core::call::{CallObserver, LogLevel, LogLine};
use mimir_core::{Limits, text};
use parking_lot::{Mutex, MutexGuard};

/// Number of bytes stored from the end of stderr, to explain a failure.
const TAIL: usize = 2 << 10;

/// The log of one call. Clones share the log.
#[derive(Clone)]
pub(crate) struct CallLog(Arc<Mutex<LogBuffer>>);

struct LogBuffer {
    observer: Arc<dyn CallObserver>,
    lines_left: usize,
    max_lines: usize,
    line_bytes: usize,
    /// Number of dropped lines that were not reported yet.
    dropped: u64,
    /// The end of stderr.
    tail: VecDeque<u8>,
}

impl CallLog {
    pub(crate) fn new(observer: Arc<dyn CallObserver>, limits: &Limits) -> Self {
        Self(Arc::new(Mutex::new(LogBuffer {
            observer,
            lines_left: limits.log_lines,
            max_lines: limits.log_lines,
            line_bytes: limits.log_line_bytes,
            dropped: 0,
            tail: VecDeque::new(),
        })))
    }

    /// Replaces the observer and resets the number of allowed lines.
    pub(crate) fn set_observer(&self, observer: Arc<dyn CallObserver>) {
        let mut buffer = self.lock();
        buffer.observer = observer;
        buffer.lines_left = buffer.max_lines;
    }

    fn lock(&self) -> MutexGuard<'_, LogBuffer> {
        self.0.lock()
    }

    /// Passes a line on to the observer, truncated to the maximum length; drops it if the limit is reached.
    pub(crate) fn write_line(&self, level: LogLevel, line: &str) {
        let mut buffer = self.lock();
        if buffer.lines_left == 0 {
            buffer.dropped += 1;
            return;
        }
        buffer.lines_left -= 1;
        let prefix = text::prefix_bytes(line, buffer.line_bytes);
        let mut shown = text::sanitize(prefix.to_owned());
        if prefix.len() < line.len() {
            shown.push('…');
        }
        buffer.observer.log(LogLine { level, text: shown });
    }

    /// Returns the stored end of stderr.
    pub(crate) fn tail(&self) -> String {
        let mut buffer = self.lock();
        let bytes: &[u8] = buffer.tail.make_contiguous();
        text::sanitize(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns the maximum length of a line in bytes.
    pub(crate) fn line_bytes(&self) -> usize {
        self.lock().line_bytes
    }

    /// Reports the number of dropped lines.
    pub(crate) fn report_dropped(&self) {
        let mut buffer = self.lock();
        let dropped = std::mem::take(&mut buffer.dropped);
        if dropped > 0 {
            let text = format!("{dropped} more lines were dropped (limits.logLines)");
            buffer.observer.log(LogLine {
                level: LogLevel::Warn,
                text,
            });
        }
    }

    /// Appends to the stored end of stderr.
    pub(crate) fn append_stderr(&self, bytes: &[u8]) {
        let mut buffer = self.lock();
        let bytes = &bytes[bytes.len().saturating_sub(TAIL)..];
        let over = (buffer.tail.len() + bytes.len()).saturating_sub(TAIL);
        buffer.tail.drain(..over);
        buffer.tail.extend(bytes);
    }
}
