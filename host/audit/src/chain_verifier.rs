//! Verification of a chain whose lines come from elsewhere than log files.

use crate::head::HeadState;
use crate::snapshot::AuditLine;
use crate::verify::{ChainWalk, ChainedLine};
use crate::{LogHead, VerifyReport};

/// Verifies the lines of a chain as they are read: from the messages of a cluster, for example.
///
/// ```
/// # use mimir_audit::{ChainVerifier, LineDraft, LogHead};
/// let mut line = Vec::new();
/// LineDraft::new(&serde_json::json!({"event": "call"}))?.seal(&LogHead::START, &mut line)?;
/// let mut chain = ChainVerifier::new("writer");
/// chain.add_line(1, line.trim_ascii_end());
/// assert!(chain.finish().ok);
/// # std::io::Result::Ok(())
/// ```
pub struct ChainVerifier {
    walk: ChainWalk,
    name: String,
    is_empty: bool,
}

impl ChainVerifier {
    /// Creates the verification of a chain. Findings have `name` as their file.
    pub fn new(name: &str) -> Self {
        Self {
            walk: ChainWalk::new(None, None, None),
            name: name.to_owned(),
            is_empty: true,
        }
    }

    /// Accepts that the lines before `first` were removed because of their age, if no line was added before.
    pub fn skip_before(&mut self, first: u64) {
        if self.is_empty {
            self.walk.keep_from(first);
        }
    }

    /// Adds a line without its line end. Findings about it have `position` as their line.
    pub fn add_line(&mut self, position: u64, line: &[u8]) {
        self.is_empty = false;
        let line = AuditLine {
            file: &self.name,
            number: position,
            bytes: line,
            ended: true,
        };
        match ChainedLine::read(line) {
            Some(line) => self.walk.add_line(line),
            None => self.walk.add_unchained_line(line),
        }
    }

    /// Returns the report. Lines that are missing at the end are not noticed.
    pub fn finish(self) -> VerifyReport {
        let mut report = self.walk.finish(HeadState::Head(LogHead::START));
        report.ok = !report
            .findings
            .iter()
            .any(|finding| finding.fault.is_fault());
        report
    }
}
