//! Exports of the record. Each is as slow as its client, so that they are limited per person, and end if a client reads
//! nothing.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::backend::RecordLines;
use crate::limits::ConsoleLimits;
use crate::response::ConsoleRequestError;

/// Number of chunks that wait for a slow client.
const QUEUE: usize = 4;

/// Maximum number of lines in a chunk.
const CHUNK_LINES: usize = 64;

/// The exports that run, by person.
#[derive(Default)]
pub(crate) struct RunningExports(Mutex<HashMap<String, usize>>);

/// A running export. Dropping it makes room for another one.
pub(crate) struct ExportPermit {
    exports: Arc<RunningExports>,
    user: String,
}

impl RunningExports {
    /// Begins an export of a person.
    ///
    /// # Errors
    /// Too many exports run already: of the person, or of all.
    pub(crate) fn begin(
        self: &Arc<Self>,
        user: &str,
        limits: &ConsoleLimits,
    ) -> Result<ExportPermit, ConsoleRequestError> {
        let mut running = self.0.lock();
        if running.values().sum::<usize>() >= limits.exports {
            return Err(ConsoleRequestError::too_many(
                "too many exports run at this console: wait until one has ended",
            ));
        }
        let own = running.entry(user.to_owned()).or_default();
        if *own >= limits.user_exports {
            return Err(ConsoleRequestError::too_many(format!(
                "{own} of your exports run already: wait until one has ended, or close it",
            )));
        }
        *own += 1;
        Ok(ExportPermit {
            exports: Arc::clone(self),
            user: user.to_owned(),
        })
    }
}

impl Drop for ExportPermit {
    fn drop(&mut self) {
        let mut running = self.exports.0.lock();
        if let Some(count) = running.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.user);
            }
        }
    }
}

/// Returns a body with the lines. It fails if its client reads nothing for the time `stalled`.
pub(crate) fn export_body(lines: RecordLines, permit: ExportPermit, stalled: Duration) -> Body {
    let (sender, mut receiver) = mpsc::channel(QUEUE);
    let is_complete = Arc::new(AtomicBool::new(false));
    let export = LineExport {
        sender,
        stalled,
        is_complete: Arc::clone(&is_complete),
        _permit: permit,
    };
    tokio::spawn(export.send_lines(lines));
    let mut has_failed = false;
    Body::from_stream(futures::stream::poll_fn(move |context| {
        if has_failed {
            return std::task::Poll::Ready(None);
        }
        let chunk = std::task::ready!(receiver.poll_recv(context));
        let chunk = match chunk {
            None if is_complete.load(Ordering::Acquire) => None,
            // Otherwise the file would look complete.
            None => Some(Err(io::Error::from(io::ErrorKind::TimedOut))),
            Some(chunk) => Some(chunk),
        };
        has_failed = matches!(chunk, Some(Err(_)));
        std::task::Poll::Ready(chunk)
    }))
}

/// An export whose client is connected.
struct LineExport {
    sender: mpsc::Sender<io::Result<Bytes>>,
    stalled: Duration,
    is_complete: Arc<AtomicBool>,
    _permit: ExportPermit,
}

impl LineExport {
    /// Sends lines until the client is gone or reads nothing.
    async fn send_lines(self, lines: RecordLines) {
        let mut chunks = lines.ready_chunks(CHUNK_LINES);
        loop {
            let lines = tokio::select! {
                lines = chunks.next() => lines,
                () = self.sender.closed() => return,
            };
            let Some(lines) = lines else {
                self.is_complete.store(true, Ordering::Release);
                return;
            };
            let mut chunk = String::new();
            for line in lines {
                match line {
                    Ok(line) => {
                        chunk.push_str(&line);
                        chunk.push('\n');
                    }
                    Err(error) => {
                        tracing::warn!(%error, "an export of the record has failed");
                        return;
                    }
                }
            }
            let sent = self.sender.send(Ok(Bytes::from(chunk)));
            if !matches!(timeout(self.stalled, sent).await, Ok(Ok(()))) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use mimir_core::ToolError;

    use super::*;

    const STALLED: Duration = Duration::from_secs(30);

    fn endless() -> RecordLines {
        futures::stream::repeat_with(|| Ok("x".repeat(1000))).boxed()
    }

    fn limits() -> ConsoleLimits {
        ConsoleLimits {
            exports: 3,
            user_exports: 2,
            ..ConsoleLimits::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn export_ends_if_its_client_reads_nothing() {
        let exports = Arc::new(RunningExports::default());
        let permit = exports.begin("ann", &limits()).unwrap();
        let mut body = export_body(endless(), permit, STALLED);
        // A client that reads now and then goes on.
        for _ in 0..10 {
            tokio::time::sleep(STALLED - Duration::from_secs(1)).await;
            assert!(body.frame().await.unwrap().is_ok());
        }
        assert_eq!(exports.0.lock().len(), 1);
        tokio::time::sleep(STALLED + Duration::from_secs(1)).await;
        assert_eq!(exports.0.lock().len(), 0);
        // What it reads later ends with an error, so that the file does not look complete.
        let mut frames = 0;
        let last = loop {
            match body.frame().await {
                Some(Ok(_)) => frames += 1,
                last => break last,
            }
        };
        assert!(last.is_some_and(|last| last.is_err()));
        assert!(frames <= QUEUE, "{frames}");
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn export_is_whole_or_fails() {
        let exports = Arc::new(RunningExports::default());
        let lines = || futures::stream::iter((0..1000).map(|n| Ok(n.to_string())));
        let permit = exports.begin("ann", &limits()).unwrap();
        let body = export_body(lines().boxed(), permit, STALLED);
        let read = body.collect().await.unwrap().to_bytes();
        assert_eq!(read.iter().filter(|byte| **byte == b'\n').count(), 1000);
        let failing = lines().chain(futures::stream::iter([Err(ToolError::unavailable("gone"))]));
        let permit = exports.begin("ann", &limits()).unwrap();
        let body = export_body(failing.boxed(), permit, STALLED);
        assert!(body.collect().await.is_err());
    }

    #[tokio::test]
    async fn export_number_is_limited_per_person() {
        let exports = Arc::new(RunningExports::default());
        let begin = |user: &str| exports.begin(user, &limits());
        let (first, _second) = (begin("ann").unwrap(), begin("ann").unwrap());
        assert!(begin("ann").is_err());
        let _other = begin("bob").unwrap();
        // The limit of all.
        assert!(begin("eve").is_err());
        drop(first);
        let again = begin("ann").unwrap();
        drop(again);
        // A client that disconnects ends its export.
        let permit = begin("ann").unwrap();
        drop(export_body(endless(), permit, STALLED));
        let freed = async {
            while begin("eve").is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(STALLED, freed).await.unwrap();
    }
}
