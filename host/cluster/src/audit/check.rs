//! Verification of the log of a cluster, over the messages of its stream in their order.
//!
//! Each writer's lines are an unbroken chain, and nothing follows the event `closed`. The sequences of the stream have no
//! gap. Each announced call has one announcement and one outcome in the whole log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use mimir_audit::{ChainFault, ChainLink, ChainVerifier, LineHash, VerifyFinding};
use serde::Serialize;

use super::WriterName;
use super::log_message::{AuditMessage, describe_lines};
use super::recorded_line::RecordedLine;
use super::retention::{PrunedLog, RetainedWriter};
use super::stream::StreamExtent;
use crate::names;

/// The kind of a finding in the log of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterFault {
    /// A line or a header differs from the one that was written.
    Changed,
    /// Lines or messages are missing.
    Removed,
    /// A line is not in its original position.
    Reordered,
    /// A line or a message was not written by mimir, or is duplicated.
    Inserted,
    /// Messages are missing at the end.
    Truncated,
    /// A subject is not the subject of a writer, or its first line does not name the writer.
    Forged,
    /// A message follows the end of its writer.
    AfterClosed,
    /// A call was announced twice, so it may have run twice.
    AnnouncedTwice,
    /// A call has more than one outcome.
    SecondOutcome,
    /// An announced call has no outcome, and its process cannot record one any more.
    NoOutcome,
    /// The log never had the noted state.
    NotNoted,
    /// No fault: older messages were removed, after an export or because of their age.
    Dropped,
}

impl ClusterFault {
    /// Returns true if the finding is a fault.
    pub const fn is_fault(self) -> bool {
        !matches!(self, ClusterFault::Dropped)
    }

    /// Returns the name in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClusterFault::Changed => "changed",
            ClusterFault::Removed => "removed",
            ClusterFault::Reordered => "reordered",
            ClusterFault::Inserted => "inserted",
            ClusterFault::Truncated => "truncated",
            ClusterFault::Forged => "forged",
            ClusterFault::AfterClosed => "after-closed",
            ClusterFault::AnnouncedTwice => "announced-twice",
            ClusterFault::SecondOutcome => "second-outcome",
            ClusterFault::NoOutcome => "no-outcome",
            ClusterFault::NotNoted => "not-noted",
            ClusterFault::Dropped => "dropped",
        }
    }

    /// Returns the kind of a finding about a chain.
    const fn of_chain(fault: ChainFault) -> Self {
        match fault {
            ChainFault::Removed => ClusterFault::Removed,
            ChainFault::Reordered => ClusterFault::Reordered,
            ChainFault::Inserted => ClusterFault::Inserted,
            ChainFault::Dropped => ClusterFault::Dropped,
            ChainFault::Truncated => ClusterFault::Truncated,
            ChainFault::Changed
            | ChainFault::Headless
            | ChainFault::NotNoted
            | ChainFault::Forgotten
            | ChainFault::Torn
            | ChainFault::Behind => ClusterFault::Changed,
        }
    }
}

/// A finding in the log of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFinding {
    /// The kind.
    pub fault: ClusterFault,
    /// The writer, if the finding is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Sequence of the message in the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// Number of the line in the writer's chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// A one-sentence explanation.
    pub text: String,
}

/// The state of the log after a message: covers all messages up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClusterHead {
    /// Sequence of the message in the stream; 0 before the first.
    pub sequence: u64,
    /// Hash over all messages up to it.
    pub hash: LineHash,
}

/// The result of the verification of a cluster's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVerifyReport {
    /// True if no fault was found.
    pub ok: bool,
    /// Number of messages.
    pub messages: u64,
    /// Number of lines.
    pub lines: u64,
    /// Number of writers, and of those that are closed.
    pub writers: usize,
    /// Number of closed writers.
    pub closed_writers: usize,
    /// Number of announced calls.
    pub announced_calls: u64,
    /// Number of announced calls whose process still runs them.
    pub running_calls: usize,
    /// Number of calls that were not announced and that several writers have recorded, since they were sent again.
    pub repeated_calls: u64,
    /// The state of the log, which can be noted elsewhere.
    pub head: ClusterHead,
    /// Sequence of the message after which the log had the noted state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noted: Option<u64>,
    /// The findings.
    pub findings: Vec<ClusterFinding>,
    /// Number of findings that are not listed.
    pub more: usize,
}

