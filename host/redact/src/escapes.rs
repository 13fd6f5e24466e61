//! Decoding of a text: percent-encoding, HTML entities, and escapes of JSON and programming languages, mixed and
//! nested, because writers differ in the characters that they escape.
//!
//! Out of scope: the search in the decoded text.

use std::ops::Range;

/// Maximum number of decoding passes: a URL in HTML in JSON occurs in practice.
const DEPTH: usize = 3;

/// Maximum length of an encoded character: a surrogate pair in JSON.
const MAX_ESCAPE_LENGTH: usize = 12;

/// A decoded text.
struct DecodedText {
    text: Vec<u8>,
    /// The shortened positions: the offset after each, and the number of bytes removed up to there.
    cuts: Vec<(usize, usize)>,
}

impl DecodedText {
    /// Decodes a text; `None` if nothing in it is encoded.
    fn decode(text: &[u8]) -> Option<Self> {
        let mut read: Option<Self> = None;
        let mut at = 0;
        let mut rest = 0;
        while let Some(next) = text[at..].iter().position(|byte| is_sign(*byte)) {
            at += next;
            let Some((character, length)) = character(&text[at..]) else {
                at += 1;
                continue;
            };
            let read = read.get_or_insert_with(|| Self {
                text: Vec::with_capacity(text.len()),
                cuts: Vec::new(),
            });
            read.text.extend_from_slice(&text[rest..at]);
            read.text.extend_from_slice(character.bytes());
            at += length;
            rest = at;
            read.cuts.push((read.text.len(), at - read.text.len()));
        }
        let mut read = read?;
        read.text.extend_from_slice(&text[rest..]);
        Some(read)
    }

    /// The source offset of an offset in the decoded text. An offset inside a multi-byte character maps to the end of
    /// the character.
    fn back(&self, at: usize) -> usize {
        match self.cuts.partition_point(|(place, _)| *place <= at) {
            0 => at,
            cut => at + self.cuts[cut - 1].1,
        }
    }
}

/// The decoded forms of a text that differ from it, each decoded from the one before.
pub(super) struct DecodedTexts(Vec<DecodedText>);

impl DecodedTexts {
    /// Decodes a text repeatedly, up to [`DEPTH`] times, while anything in it is encoded.
    pub(super) fn decode_all(text: &[u8]) -> Self {
        let readings = std::iter::successors(DecodedText::decode(text), |read| {
            DecodedText::decode(&read.text)
        });
        Self(readings.take(DEPTH).collect())
    }

    /// The forms of an incomplete text: the text itself first, and each without an incomplete encoding at its end.
    pub(super) fn decode_all_partial(text: &[u8]) -> Self {
        let mut all = vec![DecodedText {
            text: text[..whole(text)].to_vec(),
            cuts: Vec::new(),
        }];
        while all.len() <= DEPTH
            && let Some(mut next) = all.last().and_then(|last| DecodedText::decode(&last.text))
        {
            next.text.truncate(whole(&next.text));
            all.push(next);
        }
        Self(all)
    }

    /// The texts of the forms.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|reading| reading.text.as_slice())
    }

    /// The range in the source text of a range of a decoded form.
    pub(super) fn back(&self, reading: usize, at: Range<usize>) -> Range<usize> {
        let readings = self.0[..=reading].iter().rev();
        readings.fold(at, |at, reading| {
            reading.back(at.start)..reading.back(at.end)
        })
    }
}

/// The length of a text without an incomplete encoding at its end.
pub(super) fn whole(text: &[u8]) -> usize {
    let mut at = text.len().saturating_sub(MAX_ESCAPE_LENGTH);
    while let Some(next) = text[at..].iter().position(|byte| is_sign(*byte)) {
        at += next;
        match character(&text[at..]) {
            Some((_, length)) => at += length,
            None => return at,
        }
    }
    text.len()
}

/// Returns true if an encoded character may begin with this byte.
fn is_sign(byte: u8) -> bool {
    matches!(byte, b'%' | b'&' | b'\\')
}

/// A character, in UTF-8 or as a single byte.
struct DecodedChar([u8; 4], usize);

