//! Unescaping of text inside a JSON string, because rules do not match escaped quotes and line ends.

use std::ops::Range;

/// A section of a text with its escapes resolved.
pub(super) struct UnescapedText {
    /// The resolved text.
    pub text: Vec<u8>,
    /// The offset in the source of each of its bytes, followed by the end of the section.
    source_offsets: Vec<usize>,
}

impl UnescapedText {
    /// Resolves the escapes of a text. Returns `None` if it has none.
    pub(super) fn resolve(text: &[u8]) -> Option<Self> {
        if !text.contains(&b'\\') {
            return None;
        }
        let mut plain = Self {
            text: Vec::with_capacity(text.len()),
            source_offsets: Vec::with_capacity(text.len() + 1),
        };
        let mut at = 0;
        while at < text.len() {
            let (byte, length) = resolve_char(&text[at..]);
            plain.text.push(byte);
            plain.source_offsets.push(at);
            at += length;
        }
        plain.source_offsets.push(text.len());
        Some(plain)
    }

    /// Resolves the escapes of the resolved text, because JSON often contains JSON strings.
    pub(super) fn unescape_again(&self) -> Option<Self> {
        let mut plain = Self::resolve(&self.text)?;
        if plain.text.len() == self.text.len() {
            return None;
        }
        for offset in &mut plain.source_offsets {
            *offset = self.source_offsets[*offset];
        }
        Some(plain)
    }

    /// Returns the offset in the resolved text of a source byte, if that byte begins a character.
    pub(super) fn offset_of(&self, at: usize) -> Option<usize> {
        self.source_offsets.binary_search(&at).ok()
    }

    /// Returns the source range of a range of the resolved text.
    pub(super) fn source_range(&self, at: Range<usize>) -> Range<usize> {
        self.source_offsets[at.start]..self.source_offsets[at.end]
    }
}

/// Maximum nesting of JSON in JSON strings.
const NESTING_MAX: usize = 3;

/// Number of bytes resolved at once: at first, and at most if the next word is nearby.
const SECTION_BYTES: Range<usize> = 384..4096;

/// A section of a text with its escapes resolved once, twice and so on, cached for the next word nearby.
#[derive(Default)]
pub(super) struct UnescapedCache {
    /// The range of the section.
    pub at: Range<usize>,
    /// The resolved texts that differ.
    pub resolved_forms: Vec<UnescapedText>,
}

impl UnescapedCache {
    /// Resolves from `start`, at least up to `end`.
    pub(super) fn resolve(&mut self, text: &[u8], start: usize, end: usize) -> &Self {
        let end = end.min(text.len());
        if self.at.start <= start && end <= self.at.end {
            return self;
        }
        let max = if self.at.contains(&start) {
            (2 * self.at.len()).min(SECTION_BYTES.end)
        } else {
            SECTION_BYTES.start
        };
        self.at = start..end.max(text.len().min(start + max));
        self.resolved_forms = resolved_forms(&text[self.at.clone()]);
        self
    }
}

/// Returns all resolved forms of a text that differ from it.
pub(super) fn resolved_forms(text: &[u8]) -> Vec<UnescapedText> {
    let first = UnescapedText::resolve(text).filter(|plain| plain.text.len() < text.len());
    std::iter::successors(first, UnescapedText::unescape_again)
        .take(NESTING_MAX)
        .collect()
}

/// Resolves the first character to one byte. Returns the byte and the encoded length.
fn resolve_char(text: &[u8]) -> (u8, usize) {
    match text {
        [b'\\', b'n', ..] => (b'\n', 2),
        [b'\\', b'r', ..] => (b'\r', 2),
        [b'\\', b't', ..] => (b'\t', 2),
        [b'\\', byte @ (b'"' | b'\\' | b'/' | b'\''), ..] => (*byte, 2),
        [b'\\', b'u', b'0', b'0', digits @ ..] => {
            match digits.first_chunk().and_then(ascii_from_hex) {
                Some(byte) => (byte, 6),
                None => (b'\\', 1),
            }
        }
        [byte, ..] => (*byte, 1),
        [] => (0, 0),
    }
}

/// Converts two hex digits to an ASCII character.
fn ascii_from_hex(digits: &[u8; 2]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii)
}

/// Returns true if a JSON or percent escape ends at this offset: its letters are not part of the following word.
pub(super) fn ends_at(text: &[u8], at: usize) -> bool {
    match &text[..at] {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
        [.., b'\\', b'u', a, b, c, d] => [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_escapes_map_positions_to_the_original() {
        let text = br#"a\n\"k\u0065y\": \/x\q"#;
        let plain = UnescapedText::resolve(text).unwrap();
        assert_eq!(plain.text, b"a\n\"key\": /x\\q");
        assert_eq!(&text[plain.source_range(3..6)], br"k\u0065y");
        assert_eq!(&text[plain.source_range(9..11)], br"\/x");
        assert_eq!(plain.source_range(0..plain.text.len()), 0..text.len());
        assert!(resolved_forms(b"plain").is_empty() && resolved_forms(b"\\").is_empty());
    }

    #[test]
    fn json_escapes_of_nested_json_are_decoded_twice() {
        let text = br#"{\"a\": \"\\\"b\\nc\"}"#;
        let once = UnescapedText::resolve(text).unwrap();
        assert_eq!(once.text, br#"{"a": "\"b\nc"}"#);
        let twice = once.unescape_again().unwrap();
        assert_eq!(twice.text, b"{\"a\": \"\"b\nc\"}");
        let at = twice.text.iter().position(|byte| *byte == b'b').unwrap();
        assert_eq!(&text[twice.source_range(at..at + 3)], br"b\\nc");
    }

    #[test]
    fn json_escape_ends_are_detected() {
        for text in [&br"x\n"[..], b"x%3D", br"\u003d", br"\\n"] {
            assert!(
                ends_at(text, text.len()),
                "{}",
                String::from_utf8_lossy(text)
            );
        }
        for text in [&b""[..], b"n", b"\\", b"%3", b"an", br"\u03d"] {
            assert!(
                !ends_at(text, text.len()),
                "{}",
                String::from_utf8_lossy(text)
            );
        }
    }
}