/// Maximum number of listed findings.
const MAX_FINDINGS: usize = 200;

/// The live nodes: their ids, and the sequence of the last message that each of them knew to be stored.
pub type LiveNodes = BTreeMap<String, u64>;

/// A verification that reads message by message.
pub struct ClusterLogCheck {
    writers: BTreeMap<String, WriterCheck>,
    open: HashMap<String, OpenAnnouncement>,
    /// Calls with an outcome, by the hash of their id.
    finished: HashMap<u64, FinishedCall>,
    hasher: RandomState,
    noted: Option<String>,
    noted_at: Option<u64>,
    head: ClusterHead,
    /// The removal of exported messages.
    pruned: Option<PrunedLog>,
    /// Sequence of the first message that was added.
    first: Option<u64>,
    /// Sequence of the last message that was added.
    last: u64,
    messages: u64,
    lines: u64,
    announced_calls: u64,
    repeated_calls: u64,
    findings: Vec<ClusterFinding>,
}

struct WriterCheck {
    chain: ChainVerifier,
    /// Number of the writer.
    number: u32,
    closed_at: Option<u64>,
    first_message: u64,
    /// Number of the first line.
    first_line: u64,
    last_message: u64,
}

struct OpenAnnouncement {
    writer: String,
    message: u64,
}

#[derive(Clone, Copy)]
struct FinishedCall {
    writer: u32,
    announced: bool,
}

impl ClusterLogCheck {
    /// Creates the verification. `noted` is a hash of an earlier [`ClusterVerifyReport::head`], or its beginning.
    pub fn new(noted: Option<&str>) -> Self {
        Self::after_removal(noted, None)
    }

    /// Creates the verification of a log from which messages were removed after an export.
    pub(crate) fn after_removal(noted: Option<&str>, pruned: Option<PrunedLog>) -> Self {
        let head = pruned.as_ref().map(|pruned| ClusterHead {
            sequence: pruned.before.saturating_sub(1),
            hash: pruned.head,
        });
        let mut check = Self::with_head(noted, head);
        if head.is_some() {
            check.compare_noted();
        }
        check.pruned = pruned;
        check
    }

    fn with_head(noted: Option<&str>, head: Option<ClusterHead>) -> Self {
        Self {
            writers: BTreeMap::new(),
            open: HashMap::new(),
            finished: HashMap::new(),
            hasher: RandomState::new(),
            noted: noted.map(str::to_ascii_lowercase),
            noted_at: None,
            head: head.unwrap_or(ClusterHead {
                sequence: 0,
                hash: LineHash::ZERO,
            }),
            pruned: None,
            first: None,
            last: 0,
            messages: 0,
            lines: 0,
            announced_calls: 0,
            repeated_calls: 0,
            findings: Vec::new(),
        }
    }

    fn report(
        &mut self,
        fault: ClusterFault,
        writer: Option<&str>,
        message: Option<u64>,
        line: Option<u64>,
        text: impl Into<String>,
    ) {
        self.findings.push(ClusterFinding {
            fault,
            writer: writer.map(mimir_core::text::visible),
            message,
            line,
            text: text.into(),
        });
    }

    /// Adds the next message of the stream.
    pub fn add(&mut self, message: &AuditMessage) {
        self.check_sequence(message);
        self.messages += 1;
        self.extend_head(message);
        let (writer, sequence) = (message.writer.as_str(), message.sequence);
        if WriterName::parse(writer).is_err() && writer != names::AUDIT_RETENTION {
            let text = "the subject of the message is not the subject of a writer";
            return self.report(
                ClusterFault::Forged,
                Some(writer),
                Some(sequence),
                None,
                text,
            );
        }
        if !self.writers.contains_key(writer) {
            self.begin_writer(message);
        }
        let closed_at = self.writers.get(writer).and_then(|check| check.closed_at);
        if let Some(closed_at) = closed_at {
            let text = format!("the writer was closed by message {closed_at}");
            self.report(
                ClusterFault::AfterClosed,
                Some(writer),
                Some(sequence),
                None,
                text,
            );
        }
        for line in message.lines() {
            self.add_line(message, line);
        }
        self.check_headers(message);
        if let Some(check) = self.writers.get_mut(writer) {
            check.last_message = sequence;
            if message.closes_writer() && check.closed_at.is_none() {
                check.closed_at = Some(sequence);
            }
        }
    }

    /// Returns the state of the log before the next message.
    pub(crate) fn head(&self) -> ClusterHead {
        self.head
    }

