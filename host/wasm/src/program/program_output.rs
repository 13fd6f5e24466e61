//! stdout and stderr of a program, stored within limits and passed to the observer line by line.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::Limits;
use mimir_core::call::CallObserver;
use mimir_core::command::{CapturedOutput, CommandOutput, CommandStream};
use mimir_core::merged_lines::MergedLines;
use mimir_core::output_lines::{OutputLines, PARTIAL_LINE_DELAY};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::MissedTickBehavior;

use crate::output_pipes::OutputTarget;

/// Divisor of the result size limit for each stream: a result contains two streams, and both once more, combined.
const STREAM_SHARE: u64 = 4;

/// Both streams of one program. Clones share them.
#[derive(Clone)]
pub(crate) struct ProgramOutput(Arc<Mutex<OutputStreams>>);

struct OutputStreams {
    /// Reports the output to the observer, if there is one.
    lines: Option<OutputLines>,
    stdout: StreamBuffer,
    stderr: StreamBuffer,
    combined: StreamBuffer,
    merged: MergedLines,
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
            lines: observer.map(OutputLines::new),
            stdout: StreamBuffer::new(max_bytes),
            stderr: StreamBuffer::new(max_bytes),
            combined: StreamBuffer::new(max_bytes),
            merged: MergedLines::default(),
        })))
    }

    /// Clears the output and replaces the observer.
    pub(crate) fn reset(&self, observer: Arc<dyn CallObserver>) {
        let mut streams = self.lock();
        streams.lines = Some(OutputLines::new(observer));
        streams.merged = MergedLines::default();
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
        self.lock().lines = None;
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

    /// Runs the program, and meanwhile passes on unfinished lines that are older than [`PARTIAL_LINE_DELAY`].
    pub(crate) async fn show_while<T>(&self, program: impl Future<Output = T>) -> T {
        let mut program = pin!(program);
        let mut flush = tokio::time::interval(PARTIAL_LINE_DELAY);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                done = &mut program => return done,
                _ = flush.tick() => {
                    if let Some(lines) = &mut self.lock().lines {
                        lines.flush_partial_lines(Instant::now());
                    }
                }
            }
        }
    }

    /// Passes on incomplete lines at the end of the program.
    pub(crate) fn flush_lines(&self) {
        if let Some(lines) = &mut self.lock().lines {
            lines.finish(Instant::now());
        }
    }

    /// Returns the output so far, with this exit code.
    pub(crate) fn finish(&self, exit_code: i32, duration: Duration) -> CommandOutput {
        let mut streams = self.lock();
        let OutputStreams {
            merged, combined, ..
        } = &mut *streams;
        merged.finish(|bytes| combined.add(bytes));
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

impl OutputTarget for StreamHalf {
    fn take(&self, bytes: &[u8]) {
        let mut streams = self.sink.lock();
        let OutputStreams {
            merged, combined, ..
        } = &mut *streams;
        merged.add(self.stream, bytes, |bytes| combined.add(bytes));
        match self.stream {
            CommandStream::Stdout => streams.stdout.add(bytes),
            CommandStream::Stderr => streams.stderr.add(bytes),
        }
        if let Some(lines) = &mut streams.lines {
            lines.add(self.stream, bytes, Instant::now());
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
