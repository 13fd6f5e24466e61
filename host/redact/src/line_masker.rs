//! Masking of lines that are shown as they arrive, such as those of a log.

use super::mask::{self, JoinedTexts, SecretFinding};
use super::{MaskSummary, Redactor};

/// Number of bytes of earlier lines that are scanned again, because rules examine the text before a secret.
const CONTEXT: usize = 1 << 10;

/// Masks lines one by one. A line is held back only while a secret may begin in it and continue in the next line: a
/// private key without its end, the anchor of a rule with little text after it, or the beginning of a known value. At
/// most [`REACH`](super::REACH) bytes are held back.
///
/// `T` is data that belongs to a line, such as its level.
pub struct LineMasker<T> {
    redactor: Redactor,
    passed_text: String,
    held_lines: Vec<HeldLine<T>>,
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
            held_lines: Vec::new(),
        }
    }
}

impl<T> LineMasker<T> {
    /// Adds the next line. Returns the lines that can be shown now, in order, with a summary of their masks.
    pub fn push(&mut self, tag: T, text: String) -> (Vec<(T, String)>, MaskSummary) {
        self.held_lines.push(HeldLine {
            tag,
            text,
            findings: Vec::new(),
        });
        let open = self.find_secrets();
        self.release(open)
    }

    /// Returns the lines that were held back.
    pub fn finish(mut self) -> (Vec<(T, String)>, MaskSummary) {
        let lines = self.held_lines.len();
        self.release(lines)
    }

    /// Finds the secrets in the held lines and returns how many lines can be shown.
    fn find_secrets(&mut self) -> usize {
        let (mut separated, mut adjoining) = (JoinedTexts::new(), JoinedTexts::new());
        separated.push_separator(&self.passed_text);
        adjoining.push_separator(self.passed_text.trim_end_matches('\n'));
        let mut starts = Vec::with_capacity(self.held_lines.len());
        for (number, line) in self.held_lines.iter().enumerate() {
            starts.push(adjoining.text.len());
            separated.push(number, &line.text);
            separated.push_separator("\n");
            adjoining.push(number, &line.text);
        }
        let mut findings_by_line: Vec<Vec<SecretFinding>> =
            self.held_lines.iter().map(|_| Vec::new()).collect();
        separated.distribute(self.redactor.find(&separated.text), &mut findings_by_line);
        let mut across = self.redactor.find(&adjoining.text);
        let first = starts.first().copied().unwrap_or(0);
        across.retain(|finding| adjoining.is_split(finding) || finding.start < first);
        adjoining.distribute(across, &mut findings_by_line);
        for (line, findings) in self.held_lines.iter_mut().zip(findings_by_line) {
            line.findings.extend(findings);
        }
        match self.redactor.open_secret_start(&adjoining.text) {
            Some(open) => starts
                .partition_point(|start| *start <= open)
                .saturating_sub(1),
            None => self.held_lines.len(),
        }
    }

    /// Masks the first `lines` held lines and returns them. The end of their text is stored as context for later lines.
    fn release(&mut self, lines: usize) -> (Vec<(T, String)>, MaskSummary) {
        let mut masks = MaskSummary::default();
        let mut shown = Vec::with_capacity(lines);
        for mut line in self.held_lines.drain(..lines) {
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
