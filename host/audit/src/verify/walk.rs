//! The way along the log, line by line: what was expected, what came, and what that means.

use super::gaps::Gaps;
use super::loose::Loose;
use super::{Fault, Finding, Own, Place, Report, Said};
use crate::head::Known;
use crate::snapshot::Line;
use crate::{Hash, Head, Kind};

/// A line that may be the one before the next: there are several if one of them was put in.
struct Candidate {
    /// None before the first line.
    place: Option<Place>,
    hash: Hash,
}

/// What is known so far.
pub(super) struct Walk {
    head: Option<Head>,
    noted: Option<String>,
    remembered: Option<Head>,
    /// The line that has the number of the one that is remembered.
    remembered_at: Option<(Place, Hash)>,
    /// The number of the last line, and who may be it. Nobody if that line is known to be another.
    seq: u64,
    tips: Vec<Candidate>,
    first: Option<u64>,
    lines: u64,
    gaps: Gaps,
    loose: Option<Loose>,
    first_kept: u64,
    /// Whether the line was met that the head names, and where one of its number is another.
    head_met: bool,
    head_missed: Option<Place>,
    noted_at: Option<u64>,
    findings: Vec<Finding>,
}

impl Walk {
    pub(super) fn new(head: Option<Head>, noted: Option<String>, remembered: Option<Head>) -> Self {
        let start = Candidate {
            place: None,
            hash: Hash::ZERO,
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
            gaps: Gaps::default(),
            loose: None,
            first_kept: 1,
            // The head of a log without lines.
            head_met: head == Some(Head::START),
            head_missed: None,
            noted_at: None,
            findings: Vec::new(),
        }
    }

    fn find(&mut self, fault: Fault, place: Option<&Place>, seq: Option<u64>, text: String) {
        self.findings.push(Finding {
            fault,
            file: place.map(|place| place.file.clone()),
            line: place.map(|place| place.line),
            seq,
            text,
        });
    }

    /// A line that is none of the chain.
    pub(super) fn loose(&mut self, line: Line<'_>) {
        self.loose.get_or_insert_default().push(line);
    }

    /// A line of the chain.
    pub(super) fn line(&mut self, own: Own) {
        self.lines += 1;
        self.first = Some(self.first.map_or(own.seq, |first| first.min(own.seq)));
        let noted = self.noted.as_deref();
        if noted.is_some_and(|noted| own.hash.as_str().starts_with(noted)) {
            self.noted_at = Some(own.seq);
        }
        if let Some(head) = self.head.filter(|head| head.seq == own.seq) {
            match head.hash == own.hash {
                true => self.head_met = true,
                false => self.head_missed = Some(own.place.clone()),
            }
        }
        if self
            .remembered
            .is_some_and(|remembered| remembered.seq == own.seq)
        {
            self.remembered_at = Some((own.place.clone(), own.hash));
        }
        if let Some(what) = lost(&own.said) {
            let text = format!(
                "audit.head was {what} when this was written: lines may have been taken from the end before it"
            );
            self.find(Fault::Headless, Some(&own.place), Some(own.seq), text);
        }
        if own.said.event == Kind::Rotated.as_str() {
            let kept = own.said.first_kept.unwrap_or_default();
            self.first_kept = self.first_kept.max(kept);
        }
        if let Some(loose) = self.loose.take() {
            self.between(loose, &own);
        }
        if own.seq <= self.seq {
            self.backward(own);
        } else if own.seq == self.seq + 1 {
            self.joined(own);
        } else {
            self.forward(own);
        }
    }

    /// Lines that are none of the chain, and the line of the chain behind them.
    fn between(&mut self, loose: Loose, own: &Own) {
        if own.said.event == Kind::Recovered.as_str() && loose.is(&own.said) {
            let text = format!(
                "{} bytes that a crash has torn off; line {} says so",
                loose.bytes(),
                own.seq
            );
            self.find(Fault::Torn, loose.first(), None, text);
        } else if own.seq.checked_sub(self.seq + 1) == Some(loose.lines()) {
            self.changed(&loose);
            self.seq = own.seq - 1;
            self.tips.clear();
        } else {
            self.inserted(&loose);
        }
    }

