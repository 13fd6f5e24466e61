//! Retention: the removal of exported messages from the log of a cluster.
//!
//! A removal keeps all messages from a sequence on. Of the messages before it, it keeps the last one of each writer,
//! by which the server rejects a paused process, and those from the oldest announced call without outcome on. Before
//! anything is removed, a line `pruned` is stored on a subject of its own, to which only administrators may write. It
//! has the hash over all messages before the sequence, and number and hash of the last removed line of each writer. So a
//! removal that was interrupted leaves a log that verifies, and can be repeated.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use mimir_audit::{AuditLog, ChainLink, LineDraft, LineHash, LogHead};
use mimir_core::audit::{EventKind, rfc3339};
use mimir_core::shared_state::SharedState;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::ClusterAuditError;
use super::check::{ClusterHead, ClusterLogCheck};
use super::log::{ClusterExport, ClusterExportError, ClusterLog, exported_file, file_failure};
use super::log_message::{AuditMessage, OpenCalls, message_headers};
use super::stream::{AuditStream, StreamExtent};
use super::writer::WriterEvent;
use crate::connection::ACCESS_TIMEOUT;
use crate::names::{self, AUDIT_RETENTION};
use crate::streams::StreamAnswer;

/// Maximum number of writers in one line `pruned`, which must fit into a message.
const LISTED_WRITERS_MAX: usize = 3000;

/// Length of a time in RFC 3339 without fractions of seconds.
const SECONDS_LENGTH: usize = 19;

/// The state of the log after the last removal, as the line `pruned` says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrunedLog {
    /// Sequence of the first message that is kept in any case.
    pub(crate) before: u64,
    /// Hash over all messages before it, as in [`ClusterHead`].
    pub(crate) head: LineHash,
    /// The writers with removed lines.
    pub(crate) writers: BTreeMap<String, RemovedLines>,
}

/// The last removed line of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemovedLines {
    /// Its number in the chain.
    pub(crate) line: u64,
    /// Its hash.
    pub(crate) hash: LineHash,
}

/// A writer as it is in the stream before a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetainedWriter {
    /// Sequence of the first message.
    pub(crate) first_message: u64,
    /// Number of the first line.
    pub(crate) first_line: u64,
    /// Sequence of the last message.
    pub(crate) last_message: u64,
    /// Sequence of the message with the oldest announced call that has no outcome.
    pub(crate) oldest_open: Option<u64>,
}

impl RetainedWriter {
    /// Returns the sequence of the first message to keep, if earlier ones can be removed.
    fn keep_from(&self, before: u64) -> Option<u64> {
        let open = self.oldest_open.unwrap_or(u64::MAX);
        let keep = before.min(self.last_message).min(open);
        (keep > self.first_message).then_some(keep)
    }
}

/// The line `pruned`.
#[derive(Serialize)]
struct PrunedLine<'a> {
    #[serde(flatten)]
    event: WriterEvent<'a>,
    #[serde(flatten)]
    log: &'a PrunedLog,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRemoval {
    /// Number of removed messages.
    pub messages: u64,
    /// Number of writers with removed messages.
    pub writers: usize,
    /// Sequence of the first message that was kept in any case.
    pub before: u64,
}

/// A planned removal.
struct RemovalPlan {
    /// The last message of the retention's own chain.
    last: Option<AuditMessage>,
    /// The state of the log before the first message that is kept in any case.
    kept: ClusterHead,
    /// The writers with messages to remove.
    writers: Vec<WriterRemoval>,
    /// Removed lines of other writers, as earlier removals have stated them.
    carried: BTreeMap<String, RemovedLines>,
}

struct WriterRemoval {
    name: String,
    /// Number of the first line in the stream.
    first_line: u64,
    /// Sequence of the first message to keep.
    keep_from: u64,
    removed: RemovedLines,
}

/// Returns the last removal, or `None` if nothing was ever removed.
pub(crate) async fn read_pruned(
    stream: &AuditStream,
) -> Result<Option<PrunedLog>, ClusterAuditError> {
    let last = stream.last_message(AUDIT_RETENTION).await?;
    last.as_ref().map(parse_pruned).transpose()
}

