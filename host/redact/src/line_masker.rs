//! Lines that are shown as they arrive, such as those of a log.

use super::mask::{self, JoinedTexts, SecretFinding};
use super::{MaskSummary, Redactor};

/// Bytes of earlier lines that stay in view, because rules examine the text before a secret.
const CONTEXT: usize = 1 << 10;

/// Masks lines one by one. A line is held back only while its end may be the beginning of a secret that continues in
/// the next one: a private key without its end, the anchor of a rule with little text behind it, the beginning of a
/// known value. At most [`REACH`](super::REACH) bytes are held back.
///
/// `T` is data that belongs to a line, such as its level.
pub struct LineMasker<T> {
    redactor: Redactor,
    passed_text: String,
    held: Vec<HeldLine<T>>,
}

struct HeldLine<T> {
    tag: T,
    text: String,
    findings: Vec<SecretFinding>,
}

impl Redactor {
    /// Creates a filter for lines.
    pub fn line_masker<T>(&self) -> LineMasker<T> {
        LineMasker {
            redactor: self.clone(),
            passed_text: String::new(),
            held: Vec::new(),
        }
    }
}

impl<T> LineMasker<T> {
    /// Takes the next line and returns the lines that can be shown now, in order, with a summary of their masks.
    pub fn push(&mut self, tag: T, text: String) -> (Vec<(T, String)>, MaskSummary) {
        self.held.push(HeldLine {
            tag,
            text,
            findings: Vec::new(),
        });
        let open = self.find_secrets();
        self.release(open)
    }

    /// Returns the lines that were held back.
    pub fn finish(mut self) -> (Vec<(T, String)>, MaskSummary) {
        let lines = self.held.len();
        self.release(lines)
    }

    /// Finds the secrets in the held lines and returns how many lines can be shown.
    fn find_secrets(&mut self) -> usize {
        let (mut below, mut close) = (JoinedTexts::new(), JoinedTexts::new());
        below.push_separator(&self.passed_text);
        close.push_separator(self.passed_text.trim_end_matches('\n'));
        let mut starts = Vec::with_capacity(self.held.len());
        for (number, line) in self.held.iter().enumerate() {
            starts.push(close.text.len());
            below.push(number, &line.text);
            below.push_separator("\n");
            close.push(number, &line.text);
        }
        let mut shares: Vec<Vec<SecretFinding>> = self.held.iter().map(|_| Vec::new()).collect();
        below.distribute(self.redactor.find(&below.text), &mut shares);
        let mut across = self.redactor.find(&close.text);
        let first = starts.first().copied().unwrap_or(0);
        across.retain(|finding| close.spans(finding) || finding.start < first);
        close.distribute(across, &mut shares);
        for (line, share) in self.held.iter_mut().zip(shares) {
            line.findings.extend(share);
        }
        match self.redactor.open_secret_start(&close.text) {
            Some(open) => starts
                .partition_point(|start| *start <= open)
                .saturating_sub(1),
            None => self.held.len(),
        }
    }

    fn release(&mut self, lines: usize) -> (Vec<(T, String)>, MaskSummary) {
        let mut masks = MaskSummary::default();
        let mut shown = Vec::with_capacity(lines);
        for mut line in self.held.drain(..lines) {
            self.passed_text.push_str(&line.text);
            self.passed_text.push('\n');
            let findings = mask::merge(line.findings);
            masks.add(MaskSummary::from_findings(&findings, line.text.as_bytes()));
            mask::apply(&mut line.text, &findings);
            shown.push((line.tag, line.text));
        }
        let removed = self
            .passed_text
            .ceil_char_boundary(self.passed_text.len().saturating_sub(CONTEXT));
        self.passed_text.drain(..removed);
        (shown, masks)
    }
}
