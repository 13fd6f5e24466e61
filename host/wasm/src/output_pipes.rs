//! stdout and stderr of a guest. Both accept all data at once and store a limited part of it, so that a guest's output
//! can neither fill memory nor block the guest.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamResult};

use mimir_core::Limits;
use mimir_core::call::LogLevel;

use crate::call_log::CallLog;

/// Number of bytes that a guest may write at a time.
const CHUNK: usize = 64 << 10;

/// A destination for a guest's output.
pub(crate) trait OutputTarget: Clone + Send + Sync + Unpin + 'static {
    /// Accepts all of `bytes`; the target may store only a part of them.
    fn take(&self, bytes: &[u8]);
}

/// An output stream that writes to an [`OutputTarget`].
#[derive(Clone)]
pub(crate) struct OutputPipe<T>(pub(crate) T);

impl<T: OutputTarget> IsTerminal for OutputPipe<T> {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl<T: OutputTarget> StdoutStream for OutputPipe<T> {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl<T: OutputTarget> Pollable for OutputPipe<T> {
    async fn ready(&mut self) {}
}

#[async_trait::async_trait]
impl<T: OutputTarget> OutputStream for OutputPipe<T> {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

impl<T: OutputTarget> AsyncWrite for OutputPipe<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.0.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// stdout or stderr of a guest, split into log lines. Excess data is dropped.
#[derive(Clone)]
pub(crate) struct LogLines {
    logs: CallLog,
    level: LogLevel,
    unfinished: Arc<Mutex<Vec<u8>>>,
}

impl LogLines {
    pub(crate) fn stdout(logs: &CallLog) -> Self {
        Self::new(logs, LogLevel::Info)
    }

    pub(crate) fn stderr(logs: &CallLog) -> Self {
        Self::new(logs, LogLevel::Warn)
    }

    fn new(logs: &CallLog, level: LogLevel) -> Self {
        Self {
            logs: logs.clone(),
            level,
            unfinished: Arc::default(),
        }
    }

    /// Logs the last line if it has no line end.
    pub(crate) fn flush(&self) {
        let mut unfinished = self.unfinished.lock();
        if !unfinished.is_empty() {
            self.logs
                .write_line(self.level, &String::from_utf8_lossy(&unfinished));
            unfinished.clear();
        }
    }
}

impl OutputTarget for LogLines {
    fn take(&self, bytes: &[u8]) {
        if self.level == LogLevel::Warn {
            self.logs.append_stderr(bytes);
        }
        let max_bytes = self.logs.line_bytes().saturating_add(1);
        let mut unfinished = self.unfinished.lock();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_complete) = match line.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (line, false),
            };
            // An incomplete line is stored only up to the length that is logged.
            let room = max_bytes.saturating_sub(unfinished.len());
            unfinished.extend_from_slice(&text[..text.len().min(room)]);
            if is_complete {
                self.logs.write_line(
                    self.level,
                    String::from_utf8_lossy(&unfinished).trim_end_matches('\r'),
                );
                unfinished.clear();
            }
        }
    }
}

/// stdout of a command, which is the result of the call. Stores up to a limit and drops the rest.
#[derive(Clone)]
pub(crate) struct StdoutCapture {
    captured: Arc<Mutex<Vec<u8>>>,
    max_bytes: usize,
    truncated: Arc<AtomicBool>,
}

impl StdoutCapture {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            captured: Arc::default(),
            max_bytes: usize::try_from(limits.output_bytes).unwrap_or(usize::MAX),
            truncated: Arc::default(),
        }
    }

    /// Takes the stored output. The flag is true if output was dropped.
    pub(crate) fn finish(&self) -> (Vec<u8>, bool) {
        let captured = std::mem::take(&mut *self.captured.lock());
        (captured, self.truncated.load(Ordering::Relaxed))
    }
}

impl OutputTarget for StdoutCapture {
    fn take(&self, bytes: &[u8]) {
        let mut captured = self.captured.lock();
        let room = self.max_bytes.saturating_sub(captured.len());
        if room < bytes.len() {
            self.truncated.store(true, Ordering::Relaxed);
        }
        captured.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