fn parse_pruned(message: &AuditMessage) -> Result<PrunedLog, ClusterAuditError> {
    let parsed = serde_json::from_slice(message.last_line());
    parsed.map_err(|error| ClusterAuditError::Damaged {
        sequence: message.sequence,
        text: format!("it does not say which messages were removed: {error}"),
    })
}

impl ClusterLog {
    /// Exports the log into a folder, verifies log and files, and removes messages that are older than `older_than` from
    /// the log. `by` is the person or machine that does so, for the line about it. Fails without removing anything if the
    /// log or a file does not verify. Can be repeated after an interruption.
    pub async fn export_and_remove(
        &self,
        state: &dyn SharedState,
        folder: &Path,
        older_than: SystemTime,
        by: &str,
    ) -> Result<(ClusterExport, ClusterRemoval), ClusterExportError> {
        self.check_removal_is_possible().await?;
        let plan = self.plan_removal(state, older_than).await?;
        let export = self.export(folder).await?;
        for writer in &plan.writers {
            check_exported(folder, writer)?;
        }
        sync_folder(folder).map_err(|error| file_failure(folder, error))?;
        Ok((export, self.remove(plan, by).await?))
    }

    /// Fails if the servers do not remove messages of this stream.
    async fn check_removal_is_possible(&self) -> Result<(), ClusterExportError> {
        let stream = self.stream();
        let info = format!("STREAM.INFO.{}", names::AUDIT_STREAM);
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let info =
            stream
                .connection()
                .api::<StreamAnswer>(&info, &serde_json::Value::Null, deadline);
        let info = info.await.map_err(|error| stream.error(&error))?;
        if info.config.deny_purge {
            return Err(ClusterExportError::Sealed);
        }
        Ok(())
    }

    /// Verifies the log, and finds out what can be removed.
    async fn plan_removal(
        &self,
        state: &dyn SharedState,
        older_than: SystemTime,
    ) -> Result<RemovalPlan, ClusterExportError> {
        let stream = self.stream();
        let last = stream.last_message(AUDIT_RETENTION).await?;
        let pruned = last.as_ref().map(parse_pruned).transpose()?;
        let earlier = pruned.as_ref().map_or(1, |pruned| pruned.before);
        let bound = rfc3339(&older_than, serde_json::value::Serializer)
            .map_err(|error| ClusterExportError::Time(error.to_string()))?;
        let bound = bound.as_str().unwrap_or_default().to_owned();
        let mut check = ClusterLogCheck::after_removal(None, pruned.clone());
        let mut kept = None;
        let live = self.live_nodes(state).await?;
        let extent = self.extent().await?;
        let (first, end) = extent.map_or((1, 0), |extent| (extent.first, extent.last));
        self.read_after_removal(earlier, first, end, |message| {
            if let Ok(message) = message {
                if kept.is_none() && message.sequence >= earlier && !is_older(&message, &bound) {
                    kept = Some(ClusterHead {
                        sequence: message.sequence - 1,
                        hash: check.head().hash,
                    });
                }
                check.add(&message);
            }
            std::ops::ControlFlow::<()>::Continue(())
        })
        .await?;
        let kept = kept.unwrap_or(ClusterHead {
            sequence: end.max(earlier - 1),
            hash: check.head().hash,
        });
        let writers = check.retained_writers();
        self.finish_check(check, state, live, extent).await?;
        let before = kept.sequence + 1;
        let mut plan = RemovalPlan {
            last,
            kept,
            writers: Vec::new(),
            carried: BTreeMap::new(),
        };
        for (name, writer) in writers {
            let Some(keep_from) = writer.keep_from(before) else {
                let removed = pruned.as_ref().and_then(|pruned| pruned.writers.get(&name));
                // Verification expects that lines are missing where the message is older than the sequence.
                if let Some(removed) = removed.filter(|_| writer.first_message >= before) {
                    plan.carried.insert(name, *removed);
                }
                continue;
            };
            plan.writers.push(WriterRemoval {
                removed: self.find_removed(&name, keep_from).await?,
                first_line: writer.first_line,
                keep_from,
                name,
            });
        }
        Ok(plan)
    }

