//! Whether the log is what was written: every line in its place, and none missing.

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

/// What is wrong with a line, or worth knowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A line is not the one that was written.
    Changed,
    /// Lines that were written are not there.
    Removed,
    /// A line is not where it was written.
    Reordered,
    /// A line was not written by mimir, or is there once more.
    Inserted,
    /// Lines are missing at the end.
    Truncated,
    /// `audit.head` is missing or is none, so that nothing says where the log ends.
    Headless,
    /// No line has the hash that was noted.
    NotNoted,
    /// The log is shorter than what somebody else remembers of it, or another one.
    Forgotten,
    /// No fault: a crash has torn a line.
    Torn,
    /// No fault: a crash has kept `audit.head` from naming the last line.
    Behind,
    /// No fault: older lines have gone as `audit.keep` says.
    Dropped,
}

impl Fault {
    /// Whether the log is not what was written.
    pub const fn is_bad(self) -> bool {
        !matches!(self, Fault::Torn | Fault::Behind | Fault::Dropped)
    }

    /// The spelling in output.
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

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it is.
    pub fault: Fault,
    /// The file, where it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The number of the line in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// One plain sentence.
    pub text: String,
}

/// What came of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether the log is what was written.
    pub ok: bool,
    /// How many files there are.
    pub files: usize,
    /// How many lines of the chain.
    pub lines: u64,
    /// The first of them, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The last line: what can be noted elsewhere.
    pub head: Head,
    /// The line that has the hash that was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noted: Option<u64>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// How many more were found than are listed.
    pub more: usize,
}

/// How many findings are listed. A log with more has no line that is worth naming.
const FINDINGS_MAX: usize = 200;

/// Looks at every line. `noted` is a hash that was noted before, or at least the beginning of one; `remembered` is
/// a line that somebody remembers as the last.
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

/// Where a line is.
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

/// A line of the chain, as far as the chain goes.
struct Own {
    place: Place,
    seq: u64,
    prev: Hash,
    hash: Hash,
    /// What the log says in it about itself.
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
        // A last line without its end is torn, whatever stands in it.
        let link = Link::read(line.bytes).filter(|_| line.ended)?;
        // Few lines are about the log: the others need not be parsed.
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
