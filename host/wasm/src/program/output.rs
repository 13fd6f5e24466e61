//! stdout and stderr of a program: stored within limits, and passed line by line to the observer.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::Limits;
use mimir_core::call::{Observer, Progress};
use mimir_core::command::{Captured, Finished, Stream};
use mimir_core::text::{escape, prefix};

use crate::pipes::Take;

/// Maximum number of lines of one program passed to the observer. The rest is in the output only.
const LINES_MOST: usize = 1_000;

/// Maximum length of such a line in bytes.
const LINE_MOST: usize = 4_096;

/// Fraction of the result size limit for each stream: there are two, and both are included once more, combined.
const SHARE: u64 = 4;

/// Both streams of one program. Clones share them.
#[derive(Clone)]
pub(crate) struct Sink(Arc<Mutex<Both>>);

struct Both {
    observer: Option<Arc<dyn Observer>>,
    told: u64,
    stdout: Kept,
    stderr: Kept,
    combined: Kept,
    /// Lines without an end yet.
    lines: [Vec<u8>; 2],
}

/// One stream of a program.
#[derive(Clone)]
pub(crate) struct Half {
    sink: Sink,
    stream: Stream,
}

impl Sink {
    /// Stores the output, and passes it on line by line.
    pub(crate) fn new(observer: Arc<dyn Observer>, limits: &Limits) -> Self {
        Self::with(Some(observer), limits)
    }

    /// Stores the output only.
    pub(crate) fn unwatched(limits: &Limits) -> Self {
        Self::with(None, limits)
    }

    fn with(observer: Option<Arc<dyn Observer>>, limits: &Limits) -> Self {
        let most = usize::try_from(limits.output_bytes / SHARE).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(Both {
            observer,
            told: 0,
            stdout: Kept::new(most),
            stderr: Kept::new(most),
            combined: Kept::new(most),
            lines: [Vec::new(), Vec::new()],
        })))
    }

    /// Clears the output and replaces the observer.
    pub(crate) fn renew(&self, observer: Arc<dyn Observer>) {
        let mut both = self.lock();
        both.observer = Some(observer);
        both.told = 0;
        both.lines = [Vec::new(), Vec::new()];
        let Both {
            stdout,
            stderr,
            combined,
            ..
        } = &mut *both;
        for kept in [stdout, stderr, combined] {
            kept.head.clear();
            kept.tail.clear();
            kept.total = 0;
        }
    }

    /// Detaches the observer.
    pub(crate) fn unwatch(&self) {
        self.lock().observer = None;
    }

    pub(crate) fn half(&self, stream: Stream) -> Half {
        Half {
            sink: self.clone(),
            stream,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Both> {
        self.0.lock()
    }

    /// Passes on incomplete lines at the end of the program.
    pub(crate) fn end(&self) {
        let mut both = self.lock();
        for at in 0..both.lines.len() {
            if !both.lines[at].is_empty() {
                both.tell(at);
            }
        }
    }

    /// Returns the output so far, with this exit code.
    pub(crate) fn finish(&self, exit_code: i32, duration: Duration) -> Finished {
        let both = self.lock();
        Finished {
            exit_code,
            stdout: both.stdout.captured(),
            stderr: both.stderr.captured(),
            combined: both.combined.captured(),
            duration,
            obeyed: Vec::new(),
        }
    }
}

impl Both {
    fn tell(&mut self, at: usize) {
        let line = std::mem::take(&mut self.lines[at]);
        let Some(observer) = &self.observer else {
            return;
        };
        if self.told >= LINES_MOST as u64 {
            return;
        }
        self.told += 1;
        let text = String::from_utf8_lossy(&line);
        let text = escape(prefix(text.trim_end_matches('\r'), LINE_MOST).to_owned());
        observer.progress(Progress {
            done: self.told,
            total: None,
            message: Some(text),
        });
    }
}

impl Take for Half {
    fn take(&self, bytes: &[u8]) {
        let mut both = self.sink.lock();
        both.combined.add(bytes);
        let at = match self.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        match self.stream {
            Stream::Stdout => both.stdout.add(bytes),
            Stream::Stderr => both.stderr.add(bytes),
        }
        if both.observer.is_none() || both.told >= LINES_MOST as u64 {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = LINE_MOST.saturating_sub(both.lines[at].len());
            both.lines[at].extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                both.tell(at);
            }
        }
    }
}

/// The beginning and the end of a stream: they show what was done, and how it ended.
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most: usize,
    total: u64,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            most: most.div_ceil(2),
            total: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.most - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.most)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.most);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    fn captured(&self) -> Captured {
        let missing = self.total - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if missing > 0 {
            bytes.extend_from_slice(format!("\n[… {missing} bytes are missing …]\n").as_bytes());
        }
        bytes.extend(&self.tail);
        Captured { bytes, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_drops_the_middle() {
        let mut kept = Kept::new(8);
        kept.add(b"abcdef");
        assert_eq!(kept.captured().bytes, b"abcdef");
        kept.add(b"ghijkl");
        let captured = kept.captured();
        assert_eq!(captured.missing, 4);
        let text = String::from_utf8(captured.bytes).unwrap();
        assert!(
            text.starts_with("abcd\n[") && text.ends_with("]\nijkl"),
            "{text}"
        );
    }
}
