//! A section of a longer text, masked as in the whole text: a cut hides no secret.

use super::{Redactor, mask};

/// Number of bytes before and after a section that are scanned with it. No rule finds anything longer.
pub const AROUND: usize = super::REACH;

/// A masked section of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedWindow {
    /// The section with marks in place of secrets. A secret that is cut by an end of the section has its mark as well.
    pub bytes: Vec<u8>,
    /// The offset in the text at which the section ends and the next one begins.
    pub end: usize,
}

impl Redactor {
    /// Masks `text` from `from` on. With `more`, a possible beginning of a secret at the end is held back.
    pub fn window(&self, text: &[u8], from: usize, more: bool) -> MaskedWindow {
        let from = from.min(text.len());
        let findings = self.find(text);
        let open = self.open(text).filter(|_| more);
        let mut end = open.unwrap_or(text.len()).max(from);
        if let Some(cut) = findings
            .iter()
            .find(|found| found.start < end && end < found.end)
        {
            end = cut.start.max(from);
        }
        let mut bytes = Vec::with_capacity(end - from);
        let mut kept = from;
        for found in mask::merge(findings) {
            if found.end <= kept || end <= found.start.max(kept) {
                continue;
            }
            bytes.extend_from_slice(&text[kept..found.start.max(kept)]);
            bytes.extend_from_slice(found.mark().as_bytes());
            kept = found.end.min(end);
        }
        bytes.extend_from_slice(&text[kept..end]);
        MaskedWindow { bytes, end }
    }
}
