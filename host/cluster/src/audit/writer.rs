//! The writer of a node: stores the waiting lines, one message after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use async_nats::HeaderMap;
use bytes::Bytes;
use mimir_audit::{LineDraft, LogHead};
use mimir_core::audit::{EventKind, rfc3339};
use mimir_core::shared_state::{SharedStateError, StateArea};
use serde::Serialize;
use tokio::time::Instant;

use super::closing::close_writer;
use super::line_queue::{LineFailure, LineQueue, LineWaiter, QueuedLine, QueuedLineKind};
use super::log_message::{OpenCalls, message_headers};
use crate::node::lease::{NodeIncarnation, NodeParts};
use crate::node::view::writer_key;
use crate::request::RequestError;

/// Maximum size of a message in bytes, below the 1 MiB that servers accept by default.
const MESSAGE_BYTES_MAX: usize = 768 << 10;

/// Bytes of a message that are kept free for the first line of a writer.
const FIRST_LINE_BYTES: usize = 1 << 10;

/// Time for which a lease is awaited before callers learn of the failure.
const LEASE_WAIT: Duration = Duration::from_secs(2);

/// Time for which lines wait for a leader of the stream, as during an election, before they are refused.
const LEADER_WAIT: Duration = Duration::from_secs(4);

/// Interval between attempts to store a message.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A line that the log of a cluster writes about itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriterEvent<'a> {
    #[serde(serialize_with = "rfc3339")]
    pub(crate) time: SystemTime,
    pub(crate) event: EventKind,
    pub(crate) subject: &'a str,
    pub(crate) detail: String,
    /// The writer of the same process before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<&'a str>,
    /// The workspace of the process that opens the writer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
    pub(crate) ok: bool,
}

/// Returns a line about a failure that is over.
pub(crate) fn recovery_line(
    writer: &str,
    detail: &str,
    waiter: LineWaiter,
) -> std::io::Result<QueuedLine> {
    let event = WriterEvent {
        time: SystemTime::now(),
        event: EventKind::Recovered,
        subject: writer,
        detail: detail.to_owned(),
        previous: None,
        workspace: None,
        ok: true,
    };
    Ok(QueuedLine {
        draft: LineDraft::new(&event)?,
        kind: QueuedLineKind::Other,
        id: String::new(),
        held: None,
        waiter,
    })
}

/// The writer's task.
pub(crate) struct AuditWriterTask {
    parts: Arc<NodeParts>,
    queue: Arc<LineQueue>,
    chain: Option<WriterChain>,
}

/// The chain that is being written.
struct WriterChain {
    incarnation: Arc<NodeIncarnation>,
    head: LogHead,
    /// Sequence of the last message in the stream.
    sequence: u64,
    is_registered: bool,
}

/// A message that is ready to be stored.
struct SealedMessage {
    lines: Vec<QueuedLine>,
    /// Number of the first of `lines`.
    first: u64,
    head: LogHead,
    headers: HeaderMap,
    payload: Bytes,
}

/// The result of an attempt to store a message.
enum StoreResult {
    /// The message was stored with this sequence.
    Stored(u64),
    /// The message was not stored, and cannot be stored now.
    Refused(LineFailure),
    /// Another process has written to the chain.
    Fenced,
}

impl AuditWriterTask {
    pub(crate) fn new(parts: Arc<NodeParts>, queue: Arc<LineQueue>) -> Self {
        Self {
            parts,
            queue,
            chain: None,
        }
    }

    /// Stores lines until the task is ended.
    pub(crate) async fn run(mut self) {
        loop {
            self.queue.wait().await;
            if let Err(failure) = self.prepare_chain().await {
                self.queue.set_failure(Some(failure));
                continue;
            }
            if self.queue.failure().is_some() {
                self.add_probe();
            }
            if let Err(failure) = self.store_lines().await {
                self.queue.set_failure(Some(failure));
            }
        }
    }

    /// Makes sure that the writer may write: its node has a lease, and others know that they have to close it.
    async fn prepare_chain(&mut self) -> Result<(), LineFailure> {
        let incarnation = self.parts.incarnation();
        if self
            .chain
            .as_ref()
            .is_none_or(|chain| chain.incarnation.id != incarnation.id)
        {
            self.chain = Some(WriterChain {
                incarnation,
                head: LogHead::START,
                sequence: 0,
                is_registered: false,
            });
        }
        let Some(chain) = self.chain.as_mut().filter(|chain| !chain.is_registered) else {
            return Ok(());
        };
        let lease = tokio::time::timeout(LEASE_WAIT, chain.incarnation.wait_for_lease());
        if lease.await.is_err() {
            let text = "the shared state of the cluster cannot be reached";
            return Err(LineFailure::unreachable(text));
        }
        let key = writer_key(&chain.incarnation.id);
        let value = self.parts.describe().into_bytes();
        let created = self.parts.state.create(StateArea::Nodes, &key, value, None);
        match created.await {
            Ok(_) | Err(SharedStateError::Conflict) => {
                chain.is_registered = true;
                Ok(())
            }
            Err(error) => Err(LineFailure::unreachable(error.to_string())),
        }
    }

    /// Adds a line that shows whether the stream accepts lines again.
    fn add_probe(&self) {
        let Some(chain) = &self.chain else {
            return;
        };
        let detail = "the audit log could not be written for a while; calls were refused";
        let line = recovery_line(&chain.incarnation.id, detail, LineWaiter::Log);
        if let Ok(line) = line {
            self.queue.add_probe(line);
        }
    }

