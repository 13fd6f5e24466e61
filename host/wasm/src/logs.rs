//! What a guest says beside its result, as bounded log lines.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mimir_core::call::{LogLevel, LogLine, Observer};
use mimir_core::{Limits, text};

/// How much of the end of stderr is kept to explain a failure.
const TAIL: usize = 2 << 10;

/// The log of one call. Clones share it.
#[derive(Clone)]
pub(crate) struct Logs(Arc<Mutex<Lines>>);

struct Lines {
    observer: Arc<dyn Observer>,
    left: usize,
    most: usize,
    line_bytes: usize,
    dropped: u64,
    tail: VecDeque<u8>,
}

impl Logs {
    pub(crate) fn new(observer: Arc<dyn Observer>, limits: &Limits) -> Self {
        Self(Arc::new(Mutex::new(Lines {
            observer,
            left: limits.log_lines,
            most: limits.log_lines,
            line_bytes: limits.log_line_bytes,
            dropped: 0,
            tail: VecDeque::new(),
        })))
    }

    /// Tells another one from now on, as many lines as of a new call.
    pub(crate) fn watch(&self, observer: Arc<dyn Observer>) {
        let mut lines = self.lock();
        lines.observer = observer;
        lines.left = lines.most;
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a line on, if there is room for it.
    pub(crate) fn line(&self, level: LogLevel, line: &str) {
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

    /// The end of what was written to stderr.
    pub(crate) fn tail(&self) -> String {
        let mut lines = self.lock();
        let bytes: &[u8] = lines.tail.make_contiguous();
        text::sanitize(String::from_utf8_lossy(bytes).into_owned())
    }

    /// How many bytes of a line are kept.
    pub(crate) fn line_bytes(&self) -> usize {
        self.lock().line_bytes
    }

    /// Says how many lines were dropped.
    pub(crate) fn close(&self) {
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
