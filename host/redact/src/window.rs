//! Masking of a section of a longer text as in the whole text, so that a cut hides no secret.

use super::{Redactor, mask};

/// Number of bytes before and after a section that are scanned, too: the maximum length of a secret.
pub const AROUND: usize = super::REACH;

/// A masked section of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedWindow {
    /// The section with marks in place of secrets, including secrets that are only partly in the section.
    pub bytes: Vec<u8>,
    /// The offset in the text at which the section ends and the next one begins.
    pub end: usize,
}

impl Redactor {
    /// Masks `text` from `from` on. With `more`, a possible beginning of a secret at the end is held back.
    pub fn window(&self, text: &[u8], from: usize, more: bool) -> MaskedWindow {
        let from = from.min(text.len());
        let findings = self.find(text);
        let open = self.open_secret_start(text).filter(|_| more);
        let mut end = open.unwrap_or(text.len()).max(from);
        if let Some(cut) = findings
            .iter()
            .find(|finding| finding.start < end && end < finding.end)
        {
            end = cut.start.max(from);
        }
        let mut bytes = Vec::with_capacity(end - from);
        let mut copied = from;
        for finding in mask::merge(findings) {
            if finding.end <= copied || end <= finding.start.max(copied) {
                continue;
            }
            bytes.extend_from_slice(&text[copied..finding.start.max(copied)]);
            bytes.extend_from_slice(finding.mark().as_bytes());
            copied = finding.end.min(end);
        }
        bytes.extend_from_slice(&text[copied..end]);
        MaskedWindow { bytes, end }
    }
}
