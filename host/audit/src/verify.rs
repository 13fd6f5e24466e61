//! Verification of the log: every line unchanged and in its position, and none missing.

use std::io;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::head::Known;
use super::line::Link;
use super::snapshot::{Line, Snapshot};
use super::{Hash, Head};

mod gaps;
mod loose;
mod walk;

use walk::Walk;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
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
    /// `audit.head` is missing or not valid, so that nothing names the end of the log.
    Headless,
    /// No line has the hash that was noted.
    NotNoted,
    /// The log is shorter than the stored last position, or differs there.
    Forgotten,
    /// No fault: a crash has torn a line.
    Torn,
    /// No fault: after a crash, `audit.head` does not name the last line.
    Behind,
    /// No fault: older lines were removed according to `audit.keep`.
    Dropped,
}

impl Fault {
    /// Returns true if the finding is a fault.
    pub const fn is_bad(self) -> bool {
        !matches!(self, Fault::Torn | Fault::Behind | Fault::Dropped)
    }

    /// The name in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fault::Changed => "changed",
            Fault::Removed => "removed",
            Fault::Reordered => "reordered",
            Fault::Inserted => "inserted",
            Fault::Truncated => "truncated",
            Fault::Headless => "headless",
            Fault::NotNoted => "not-noted",
            Fault::Forgotten => "forgotten",
            Fault::Torn => "torn",
            Fault::Behind => "behind",
            Fault::Dropped => "dropped",
        }
    }
}

/// A finding of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The kind.
    pub fault: Fault,
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
pub struct Report {
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
    pub head: Head,
    /// The number of the line with the noted hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noted: Option<u64>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Number of findings beyond the listed ones.
    pub more: usize,
}

/// Maximum number of listed findings. Beyond that, single lines are not worth naming.
const FINDINGS_MAX: usize = 200;

/// Verifies every line. `noted` is a hash noted before, or its beginning; `remembered` is a last line stored earlier.
pub fn verify(
    snapshot: &Snapshot,
    noted: Option<&str>,
    remembered: Option<Head>,
) -> io::Result<Report> {
    let head = match snapshot.known {
        Known::Head(head) => Some(head),
        Known::Nothing | Known::Damaged => None,
    };
    let mut walk = Walk::new(head, noted.map(str::to_ascii_lowercase), remembered);
    snapshot.lines(|line| {
        match Own::read(line) {
            Some(own) => walk.line(own),
            None => walk.loose(line),
        }
        ControlFlow::Continue(())
    })?;
    let mut report = walk.finish(snapshot.known);
    report.files = snapshot.files();
    report.ok = !report.findings.iter().any(|found| found.fault.is_bad());
    report.more = report.findings.len().saturating_sub(FINDINGS_MAX);
    report.findings.truncate(FINDINGS_MAX);
    Ok(report)
}

/// The position of a line: its file and its number there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    file: String,
    line: u64,
}

impl Place {
    fn of(line: Line<'_>) -> Self {
        Self {
            file: line.file.to_owned(),
            line: line.number,
        }
    }
}

/// A parsed line of the chain.
struct Own {
    place: Place,
    seq: u64,
    prev: Hash,
    hash: Hash,
    /// The event of the log itself, if the line has one.
    said: Said,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    event: String,
    first_kept: Option<u64>,
    torn_bytes: Option<u64>,
    torn_sha256: Option<String>,
    lost_head: Option<String>,
}

impl Own {
    fn read(line: Line<'_>) -> Option<Self> {
        // A last line without its line end counts as torn, whatever it contains.
        let link = Link::read(line.bytes).filter(|_| line.ended)?;
        // Few lines are events of the log itself; the others need not be parsed.
        let own = [&br#""event":"rotated""#[..], br#""event":"recovered""#]
            .iter()
            .any(|mark| line.bytes.windows(mark.len()).any(|part| part == *mark));
        let said = match own {
            true => serde_json::from_slice(line.bytes).unwrap_or_default(),
            false => Said::default(),
        };
        Some(Self {
            place: Place::of(line),
            seq: link.seq,
            prev: link.prev,
            hash: Hash::of(line.bytes),
            said,
        })
    }
}
