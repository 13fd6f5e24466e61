//! The verification, line by line: compares each line with the expected one and interprets the difference.

use super::gaps::SequenceGaps;
use super::unchained_lines::UnchainedLines;
use super::{
    ChainFault, ChainedLine, LinePosition, MaintenanceFields, VerifyFinding, VerifyReport,
};
use crate::head::HeadState;
use crate::snapshot::AuditLine;
use crate::{EventKind, LineHash, LogHead};

/// A possible predecessor of the next line: there are several if a line was inserted.
struct TipCandidate {
    /// `None` before the first line.
    position: Option<LinePosition>,
    hash: LineHash,
}

/// The state of the verification.
pub(crate) struct ChainWalk {
    head: Option<LogHead>,
    noted: Option<String>,
    remembered: Option<LogHead>,
    /// Position and hash of the line with the number of the remembered line.
    remembered_at: Option<(LinePosition, LineHash)>,
    /// The number of the last line, and the candidates for that line. Empty if the line is known to be wrong.
    seq: u64,
    tips: Vec<TipCandidate>,
    first: Option<u64>,
    lines: u64,
    gaps: SequenceGaps,
    unchained: Option<UnchainedLines>,
    first_kept: u64,
    /// True if the line named by the head was found, and the position of another line with its number.
    head_found: bool,
    head_mismatch: Option<LinePosition>,
    noted_at: Option<u64>,
    findings: Vec<VerifyFinding>,
}

impl ChainWalk {
    pub(crate) fn new(
        head: Option<LogHead>,
        noted: Option<String>,
        remembered: Option<LogHead>,
    ) -> Self {
        let start = TipCandidate {
            position: None,
            hash: LineHash::ZERO,
        };
        Self {
            head,
            noted,
            remembered,
            remembered_at: None,
            seq: 0,
            tips: vec![start],
            first: None,
            lines: 0,
            gaps: SequenceGaps::default(),
            unchained: None,
            first_kept: 1,
            // The head of an empty log.
            head_found: head == Some(LogHead::START),
            head_mismatch: None,
            noted_at: None,
            findings: Vec::new(),
        }
    }

    /// Adds a finding. `seq` is the number of the line in the log, if known.
    fn report(
        &mut self,
        fault: ChainFault,
        position: Option<&LinePosition>,
        seq: Option<u64>,
        text: String,
    ) {
        self.findings.push(VerifyFinding {
            fault,
            file: position.map(|position| position.file.clone()),
            line: position.map(|position| position.line),
            seq,
            text,
        });
    }

    /// Accepts that the lines before `first` were removed.
    pub(crate) fn keep_from(&mut self, first: u64) {
        self.first_kept = self.first_kept.max(first);
    }

    /// Handles a line that does not belong to the chain.
    pub(crate) fn add_unchained_line(&mut self, line: AuditLine<'_>) {
        self.unchained.get_or_insert_default().push(line);
    }

    /// Handles a line of the chain.
    pub(crate) fn add_line(&mut self, line: ChainedLine) {
        self.lines += 1;
        self.first = Some(self.first.map_or(line.seq, |first| first.min(line.seq)));
        let noted = self.noted.as_deref();
        if noted.is_some_and(|noted| line.hash.as_str().starts_with(noted)) {
            self.noted_at = Some(line.seq);
        }
        if let Some(head) = self.head.filter(|head| head.seq == line.seq) {
            if head.hash == line.hash {
                self.head_found = true;
            } else {
                self.head_mismatch = Some(line.position.clone());
            }
        }
        if self
            .remembered
            .is_some_and(|remembered| remembered.seq == line.seq)
        {
            self.remembered_at = Some((line.position.clone(), line.hash));
        }
        if let Some(head_state) = describe_lost_head(&line.maintenance) {
            let text = format!(
                "audit.head was {head_state} when this was written: lines before it may have been removed from the end"
            );
            self.report(
                ChainFault::Headless,
                Some(&line.position),
                Some(line.seq),
                text,
            );
        }
        if line.maintenance.event == EventKind::Rotated.as_str() {
            let first_kept = line.maintenance.first_kept.unwrap_or_default();
            self.first_kept = self.first_kept.max(first_kept);
        }
        if let Some(unchained) = self.unchained.take() {
            self.compare_unchained(unchained, &line);
        }
        if line.seq <= self.seq {
            self.accept_earlier(line);
        } else if line.seq == self.seq + 1 {
            self.accept_next(line);
        } else {
            self.accept_later(line);
        }
    }

    /// Handles unchained lines before a line of the chain.
    fn compare_unchained(&mut self, unchained: UnchainedLines, line: &ChainedLine) {
        if line.maintenance.event == EventKind::Recovered.as_str()
            && unchained.matches_recovery(&line.maintenance)
        {
            let text = format!(
                "{} bytes torn off by a crash; recorded in line {}",
                unchained.bytes(),
                line.seq
            );
            self.report(ChainFault::Torn, unchained.first(), None, text);
        } else if line.seq.checked_sub(self.seq + 1) == Some(unchained.lines()) {
            self.report_changed(&unchained);
            self.seq = line.seq - 1;
            self.tips.clear();
        } else {
            self.report_inserted(&unchained);
        }
    }

