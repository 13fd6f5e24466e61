//! Masking of lines that are shown as they arrive, such as those of a log.

use super::mask::{self, JoinedTexts, SecretFinding};
use super::{MaskSummary, Redactor, scan};

/// Number of bytes of earlier lines that are scanned again, because rules examine the text before a secret.
const CONTEXT: usize = 1 << 10;

/// Maximum number of bytes of an open private key that are held back without a scan.
const MAX_UNSCANNED: usize = 8 << 10;

/// Masks lines one by one. A line is held back only while a secret may begin in it and continue in the next line: a
/// private key without its end, the anchor of a rule with little text after it, or the beginning of a known value. At
/// most [`REACH`](super::REACH) bytes are held back.
///
/// `T` is data that belongs to a line, such as its level.
pub struct LineMasker<T> {
    redactor: Redactor,
    passed_text: String,
    /// This text without its line breaks, because lines may be pieces of one line.
    passed_pieces: String,
    held_lines: Vec<HeldLine<T>>,
    /// Number of bytes that were held back by a private key without its end at the last scan, or 0.
    open_key_bytes: usize,
    /// Number of bytes in held lines that were not scanned yet.
    unscanned_bytes: usize,
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
            passed_pieces: String::new(),
            held_lines: Vec::new(),
            open_key_bytes: 0,
            unscanned_bytes: 0,
        }
    }
}

impl<T> LineMasker<T> {
    /// Adds the next line. Returns the lines that can be shown now, in order, with a summary of their masks.
    pub fn push(&mut self, tag: T, text: String) -> (Vec<(T, String)>, MaskSummary) {
        let is_due = self.is_scan_due(&text);
        self.unscanned_bytes += text.len();
        self.held_lines.push(HeldLine {
            tag,
            text,
            findings: Vec::new(),
        });
        if !is_due {
            return (Vec::new(), MaskSummary::default());
        }
        let open = self.find_secrets();
        self.release(open)
    }

    /// Returns false if `text` is just a further part of an open private key, and little of the key was not scanned yet.
    /// Otherwise the scans of a long key would take time in proportion to the square of its length.
    fn is_scan_due(&self, text: &str) -> bool {
        // The end of a key has hyphens, and its body has none.
        let may_end = text.contains('-');
        let unscanned = self.unscanned_bytes + text.len();
        may_end || unscanned >= self.open_key_bytes.min(MAX_UNSCANNED)
    }

    /// Returns true if lines are held back.
    pub fn holds_lines(&self) -> bool {
        !self.held_lines.is_empty()
    }

    /// Returns the lines that were held back.
    pub fn finish(mut self) -> (Vec<(T, String)>, MaskSummary) {
        self.flush()
    }

    /// Returns the lines that are held back although a secret may continue in the next line, for an input that pauses.
    /// The beginning of such a secret is not masked.
    pub fn flush(&mut self) -> (Vec<(T, String)>, MaskSummary) {
        if self.unscanned_bytes > 0 {
            self.find_secrets();
        }
        self.open_key_bytes = 0;
        let lines = self.held_lines.len();
        self.release(lines)
    }

    /// Finds the secrets in the held lines and returns how many lines can be shown.
    fn find_secrets(&mut self) -> usize {
        let (mut separated, mut adjoining) = (JoinedTexts::new(), JoinedTexts::new());
        separated.push_separator(&self.passed_text);
        adjoining.push_separator(&self.passed_pieces);
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
        let open = self.redactor.open_secret_start(&adjoining.text);
        let is_key = open.is_some() && open == scan::open_private_key(&adjoining.text);
        let released = match open {
            Some(open) => starts
                .partition_point(|start| *start <= open)
                .saturating_sub(1),
            None => self.held_lines.len(),
        };
        let held = self.held_lines[released..].iter();
        let held_bytes = held.map(|line| line.text.len()).sum();
        self.open_key_bytes = if is_key { held_bytes } else { 0 };
        self.unscanned_bytes = 0;
        released
    }

    /// Masks the first `lines` held lines and returns them. The end of their text is stored as context for later lines.
    fn release(&mut self, lines: usize) -> (Vec<(T, String)>, MaskSummary) {
        let mut masks = MaskSummary::default();
        let mut shown = Vec::with_capacity(lines);
        for mut line in self.held_lines.drain(..lines) {
            self.passed_text.push_str(&line.text);
            self.passed_text.push('\n');
            self.passed_pieces.push_str(&line.text);
            let findings = mask::merge(line.findings);
            masks.add(MaskSummary::from_findings(&findings, line.text.as_bytes()));
            mask::apply(&mut line.text, &findings);
            shown.push((line.tag, line.text));
        }
        for passed in [&mut self.passed_text, &mut self.passed_pieces] {
            let removed = passed.ceil_char_boundary(passed.len().saturating_sub(CONTEXT));
            passed.drain(..removed);
        }
        (shown, masks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_masker_scans_long_keys_a_few_times() {
        let mut masker: LineMasker<()> = Redactor::new().line_masker();
        let scans = std::cell::Cell::new(0);
        let mut push = |line: &str| {
            scans.set(scans.get() + usize::from(masker.is_scan_due(line)));
            masker.push((), line.to_owned()).0
        };
        assert!(push("-----BEGIN RSA PRIVATE KEY-----").is_empty());
        let body = "MIIEowIBAAKCAQEAx7Vb2kQm9TzRf4LhN8wPdYsJcUeG3oXiA5vKtMbQZrWnHgDy";
        for _ in 0..600 {
            assert!(push(body).is_empty());
        }
        let mut shown = push("-----END RSA PRIVATE KEY-----");
        // The lines of the key are shown at its end.
        assert!(shown.len() >= 601, "{}", shown.len());
        shown.extend(push("all done"));
        shown.extend(masker.finish().0);
        assert_eq!(shown.len(), 603);
        assert!(shown.iter().all(|(_, line)| !line.contains("MIIE")));
        assert_eq!(shown[602].1, "all done");
        // 38 KB: doubled up to 8 KB, and then every 8 KB.
        assert!(scans.get() <= 18, "{scans:?}");
    }

    #[test]
    fn line_masker_masks_the_unscanned_end_of_a_key() {
        let mut masker: LineMasker<()> = Redactor::new().line_masker();
        masker.push((), "-----BEGIN RSA PRIVATE KEY-----".to_owned());
        let body = "MIIEowIBAAKCAQEAx7Vb2kQm9TzRf4LhN8wPdYsJcUeG3oXiA5vKtMbQZrWnHgDy";
        for _ in 0..9 {
            masker.push((), body.to_owned());
        }
        assert!(masker.unscanned_bytes > 0);
        let (shown, masks) = masker.finish();
        assert!(shown.iter().all(|(_, line)| !line.contains("MIIE")));
        assert_ne!(masks, MaskSummary::default());
    }
}