    async fn finish_check(
        &self,
        check: ClusterLogCheck,
        state: &dyn SharedState,
        mut live: super::LiveNodes,
        extent: Option<StreamExtent>,
    ) -> Result<(), ClusterExportError> {
        for (node, _) in self.live_nodes(state).await? {
            live.entry(node).or_insert(0);
        }
        let report = check.finish(extent, &live);
        let fault = report
            .findings
            .into_iter()
            .find(|finding| finding.fault.is_fault());
        match fault {
            Some(fault) => Err(ClusterExportError::NotVerified(fault.text)),
            None => Ok(()),
        }
    }

    /// Returns the last line before the message from which on messages are kept.
    async fn find_removed(
        &self,
        writer: &str,
        keep_from: u64,
    ) -> Result<RemovedLines, ClusterExportError> {
        let message = self.stream().next_message(writer, keep_from).await?;
        let first = message
            .as_ref()
            .and_then(|message| ChainLink::read(message.lines().next()?));
        let first = first.ok_or(ClusterExportError::MissingMessage(keep_from))?;
        Ok(RemovedLines {
            line: first.seq.saturating_sub(1),
            hash: first.prev,
        })
    }

    async fn remove(
        &self,
        plan: RemovalPlan,
        by: &str,
    ) -> Result<ClusterRemoval, ClusterExportError> {
        let before = plan.kept.sequence + 1;
        let mut removal = ClusterRemoval {
            messages: 0,
            writers: plan.writers.len(),
            before,
        };
        let mut log = PrunedLog {
            before,
            head: plan.kept.hash,
            writers: plan.carried,
        };
        let (mut head, mut sequence) = match &plan.last {
            Some(last) => {
                let head = last.head().ok_or(ClusterAuditError::Damaged {
                    sequence: last.sequence,
                    text: "its last line is not a line of the log".to_owned(),
                })?;
                (head, last.sequence)
            }
            None => (LogHead::START, 0),
        };
        let mut carried = log.writers.clone();
        for part in plan.writers.chunks(LISTED_WRITERS_MAX) {
            let listed = part
                .iter()
                .map(|writer| (writer.name.clone(), writer.removed));
            log.writers.extend(listed);
            let message = PrunedMessage::new(head, &log, by)?;
            let stored = self.stream().append(
                AUDIT_RETENTION,
                message.headers,
                message.payload.into(),
                sequence,
            );
            sequence = stored.await.map_err(|error| {
                if error.is_conflict() {
                    ClusterExportError::Concurrent
                } else {
                    self.stream().error(&error).into()
                }
            })?;
            head = message.head;
            for writer in part {
                let removed = self.stream().remove_before(&writer.name, writer.keep_from);
                removal.messages += removed.await?;
            }
            // The others begin with an older message, which verification expects.
            let newer = part.iter().filter(|writer| writer.keep_from >= before);
            carried.extend(newer.map(|writer| (writer.name.clone(), writer.removed)));
            log.writers.clone_from(&carried);
        }
        Ok(removal)
    }
}

/// A message with a line `pruned`.
struct PrunedMessage {
    headers: async_nats::HeaderMap,
    payload: Vec<u8>,
    head: LogHead,
}

impl PrunedMessage {
    fn new(last: LogHead, log: &PrunedLog, by: &str) -> Result<Self, ClusterExportError> {
        let event = |kind, detail| WriterEvent {
            time: SystemTime::now(),
            event: kind,
            subject: AUDIT_RETENTION,
            detail,
            previous: None,
            workspace: None,
            ok: true,
        };
        let mut payload = Vec::new();
        let mut seal = || {
            let mut head = last;
            if head == LogHead::START {
                let opened = event(
                    EventKind::Opened,
                    "removals of exported messages".to_owned(),
                );
                head = LineDraft::new(&opened)?.seal(&head, &mut payload)?;
            }
            let detail = format!(
                "messages before {} were exported and removed by {by}",
                log.before
            );
            let event = event(EventKind::Pruned, detail);
            LineDraft::new(&PrunedLine { event, log })?.seal(&head, &mut payload)
        };
        let head = seal().map_err(|error| file_failure(Path::new(AUDIT_RETENTION), error))?;
        let open = OpenCalls::new(Vec::new());
        Ok(Self {
            headers: message_headers(last.seq + 1, &head, AUDIT_RETENTION, &open),
            payload,
            head,
        })
    }
}