    /// Reports unchained lines that take the place of missing lines.
    fn report_changed(&mut self, unchained: &UnchainedLines) {
        for (seq, position) in (self.seq + 1..).zip(unchained.positions()) {
            let text = "the line no longer has the format of a log line".to_owned();
            self.report(ChainFault::Changed, Some(position), Some(seq), text);
        }
    }

    fn report_inserted(&mut self, unchained: &UnchainedLines) {
        for position in unchained.positions() {
            let text = "the line does not belong to this log".to_owned();
            self.report(ChainFault::Inserted, Some(position), None, text);
        }
    }

    /// Makes a line the end of the chain so far, under the number `seq`.
    fn accept(&mut self, line: ChainedLine, seq: u64) {
        self.seq = seq;
        self.tips.clear();
        self.tips.push(TipCandidate {
            position: Some(line.position),
            hash: line.hash,
        });
    }

    /// Handles the expected line.
    fn accept_next(&mut self, line: ChainedLine) {
        let tips = std::mem::take(&mut self.tips);
        let linked = tips.iter().position(|tip| tip.hash == line.prev);
        if let (None, Some(first)) = (linked, tips.first()) {
            let (position, seq) = match &first.position {
                Some(position) => (position, self.seq),
                None => (&line.position, line.seq),
            };
            let text = "the line does not have the hash that the next line links to".to_owned();
            self.report(ChainFault::Changed, Some(position), Some(seq), text);
        }
        self.reject_other_tips(tips, linked.unwrap_or_default());
        let seq = line.seq;
        self.accept(line, seq);
    }

    /// Reports all candidates for a number except the one at `right_index`.
    fn reject_other_tips(&mut self, tips: Vec<TipCandidate>, right_index: usize) {
        for (index, tip) in tips.into_iter().enumerate() {
            if index != right_index {
                let text = "another line has the same number, and the next line links to that one"
                    .to_owned();
                self.report(
                    ChainFault::Inserted,
                    tip.position.as_ref(),
                    Some(self.seq),
                    text,
                );
            }
        }
    }

    /// Handles a line with a higher number than expected.
    fn accept_later(&mut self, line: ChainedLine) {
        let expected = self.seq + 1;
        if self.tips.iter().any(|tip| tip.hash == line.prev) {
            let text = format!("the line has the number {}: expected {expected}", line.seq);
            self.report(
                ChainFault::Changed,
                Some(&line.position),
                Some(expected),
                text,
            );
            self.accept(line, expected);
        } else {
            self.gaps.add(expected, line.seq - 1, line.position.clone());
            let seq = line.seq;
            self.accept(line, seq);
        }
    }

    /// Handles a line with a lower number than expected.
    fn accept_earlier(&mut self, line: ChainedLine) {
        if self.gaps.fill(line.seq) {
            let text = "the line was written before the line above it".to_owned();
            self.report(
                ChainFault::Reordered,
                Some(&line.position),
                Some(line.seq),
                text,
            );
        } else if line.seq == self.seq && self.tips.iter().all(|tip| tip.hash != line.hash) {
            // The link of the next line decides between the candidates.
            self.tips.push(TipCandidate {
                position: Some(line.position),
                hash: line.hash,
            });
        } else {
            let text = "an earlier line has the same number".to_owned();
            self.report(
                ChainFault::Inserted,
                Some(&line.position),
                Some(line.seq),
                text,
            );
        }
    }

    /// Completes the verification at the end of the log.
    pub(crate) fn finish(mut self, head_state: HeadState) -> VerifyReport {
        let incomplete_line = self
            .unchained
            .take()
            .and_then(|unchained| self.finish_unchained(unchained));
        let tips = std::mem::take(&mut self.tips);
        let is_head = |tip: &TipCandidate| self.head.is_some_and(|head| head.hash == tip.hash);
        let right_index = tips.iter().position(is_head).unwrap_or_default();
        let hash = tips.get(right_index).map_or(LineHash::ZERO, |tip| tip.hash);
        self.reject_other_tips(tips, right_index);
        self.report_missing();
        self.check_head(head_state, incomplete_line.as_ref());
        self.check_remembered();
        if let (Some(noted), None) = (&self.noted, self.noted_at) {
            let text = format!(
                "no line has the noted hash {noted}: the log was rewritten or cut since then, or the line was removed with an old file"
            );
            self.report(ChainFault::NotNoted, None, None, text);
        }
        VerifyReport {
            ok: false,
            files: 0,
            lines: self.lines,
            first: self.first,
            head: LogHead {
                seq: self.seq,
                hash,
            },
            noted: self.noted_at,
            findings: self.findings,
            more: 0,
        }
    }

