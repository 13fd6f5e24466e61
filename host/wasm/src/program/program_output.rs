//! stdout and stderr of a program, stored within limits and passed to the observer line by line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::Limits;
use mimir_core::call::{CallObserver, CallProgress};
use mimir_core::command::{CapturedOutput, CommandOutput, CommandStream};
use mimir_core::text::{escape, prefix};
use parking_lot::{Mutex, MutexGuard};

use crate::output_pipes::OutputTarget;

/// Maximum number of lines of one program passed to the observer. Further lines are in the output only.
const MAX_LINES: usize = 1_000;

/// Maximum length of such a line in bytes.
const MAX_LINE: usize = 4_096;

/// Divisor of the result size limit for each stream: a result contains two streams, and both once more, combined.
const STREAM_SHARE: u64 = 4;

/// Both streams of one program. Clones share them.
#[derive(Clone)]
pub(crate) struct ProgramOutput(Arc<Mutex<OutputStreams>>);

struct OutputStreams {
    observer: Option<Arc<dyn CallObserver>>,
    reported_lines: u64,
    stdout: StreamBuffer,
    stderr: StreamBuffer,
    combined: StreamBuffer,
    /// Lines without an end yet.
    lines: [Vec<u8>; 2],
}

/// One stream of a program.
#[derive(Clone)]
pub(crate) struct StreamHalf {
    sink: ProgramOutput,
    stream: CommandStream,
}

impl ProgramOutput {
    /// Creates a sink that stores the output and passes it on line by line.
    pub(crate) fn new(observer: Arc<dyn CallObserver>, limits: &Limits) -> Self {
        Self::new_with(Some(observer), limits)
    }

    /// Creates a sink that only stores the output.
    pub(crate) fn without_observer(limits: &Limits) -> Self {
        Self::new_with(None, limits)
    }

    fn new_with(observer: Option<Arc<dyn CallObserver>>, limits: &Limits) -> Self {
        let max_bytes = usize::try_from(limits.output_bytes / STREAM_SHARE).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(OutputStreams {
            observer,
            reported_lines: 0,
            stdout: StreamBuffer::new(max_bytes),
            stderr: StreamBuffer::new(max_bytes),
            combined: StreamBuffer::new(max_bytes),
            lines: [Vec::new(), Vec::new()],
        })))
    }

    /// Clears the output and replaces the observer.
    pub(crate) fn reset(&self, observer: Arc<dyn CallObserver>) {
        let mut streams = self.lock();
        streams.observer = Some(observer);
        streams.reported_lines = 0;
        streams.lines = [Vec::new(), Vec::new()];
        let OutputStreams {
            stdout,
            stderr,
            combined,
            ..
        } = &mut *streams;
        for buffer in [stdout, stderr, combined] {
            buffer.head.clear();
            buffer.tail.clear();
            buffer.total = 0;
        }
    }

    /// Detaches the observer.
    pub(crate) fn clear_observer(&self) {
        self.lock().observer = None;
    }

    pub(crate) fn stream(&self, stream: CommandStream) -> StreamHalf {
        StreamHalf {
            sink: self.clone(),
            stream,
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutputStreams> {
        self.0.lock()
    }

    /// Passes on incomplete lines at the end of the program.
    pub(crate) fn flush_lines(&self) {
        let mut streams = self.lock();
        for at in 0..streams.lines.len() {
            if !streams.lines[at].is_empty() {
                streams.report_line(at);
            }
        }
    }

    /// Returns the output so far, with this exit code.
    pub(crate) fn finish(&self, exit_code: i32, duration: Duration) -> CommandOutput {
        let streams = self.lock();
        CommandOutput {
            exit_code,
            stdout: streams.stdout.captured(),
            stderr: streams.stderr.captured(),
            combined: streams.combined.captured(),
            duration,
            changed_auto_run_files: Vec::new(),
        }
    }
}

impl OutputStreams {
    /// Passes a line on to the observer, up to the limit.
    fn report_line(&mut self, at: usize) {
        let line = std::mem::take(&mut self.lines[at]);
        let Some(observer) = &self.observer else {
            return;
        };
        if self.reported_lines >= MAX_LINES as u64 {
            return;
        }
        self.reported_lines += 1;
        let text = String::from_utf8_lossy(&line);
        let text = escape(prefix(text.trim_end_matches('\r'), MAX_LINE).to_owned());
        observer.progress(CallProgress {
            done: self.reported_lines,
            total: None,
            message: Some(text),
        });
    }
}

impl OutputTarget for StreamHalf {
    fn take(&self, bytes: &[u8]) {
        let mut streams = self.sink.lock();
        streams.combined.add(bytes);
        let at = match self.stream {
            CommandStream::Stdout => 0,
            CommandStream::Stderr => 1,
        };
        match self.stream {
            CommandStream::Stdout => streams.stdout.add(bytes),
            CommandStream::Stderr => streams.stderr.add(bytes),
        }
        if streams.observer.is_none() || streams.reported_lines >= MAX_LINES as u64 {
            return;
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_complete) = match line.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (line, false),
            };
            let room = MAX_LINE.saturating_sub(streams.lines[at].len());
            streams.lines[at].extend_from_slice(&text[..text.len().min(room)]);
            if is_complete {
                streams.report_line(at);
            }
        }
    }
}

/// Buffer for the beginning and the end of a stream; the middle is dropped.
struct StreamBuffer {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Maximum size in bytes of `head`, and of `tail`.
    half: usize,
    total: u64,
}

impl StreamBuffer {
    fn new(max_bytes: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            half: max_bytes.div_ceil(2),
            total: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    fn captured(&self) -> CapturedOutput {
        let missing = self.total - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if missing > 0 {
            bytes.extend_from_slice(format!("\n[… {missing} bytes are missing …]\n").as_bytes());
        }
        bytes.extend(&self.tail);
        CapturedOutput {
            bytes,
            omitted_bytes: missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_drops_the_middle() {
        let mut buffer = StreamBuffer::new(8);
        buffer.add(b"abcdef");
        assert_eq!(buffer.captured().bytes, b"abcdef");
        buffer.add(b"ghijkl");
        let captured = buffer.captured();
        assert_eq!(captured.omitted_bytes, 4);
        let text = String::from_utf8(captured.bytes).unwrap();
        assert!(
            text.starts_with("abcd\n[") && text.ends_with("]\nijkl"),
            "{text}"
        );
    }
}