impl DecodedChar {
    fn byte(byte: u8) -> Self {
        Self([byte, 0, 0, 0], 1)
    }

    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl From<char> for DecodedChar {
    fn from(character: char) -> Self {
        let mut bytes = [0; 4];
        let length = character.encode_utf8(&mut bytes).len();
        Self(bytes, length)
    }
}

/// The encoded character at the beginning of a text, and its encoded length.
fn character(text: &[u8]) -> Option<(DecodedChar, usize)> {
    match text {
        [b'%', ..] => Some((DecodedChar::byte(hex(text, 1, 2)? as u8), 3)),
        [b'\\', b'x', ..] => Some((DecodedChar::byte(hex(text, 2, 2)? as u8), 4)),
        [b'\\', b'u', ..] => unicode(text),
        [b'\\', byte, ..] => {
            let byte = match byte {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'b' => 8,
                b'f' => 12,
                b'"' | b'\'' | b'\\' | b'/' | b'$' | b'`' => *byte,
                _ => return None,
            };
            Some((DecodedChar::byte(byte), 2))
        }
        [b'&', ..] => entity(text),
        _ => None,
    }
}

fn hex(text: &[u8], from: usize, digits: usize) -> Option<u32> {
    let digits = text.get(from..from + digits)?;
    number(digits, 16)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    // `from_str_radix` accepts a sign, which is not a digit.
    let digits = digits.first()?.is_ascii_hexdigit().then_some(digits)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// `\uXXXX`, including surrogate pairs, and `\u{X…}`.
fn unicode(text: &[u8]) -> Option<(DecodedChar, usize)> {
    if text.get(2) == Some(&b'{') {
        let end = text
            .iter()
            .take(MAX_ESCAPE_LENGTH)
            .position(|byte| *byte == b'}')?;
        let character = char::from_u32(number(&text[3..end], 16)?)?;
        return Some((character.into(), end + 1));
    }
    let first = hex(text, 2, 4)? as u16;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character.into(), 6));
    }
    let second = match text.get(6..8) {
        Some(b"\\u") => hex(text, 8, 4)? as u16,
        _ => return None,
    };
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character.into(), 12))
}

/// `&lt;`, `&#60;`, `&#x3c;`.
fn entity(text: &[u8]) -> Option<(DecodedChar, usize)> {
    let end = text
        .iter()
        .take(MAX_ESCAPE_LENGTH)
        .position(|byte| *byte == b';')?;
    let character = match &text[1..end] {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
        _ => return None,
    };
    Some((character.into(), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let readings = DecodedTexts::decode_all(text.as_bytes());
        let last = readings.texts().last();
        last.map_or(text.to_owned(), |text| {
            String::from_utf8_lossy(text).into_owned()
        })
    }

    #[test]
    fn escapes_are_decoded_repeatedly() {
        for (text, wanted) in [
            ("plain % & \\ text", "plain % & \\ text"),
            ("%41%4a%4A", "AJJ"),
            ("%2541 %252541", "A A"),
            (r"\u0041\x41\/\u{41}\u{1F600}", "AA/A\u{1F600}"),
            (r"\ud83d\ude00 \ud83d", "\u{1F600} \\ud83d"),
            ("&lt;&#60;&#x3C;&amp;lt;&amp;", "<<<<&"),
            (r"\\u0041", "A"),
            (
                "%zz %4 &nbsp; &#xZZ; &#+5; &# \\q \\u12 %+1",
                "%zz %4 &nbsp; &#xZZ; &#+5; &# \\q \\u12 %+1",
            ),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn escapes_map_positions_to_the_original() {
        let text = "a%2541b&lt;c\\u00e4d";
        let readings = DecodedTexts::decode_all(text.as_bytes());
        let texts: Vec<&[u8]> = readings.texts().collect();
        assert_eq!(texts, ["a%41b<cäd".as_bytes(), "aAb<cäd".as_bytes()]);
        let part = |reading: usize, wanted: &str| {
            let at = texts[reading].windows(wanted.len());
            let at = at.into_iter().position(|some| some == wanted.as_bytes());
            let at = at.unwrap();
            &text[readings.back(reading, at..at + wanted.len())]
        };
        assert_eq!(part(0, "a%41"), "a%2541");
        assert_eq!(part(1, "A"), "%2541");
        assert_eq!(part(1, "b<c"), "b&lt;c");
        assert_eq!(part(1, "cä"), "c\\u00e4");
        assert_eq!(part(1, "äd"), "\\u00e4d");
        assert_eq!(part(1, "aAb<cäd"), text);
    }

    #[test]
    fn escapes_incomplete_at_the_end_are_held_back() {
        for (text, wanted) in [("abc%4", 3), ("abc&lt", 3), ("abc\\u00", 3), ("abc", 3)] {
            assert_eq!(whole(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(whole(b"% and a long word behind"), 24);
        assert_eq!(whole(b"abc%41d%4"), 7);
        assert_eq!(whole(b"abc%41d"), 7);
        let begun = DecodedTexts::decode_all_partial(b"ab%25%254");
        let texts: Vec<&[u8]> = begun.texts().collect();
        assert_eq!(texts, [&b"ab%25%254"[..], b"ab"]);
    }
}