    /// Stores the next message.
    async fn store_lines(&mut self) -> Result<(), LineFailure> {
        let Some(chain) = &mut self.chain else {
            return Ok(());
        };
        let writer = chain.incarnation.id.clone();
        let lines = self
            .queue
            .take(&writer, MESSAGE_BYTES_MAX - FIRST_LINE_BYTES);
        if lines.is_empty() {
            return Ok(());
        }
        let message = match chain.seal(lines, &self.parts, &self.queue) {
            Ok(message) => message,
            Err((lines, failure)) => {
                self.queue.refuse(lines, &failure);
                return Err(failure);
            }
        };
        match self.store(&writer, &message).await {
            StoreResult::Stored(sequence) => {
                if let Some(chain) = &mut self.chain {
                    chain.head = message.head;
                    chain.sequence = sequence;
                }
                self.parts.recorded.store(sequence, Ordering::Release);
                self.queue.stored(message.lines, message.first, sequence);
                self.queue.set_failure(None);
                Ok(())
            }
            StoreResult::Refused(failure) => {
                self.queue.refuse(message.lines, &failure);
                Err(failure)
            }
            StoreResult::Fenced => {
                self.leave_chain(message.lines);
                Ok(())
            }
        }
    }

    /// Stores a message, again until it is certain whether it is stored.
    async fn store(&self, writer: &str, message: &SealedMessage) -> StoreResult {
        let stream = &self.parts.writer_stream;
        let expected = self.chain.as_ref().map_or(0, |chain| chain.sequence);
        let began = Instant::now();
        // True if an earlier attempt may have been stored, or may still be.
        let mut is_uncertain = false;
        loop {
            let (headers, payload) = (message.headers.clone(), message.payload.clone());
            let error = match stream.append(writer, headers, payload, expected).await {
                Ok(sequence) => return StoreResult::Stored(sequence),
                Err(error) => error,
            };
            if error.is_conflict() {
                // The server has compared the sequences, so nothing of this message is under way any more.
                match stream.next_message(writer, expected + 1).await {
                    Ok(Some(found)) if found.payload == message.payload => {
                        return StoreResult::Stored(found.sequence);
                    }
                    Ok(_) => return StoreResult::Fenced,
                    Err(error) => self.note_uncertain(&error),
                }
            } else if matches!(error, RequestError::Timeout | RequestError::Connection(_)) {
                is_uncertain = true;
                self.note_uncertain(&error);
            } else if is_uncertain || (error.is_transient() && began.elapsed() < LEADER_WAIT) {
                if is_uncertain {
                    self.note_uncertain(&error);
                }
            } else {
                let kind = if error.is_full() {
                    std::io::ErrorKind::StorageFull
                } else if matches!(error, RequestError::Forbidden(_)) {
                    std::io::ErrorKind::PermissionDenied
                } else {
                    std::io::ErrorKind::NotConnected
                };
                return StoreResult::Refused(LineFailure::NotStored(kind, error.to_string()));
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Refuses further calls until it is certain whether a message is stored.
    fn note_uncertain(&self, error: &dyn std::fmt::Display) {
        let failure = LineFailure::unreachable(error.to_string());
        self.queue.set_failure(Some(failure));
    }

    /// Continues under another id, since another process has written to the chain of this one in order to close it.
    fn leave_chain(&mut self, lines: Vec<QueuedLine>) {
        let Some(chain) = self.chain.take() else {
            return;
        };
        let writer = chain.incarnation.id.clone();
        if let Err(error) = self.parts.replace_incarnation(&chain.incarnation) {
            self.queue
                .set_failure(Some(LineFailure::unreachable(error.to_string())));
        }
        self.queue.fence(&writer, lines);
        let parts = Arc::clone(&self.parts);
        // The process that began to close the chain may have ended before it was done.
        tokio::spawn(async move {
            let by = parts.incarnation().id.clone();
            let closed = close_writer(&parts.stream, &*parts.state, &writer, &by).await;
            if let Err(error) = closed {
                tracing::warn!(%error, writer, "the log of the former id is not closed yet");
            }
        });
    }
}

impl WriterChain {
    /// Links lines to the chain.
    fn seal(
        &self,
        lines: Vec<QueuedLine>,
        parts: &NodeParts,
        queue: &LineQueue,
    ) -> Result<SealedMessage, (Vec<QueuedLine>, LineFailure)> {
        let capacity = lines.iter().map(|line| line.draft.max_len()).sum();
        let mut payload = Vec::with_capacity(capacity);
        let (start, writer) = (self.head.seq + 1, self.incarnation.id.as_str());
        let sealed = (|| {
            let mut head = self.head;
            if head == LogHead::START {
                let opened = WriterEvent {
                    time: SystemTime::now(),
                    event: EventKind::Opened,
                    subject: writer,
                    detail: parts.describe(),
                    previous: self.incarnation.previous.as_deref(),
                    workspace: parts.workspace_name(),
                    ok: true,
                };
                head = LineDraft::new(&opened)?.seal(&head, &mut payload)?;
            }
            let first = head.seq + 1;
            for line in &lines {
                head = line.draft.seal(&head, &mut payload)?;
            }
            std::io::Result::Ok((first, head))
        })();
        let (first, head) = match sealed {
            Ok(sealed) => sealed,
            Err(error) => {
                let failure = LineFailure::NotStored(error.kind(), error.to_string());
                return Err((lines, failure));
            }
        };
        let open = OpenCalls::new(queue.open_after(&lines, first));
        Ok(SealedMessage {
            headers: message_headers(start, &head, writer, &open),
            payload: payload.into(),
            lines,
            first,
            head,
        })
    }
}
