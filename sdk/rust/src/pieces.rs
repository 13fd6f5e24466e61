//! Chunks of a longer text, cut such that no secret is split.
//!
//! A host masks the secrets in results, but recognises one only if it is complete and next to the words that identify
//! it. A tool that returns parts of a text lets its caller choose where they begin: without this module, a caller
//! could read a token as two halves, and a private key line by line.
//!
//! Out of scope: detecting secrets, other than the frame of a private key. The host has the rules for that.

use std::iter::successors;
use std::ops::Range;

/// Longest run of characters without a gap that is never split, in bytes: longer than any token.
const RUN: usize = 4096;

/// Longest line that [`piece`] never splits, in bytes.
const LINE: usize = 1000;

/// Longest private key that is never split, in bytes: several times the longest in use.
pub const KEY: usize = 32 << 10;

/// Fewest bytes of a line from a private key that reveal anything about it.
const KEY_LINE: usize = 16;

/// Characters around the lines of a private key that is quoted, escaped or commented.
const QUOTES: &[u8] = b" \t\r\n\"'>|#*+,;\\";

/// The part of `text` from about `from` on with about `most` bytes. It begins and ends at line ends, in a long line
/// between two members or words, and never inside a private key. So it may begin before `from`, and it is longer than
/// `most` if no cut is allowed. The next part begins at its end. It is empty only at the end of the text.
///
/// ```
/// use mimir_sdk::pieces::piece;
///
/// let text = "one\ntoken = abcdef\nthree\n";
/// assert_eq!(&text[piece(text, 14, 5)], "token = abcdef\n");
/// assert_eq!(&text[piece(text, 19, 100)], "three\n");
/// ```
pub fn piece(text: &str, from: usize, most: usize) -> Range<usize> {
    if from >= text.len() {
        return text.len()..text.len();
    }
    let until = from.saturating_add(most);
    let bytes = text.as_bytes();
    let (mut start, mut end) = (0, 0);
    for place in successors(Some(0), |at| (*at < bytes.len()).then(|| next(bytes, *at))) {
        if place <= from {
            start = place;
        }
        if place > start && (place <= until || end <= start) {
            end = place;
        }
        if place >= until && end > start {
            break;
        }
    }
    start..end
}

/// The excerpt of a line around the byte `at`, with about `most` bytes.
///
/// ```
/// let line = r#"{"user": "ann", "token": "abcdef"}"#;
/// assert_eq!(&line[mimir_sdk::pieces::excerpt(line, 28, 24)], r#""token": "abcdef"}"#);
/// ```
pub fn excerpt(line: &str, at: usize, most: usize) -> Range<usize> {
    let bytes = line.as_bytes();
    if bytes.len() <= most {
        return 0..bytes.len();
    }
    let places = successors(Some(0), |from| {
        (*from < bytes.len()).then(|| from + cut(&bytes[*from..], most / 4))
    });
    // At most a quarter of the excerpt comes before `at`, so that the match is in it.
    let (mut start, mut before, mut end) = (0, 0, 0);
    for place in places {
        if place <= at {
            (before, start) = (start, place);
            end = place;
        } else if end <= at || place - before <= most {
            end = place;
        } else {
            break;
        }
    }
    if end - before <= most {
        return before..end;
    }
    if end - start < RUN {
        return start..end;
    }
    // A run of this length is not a token, so a part of it reveals no secret.
    let run = if start - before < RUN { start } else { before };
    let round = line.floor_char_boundary(at.saturating_sub(most / 4).max(run));
    round..line.floor_char_boundary((round + most).min(end))
}

/// Returns true if a private key begins in `before` and does not end there. A tool checks up to [`KEY`] bytes before
/// the lines that it shows, if the first of them [may be](in_key) part of a key.
pub fn opens_key(before: &[u8]) -> bool {
    let before = &before[before.len().saturating_sub(KEY)..];
    match memchr::memmem::rfind(before, BEGIN) {
        Some(at) => is_frame(&before[at..]) && end_of_key(before, at).is_none(),
        None => false,
    }
}

/// Returns true if a line looks like one from the inside of a private key: only base64, or its last line.
pub fn in_key(line: &[u8]) -> bool {
    let inner = line.trim_ascii();
    let inner = trim(inner);
    let of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=\\".contains(byte);
    inner.len() >= KEY_LINE && inner.iter().all(of_base64) || ends_key(line)
}

/// Returns true if a private key ends in this line.
pub fn ends_key(line: &[u8]) -> bool {
    memchr::memmem::find(line, END).is_some_and(|at| is_frame(&line[at..]))
}

/// Replacement for a line from the inside of a private key whose beginning is not shown.
pub const KEY_MARK: &str = "[REDACTED:private-key]";

const BEGIN: &[u8] = b"-----BEGIN";
const END: &[u8] = b"-----END";

/// Returns true for the first or last line of a private key, but not of a certificate.
fn is_frame(text: &[u8]) -> bool {
    let name = &text[..text.len().min(120)];
    let name = name.split(|byte| *byte == b'\n').next().unwrap_or(name);
    memchr::memmem::find(name, b"PRIVATE KEY").is_some()
}

fn trim(line: &[u8]) -> &[u8] {
    let kept = |byte: &u8| !QUOTES.contains(byte);
    match (line.iter().position(kept), line.iter().rposition(kept)) {
        (Some(first), Some(last)) => &line[first..=last],
        _ => &[],
    }
}

/// End of the private key that begins at `at`.
fn end_of_key(text: &[u8], at: usize) -> Option<usize> {
    let reach = &text[at..text.len().min(at + KEY)];
    let end = memchr::memmem::find(reach, END)?;
    Some(at + end + END.len())
}

/// The next allowed cut after `at`, which must itself be one and not the end.
fn next(text: &[u8], at: usize) -> usize {
    let mut end = line_end(text, at);
    if end - at > LINE {
        end = at + cut(&text[at..end], LINE);
    }
    let begins = memchr::memmem::find(&text[at..end], BEGIN);
    match begins.filter(|begin| is_frame(&text[at + begin..])) {
        Some(begin) => match end_of_key(text, at + begin) {
            Some(over) if over > end => {
                let rest = line_end(text, over);
                over + cut(&text[over..rest], LINE)
            }
            _ => end,
        },
        None => end,
    }
}

fn line_end(text: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1)
}

/// Length of the beginning of a line that is not split, about `most` bytes: up to the end of a member, of a word, or
/// of a run that has neither.
fn cut(line: &[u8], most: usize) -> usize {
    if line.len() <= most {
        return line.len();
    }
    let member = |byte: &u8| b",;{}<>&".contains(byte);
    let word = |byte: &u8| byte.is_ascii_whitespace();
    let head = &line[..most];
    let found = head
        .iter()
        .rposition(member)
        .or_else(|| head.iter().rposition(word))
        .or_else(|| {
            let tail = &line[most..line.len().min(RUN)];
            tail.iter()
                .position(|byte| member(byte) || word(byte))
                .map(|at| most + at)
        });
    match found {
        Some(at) => at + 1,
        None => {
            let mut end = line.len().min(RUN);
            // Ends after a whole character.
            while end < line.len() && line[end] & 0xc0 == 0x80 {
                end += 1;
            }
            end
        }
    }
}

#[cfg(test)]
mod tests;