/// Returns true if a message was stored before a time, which is in the same format.
fn is_older(message: &AuditMessage, bound: &str) -> bool {
    let seconds = |text: &str| text.get(..SECONDS_LENGTH).map(str::to_owned);
    match (seconds(&message.time), seconds(bound)) {
        (Some(stored), Some(bound)) => stored < bound,
        _ => false,
    }
}

/// Waits until the names of new files in a folder are on the disk, on platforms where folders can be synchronized.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    std::fs::File::open(folder)?.sync_all()?;
    let _ = folder;
    Ok(())
}

/// Fails if the exported file of a writer does not have all lines that are to be removed.
fn check_exported(folder: &Path, writer: &WriterRemoval) -> Result<(), ClusterExportError> {
    let path = exported_file(folder, &writer.name)?;
    let failed = |error| file_failure(&path, error);
    let snapshot = AuditLog::at(&path).snapshot().map_err(failed)?;
    let report = mimir_audit::verify_exported(&snapshot).map_err(failed)?;
    let last = LogHead {
        seq: writer.removed.line,
        hash: writer.removed.hash,
    };
    let is_complete = report.ok
        && report.first.is_some_and(|first| first <= writer.first_line)
        && report.head.seq >= last.seq
        && snapshot.has_line(last).map_err(failed)?;
    if is_complete {
        Ok(())
    } else {
        let path = mimir_core::text::visible(&path.display().to_string());
        Err(ClusterExportError::Incomplete(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_keeps_the_last_message_and_running_calls() {
        let writer = |first_message, last_message, oldest_open| RetainedWriter {
            first_message,
            first_line: 1,
            last_message,
            oldest_open,
        };
        for (retained, before, keep) in [
            (writer(1, 9, None), 5, Some(5)),
            (writer(1, 3, None), 5, Some(3)),
            (writer(1, 9, Some(2)), 5, Some(2)),
            (writer(1, 9, Some(1)), 5, None),
            (writer(3, 3, None), 5, None),
            (writer(6, 9, None), 5, None),
            (writer(5, 9, None), 5, None),
        ] {
            assert_eq!(retained.keep_from(before), keep, "{retained:?}");
        }
    }

    #[test]
    fn removal_line_is_read_as_it_was_written() {
        let removed = RemovedLines {
            line: 7,
            hash: LineHash::digest_line(b"x"),
        };
        let log = PrunedLog {
            before: 12,
            head: LineHash::digest_line(b"head"),
            writers: BTreeMap::from([("a".to_owned(), removed)]),
        };
        let message = PrunedMessage::new(LogHead::START, &log, "test").unwrap();
        let message = AuditMessage {
            writer: AUDIT_RETENTION.to_owned(),
            sequence: 13,
            time: String::new(),
            headers: message.headers,
            payload: message.payload.into(),
        };
        assert_eq!(message.lines().count(), 2);
        assert_eq!(parse_pruned(&message).unwrap(), log);
        assert!(
            parse_pruned(&AuditMessage {
                payload: "{}\n".into(),
                ..message
            })
            .is_err()
        );
    }

    #[test]
    fn messages_are_compared_by_seconds() {
        let message = |time: &str| AuditMessage {
            writer: "a".to_owned(),
            sequence: 1,
            time: time.to_owned(),
            headers: async_nats::HeaderMap::new(),
            payload: bytes::Bytes::new(),
        };
        let bound = "2026-11-29T12:00:00.500Z";
        for (time, expected) in [
            ("2026-11-29T11:59:59.999999999Z", true),
            ("2026-11-29T12:00:00Z", false),
            ("2026-11-29T12:00:01.1Z", false),
            ("", false),
        ] {
            assert_eq!(is_older(&message(time), bound), expected, "{time}");
        }
    }
}
