//! Closing of writers whose process has ended, or can no longer be reached.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_audit::{ChainLink, LineDraft, LogHead};
use mimir_core::audit::EventKind;
use mimir_core::shared_state::{SharedState, StateArea};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::log_message::{AnnouncedAt, AuditMessage, OpenCalls, message_headers};
use super::recorded_line::RecordedLine;
use super::stream::{AuditStream, check_writer};
use super::writer::WriterEvent;
use super::{ClusterAuditError, WriterName};
use crate::node::lease::NodeParts;
use crate::node::view::{id_of, node_key, writer_key, writer_keys};
use crate::request::pause_before_retry;

/// Time for which another process may go on writing to a chain that is being closed, before closing fails.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the lines in a message that closes a writer.
const MESSAGE_BYTES_MAX: usize = 512 << 10;

/// Time after which a node without a lease is closed. After an election of the servers, all leases may have ended at
/// once; their nodes create them again within a second.
const GRACE: Duration = Duration::from_secs(2);

/// Interval at which writers without a node are searched.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// The result of closing a writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedWriter {
    /// Sequence of the message that has closed the writer.
    pub sequence: u64,
    /// The announced calls without outcome that this process has ended. Empty if another process has closed the writer.
    pub ended_calls: Vec<String>,
}

/// An announced call without outcome.
struct OpenCall {
    at: AnnouncedAt,
    /// The announcement, a JSON object.
    line: Value,
}

/// Closes a writer. `by` is the node that does so. Returns as soon as the writer is closed, by whichever process.
pub(crate) async fn close_writer(
    stream: &AuditStream,
    state: &dyn SharedState,
    writer: &str,
    by: &str,
) -> Result<ClosedWriter, ClusterAuditError> {
    let writer = check_writer(writer)?;
    let deadline = tokio::time::Instant::now() + CLOSE_TIMEOUT;
    let mut ended_calls = Vec::new();
    let sequence = loop {
        let last = stream.last_message(writer.as_str()).await?;
        if let Some(last) = last.as_ref().filter(|last| last.closes_writer()) {
            break last.sequence;
        }
        let open = match &last {
            Some(last) => open_calls(stream, &writer, last).await?,
            None => Vec::new(),
        };
        let part = ClosingPart::new(&writer, by, last.as_ref(), open)?;
        let expected = last.map_or(0, |last| last.sequence);
        let stored = stream.append(writer.as_str(), part.headers, part.payload, expected);
        match stored.await {
            Ok(sequence) => {
                ended_calls.extend(part.ended_calls);
                if part.is_last {
                    break sequence;
                }
            }
            // Another process has written; what it wrote decides.
            Err(error) if error.is_conflict() && pause_before_retry(deadline).await => {}
            Err(error) => return Err(stream.error(&error)),
        }
    };
    // If this fails, the next scan of any node does it.
    let key = writer_key(writer.as_str());
    let _ = state.remove(StateArea::Nodes, &key, None).await;
    if !ended_calls.is_empty() {
        tracing::warn!(
            writer = writer.as_str(),
            calls = ended_calls.len(),
            "recorded the calls of a process that has ended as UNAVAILABLE"
        );
    }
    Ok(ClosedWriter {
        sequence,
        ended_calls,
    })
}

/// A message that closes a writer, or a part of its calls if there are many.
struct ClosingPart {
    headers: async_nats::HeaderMap,
    payload: bytes::Bytes,
    ended_calls: Vec<String>,
    is_last: bool,
}