    /// Returns the first sequence from which on no message may be missing.
    fn complete_from(&self) -> u64 {
        self.pruned.as_ref().map_or(0, |pruned| pruned.before)
    }

    fn check_sequence(&mut self, message: &AuditMessage) {
        let (sequence, last, complete) = (message.sequence, self.last, self.complete_from());
        let is_first = self.first.is_none();
        let expected = (last + 1).max(complete);
        if sequence <= last {
            let text = format!("expected a message after {last}");
            self.report(ClusterFault::Reordered, None, Some(sequence), None, text);
        } else if sequence > expected && (!is_first || complete > 0) {
            let text = match sequence - expected {
                1 => format!("message {expected} is missing"),
                _ => format!("messages {expected} to {} are missing", sequence - 1),
            };
            self.report(ClusterFault::Removed, None, Some(expected), None, text);
        }
        self.first.get_or_insert(sequence);
        self.last = last.max(sequence);
    }

    fn extend_head(&mut self, message: &AuditMessage) {
        let AuditMessage {
            writer, sequence, ..
        } = message;
        // The noted hash of the removal covers these.
        if *sequence < self.complete_from() {
            return;
        }
        let payload = LineHash::digest_line(&message.payload);
        let text = format!("{} {sequence} {writer} {payload}", self.head.hash);
        self.head = ClusterHead {
            sequence: self.head.sequence.max(*sequence),
            hash: LineHash::digest_line(text.as_bytes()),
        };
        self.compare_noted();
    }

    fn compare_noted(&mut self) {
        let hash = self.head.hash.as_str();
        if self
            .noted
            .as_deref()
            .is_some_and(|noted| hash.starts_with(noted))
        {
            self.noted_at = Some(self.head.sequence);
        }
    }

    /// Checks the first message of a writer.
    fn begin_writer(&mut self, message: &AuditMessage) {
        let writer = message.writer.as_str();
        let mut chain = ChainVerifier::new(writer);
        let first = message.lines().next().unwrap_or_default();
        let link = ChainLink::read(first);
        let number = link.map(|link| link.seq);
        if number.is_some_and(|number| number > 1) && self.may_begin_late(message) {
            chain.skip_before(number.unwrap_or_default());
        } else {
            let names_writer = RecordedLine::read(first).is_some_and(|line| {
                (line.is_opened() || line.is_closed()) && line.subject == writer
            });
            if !names_writer {
                let text = "the first line of the writer does not open it";
                self.report(
                    ClusterFault::Forged,
                    Some(writer),
                    Some(message.sequence),
                    number,
                    text,
                );
            }
        }
        if let Some(text) = self.find_difference_to_removed(writer, link) {
            let sequence = Some(message.sequence);
            self.report(ClusterFault::Removed, Some(writer), sequence, number, text);
        }
        let check = WriterCheck {
            chain,
            number: u32::try_from(self.writers.len()).unwrap_or(u32::MAX),
            closed_at: None,
            first_message: message.sequence,
            first_line: number.unwrap_or_default(),
            last_message: message.sequence,
        };
        self.writers.insert(writer.to_owned(), check);
    }

    /// Returns true if older lines of the writer of this message may have been removed.
    fn may_begin_late(&self, message: &AuditMessage) -> bool {
        match &self.pruned {
            Some(pruned) => {
                message.sequence < pruned.before || pruned.writers.contains_key(&message.writer)
            }
            None => self.first.is_some_and(|first| first > 1),
        }
    }

    /// Compares the first line of a writer with the last one that was removed.
    fn find_difference_to_removed(&self, writer: &str, first: Option<ChainLink>) -> Option<String> {
        let removed = self.pruned.as_ref()?.writers.get(writer)?;
        let first = first?;
        let expected = removed.line + 1;
        if first.seq > expected {
            return Some(format!(
                "lines {expected} to {} are missing: the lines up to {} were exported and removed",
                first.seq - 1,
                removed.line
            ));
        }
        (first.seq == expected && first.prev != removed.hash).then(|| {
            format!(
                "the line does not continue line {}, which was exported and removed with the hash {}",
                removed.line, removed.hash
            )
        })
    }

