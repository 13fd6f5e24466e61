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
    place: Option<LinePosition>,
    hash: LineHash,
}

/// The state of the verification.
pub(super) struct ChainWalk {
    head: Option<LogHead>,
    noted: Option<String>,
    remembered: Option<LogHead>,
    /// The line with the number of the remembered one.
    remembered_at: Option<(LinePosition, LineHash)>,
    /// The number of the last line, and the candidates for it. Empty if that line is known to be wrong.
    seq: u64,
    tips: Vec<TipCandidate>,
    first: Option<u64>,
    lines: u64,
    gaps: SequenceGaps,
    loose: Option<UnchainedLines>,
    first_kept: u64,
    /// True if the line named by the head was found, and the position of another line with its number.
    head_met: bool,
    head_missed: Option<LinePosition>,
    noted_at: Option<u64>,
    findings: Vec<VerifyFinding>,
}

impl ChainWalk {
    pub(super) fn new(
        head: Option<LogHead>,
        noted: Option<String>,
        remembered: Option<LogHead>,
    ) -> Self {
        let start = TipCandidate {
            place: None,
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
            loose: None,
            first_kept: 1,
            // The head of an empty log.
            head_met: head == Some(LogHead::START),
            head_missed: None,
            noted_at: None,
            findings: Vec::new(),
        }
    }

    fn find(
        &mut self,
        fault: ChainFault,
        place: Option<&LinePosition>,
        seq: Option<u64>,
        text: String,
    ) {
        self.findings.push(VerifyFinding {
            fault,
            file: place.map(|place| place.file.clone()),
            line: place.map(|place| place.line),
            seq,
            text,
        });
    }

    /// Handles a line that does not belong to the chain.
    pub(super) fn loose(&mut self, line: AuditLine<'_>) {
        self.loose.get_or_insert_default().push(line);
    }

    /// Handles a line of the chain.
    pub(super) fn line(&mut self, own: ChainedLine) {
        self.lines += 1;
        self.first = Some(self.first.map_or(own.seq, |first| first.min(own.seq)));
        let noted = self.noted.as_deref();
        if noted.is_some_and(|noted| own.hash.as_str().starts_with(noted)) {
            self.noted_at = Some(own.seq);
        }
        if let Some(head) = self.head.filter(|head| head.seq == own.seq) {
            match head.hash == own.hash {
                true => self.head_met = true,
                false => self.head_missed = Some(own.position.clone()),
            }
        }
        if self
            .remembered
            .is_some_and(|remembered| remembered.seq == own.seq)
        {
            self.remembered_at = Some((own.position.clone(), own.hash));
        }
        if let Some(what) = describe_lost_head(&own.maintenance) {
            let text = format!(
                "audit.head was {what} when this was written: lines before it may have been removed from the end"
            );
            self.find(
                ChainFault::Headless,
                Some(&own.position),
                Some(own.seq),
                text,
            );
        }
        if own.maintenance.event == EventKind::Rotated.as_str() {
            let kept = own.maintenance.first_kept.unwrap_or_default();
            self.first_kept = self.first_kept.max(kept);
        }
        if let Some(loose) = self.loose.take() {
            self.compare_unchained(loose, &own);
        }
        if own.seq <= self.seq {
            self.backward(own);
        } else if own.seq == self.seq + 1 {
            self.accept_next(own);
        } else {
            self.forward(own);
        }
    }

    /// Handles lines that do not belong to the chain, before a line that does.
    fn compare_unchained(&mut self, loose: UnchainedLines, own: &ChainedLine) {
        if own.maintenance.event == EventKind::Recovered.as_str()
            && loose.matches_recovery(&own.maintenance)
        {
            let text = format!(
                "{} bytes torn off by a crash; recorded in line {}",
                loose.bytes(),
                own.seq
            );
            self.find(ChainFault::Torn, loose.first(), None, text);
        } else if own.seq.checked_sub(self.seq + 1) == Some(loose.lines()) {
            self.changed(&loose);
            self.seq = own.seq - 1;
            self.tips.clear();
        } else {
            self.inserted(&loose);
        }
    }

    /// Handles as many loose lines as there are missing ones.
    fn changed(&mut self, loose: &UnchainedLines) {
        for (seq, place) in (self.seq + 1..).zip(loose.places()) {
            let text = "it no longer has the format of a log line".to_owned();
            self.find(ChainFault::Changed, Some(place), Some(seq), text);
        }
    }