impl ClosingPart {
    fn new(
        writer: &WriterName,
        by: &str,
        last: Option<&AuditMessage>,
        open: Vec<OpenCall>,
    ) -> Result<Self, ClusterAuditError> {
        let sequence = last.map_or(0, |last| last.sequence);
        let damaged = |text: String| ClusterAuditError::Damaged { sequence, text };
        let mut head = match last {
            Some(last) => last
                .head()
                .ok_or_else(|| damaged("its last line is not a line of the log".to_owned()))?,
            None => LogHead::START,
        };
        let (first, mut payload, mut ended_calls) = (head.seq + 1, Vec::new(), Vec::new());
        let mut rest = open.into_iter().peekable();
        while let Some(call) = rest.next_if(|_| payload.len() < MESSAGE_BYTES_MAX) {
            let (id, outcome) = interrupted_outcome(call.line, by);
            head =
                append(&outcome, head, &mut payload).map_err(|error| damaged(error.to_string()))?;
            ended_calls.push(id);
        }
        let rest: Vec<AnnouncedAt> = rest.map(|call| call.at).collect();
        let is_last = rest.is_empty();
        if is_last {
            let closed = WriterEvent {
                time: SystemTime::now(),
                event: EventKind::Closed,
                subject: writer.as_str(),
                detail: if by == writer.as_str() {
                    "the process has ended".to_owned()
                } else {
                    format!("closed by {by}, as the lease of the process had ended")
                },
                previous: None,
                workspace: None,
                ok: true,
            };
            head =
                append(&closed, head, &mut payload).map_err(|error| damaged(error.to_string()))?;
        }
        Ok(Self {
            headers: message_headers(first, &head, by, &OpenCalls::new(rest)),
            payload: payload.into(),
            ended_calls,
            is_last,
        })
    }
}

fn append(
    event: &impl serde::Serialize,
    head: LogHead,
    payload: &mut Vec<u8>,
) -> std::io::Result<LogHead> {
    LineDraft::new(event)?.seal(&head, payload)
}

/// Returns the id of an announced call, and its outcome.
fn interrupted_outcome(announcement: Value, by: &str) -> (String, Value) {
    let mut outcome = announcement;
    let id = outcome["id"].as_str().unwrap_or_default().to_owned();
    if let Some(members) = outcome.as_object_mut() {
        members.shift_remove("seq");
        members.shift_remove("prev");
        let changes = json!({
            "event": EventKind::Call.as_str(),
            "detail": "the process that ran the call has ended, or could not be reached: the call may have run",
            "ok": false,
            "code": "UNAVAILABLE",
            "mayHaveRun": true,
            "closedBy": by,
        });
        if let Value::Object(changes) = changes {
            members.extend(changes);
        }
    }
    (id, outcome)
}

/// Returns the announced calls without outcome after the message `last` of a writer, the oldest first.
async fn open_calls(
    stream: &AuditStream,
    writer: &WriterName,
    last: &AuditMessage,
) -> Result<Vec<OpenCall>, ClusterAuditError> {
    let open = match last.open_calls() {
        Some(OpenCalls::Listed(calls)) => return read_listed(stream, last, calls).await,
        Some(OpenCalls::Since(first)) => first.unwrap_or(last.sequence),
        // The header is missing or damaged, but the lines say all.
        None => 1,
    };
    let mut calls = OpenCallScan::default();
    let mut next = open;
    while let Some(message) = stream.next_message(writer.as_str(), next).await? {
        if message.sequence > last.sequence {
            break;
        }
        calls.add(&message);
        next = message.sequence + 1;
    }
    Ok(calls.finish())
}

/// Reads the announcements that a header lists.
async fn read_listed(
    stream: &AuditStream,
    last: &AuditMessage,
    calls: Vec<AnnouncedAt>,
) -> Result<Vec<OpenCall>, ClusterAuditError> {
    let mut messages: BTreeMap<u64, AuditMessage> = BTreeMap::new();
    let mut open = Vec::new();
    for at in calls {
        let sequence = at.message.unwrap_or(last.sequence);
        let damaged = |text: &str| ClusterAuditError::Damaged {
            sequence,
            text: text.to_owned(),
        };
        let message = match messages.entry(sequence) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let message = if sequence == last.sequence {
                    Some(last.clone())
                } else {
                    stream.message(sequence).await?
                };
                entry.insert(message.ok_or_else(|| damaged("it is missing"))?)
            }
        };
        let is_announcement =
            |line: &&[u8]| ChainLink::read(line).is_some_and(|link| link.seq == at.line);
        let line = message
            .lines()
            .find(is_announcement)
            .and_then(|line| serde_json::from_slice(line).ok())
            .ok_or_else(|| damaged("an announcement is missing"))?;
        let message = Some(sequence);
        open.push(OpenCall {
            at: AnnouncedAt { message, ..at },
            line,
        });
    }
    Ok(open)
}

