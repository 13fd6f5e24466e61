//! Verification of the log: checks that every line is unchanged and in its position, and that no line is missing.

use std::io;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::head::HeadState;
use super::line::ChainLink;
use super::snapshot::{AuditLine, LogSnapshot};
use super::{LineHash, LogHead};

mod gaps;
mod unchained_lines;
mod walk;

pub(crate) use walk::ChainWalk;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainFault {
    /// A line differs from the one that was written.
    Changed,
    /// Lines that were written are missing.
    Removed,
    /// A line is not in its original position.
    Reordered,
    /// A line was not written by mimir, or is duplicated.
    Inserted,
    /// Lines are missing at the end.
    Truncated,
    /// `audit.head` is missing or not valid, so that the end of the log is unknown.
    Headless,
    /// No line has the noted hash.
    NotNoted,
    /// The last line that was stored outside of the log is missing or differs.
    Forgotten,
    /// No fault: a crash has torn a line.
    Torn,
    /// No fault: after a crash, `audit.head` does not name the last line.
    Behind,
    /// No fault: older lines were removed according to `audit.keep`.
    Dropped,
}

impl ChainFault {
    /// Returns true if the finding is a fault.
    pub const fn is_fault(self) -> bool {
        !matches!(
            self,
            ChainFault::Torn | ChainFault::Behind | ChainFault::Dropped
        )
    }

    /// Returns the name in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChainFault::Changed => "changed",
            ChainFault::Removed => "removed",
            ChainFault::Reordered => "reordered",
            ChainFault::Inserted => "inserted",
            ChainFault::Truncated => "truncated",
            ChainFault::Headless => "headless",
            ChainFault::NotNoted => "not-noted",
            ChainFault::Forgotten => "forgotten",
            ChainFault::Torn => "torn",
            ChainFault::Behind => "behind",
            ChainFault::Dropped => "dropped",
        }
    }
}

/// A finding of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyFinding {
    /// The kind.
    pub fault: ChainFault,
    /// The name of the file, if the finding is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The number of the line in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The number of the line in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// A one-sentence explanation.
    pub text: String,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyReport {
    /// True if no fault was found.
    pub ok: bool,
    /// Number of files.
    pub files: usize,
    /// Number of lines of the chain.
    pub lines: u64,
    /// The number of the first line, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The last line, which can be noted elsewhere.
    pub head: LogHead,
    /// The number of the line with the noted hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noted: Option<u64>,
    /// The findings.
    pub findings: Vec<VerifyFinding>,
    /// Number of findings that are not listed.
    pub more: usize,
}

/// Maximum number of listed findings.
const MAX_FINDINGS: usize = 200;

/// Verifies every line. `noted` is a hash that the user has noted, or the beginning of one. `remembered` is the last
/// line as stored earlier outside of the log. Faults are part of the report; an error means that a file cannot be read.
pub fn verify(
    snapshot: &LogSnapshot,
    noted: Option<&str>,
    remembered: Option<LogHead>,
) -> io::Result<VerifyReport> {
    let head = match snapshot.head_state {
        HeadState::Head(head) => Some(head),
        HeadState::Nothing | HeadState::Damaged => None,
    };
    let walk = ChainWalk::new(head, noted.map(str::to_ascii_lowercase), remembered);
    verify_lines(snapshot, walk)
}

/// Verifies every line of an exported file like [`verify`]. The file may begin with a later line than the first, if the
/// lines before were removed after an earlier export.
pub fn verify_exported(snapshot: &LogSnapshot) -> io::Result<VerifyReport> {
    let head = match snapshot.head_state {
        HeadState::Head(head) => Some(head),
        HeadState::Nothing | HeadState::Damaged => None,
    };
    let mut walk = ChainWalk::new(head, None, None);
    if let Some(first) = snapshot.first_seq()? {
        walk.keep_from(first);
    }
    verify_lines(snapshot, walk)
}

fn verify_lines(snapshot: &LogSnapshot, mut walk: ChainWalk) -> io::Result<VerifyReport> {
    snapshot.lines(|line| {
        match ChainedLine::read(line) {
            Some(line) => walk.add_line(line),
            None => walk.add_unchained_line(line),
        }
        ControlFlow::Continue(())
    })?;
    let mut report = walk.finish(snapshot.head_state);
    report.files = snapshot.files();
    report.ok = !report
        .findings
        .iter()
        .any(|finding| finding.fault.is_fault());
    report.more = report.findings.len().saturating_sub(MAX_FINDINGS);
    report.findings.truncate(MAX_FINDINGS);
    Ok(report)
}

/// The position of a line: its file and its number there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LinePosition {
    file: String,
    line: u64,
}

impl LinePosition {
    fn from_line(line: AuditLine<'_>) -> Self {
        Self {
            file: line.file.to_owned(),
            line: line.number,
        }
    }
}

/// A parsed line of the chain.
pub(crate) struct ChainedLine {
    position: LinePosition,
    seq: u64,
    prev: LineHash,
    hash: LineHash,
    /// Fields of an event of the log itself; empty for other events.
    maintenance: MaintenanceFields,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MaintenanceFields {
    event: String,
    first_kept: Option<u64>,
    torn_bytes: Option<u64>,
    torn_sha256: Option<String>,
    lost_head: Option<String>,
}

impl ChainedLine {
    pub(crate) fn read(line: AuditLine<'_>) -> Option<Self> {
        // A last line without its line end counts as torn, whatever it contains.
        let link = ChainLink::read(line.bytes).filter(|_| line.ended)?;
        // Few lines are events of the log itself, so most lines are not parsed.
        let is_maintenance = [&br#""event":"rotated""#[..], br#""event":"recovered""#]
            .iter()
            .any(|mark| line.bytes.windows(mark.len()).any(|part| part == *mark));
        let maintenance = if is_maintenance {
            serde_json::from_slice(line.bytes).unwrap_or_default()
        } else {
            MaintenanceFields::default()
        };
        Some(Self {
            position: LinePosition::from_line(line),
            seq: link.seq,
            prev: link.prev,
            hash: LineHash::digest_line(line.bytes),
            maintenance,
        })
    }
}