    /// There are as many loose lines as lines are missing.
    fn changed(&mut self, loose: &Loose) {
        for (seq, place) in (self.seq + 1..).zip(loose.places()) {
            let text = "it no longer has the form of a line of the log".to_owned();
            self.find(Fault::Changed, Some(place), Some(seq), text);
        }
    }

    fn inserted(&mut self, loose: &Loose) {
        for place in loose.places() {
            let text = "it is no line of this log".to_owned();
            self.find(Fault::Inserted, Some(place), None, text);
        }
    }

    fn accept(&mut self, own: Own, seq: u64) {
        self.seq = seq;
        self.tips.clear();
        self.tips.push(Candidate {
            place: Some(own.place),
            hash: own.hash,
        });
    }

    /// The line that was expected.
    fn joined(&mut self, own: Own) {
        let tips = std::mem::take(&mut self.tips);
        let before = tips.iter().position(|tip| tip.hash == own.prev);
        if let (None, Some(first)) = (before, tips.first()) {
            let (place, seq) = match &first.place {
                Some(place) => (place, self.seq),
                None => (&own.place, own.seq),
            };
            let text = "it is not the line that the next one was written after".to_owned();
            self.find(Fault::Changed, Some(place), Some(seq), text);
        }
        self.others(tips, before.unwrap_or_default());
        let seq = own.seq;
        self.accept(own, seq);
    }

    /// Of several lines with one number only `right` is right.
    fn others(&mut self, tips: Vec<Candidate>, right: usize) {
        for (at, tip) in tips.into_iter().enumerate() {
            if at != right {
                let text = "another line has its number, and is the right one".to_owned();
                self.find(Fault::Inserted, tip.place.as_ref(), Some(self.seq), text);
            }
        }
    }

    /// A line from further on.
    fn forward(&mut self, own: Own) {
        let expected = self.seq + 1;
        if self.tips.iter().any(|tip| tip.hash == own.prev) {
            let text = format!(
                "it says that it is line {}, and it is line {expected}",
                own.seq
            );
            self.find(Fault::Changed, Some(&own.place), Some(expected), text);
            self.accept(own, expected);
        } else {
            self.gaps.add(expected, own.seq - 1, own.place.clone());
            let seq = own.seq;
            self.accept(own, seq);
        }
    }

    /// A line from further back.
    fn backward(&mut self, own: Own) {
        if self.gaps.fill(own.seq) {
            let text = "it was written before the line above it".to_owned();
            self.find(Fault::Reordered, Some(&own.place), Some(own.seq), text);
        } else if own.seq == self.seq && self.tips.iter().all(|tip| tip.hash != own.hash) {
            // The next line tells which of them is right.
            self.tips.push(Candidate {
                place: Some(own.place),
                hash: own.hash,
            });
        } else {
            let text = "a line with its number was there before".to_owned();
            self.find(Fault::Inserted, Some(&own.place), Some(own.seq), text);
        }
    }

    /// The end of the log.
    pub(super) fn finish(mut self, known: Known) -> Report {
        let cut = self.loose.take().and_then(|loose| self.end(loose));
        let tips = std::mem::take(&mut self.tips);
        let named = |tip: &Candidate| self.head.is_some_and(|head| head.hash == tip.hash);
        let right = tips.iter().position(named).unwrap_or_default();
        let hash = tips.get(right).map_or(Hash::ZERO, |tip| tip.hash);
        self.others(tips, right);
        self.missing();
        self.check_head(known, cut.as_ref());
        self.check_memory();
        if let (Some(noted), None) = (&self.noted, self.noted_at) {
            let text = format!(
                "no line has the noted hash {noted}: the log was written anew or cut since, or the line has gone with an old file"
            );
            self.find(Fault::NotNoted, None, None, text);
        }
        Report {
            ok: false,
            files: 0,
            lines: self.lines,
            first: self.first,
            head: Head {
                seq: self.seq,
                hash,
            },
            noted: self.noted_at,
            findings: self.findings,
            more: 0,
        }
    }