    fn inserted(&mut self, loose: &UnchainedLines) {
        for place in loose.places() {
            let text = "it is not a line of this log".to_owned();
            self.find(ChainFault::Inserted, Some(place), None, text);
        }
    }

    fn accept(&mut self, own: ChainedLine, seq: u64) {
        self.seq = seq;
        self.tips.clear();
        self.tips.push(TipCandidate {
            place: Some(own.position),
            hash: own.hash,
        });
    }

    /// Handles the expected line.
    fn accept_next(&mut self, own: ChainedLine) {
        let tips = std::mem::take(&mut self.tips);
        let before = tips.iter().position(|tip| tip.hash == own.prev);
        if let (None, Some(first)) = (before, tips.first()) {
            let (place, seq) = match &first.place {
                Some(place) => (place, self.seq),
                None => (&own.position, own.seq),
            };
            let text = "it is not the line that the next one links to".to_owned();
            self.find(ChainFault::Changed, Some(place), Some(seq), text);
        }
        self.reject_other_tips(tips, before.unwrap_or_default());
        let seq = own.seq;
        self.accept(own, seq);
    }

    /// Reports all candidates for a number except `right`.
    fn reject_other_tips(&mut self, tips: Vec<TipCandidate>, right: usize) {
        for (at, tip) in tips.into_iter().enumerate() {
            if at != right {
                let text = "another line with its number is the right one".to_owned();
                self.find(
                    ChainFault::Inserted,
                    tip.place.as_ref(),
                    Some(self.seq),
                    text,
                );
            }
        }
    }

    /// Handles a line with a higher number than expected.
    fn forward(&mut self, own: ChainedLine) {
        let expected = self.seq + 1;
        if self.tips.iter().any(|tip| tip.hash == own.prev) {
            let text = format!("its number is {}, but it is line {expected}", own.seq);
            self.find(
                ChainFault::Changed,
                Some(&own.position),
                Some(expected),
                text,
            );
            self.accept(own, expected);
        } else {
            self.gaps.add(expected, own.seq - 1, own.position.clone());
            let seq = own.seq;
            self.accept(own, seq);
        }
    }

    /// Handles a line with a lower number than expected.
    fn backward(&mut self, own: ChainedLine) {
        if self.gaps.fill(own.seq) {
            let text = "it was written before the line above it".to_owned();
            self.find(
                ChainFault::Reordered,
                Some(&own.position),
                Some(own.seq),
                text,
            );
        } else if own.seq == self.seq && self.tips.iter().all(|tip| tip.hash != own.hash) {
            // The next line shows which of them is right.
            self.tips.push(TipCandidate {
                place: Some(own.position),
                hash: own.hash,
            });
        } else {
            let text = "an earlier line has the same number".to_owned();
            self.find(
                ChainFault::Inserted,
                Some(&own.position),
                Some(own.seq),
                text,
            );
        }
    }