    /// Returns the writers so far, with the messages that a removal must keep.
    pub(crate) fn retained_writers(&self) -> BTreeMap<String, RetainedWriter> {
        let writers = self.writers.iter().map(|(writer, check)| {
            let retained = RetainedWriter {
                first_message: check.first_message,
                first_line: check.first_line,
                last_message: check.last_message,
                oldest_open: None,
            };
            (writer.clone(), retained)
        });
        let mut writers: BTreeMap<_, _> = writers.collect();
        for open in self.open.values() {
            if let Some(writer) = writers.get_mut(&open.writer) {
                let oldest = writer.oldest_open.get_or_insert(open.message);
                *oldest = open.message.min(*oldest);
            }
        }
        writers
    }

    fn add_line(&mut self, message: &AuditMessage, line: &[u8]) {
        self.lines += 1;
        let (writer, sequence) = (message.writer.as_str(), message.sequence);
        let Some(check) = self.writers.get_mut(writer) else {
            return;
        };
        check.chain.add_line(sequence, line);
        let number = check.number;
        let Some(recorded) = RecordedLine::read(line) else {
            return;
        };
        let at = ChainLink::read(line).map(|link| link.seq);
        if recorded.id.is_empty() {
            return;
        }
        if recorded.is_announcement() {
            self.add_announcement(writer, number, sequence, at, &recorded.id);
        } else if recorded.is_outcome() {
            self.add_outcome(writer, number, sequence, at, &recorded.id);
        }
    }

    fn add_announcement(
        &mut self,
        writer: &str,
        number: u32,
        message: u64,
        line: Option<u64>,
        id: &str,
    ) {
        self.announced_calls += 1;
        let finished = self.finished.get(&self.hasher.hash_one(id)).copied();
        let was_announced = finished.is_some_and(|call| call.announced || call.writer == number);
        if was_announced || self.open.contains_key(id) {
            let text = format!("call {id} was announced or recorded before");
            self.report(
                ClusterFault::AnnouncedTwice,
                Some(writer),
                Some(message),
                line,
                text,
            );
        }
        let announcement = OpenAnnouncement {
            writer: writer.to_owned(),
            message,
        };
        self.open.insert(id.to_owned(), announcement);
    }

    fn add_outcome(
        &mut self,
        writer: &str,
        number: u32,
        message: u64,
        line: Option<u64>,
        id: &str,
    ) {
        let second = |check: &mut Self, text: String| {
            let fault = ClusterFault::SecondOutcome;
            check.report(fault, Some(writer), Some(message), line, text);
        };
        let hash = self.hasher.hash_one(id);
        if let Some(open) = self.open.get(id) {
            if open.writer != writer {
                let text = format!("call {id} was announced by writer {}", open.writer);
                return second(self, text);
            }
            self.open.remove(id);
            let announced = true;
            let call = FinishedCall {
                writer: number,
                announced,
            };
            self.finished.insert(hash, call);
            return;
        }
        match self.finished.get(&hash).copied() {
            Some(call) if call.announced || call.writer == number => {
                second(self, format!("call {id} has an outcome already"));
            }
            Some(_) => self.repeated_calls += 1,
            None => {
                let announced = false;
                let call = FinishedCall {
                    writer: number,
                    announced,
                };
                self.finished.insert(hash, call);
            }
        }
    }

    fn check_headers(&mut self, message: &AuditMessage) {
        let first = message.lines().next().and_then(ChainLink::read);
        let expected = first
            .zip(message.head())
            .map(|(first, last)| describe_lines(first.seq, &last));
        if expected.as_deref() != message.lines_header() || message.open_calls().is_none() {
            let text = "the headers of the message do not describe its lines";
            self.report(
                ClusterFault::Changed,
                Some(&message.writer),
                Some(message.sequence),
                None,
                text,
            );
        }
    }

    /// Completes the verification. `extent` is the extent of the stream when reading began, and `live` are the nodes
    /// that lived then or later.
    pub fn finish(mut self, extent: Option<StreamExtent>, live: &LiveNodes) -> ClusterVerifyReport {
        self.check_extent(extent);
        self.check_live_nodes(live);
        let running_calls = self.check_open_calls(live);
        let writers = std::mem::take(&mut self.writers);
        let closed_writers = writers
            .values()
            .filter(|check| check.closed_at.is_some())
            .count();
        let writer_count = writers.len();
        for (writer, check) in writers {
            let findings = check.chain.finish().findings;
            self.findings.extend(
                findings
                    .into_iter()
                    .map(|found| chain_finding(&writer, found)),
            );
        }
        if let (Some(noted), None) = (self.noted.clone(), self.noted_at) {
            let text = format!(
                "the log never had the noted hash {noted}: it was rewritten or cut since then, or old messages were removed"
            );
            self.report(ClusterFault::NotNoted, None, None, None, text);
        }
        self.findings.sort_by_key(|finding| finding.message);
        let ok = !self.findings.iter().any(|finding| finding.fault.is_fault());
        let more = self.findings.len().saturating_sub(MAX_FINDINGS);
        self.findings.truncate(MAX_FINDINGS);
        ClusterVerifyReport {
            ok,
            messages: self.messages,
            lines: self.lines,
            writers: writer_count,
            closed_writers,
            announced_calls: self.announced_calls,
            running_calls,
            repeated_calls: self.repeated_calls,
            head: self.head,
            noted: self.noted_at,
            findings: self.findings,
            more,
        }
    }

