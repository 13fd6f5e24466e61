//! A piece of a longer text, masked as the whole would be: where it is cut hides nothing.

use super::{Redactor, mask};

/// How much before and behind a piece is looked at with it. Nothing that a rule finds is longer.
pub const AROUND: usize = super::REACH;

/// What is shown of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The piece, with marks in place of secrets. One that is cut by an end of the piece has its mark, too.
    pub bytes: Vec<u8>,
    /// Where in the text the piece ends; the next one begins there.
    pub end: usize,
}

impl Redactor {
    /// What is in `text` from `from` on. While more of it comes, what may be the beginning of a secret is held back
    /// at its end.
    pub fn window(&self, text: &[u8], from: usize, more: bool) -> Window {
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
        Window { bytes, end }
    }
}
