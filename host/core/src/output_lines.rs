//! The output of a program as progress reports, piece by piece while the program runs, in bounded memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::{CallObserver, CallProgress};
use crate::command::CommandStream;
use crate::text::{escape, prefix};

/// Maximum number of pieces to show per program. Further output is only counted; the result has it.
const MAX_PIECES: u64 = 1_000;

/// Maximum number of bytes to show per program.
const MAX_BYTES: usize = 1 << 20;

/// Maximum length of a piece in bytes. A longer line is shown in several pieces.
const MAX_PIECE_BYTES: usize = 4_096;

/// Age at which the text of an unfinished line is shown, such as a question or a row of dots.
pub const PARTIAL_LINE_DELAY: Duration = Duration::from_millis(250);

/// Interval of the reports that only count.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);

/// Message of the first report without text.
const CUT_OFF: &str = "… (further output is only in the result)";

/// Splits the output of a program into lines, and reports each line as a progress message. `\r` ends a line, too,
/// because programs redraw progress bars with it. Each byte is reported at most once, so that an observer which masks
/// secrets across messages sees the output as it was written.
pub struct OutputLines {
    observer: Arc<dyn CallObserver>,
    stdout: PartialLine,
    stderr: PartialLine,
    /// Number of pieces so far, including those that are only counted.
    pieces: u64,
    shown_bytes: usize,
    /// Time of the last report without text.
    counted_at: Option<Instant>,
}

/// The part of a line that is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePart {
    /// The end of the line, or the whole line.
    Last,
    /// A part that another one follows.
    Other,
}

/// The unfinished line of a stream.
#[derive(Default)]
struct PartialLine {
    text: Vec<u8>,
    /// Arrival of the first byte.
    since: Option<Instant>,
}

impl OutputLines {
    /// Creates a splitter that reports to `observer`.
    pub fn new(observer: Arc<dyn CallObserver>) -> Self {
        Self {
            observer,
            stdout: PartialLine::default(),
            stderr: PartialLine::default(),
            pieces: 0,
            shown_bytes: 0,
            counted_at: None,
        }
    }

    /// Adds output that has arrived `now`.
    pub fn add(&mut self, stream: CommandStream, bytes: &[u8], now: Instant) {
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, is_complete) = match part.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (part, false),
            };
            self.add_text(stream, text, now);
            if is_complete {
                self.report(stream, now, LinePart::Last);
            }
        }
        self.flush_partial_lines(now);
    }

    /// Reports unfinished lines that are older than [`PARTIAL_LINE_DELAY`]. Call it from time to time while the program
    /// runs.
    pub fn flush_partial_lines(&mut self, now: Instant) {
        for stream in [CommandStream::Stdout, CommandStream::Stderr] {
            let since = self.line(stream).since;
            if since.is_some_and(|since| now.duration_since(since) >= PARTIAL_LINE_DELAY) {
                self.report(stream, now, LinePart::Other);
            }
        }
    }

    /// Reports unfinished lines after the program has ended.
    pub fn finish(&mut self, now: Instant) {
        self.report(CommandStream::Stdout, now, LinePart::Last);
        self.report(CommandStream::Stderr, now, LinePart::Last);
    }

    fn line(&mut self, stream: CommandStream) -> &mut PartialLine {
        match stream {
            CommandStream::Stdout => &mut self.stdout,
            CommandStream::Stderr => &mut self.stderr,
        }
    }

    fn is_cut_off(&self) -> bool {
        self.pieces >= MAX_PIECES || self.shown_bytes >= MAX_BYTES
    }

    fn add_text(&mut self, stream: CommandStream, mut text: &[u8], now: Instant) {
        if self.is_cut_off() {
            // One byte suffices to count the line.
            text = &text[..text.len().min(1)];
        }
        while !text.is_empty() {
            let line = self.line(stream);
            let room = MAX_PIECE_BYTES.saturating_sub(line.text.len());
            let (now_added, rest) = text.split_at(text.len().min(room));
            line.text.extend_from_slice(now_added);
            line.since.get_or_insert(now);
            text = rest;
            if !text.is_empty() {
                self.report(stream, now, LinePart::Other);
            }
        }
    }

    /// Reports the text of a stream's line, unless it is empty.
    fn report(&mut self, stream: CommandStream, now: Instant, part: LinePart) {
        let mut line = std::mem::take(self.line(stream));
        // A character may be incomplete: its first bytes wait for the others.
        let rest = incomplete_character(&line.text);
        if part == LinePart::Other && rest > 0 && rest < line.text.len() {
            let tail = line.text.split_off(line.text.len() - rest);
            *self.line(stream) = PartialLine {
                text: tail,
                since: line.since,
            };
        }
        if line.text.is_empty() {
            return;
        }
        let was_cut_off = self.is_cut_off();
        self.pieces += 1;
        if was_cut_off {
            return self.report_count(now);
        }
        self.shown_bytes += line.text.len();
        let text = String::from_utf8_lossy(&line.text);
        let text = escape(prefix(&text, MAX_PIECE_BYTES).to_owned());
        let report = CallProgress {
            done: self.pieces,
            total: None,
            message: Some(text),
        };
        self.observer.output(stream, report);
    }

    /// Reports the number of pieces, at a limited rate.
    fn report_count(&mut self, now: Instant) {
        let is_first = self.counted_at.is_none();
        let is_due = |at: Instant| now.duration_since(at) >= COUNT_INTERVAL;
        if self.counted_at.is_some_and(|at| !is_due(at)) {
            return;
        }
        self.counted_at = Some(now);
        self.observer.progress(CallProgress {
            done: self.pieces,
            total: None,
            message: is_first.then(|| CUT_OFF.to_owned()),
        });
    }
}

