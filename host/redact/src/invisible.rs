//! Removal of invisible parts of a text, so that they do not hide a secret.
//!
//! Invisible parts are terminal escapes and other control characters, characters without a visible form, and the
//! `\u{…}` that `mimir_core::text::sanitize` writes in place of both.

use std::ops::Range;

/// A section of a text without some of its parts.
pub(super) struct StrippedText {
    /// The remaining text.
    pub text: Vec<u8>,
    /// The range of the section.
    whole: Range<usize>,
    /// The removed parts: the offset of each in the remaining text, and the number of bytes removed up to there.
    cuts: Vec<(usize, usize)>,
}

impl StrippedText {
    /// Creates an empty section that begins at `start`.
    fn starting_at(start: usize) -> Self {
        Self {
            text: Vec::new(),
            whole: start..start,
            cuts: Vec::new(),
        }
    }

    /// Extends the section by the text up to a part, and omits the part.
    fn skip(&mut self, text: &[u8], part: Range<usize>) {
        self.text
            .extend_from_slice(&text[self.whole.end..part.start]);
        self.whole.end = part.end;
        let cut = (
            self.text.len(),
            part.end - self.whole.start - self.text.len(),
        );
        match self.cuts.last_mut() {
            Some(last) if last.0 == cut.0 => *last = cut,
            _ => self.cuts.push(cut),
        }
    }

    /// Extends the section to `end`.
    fn up_to(mut self, text: &[u8], end: usize) -> Self {
        self.text.extend_from_slice(&text[self.whole.end..end]);
        self.whole.end = end;
        self
    }

    /// Creates the whole text without these parts, which are in order and do not overlap.
    pub(super) fn new(text: &[u8], parts: impl Iterator<Item = Range<usize>>) -> Self {
        let mut out = Self::starting_at(0);
        parts.for_each(|part| out.skip(text, part));
        out.up_to(text, text.len())
    }

    /// Returns the range in the text of a range of the remaining text.
    pub(super) fn source_range(&self, at: Range<usize>) -> Range<usize> {
        let removed_before =
            |at: usize| match self.cuts.partition_point(|(offset, _)| *offset <= at) {
                0 => 0,
                cut => self.cuts[cut - 1].1,
            };
        let (start, last) = (at.start, at.end - 1);
        let offset = self.whole.start;
        offset + start + removed_before(start)..offset + last + removed_before(last) + 1
    }

    /// Returns the ranges in the text of a range of the remaining text, without the parts that were removed in it.
    pub(super) fn source_ranges(&self, at: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let inner = self.cuts.iter().map(|(offset, _)| *offset);
        let inner: Vec<usize> = inner
            .filter(|offset| at.start < *offset && *offset < at.end)
            .collect();
        let starts: Vec<usize> = std::iter::once(at.start)
            .chain(inner.iter().copied())
            .collect();
        let ends = inner.into_iter().chain([at.end]);
        let pieces: Vec<_> = starts
            .into_iter()
            .zip(ends)
            .map(|(start, end)| self.source_range(start..end))
            .collect();
        pieces.into_iter()
    }

    /// Returns true if the range touches an end of the section that is not an end of the text: a finding there may be
    /// incomplete.
    pub(super) fn is_cut_off(&self, at: &Range<usize>, text: &[u8]) -> bool {
        (at.start == self.whole.start && at.start > 0)
            || (at.end == self.whole.end && at.end < text.len())
    }
}

/// Returns the sections around the invisible parts of a text, with `around` bytes on each side.
pub(super) fn strip_invisible(text: &[u8], around: usize) -> impl Iterator<Item = StrippedText> {
    let mut invisible = InvisibleRanges { text, at: 0 }.peekable();
    std::iter::from_fn(move || {
        let first = invisible.next()?;
        let mut out = StrippedText::starting_at(first.start.saturating_sub(around));
        out.skip(text, first);
        while let Some(next) = invisible.next_if(|next| next.start <= out.whole.end + 2 * around) {
            out.skip(text, next);
        }
        let end = text.len().min(out.whole.end + around);
        Some(out.up_to(text, end))
    })
}

/// Iterator over the invisible parts of a text.
struct InvisibleRanges<'a> {
    text: &'a [u8],
    at: usize,
}

/// Number of bytes that are scanned at once: most chunks contain only visible characters.
const CHUNK: usize = 64;

