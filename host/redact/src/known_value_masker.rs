//! Masking of known values in a stream. Holds back as few bytes as possible.

use std::sync::Arc;

use super::known_values::KnownValues;
use super::{Redactor, mask};

/// Masks known values in a stream. Holds back a possible beginning of a value, and the byte before it.
pub struct KnownValueMasker {
    known: Arc<KnownValues>,
    buffer: Vec<u8>,
}

impl Redactor {
    /// Creates a stream filter for the known values, or returns `None` if there are none.
    pub fn known_value_masker(&self) -> Option<KnownValueMasker> {
        let known = self.known.as_ref().filter(|known| !known.is_empty())?;
        Some(KnownValueMasker {
            known: Arc::clone(known),
            buffer: Vec::new(),
        })
    }
}

impl KnownValueMasker {
    /// Adds the next bytes. Returns the masked bytes that can be passed on.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.buffer.extend_from_slice(bytes);
        // A match at the end may become longer, or be part of another one.
        let incomplete = self.known.incomplete_start(&self.buffer);
        self.release(incomplete.saturating_sub(1))
    }

    /// Returns the masked bytes that were held back.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release(self.buffer.len())
    }

    /// Releases the text before `end`, except for a value that continues after it.
    fn release(&mut self, mut end: usize) -> Vec<u8> {
        let is_all = end == self.buffer.len();
        let mut findings = Vec::new();
        self.known.find(&self.buffer, &mut findings);
        let findings = mask::merge(findings);
        for finding in findings.iter().rev() {
            let is_open = !is_all && finding.end == self.buffer.len();
            if finding.start < end && (finding.end > end || is_open) {
                end = finding.start;
            }
        }
        let mut out = Vec::with_capacity(end);
        let mut at = 0;
        for finding in findings.iter().filter(|finding| finding.end <= end) {
            out.extend_from_slice(&self.buffer[at..finding.start]);
            out.extend_from_slice(finding.mark().as_bytes());
            at = finding.end;
        }
        out.extend_from_slice(&self.buffer[at..end]);
        self.buffer.drain(..end);
        out
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    const KEY: &str = "s3cr3t/value+0f=mine?>";

    fn masked(text: &[u8], size: usize) -> Vec<u8> {
        let redactor = Redactor::new().with_values([("KEY", KEY)]);
        let mut stream = redactor.known_value_masker().unwrap();
        let mut out: Vec<u8> = Vec::new();
        for chunk in text.chunks(size) {
            out.extend(stream.push(chunk));
        }
        out.extend(stream.finish());
        out
    }

    #[test]
    fn known_stream_masks_every_form_at_every_boundary() {
        let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = KEY.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let partly = KEY.replace('/', "%2F").replace('+', "%2b");
        let json = KEY.replace('/', "\\/").replace('=', "\\u003d");
        let html = KEY.replace('>', "&gt;");
        let wrapped = format!("{}\n{}", &KEY[..9], &KEY[9..]);
        let offsets =
            ["", "a", "ab"].map(|before| STANDARD.encode(format!("{before}{KEY} and more")));
        let forms = [
            KEY.to_owned(),
            hex.to_uppercase(),
            hex,
            percent.replace('%', "%25"),
            percent,
            partly,
            json,
            html,
            wrapped,
            URL_SAFE.encode(KEY),
            URL_SAFE.encode(format!("x{KEY}")),
        ];
        for form in forms.iter().chain(&offsets) {
            let text = format!("before: {form} :after");
            let whole = masked(text.as_bytes(), text.len());
            let shown = String::from_utf8_lossy(&whole).into_owned();
            assert!(shown.contains("[REDACTED:secret:KEY]"), "{form}: {shown}");
            assert!(
                shown.starts_with("before: ") && shown.ends_with(" :after"),
                "{shown}"
            );
            for size in 1..text.len() {
                let chunked = masked(text.as_bytes(), size);
                assert_eq!(String::from_utf8_lossy(&chunked), shown, "{form} by {size}");
            }
        }
    }

    #[test]
    fn known_stream_holds_back_only_possible_values() {
        let redactor = Redactor::new().with_values([("KEY", KEY)]);
        let mut stream = redactor.known_value_masker().unwrap();
        assert_eq!(
            stream.push(b"data: {\"n\": 1}\n\n"),
            b"data: {\"n\": 1}\n\n".split_last().unwrap().1
        );
        assert_eq!(stream.push(b"x = s3cr"), b"\nx =");
        assert_eq!(stream.push(b"3t is a word"), b" s3cr3t is a wor");
        assert_eq!(stream.finish(), b"d");
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(masked(&bytes.repeat(40), 7), bytes.repeat(40));
        assert!(Redactor::new().known_value_masker().is_none());
    }
}