/// Returns the length of an incomplete UTF-8 character at the end of a text, or 0.
fn incomplete_character(text: &[u8]) -> usize {
    match text.utf8_chunks().last() {
        // Invalid bytes at the end that could begin a character.
        Some(chunk) if matches!(chunk.invalid().first(), Some(0xC2..=0xF4)) => {
            chunk.invalid().len()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::LogLine;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(u64, Option<String>)>>);

    impl CallObserver for Seen {
        fn progress(&self, progress: CallProgress) {
            self.0.lock().push((progress.done, progress.message));
        }
        fn log(&self, _: LogLine) {}
    }

    impl Seen {
        fn messages(&self) -> Vec<String> {
            let seen = self.0.lock();
            seen.iter().filter_map(|(_, text)| text.clone()).collect()
        }
    }

    use CommandStream::{Stderr, Stdout};

    #[test]
    fn output_lines_are_reported_when_complete() {
        let (seen, now) = (Arc::new(Seen::default()), Instant::now());
        let mut lines = OutputLines::new(seen.clone());
        lines.add(Stdout, b"one\ntw", now);
        lines.add(Stderr, b"err\n", now);
        lines.add(Stdout, b"o\r\n 10%\r 20%\rthree", now);
        let shown = ["one", "err", "two", " 10%", " 20%"];
        assert_eq!(seen.messages(), shown);
        lines.finish(now);
        assert_eq!(seen.messages().last().unwrap(), "three");
        let counts: Vec<u64> = seen.0.lock().iter().map(|(done, _)| *done).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn output_lines_without_an_end_are_reported_after_a_while() {
        let (seen, now) = (Arc::new(Seen::default()), Instant::now());
        let mut lines = OutputLines::new(seen.clone());
        // The second byte of a character follows later.
        lines.add(Stdout, b"Continue? \xc3", now);
        lines.flush_partial_lines(now + PARTIAL_LINE_DELAY / 2);
        assert!(seen.messages().is_empty());
        lines.flush_partial_lines(now + PARTIAL_LINE_DELAY);
        assert_eq!(seen.messages(), ["Continue? "]);
        lines.add(Stdout, b"\xa4 yes\n", now + PARTIAL_LINE_DELAY);
        assert_eq!(seen.messages(), ["Continue? ", "ä yes"]);
        // Text in another encoding.
        lines.add(Stdout, b"caf\xe9\nnext\n", now);
        assert_eq!(seen.messages()[2..], ["caf\u{fffd}", "next"]);
    }

    #[test]
    fn output_lines_are_bounded() {
        let (seen, now) = (Arc::new(Seen::default()), Instant::now());
        let mut lines = OutputLines::new(seen.clone());
        // A long line is shown in pieces, without a gap.
        lines.add(Stdout, &b"x".repeat(10_000), now);
        lines.add(Stdout, b"\n", now);
        assert_eq!(seen.messages().concat(), "x".repeat(10_000));
        assert!(
            seen.messages()
                .iter()
                .all(|text| text.len() <= MAX_PIECE_BYTES)
        );
        lines.add(Stderr, &b"y\n".repeat(100_000), now);
        let seen_now = seen.0.lock().len() as u64;
        assert_eq!(seen_now, MAX_PIECES + 1);
        assert_eq!(seen.messages().last().unwrap(), CUT_OFF);
        lines.add(Stderr, b"z\n", now + COUNT_INTERVAL);
        assert_eq!(seen.0.lock().last().unwrap(), &(100_004, None));

        let mut lines = OutputLines::new(Arc::new(Seen::default()));
        lines.add(Stdout, &b"x".repeat(8 << 20), now);
        assert!(lines.shown_bytes <= MAX_BYTES + MAX_PIECE_BYTES);
        assert!(lines.stdout.text.len() <= MAX_PIECE_BYTES);
    }
}