/// A search for announced calls without outcome in consecutive messages.
#[derive(Default)]
struct OpenCallScan(HashMap<String, OpenCall>);

impl OpenCallScan {
    fn add(&mut self, message: &AuditMessage) {
        for text in message.lines() {
            let Some(line) = RecordedLine::read(text) else {
                continue;
            };
            if line.is_outcome() {
                self.0.remove(line.id.as_ref());
            } else if line.is_announcement()
                && let (Some(link), Ok(value)) =
                    (ChainLink::read(text), serde_json::from_slice(text))
            {
                let at = AnnouncedAt {
                    message: Some(message.sequence),
                    line: link.seq,
                };
                let call = OpenCall { at, line: value };
                self.0.insert(line.id.into_owned(), call);
            }
        }
    }

    fn finish(self) -> Vec<OpenCall> {
        let mut calls: Vec<OpenCall> = self.0.into_values().collect();
        calls.sort_by_key(|call| call.at.line);
        calls
    }
}

/// Closes the writers of nodes whose lease has ended.
pub(crate) struct CloserTask {
    parts: Arc<NodeParts>,
    ended_nodes: mpsc::UnboundedReceiver<String>,
}

impl CloserTask {
    /// Creates the task, and the sender of nodes whose lease has ended.
    pub(crate) fn new(parts: Arc<NodeParts>) -> (Self, mpsc::UnboundedSender<String>) {
        let (sender, ended_nodes) = mpsc::unbounded_channel();
        (Self { parts, ended_nodes }, sender)
    }

    /// Closes writers until the task is ended.
    pub(crate) async fn run(mut self) {
        let mut scan = tokio::time::interval(SCAN_INTERVAL);
        scan.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let ended = tokio::select! {
                node = self.ended_nodes.recv() => match node {
                    Some(node) => vec![node],
                    None => return,
                },
                _ = scan.tick() => find_writers_without_node(&self.parts).await,
            };
            for node in ended {
                tokio::spawn(close_after_grace(Arc::clone(&self.parts), node));
            }
        }
    }
}

/// Returns the writers that are not closed and whose node has no lease.
async fn find_writers_without_node(parts: &NodeParts) -> Vec<String> {
    let prefix = writer_keys();
    let Ok(writers) = parts.state.list(StateArea::Nodes, Some(&prefix)).await else {
        return Vec::new();
    };
    let mut ended = Vec::new();
    for writer in writers {
        let Some(node) = id_of(&writer.key, &prefix) else {
            continue;
        };
        if has_ended(parts, node).await {
            ended.push(node.to_owned());
        }
    }
    ended
}

/// Returns true if a node is known to have no lease. A process does not close itself: it renews its lease.
async fn has_ended(parts: &NodeParts, node: &str) -> bool {
    let key = node_key(node);
    node != parts.incarnation().id
        && matches!(parts.state.get(StateArea::Nodes, &key).await, Ok(None))
}

/// Closes the writer of a node if it is open and the node still has no lease after the grace period.
async fn close_after_grace(parts: Arc<NodeParts>, node: String) {
    tokio::time::sleep(GRACE).await;
    let is_open = parts.state.get(StateArea::Nodes, &writer_key(&node)).await;
    if !matches!(is_open, Ok(Some(_))) || !has_ended(&parts, &node).await {
        return;
    }
    let by = parts.incarnation().id.clone();
    if let Err(error) = close_writer(&parts.stream, &*parts.state, &node, &by).await {
        tracing::warn!(%error, node, "the log of an ended node is not closed yet");
    }
}
