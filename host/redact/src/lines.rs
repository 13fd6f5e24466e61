//! Lines that are shown as they arrive, such as those of a log.

use super::mask::{self, Finding, Joined};
use super::{MaskSummary, Redactor};

/// Bytes of earlier lines that stay in view, because rules examine the text before a secret.
const CONTEXT: usize = 1 << 10;

/// Masks lines one by one. A line is held back only while its end may be the beginning of a secret that continues in
/// the next one: a private key without its end, the anchor of a rule with little text behind it, the beginning of a
/// known value. At most [`REACH`](super::REACH) bytes are held back.
///
/// `T` is data that belongs to a line, such as its level.
pub struct Lines<T> {
    redactor: Redactor,
    shown: String,
    held: Vec<Held<T>>,
}

struct Held<T> {
    tag: T,
    text: String,
    findings: Vec<Finding>,
}

impl Redactor {
    /// Creates a filter for lines.
    pub fn lines<T>(&self) -> Lines<T> {
        Lines {
            redactor: self.clone(),
            shown: String::new(),
            held: Vec::new(),
        }
    }
}

impl<T> Lines<T> {
    /// Takes the next line and returns the lines that can be shown now, in order, with a summary of their masks.
    pub fn push(&mut self, tag: T, text: String) -> (Vec<(T, String)>, MaskSummary) {
        self.held.push(Held {
            tag,
            text,
            findings: Vec::new(),
        });
        let open = self.look();
        self.show(open)
    }

    /// Returns the lines that were held back.
    pub fn finish(mut self) -> (Vec<(T, String)>, MaskSummary) {
        let all = self.held.len();
        self.show(all)
    }

    /// Finds the secrets in the held lines and returns how many lines can be shown.
    fn look(&mut self) -> usize {
        let (mut below, mut close) = (Joined::new(), Joined::new());
        below.glue(&self.shown);
        close.glue(self.shown.trim_end_matches('\n'));
        let mut starts = Vec::with_capacity(self.held.len());
        for (number, line) in self.held.iter().enumerate() {
            starts.push(close.text.len());
            below.push(number, &line.text);
            below.glue("\n");
            close.push(number, &line.text);
        }
        let mut shares: Vec<Vec<Finding>> = self.held.iter().map(|_| Vec::new()).collect();
        below.share(self.redactor.find(&below.text), &mut shares);
        let mut across = self.redactor.find(&close.text);
        let first = starts.first().copied().unwrap_or(0);
        across.retain(|finding| close.spans(finding) || finding.start < first);
        close.share(across, &mut shares);
        for (line, share) in self.held.iter_mut().zip(shares) {
            line.findings.extend(share);
        }
        match self.redactor.open(&close.text) {
            Some(open) => starts
                .partition_point(|start| *start <= open)
                .saturating_sub(1),
            None => self.held.len(),
        }
    }

    fn show(&mut self, lines: usize) -> (Vec<(T, String)>, MaskSummary) {
        let mut masks = MaskSummary::default();
        let mut shown = Vec::with_capacity(lines);
        for mut line in self.held.drain(..lines) {
            self.shown.push_str(&line.text);
            self.shown.push('\n');
            let findings = mask::merge(line.findings);
            masks.add(MaskSummary::of(&findings));
            mask::apply(&mut line.text, &findings);
            shown.push((line.tag, line.text));
        }
        let kept = self
            .shown
            .ceil_char_boundary(self.shown.len().saturating_sub(CONTEXT));
        self.shown.drain(..kept);
        (shown, masks)
    }
}
