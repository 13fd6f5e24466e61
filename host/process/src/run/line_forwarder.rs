//! Progress events for the output of a command, line by line and in bounded memory.

use std::sync::Arc;

use mimir_core::call::{CallObserver, CallProgress};
use mimir_core::command::CommandStream;
use mimir_core::text::{escape, prefix};

/// Maximum number of lines to forward per command. The result has the full output.
const MAX_LINES: usize = 1_000;

/// Maximum length of a forwarded line, in bytes.
const MAX_LINE_BYTES: usize = 4_096;

/// Forwards output line by line to an observer.
pub(crate) struct LineForwarder {
    observer: Arc<dyn CallObserver>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    shown: usize,
}

impl LineForwarder {
    pub(crate) fn new(observer: Arc<dyn CallObserver>) -> Self {
        Self {
            observer,
            stdout: Vec::new(),
            stderr: Vec::new(),
            shown: 0,
        }
    }

    pub(crate) fn add(&mut self, stream: CommandStream, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.shown >= MAX_LINES {
                return;
            }
            let line = match stream {
                CommandStream::Stdout => &mut self.stdout,
                CommandStream::Stderr => &mut self.stderr,
            };
            let capacity = MAX_LINE_BYTES.saturating_sub(line.len());
            line.extend(part.iter().take(capacity));
            if part.ends_with(b"\n") {
                let line = std::mem::take(line);
                self.show(&line);
            }
        }
    }

    /// Forwards unfinished lines, after the command has ended.
    pub(crate) fn end(&mut self) {
        for line in [
            std::mem::take(&mut self.stdout),
            std::mem::take(&mut self.stderr),
        ] {
            if !line.is_empty() && self.shown < MAX_LINES {
                self.show(&line);
            }
        }
    }

    fn show(&mut self, line: &[u8]) {
        self.shown += 1;
        let text = String::from_utf8_lossy(line);
        let text = escape(prefix(text.trim_end_matches(['\n', '\r']), MAX_LINE_BYTES).to_owned());
        self.observer.progress(CallProgress {
            done: self.shown as u64,
            total: None,
            message: Some(text),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::call::LogLine;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl CallObserver for Seen {
        fn progress(&self, progress: CallProgress) {
            let mut seen = self.0.lock();
            seen.push(progress.message.unwrap());
            assert_eq!(progress.done, seen.len() as u64);
        }
        fn log(&self, _: LogLine) {}
    }

    #[test]
    fn lines_are_forwarded_when_complete_up_to_the_limits() {
        let seen = Arc::new(Seen::default());
        let mut lines = LineForwarder::new(seen.clone());
        lines.add(CommandStream::Stdout, b"one\ntw");
        lines.add(CommandStream::Stderr, b"err\n");
        lines.add(CommandStream::Stdout, b"o\r\nthree");
        assert_eq!(*seen.0.lock(), ["one", "err", "two"]);
        lines.end();
        assert_eq!(seen.0.lock().last().unwrap(), "three");
        lines.add(CommandStream::Stdout, &b"x".repeat(1 << 20));
        lines.add(CommandStream::Stdout, &b"\n".repeat(10_000));
        let seen = seen.0.lock();
        assert_eq!(seen.len(), MAX_LINES);
        assert!(seen.iter().all(|line| line.len() <= MAX_LINE_BYTES));
    }
}