    /// Handles unchained lines at the end. Returns the position of an incomplete line if the head names lines beyond
    /// the last one.
    fn finish_unchained(&mut self, unchained: UnchainedLines) -> Option<LinePosition> {
        let missing_lines = self
            .head
            .map_or(0, |head| head.seq.saturating_sub(self.seq));
        if missing_lines == 0 && !unchained.is_ended() {
            let text = format!("{} bytes torn off by a crash", unchained.bytes());
            self.report(ChainFault::Torn, unchained.first(), None, text);
        } else if !unchained.is_ended() {
            return unchained.positions().last().cloned();
        } else if missing_lines == unchained.lines() {
            self.report_changed(&unchained);
            // The changed lines are not missing.
            self.head = None;
        } else {
            self.report_inserted(&unchained);
        }
        None
    }

    /// Reports missing lines in the middle and at the beginning.
    fn report_missing(&mut self) {
        for gap in std::mem::take(&mut self.gaps).remaining(self.first_kept) {
            let text = format!(
                "{} missing before this line",
                describe_range(gap.from, gap.to)
            );
            self.report(
                ChainFault::Removed,
                Some(&gap.following),
                Some(gap.from),
                text,
            );
        }
        if let Some(last) = self.first_kept.checked_sub(1).filter(|last| *last > 0) {
            let text = format!("lines 1 to {last} were removed according to `audit.keep`");
            self.report(ChainFault::Dropped, None, None, text);
        }
    }

    fn check_head(&mut self, head_state: HeadState, incomplete_line: Option<&LinePosition>) {
        match head_state {
            HeadState::Damaged => {
                let text = "audit.head is not valid, so the end of the log is unknown".to_owned();
                self.report(ChainFault::Headless, None, None, text);
            }
            HeadState::Nothing if self.lines > 0 => {
                let text = "audit.head is missing, so the end of the log is unknown".to_owned();
                self.report(ChainFault::Headless, None, None, text);
            }
            HeadState::Nothing => {}
            HeadState::Head(_) => {
                if let Some(head) = self.head {
                    self.compare_with_head(head, incomplete_line);
                }
            }
        }
    }

    /// Compares the log with the last line that was stored outside of its folder.
    fn check_remembered(&mut self) {
        let Some(remembered) = self.remembered else {
            return;
        };
        let seq = remembered.seq;
        match self.remembered_at.take() {
            Some((_, hash)) if hash == remembered.hash => {}
            Some((position, _)) => {
                let text = "the line differs from the last line stored earlier: the log was rewritten since then"
                    .to_owned();
                self.report(ChainFault::Forgotten, Some(&position), Some(seq), text);
            }
            None if seq > self.seq => {
                let text = format!(
                    "the log had reached line {seq}, but {}: lines were removed from its end",
                    match self.seq {
                        0 => "it is empty now".to_owned(),
                        last => format!("its last line is {last} now"),
                    }
                );
                self.report(ChainFault::Forgotten, None, Some(self.seq + 1), text);
            }
            // The line is in a gap that is reported, or was removed with an old file.
            None => {}
        }
    }

    fn compare_with_head(&mut self, head: LogHead, incomplete_line: Option<&LinePosition>) {
        if head.seq > self.seq {
            let text = format!(
                "{} missing at the end according to audit.head: removed, or lost in a power failure (`audit.durability: fsync` waits for the disk)",
                describe_range(self.seq + 1, head.seq)
            );
            self.report(
                ChainFault::Truncated,
                incomplete_line,
                Some(self.seq + 1),
                text,
            );
        } else if self.head_found {
            if head.seq < self.seq && !head.is_slightly_behind(self.seq) {
                let text = format!("audit.head names line {}, as after a crash", head.seq);
                self.report(ChainFault::Behind, None, Some(head.seq), text);
            }
        } else if let Some(position) = self.head_mismatch.take() {
            let is_reported = |finding: &VerifyFinding| {
                finding.file.as_deref() == Some(&position.file)
                    && finding.line == Some(position.line)
            };
            if !self.findings.iter().any(is_reported) {
                let text = "the line differs from the one that audit.head names".to_owned();
                self.report(ChainFault::Changed, Some(&position), Some(head.seq), text);
            }
        } else if !self.findings.iter().any(|finding| finding.fault.is_fault()) {
            let text = format!("audit.head names line {}, which is missing", head.seq);
            self.report(ChainFault::Headless, None, Some(head.seq), text);
        }
    }
}

/// Returns the reason for a lost head that a `recovered` event records.
fn describe_lost_head(maintenance: &MaintenanceFields) -> Option<String> {
    let lost = maintenance.lost_head.as_deref()?;
    (maintenance.event == EventKind::Recovered.as_str()).then(|| mimir_core::text::visible(lost))
}

fn describe_range(from: u64, to: u64) -> String {
    if from == to {
        format!("line {from} is")
    } else {
        format!("lines {from} to {to} are")
    }
}
