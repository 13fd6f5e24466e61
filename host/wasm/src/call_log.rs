//! Output of a guest in addition to its result, as limited log lines.

use std::collections::VecDeque;
use std::sync::Arc;

use mimir_core::call::{CallObserver, LogLevel, LogLine};
use mimir_core::{Limits, text};
use parking_lot::{Mutex, MutexGuard};

/// Bytes of the end of stderr that are stored to explain a failure.
const TAIL: usize = 2 << 10;

/// The log of one call. Clones share it.
#[derive(Clone)]
pub(crate) struct CallLog(Arc<Mutex<LogBuffer>>);

struct LogBuffer {
    observer: Arc<dyn CallObserver>,
    left: usize,
    most: usize,
    line_bytes: usize,
    dropped: u64,
    tail: VecDeque<u8>,
}

impl CallLog {
    pub(crate) fn new(observer: Arc<dyn CallObserver>, limits: &Limits) -> Self {
        Self(Arc::new(Mutex::new(LogBuffer {
            observer,
            left: limits.log_lines,
            most: limits.log_lines,
            line_bytes: limits.log_line_bytes,
            dropped: 0,
            tail: VecDeque::new(),
        })))
    }

    /// Replaces the observer, with as many lines allowed as for a new call.
    pub(crate) fn set_observer(&self, observer: Arc<dyn CallObserver>) {
        let mut lines = self.lock();
        lines.observer = observer;
        lines.left = lines.most;
    }

    fn lock(&self) -> MutexGuard<'_, LogBuffer> {
        self.0.lock()
    }

    /// Passes on a line, if the limit allows it.
    pub(crate) fn write_line(&self, level: LogLevel, line: &str) {
        let mut lines = self.lock();
        if lines.left == 0 {
            lines.dropped += 1;
            return;
        }
        lines.left -= 1;
        let kept = text::prefix_bytes(line, lines.line_bytes);
        let mut shown = text::sanitize(kept.to_owned());
        if kept.len() < line.len() {
            shown.push('…');
        }
        lines.observer.log(LogLine { level, text: shown });
    }

    /// Returns the end of stderr.
    pub(crate) fn tail(&self) -> String {
        let mut lines = self.lock();
        let bytes: &[u8] = lines.tail.make_contiguous();
        text::sanitize(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns the maximum length of a line in bytes.
    pub(crate) fn line_bytes(&self) -> usize {
        self.lock().line_bytes
    }

    /// Reports the number of dropped lines.
    pub(crate) fn report_dropped(&self) {
        let mut lines = self.lock();
        let dropped = std::mem::take(&mut lines.dropped);
        if dropped > 0 {
            let text = format!("{dropped} more lines were dropped (limits.logLines)");
            lines.observer.log(LogLine {
                level: LogLevel::Warn,
                text,
            });
        }
    }

    pub(crate) fn keep_tail(&self, bytes: &[u8]) {
        let mut lines = self.lock();
        let bytes = &bytes[bytes.len().saturating_sub(TAIL)..];
        let over = (lines.tail.len() + bytes.len()).saturating_sub(TAIL);
        lines.tail.drain(..over);
        lines.tail.extend(bytes);
    }
}
