//! Decoding of percent-encoding, HTML entities, and escapes of JSON and programming languages, which may be mixed and
//! nested.
//!
//! Out of scope: the search in the decoded text.

use std::ops::Range;

/// Maximum number of decoding passes: a URL in HTML in JSON occurs in practice.
const PASSES_MAX: usize = 3;

/// Maximum length of an encoded character in bytes: a surrogate pair in JSON.
const MAX_ESCAPE_LENGTH: usize = 12;

/// A decoded text.
struct DecodedText {
    text: Vec<u8>,
    /// The shortened positions: the offset after each, and the number of bytes removed up to there.
    cuts: Vec<(usize, usize)>,
}

impl DecodedText {
    /// Decodes a text. Returns `None` if nothing in it is encoded.
    fn decode(text: &[u8]) -> Option<Self> {
        let mut decoded: Option<Self> = None;
        let mut at = 0;
        let mut copied = 0;
        while let Some(next) = text[at..].iter().position(|byte| may_begin_escape(*byte)) {
            at += next;
            let Some((character, length)) = decode_char(&text[at..]) else {
                at += 1;
                continue;
            };
            let decoded = decoded.get_or_insert_with(|| Self {
                text: Vec::with_capacity(text.len()),
                cuts: Vec::new(),
            });
            decoded.text.extend_from_slice(&text[copied..at]);
            decoded.text.extend_from_slice(character.bytes());
            at += length;
            copied = at;
            decoded
                .cuts
                .push((decoded.text.len(), at - decoded.text.len()));
        }
        let mut decoded = decoded?;
        decoded.text.extend_from_slice(&text[copied..]);
        Some(decoded)
    }

    /// Returns the source offset of an offset in the decoded text. An offset inside a multi-byte character maps to the
    /// end of the character.
    fn source_offset(&self, at: usize) -> usize {
        match self.cuts.partition_point(|(offset, _)| *offset <= at) {
            0 => at,
            cut => at + self.cuts[cut - 1].1,
        }
    }
}

/// The decoded forms of a text, each decoded from the previous one.
pub(super) struct DecodedTexts(Vec<DecodedText>);

impl DecodedTexts {
    /// Decodes a text repeatedly, up to [`PASSES_MAX`] times, while anything in it is encoded.
    pub(super) fn decode_all(text: &[u8]) -> Self {
        let forms = std::iter::successors(DecodedText::decode(text), |previous| {
            DecodedText::decode(&previous.text)
        });
        Self(forms.take(PASSES_MAX).collect())
    }

    /// Decodes an incomplete text repeatedly. The first form is the text itself, and each form lacks an incomplete
    /// encoding at its end.
    pub(super) fn decode_all_partial(text: &[u8]) -> Self {
        let mut forms = vec![DecodedText {
            text: text[..complete_len(text)].to_vec(),
            cuts: Vec::new(),
        }];
        while forms.len() <= PASSES_MAX
            && let Some(mut next) = forms
                .last()
                .and_then(|last| DecodedText::decode(&last.text))
        {
            next.text.truncate(complete_len(&next.text));
            forms.push(next);
        }
        Self(forms)
    }

    /// Returns the texts of the forms.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|form| form.text.as_slice())
    }

    /// Returns the source range of a range of a decoded form.
    pub(super) fn source_range(&self, form: usize, at: Range<usize>) -> Range<usize> {
        let forms = self.0[..=form].iter().rev();
        forms.fold(at, |at, form| {
            form.source_offset(at.start)..form.source_offset(at.end)
        })
    }
}

/// Returns the length of a text without an incomplete encoding at its end.
pub(super) fn complete_len(text: &[u8]) -> usize {
    let mut at = text.len().saturating_sub(MAX_ESCAPE_LENGTH);
    while let Some(next) = text[at..].iter().position(|byte| may_begin_escape(*byte)) {
        at += next;
        match decode_char(&text[at..]) {
            Some((_, length)) => at += length,
            None => return at,
        }
    }
    text.len()
}

/// Returns true if an encoded character may begin with this byte.
fn may_begin_escape(byte: u8) -> bool {
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

/// Decodes the encoded character at the beginning of a text. Returns the character and its encoded length.
fn decode_char(text: &[u8]) -> Option<(DecodedChar, usize)> {
    match text {
        [b'%', ..] => Some((DecodedChar::byte(parse_hex(text, 1, 2)? as u8), 3)),
        [b'\\', b'x', ..] => Some((DecodedChar::byte(parse_hex(text, 2, 2)? as u8), 4)),
        [b'\\', b'u', ..] => decode_unicode(text),
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
        [b'&', ..] => decode_entity(text),
        _ => None,
    }
}

fn parse_hex(text: &[u8], from: usize, digits: usize) -> Option<u32> {
    let digits = text.get(from..from + digits)?;
    parse_digits(digits, 16)
}

fn parse_digits(digits: &[u8], radix: u32) -> Option<u32> {
    // `from_str_radix` accepts a sign, which is not a digit.
    let digits = digits.first()?.is_ascii_hexdigit().then_some(digits)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// Decodes `\uXXXX`, including surrogate pairs, and `\u{X…}`.
fn decode_unicode(text: &[u8]) -> Option<(DecodedChar, usize)> {
    if text.get(2) == Some(&b'{') {
        let end = text
            .iter()
            .take(MAX_ESCAPE_LENGTH)
            .position(|byte| *byte == b'}')?;
        let character = char::from_u32(parse_digits(&text[3..end], 16)?)?;
        return Some((character.into(), end + 1));
    }
    let first = parse_hex(text, 2, 4)? as u16;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character.into(), 6));
    }
    let second = match text.get(6..8) {
        Some(b"\\u") => parse_hex(text, 8, 4)? as u16,
        _ => return None,
    };
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character.into(), 12))
}

/// Decodes `&lt;`, `&#60;`, `&#x3c;`.
fn decode_entity(text: &[u8]) -> Option<(DecodedChar, usize)> {
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
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(parse_digits(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(parse_digits(digits, 10)?)?,
        _ => return None,
    };
    Some((character.into(), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_fully(text: &str) -> String {
        let forms = DecodedTexts::decode_all(text.as_bytes());
        let last = forms.texts().last();
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
            assert_eq!(decode_fully(text), wanted, "{text}");
        }
    }

    #[test]
    fn escapes_map_positions_to_the_original() {
        let text = "a%2541b&lt;c\\u00e4d";
        let forms = DecodedTexts::decode_all(text.as_bytes());
        let texts: Vec<&[u8]> = forms.texts().collect();
        assert_eq!(texts, ["a%41b<cäd".as_bytes(), "aAb<cäd".as_bytes()]);
        let part = |form: usize, wanted: &str| {
            let at = texts[form].windows(wanted.len());
            let at = at
                .into_iter()
                .position(|window| window == wanted.as_bytes());
            let at = at.unwrap();
            &text[forms.source_range(form, at..at + wanted.len())]
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
            assert_eq!(complete_len(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(complete_len(b"% and a long word follows"), 25);
        assert_eq!(complete_len(b"abc%41d%4"), 7);
        assert_eq!(complete_len(b"abc%41d"), 7);
        let partial = DecodedTexts::decode_all_partial(b"ab%25%254");
        let texts: Vec<&[u8]> = partial.texts().collect();
        assert_eq!(texts, [&b"ab%25%254"[..], b"ab"]);
    }
}