impl Iterator for InvisibleRanges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.at < self.text.len() {
            let chunk = &self.text[self.at..self.text.len().min(self.at + CHUNK)];
            // No early exit, so that the compiler can vectorise the loop.
            let plain = chunk
                .iter()
                .fold(true, |plain, byte| plain & is_plain(*byte));
            if plain {
                self.at += chunk.len();
                continue;
            }
            for start in self.at..self.at + chunk.len() {
                let length = match self.text[start] {
                    byte if is_plain(byte) => 0,
                    _ => invisible_len(&self.text[start..]),
                };
                if length > 0 {
                    self.at = start + length;
                    return Some(start..self.at);
                }
            }
            self.at += chunk.len();
        }
        None
    }
}

/// Returns true if a byte is visible and begins nothing invisible.
fn is_plain(byte: u8) -> bool {
    match byte {
        b'\t' | b'\n' | b'\r' => true,
        ..b' ' | b'\\' | 0x7f => false,
        0xc2 | 0xcd | 0xd8 | 0xe1..=0xe3 | 0xef | 0xf0 | 0xf3 => false,
        _ => true,
    }
}

/// Returns the number of invisible bytes at the beginning of a text.
fn invisible_len(text: &[u8]) -> usize {
    match text {
        [0x1b, b'[', rest @ ..] => {
            let parameters = rest.iter().take_while(|byte| (b' '..=b'?').contains(byte));
            text.len().min(2 + parameters.count() + 1)
        }
        [b'\\', b'u', b'{', rest @ ..] => {
            let digits = rest
                .iter()
                .take(6)
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            match rest.get(digits) {
                Some(b'}') if digits > 0 => 3 + digits + 1,
                _ => 0,
            }
        }
        [0..=0x1f | 0x7f, ..] => 1,
        // The first two bytes are enough to exclude most characters of other scripts.
        [0xe3, second, ..] if *second != 0x85 => 0,
        [0xc2, second, ..] if *second > 0xad => 0,
        [0xc2..=0xff, ..] => {
            let character = text[..text.len().min(4)].utf8_chunks().next();
            let character = character.and_then(|chunk| chunk.valid().chars().next());
            character.filter(|c| is_blank(*c)).map_or(0, char::len_utf8)
        }
        _ => 0,
    }
}

/// Returns true for a character without a visible form: Unicode's default ignorable code points, and the C1 controls.
fn is_blank(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> Option<String> {
        let section = strip_invisible(text.as_bytes(), 4096).next()?;
        Some(String::from_utf8(section.text).unwrap())
    }

    #[test]
    fn invisible_characters_are_removed() {
        for text in [
            "a\u{1b}[1;31mbc",
            "a\u{200b}bc",
            "ab\u{ad}\u{fe0f}c",
            "ab\\u{200b}\\u{e0041}c",
            "a\u{8}bc\u{1b}[0m",
            "\u{feff}abc\u{1b}[",
        ] {
            assert_eq!(stripped(text).as_deref(), Some("abc"), "{text:?}");
        }
    }

    #[test]
    fn invisible_filter_leaves_visible_text_unchanged() {
        for text in [
            "",
            "plain\r\n\ttext",
            "äöü 👩 日本",
            "\\u{zz} \\u{} \\u{1234567} C:\\users",
        ] {
            assert_eq!(stripped(text), None, "{text:?}");
        }
        let long = format!("{}\u{200b}{}", "x".repeat(200), "y".repeat(200));
        assert_eq!(stripped(&long), Some("x".repeat(200) + &"y".repeat(200)));
        assert!(
            strip_invisible(&[0xff, 0xc3, 0xe2, 0x80], 9)
                .next()
                .is_none()
        );
    }

    #[test]
    fn invisible_filter_reads_a_limited_context() {
        let text = format!("{0}\u{200b}{0}\u{200b}{0}", "x".repeat(100));
        let parts = |around| -> Vec<(usize, usize)> {
            strip_invisible(text.as_bytes(), around)
                .map(|section| (section.whole.start, section.text.len()))
                .collect()
        };
        assert_eq!(parts(10), [(90, 20), (193, 20)]);
        assert_eq!(parts(60), [(40, 220)]);
    }

    #[test]
    fn invisible_filter_maps_positions_to_the_original() {
        let text = "ab\u{200b}cd\u{1b}[0mef";
        let section = strip_invisible(text.as_bytes(), 9).next().unwrap();
        assert_eq!(section.text, b"abcdef");
        for (at, original) in [
            (0..2, "ab"),
            (1..3, "b\u{200b}c"),
            (2..4, "cd"),
            (3..5, "d\u{1b}[0me"),
            (4..6, "ef"),
        ] {
            assert_eq!(&text[section.source_range(at)], original);
        }
    }
}