    /// Lines at the end that are none of the chain. The place is where the line stands that the head names and
    /// that is cut off.
    fn end(&mut self, loose: Loose) -> Option<Place> {
        let ahead = self
            .head
            .map_or(0, |head| head.seq.saturating_sub(self.seq));
        if ahead == 0 && !loose.is_ended() {
            let text = format!("{} bytes that a crash has torn off", loose.bytes());
            self.find(Fault::Torn, loose.first(), None, text);
        } else if !loose.is_ended() {
            return loose.places().last().cloned();
        } else if ahead == loose.lines() {
            self.changed(&loose);
            // They are not missing.
            self.head = None;
        } else {
            self.inserted(&loose);
        }
        None
    }

    /// What is missing in the middle or at the beginning.
    fn missing(&mut self) {
        for gap in std::mem::take(&mut self.gaps).left(self.first_kept) {
            let text = format!("{} missing before it", lines(gap.from, gap.to));
            self.find(Fault::Removed, Some(&gap.before), Some(gap.from), text);
        }
        if let Some(last) = self.first_kept.checked_sub(1).filter(|last| *last > 0) {
            let text = format!("lines 1 to {last} have gone, as `audit.keep` says");
            self.find(Fault::Dropped, None, None, text);
        }
    }

    fn check_head(&mut self, known: Known, cut: Option<&Place>) {
        match known {
            Known::Damaged => {
                let text = "audit.head cannot be read: nothing says where the log ends".to_owned();
                self.find(Fault::Headless, None, None, text);
            }
            Known::Nothing if self.lines > 0 => {
                let text = "audit.head is missing: nothing says where the log ends".to_owned();
                self.find(Fault::Headless, None, None, text);
            }
            Known::Nothing => {}
            Known::Head(_) => {
                if let Some(head) = self.head {
                    self.compare(head, cut);
                }
            }
        }
    }

    /// Against what somebody remembers who is not where the log is.
    fn check_memory(&mut self) {
        let Some(remembered) = self.remembered else {
            return;
        };
        let seq = remembered.seq;
        match self.remembered_at.take() {
            Some((_, hash)) if hash == remembered.hash => {}
            Some((place, _)) => {
                let text = "it is not the line that was remembered: the log was written anew since"
                    .to_owned();
                self.find(Fault::Forgotten, Some(&place), Some(seq), text);
            }
            None if seq > self.seq => {
                let text = format!(
                    "the log had come to line {seq}, and {}: its end was taken away since",
                    match self.seq {
                        0 => "there is none now".to_owned(),
                        last => format!("its last is line {last}"),
                    }
                );
                self.find(Fault::Forgotten, None, Some(self.seq + 1), text);
            }
            // It is in a gap that is named, or has gone with an old file.
            None => {}
        }
    }

    fn compare(&mut self, head: Head, cut: Option<&Place>) {
        if head.seq > self.seq {
            let text = format!(
                "{} missing at the end, which audit.head names: removed, or lost in a power failure (`audit.durability: fsync` waits for the disk)",
                lines(self.seq + 1, head.seq)
            );
            self.find(Fault::Truncated, cut, Some(self.seq + 1), text);
        } else if self.head_met {
            if head.seq < self.seq && !head.is_little_behind(self.seq) {
                let text = format!("audit.head names line {}, as after a crash", head.seq);
                self.find(Fault::Behind, None, Some(head.seq), text);
            }
        } else if let Some(place) = self.head_missed.take() {
            let known = |found: &Finding| {
                found.file.as_deref() == Some(&place.file) && found.line == Some(place.line)
            };
            if !self.findings.iter().any(known) {
                let text = "it is not the line that audit.head names".to_owned();
                self.find(Fault::Changed, Some(&place), Some(head.seq), text);
            }
        } else if !self.findings.iter().any(|found| found.fault.is_bad()) {
            let text = format!("audit.head names line {}, which is not there", head.seq);
            self.find(Fault::Headless, None, Some(head.seq), text);
        }
    }
}

/// What the log says about a head that was not there when a line was written.
fn lost(said: &Said) -> Option<String> {
    let lost = said.lost_head.as_deref()?;
    (said.event == Kind::Recovered.as_str()).then(|| mimir_core::text::visible(lost))
}

fn lines(from: u64, to: u64) -> String {
    match from == to {
        true => format!("line {from} is"),
        false => format!("lines {from} to {to} are"),
    }
}