    fn check_extent(&mut self, extent: Option<StreamExtent>) {
        let Some(extent) = extent else {
            return;
        };
        let first = self.first.unwrap_or(extent.last + 1);
        if let Some(pruned) = self.pruned.take() {
            let text = format!(
                "messages before {} were exported and removed, except the last one of each process and those of running \
                 calls",
                pruned.before
            );
            self.report(ClusterFault::Dropped, None, None, None, text);
            self.check_pruned_writers(&pruned);
        } else if extent.first > 1 {
            let text = format!(
                "messages 1 to {} were removed because of their age (`max_age` of the stream), or the stream was made again",
                extent.first - 1
            );
            self.report(ClusterFault::Dropped, None, None, None, text);
        }
        if extent.messages > 0 && first > extent.first {
            let text = format!("messages {} to {} are missing", extent.first, first - 1);
            self.report(ClusterFault::Removed, None, Some(extent.first), None, text);
        }
        if self.last < extent.last {
            let text = format!("messages {} to {} are missing", self.last + 1, extent.last);
            self.report(ClusterFault::Truncated, None, Some(extent.last), None, text);
        }
    }

    /// Reports writers of which nothing is left, although a removal keeps a message of each.
    fn check_pruned_writers(&mut self, pruned: &PrunedLog) {
        let lost = pruned.writers.keys();
        let lost: Vec<&String> = lost
            .filter(|name| !self.writers.contains_key(*name))
            .collect();
        for writer in lost {
            let text = "all messages of the writer are missing";
            self.report(ClusterFault::Removed, Some(writer), None, None, text);
        }
    }

    /// Compares the log with what its writers know to be stored.
    fn check_live_nodes(&mut self, live: &LiveNodes) {
        for (node, recorded) in live {
            let last = self.writers.get(node).map_or(0, |check| check.last_message);
            if last < *recorded {
                let text = format!(
                    "the process has written message {recorded}, but its last message is {last}: messages were removed from the end"
                );
                self.report(
                    ClusterFault::Truncated,
                    Some(node),
                    Some(*recorded),
                    None,
                    text,
                );
            }
        }
    }

    /// Reports open calls that get no outcome any more. Returns the number of the others.
    fn check_open_calls(&mut self, live: &LiveNodes) -> usize {
        let mut running = 0;
        let mut ended = BTreeSet::new();
        for (id, open) in &self.open {
            let check = self.writers.get(&open.writer);
            let is_closed = check.is_some_and(|check| check.closed_at.is_some());
            if live.contains_key(&open.writer) && !is_closed {
                running += 1;
            } else {
                ended.insert((open.message, open.writer.clone(), id.clone(), is_closed));
            }
        }
        for (message, writer, id, is_closed) in ended {
            let why = if is_closed {
                "and its writer is closed"
            } else {
                "and its process has ended; another node closes its log within seconds, so verify again"
            };
            let text = format!("call {id} has no outcome, {why}");
            self.report(
                ClusterFault::NoOutcome,
                Some(&writer),
                Some(message),
                None,
                text,
            );
        }
        running
    }
}

/// Converts a finding about a chain, whose `line` is the sequence of the message.
fn chain_finding(writer: &str, finding: VerifyFinding) -> ClusterFinding {
    ClusterFinding {
        fault: ClusterFault::of_chain(finding.fault),
        writer: Some(writer.to_owned()),
        message: finding.line,
        line: finding.seq,
        text: if finding.fault == ChainFault::Dropped {
            "the first lines of the writer were removed".to_owned()
        } else {
            finding.text
        },
    }
}

#[cfg(test)]
mod tests;