    /// Completes the verification at the end of the log.
    pub(super) fn finish(mut self, known: HeadState) -> VerifyReport {
        let cut = self.loose.take().and_then(|loose| self.end(loose));
        let tips = std::mem::take(&mut self.tips);
        let named = |tip: &TipCandidate| self.head.is_some_and(|head| head.hash == tip.hash);
        let right = tips.iter().position(named).unwrap_or_default();
        let hash = tips.get(right).map_or(LineHash::ZERO, |tip| tip.hash);
        self.reject_other_tips(tips, right);
        self.missing();
        self.check_head(known, cut.as_ref());
        self.check_memory();
        if let (Some(noted), None) = (&self.noted, self.noted_at) {
            let text = format!(
                "no line has the noted hash {noted}: the log was rewritten or cut since then, or the line was removed with an old file"
            );
            self.find(ChainFault::NotNoted, None, None, text);
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

    /// Handles lines at the end that do not belong to the chain. Returns the position of an incomplete line if the
    /// head names lines beyond the last one.
    fn end(&mut self, loose: UnchainedLines) -> Option<LinePosition> {
        let ahead = self
            .head
            .map_or(0, |head| head.seq.saturating_sub(self.seq));
        if ahead == 0 && !loose.is_ended() {
            let text = format!("{} bytes torn off by a crash", loose.bytes());
            self.find(ChainFault::Torn, loose.first(), None, text);
        } else if !loose.is_ended() {
            return loose.places().last().cloned();
        } else if ahead == loose.lines() {
            self.changed(&loose);
            // The changed lines are not missing.
            self.head = None;
        } else {
            self.inserted(&loose);
        }
        None
    }

    /// Reports missing lines in the middle and at the beginning.
    fn missing(&mut self) {
        for gap in std::mem::take(&mut self.gaps).left(self.first_kept) {
            let text = format!("{} missing before it", lines(gap.from, gap.to));
            self.find(ChainFault::Removed, Some(&gap.before), Some(gap.from), text);
        }
        if let Some(last) = self.first_kept.checked_sub(1).filter(|last| *last > 0) {
            let text = format!("lines 1 to {last} were removed according to `audit.keep`");
            self.find(ChainFault::Dropped, None, None, text);
        }
    }

    fn check_head(&mut self, known: HeadState, cut: Option<&LinePosition>) {
        match known {
            HeadState::Damaged => {
                let text = "audit.head is not valid, so the end of the log is unknown".to_owned();
                self.find(ChainFault::Headless, None, None, text);
            }
            HeadState::Nothing if self.lines > 0 => {
                let text = "audit.head is missing, so the end of the log is unknown".to_owned();
                self.find(ChainFault::Headless, None, None, text);
            }
            HeadState::Nothing => {}
            HeadState::Head(_) => {
                if let Some(head) = self.head {
                    self.compare(head, cut);
                }
            }
        }
    }

    /// Compares the log with the last line that was stored outside of its folder.
    fn check_memory(&mut self) {
        let Some(remembered) = self.remembered else {
            return;
        };
        let seq = remembered.seq;
        match self.remembered_at.take() {
            Some((_, hash)) if hash == remembered.hash => {}
            Some((place, _)) => {
                let text = "it differs from the last line stored earlier: the log was rewritten since then"
                    .to_owned();
                self.find(ChainFault::Forgotten, Some(&place), Some(seq), text);
            }
            None if seq > self.seq => {
                let text = format!(
                    "the log had reached line {seq}, but {}: lines were removed from its end",
                    match self.seq {
                        0 => "it is empty now".to_owned(),
                        last => format!("its last line is {last} now"),
                    }
                );
                self.find(ChainFault::Forgotten, None, Some(self.seq + 1), text);
            }
            // The line is in a gap that is reported, or was removed with an old file.
            None => {}
        }
    }

    fn compare(&mut self, head: LogHead, cut: Option<&LinePosition>) {
        if head.seq > self.seq {
            let text = format!(
                "{} missing at the end according to audit.head: removed, or lost in a power failure (`audit.durability: fsync` waits for the disk)",
                lines(self.seq + 1, head.seq)
            );
            self.find(ChainFault::Truncated, cut, Some(self.seq + 1), text);
        } else if self.head_met {
            if head.seq < self.seq && !head.is_little_behind(self.seq) {
                let text = format!("audit.head names line {}, as after a crash", head.seq);
                self.find(ChainFault::Behind, None, Some(head.seq), text);
            }
        } else if let Some(place) = self.head_missed.take() {
            let known = |found: &VerifyFinding| {
                found.file.as_deref() == Some(&place.file) && found.line == Some(place.line)
            };
            if !self.findings.iter().any(known) {
                let text = "it differs from the line that audit.head names".to_owned();
                self.find(ChainFault::Changed, Some(&place), Some(head.seq), text);
            }
        } else if !self.findings.iter().any(|found| found.fault.is_bad()) {
            let text = format!("audit.head names line {}, which is missing", head.seq);
            self.find(ChainFault::Headless, None, Some(head.seq), text);
        }
    }
}

/// The text about a lost head that a line records.
fn describe_lost_head(said: &MaintenanceFields) -> Option<String> {
    let lost = said.lost_head.as_deref()?;
    (said.event == EventKind::Recovered.as_str()).then(|| mimir_core::text::visible(lost))
}

fn lines(from: u64, to: u64) -> String {
    match from == to {
        true => format!("line {from} is"),
        false => format!("lines {from} to {to} are"),
    }
}
