//! Chunks of a longer text, cut so that no secret is split.
//!
//! The host redacts the secrets in results, but it recognizes a secret only if the secret is complete and next to the
//! words that identify it. The caller of a tool that returns parts of a text chooses where a part begins: without this
//! module, a caller could read a token in two halves, and a private key line by line.
//!
//! Out of scope: detecting secrets, except for the first and last lines of private keys. The host has rules for that.

use std::borrow::Cow;
use std::iter::successors;
use std::ops::Range;

/// Length in bytes up to which a run of characters without a gap is never split: longer than any token.
const MAX_TOKEN: usize = 4096;

/// Length in bytes up to which [`piece`] never splits a line.
const MAX_LINE: usize = 1000;

/// Length in bytes up to which a private key is never split: several times the longest key in use.
pub const KEY: usize = 32 << 10;

/// Length in bytes from which a line of a private key reveals anything about the key.
const MIN_KEY_LINE: usize = 16;

/// Characters that surround the lines of a quoted, escaped or commented private key.
const QUOTES: &[u8] = b" \t\r\n\"'>|#*+,;\\";

/// Returns the byte range of a part of `text` that begins at about `from` and has about `max_bytes` bytes.
///
/// The part begins and ends at line ends; in a long line, between two members or words; never inside a private key. It
/// may therefore begin before `from`, and exceeds `max_bytes` where no cut is allowed. To read on, pass the end of the
/// range as `from`. The range is empty only at the end of the text.
///
/// ```
/// use mimir_sdk::pieces::piece;
///
/// let text = "one\ntoken = abcdef\nthree\n";
/// assert_eq!(&text[piece(text, 14, 5)], "token = abcdef\n");
/// assert_eq!(&text[piece(text, 19, 100)], "three\n");
/// ```
pub fn piece(text: &str, from: usize, max_bytes: usize) -> Range<usize> {
    if from >= text.len() {
        return text.len()..text.len();
    }
    let target_end = from.saturating_add(max_bytes);
    let bytes = text.as_bytes();
    let (mut start, mut end) = (0, 0);
    for cut_at in successors(Some(0), |at| {
        (*at < bytes.len()).then(|| next_cut(bytes, *at))
    }) {
        if cut_at <= from {
            start = cut_at;
        }
        if cut_at > start && (cut_at <= target_end || end <= start) {
            end = cut_at;
        }
        if cut_at >= target_end && end > start {
            break;
        }
    }
    start..end
}

/// Returns the byte range of an excerpt of a line around the byte `at`, with about `max_bytes` bytes.
///
/// ```
/// let line = r#"{"user": "ann", "token": "abcdef"}"#;
/// assert_eq!(&line[mimir_sdk::pieces::excerpt(line, 28, 24)], r#""token": "abcdef"}"#);
/// ```
pub fn excerpt(line: &str, at: usize, max_bytes: usize) -> Range<usize> {
    let bytes = line.as_bytes();
    if bytes.len() <= max_bytes {
        return 0..bytes.len();
    }
    let cuts = successors(Some(0), |from| {
        (*from < bytes.len()).then(|| from + unsplit_prefix(&bytes[*from..], max_bytes / 4))
    });
    // At most a quarter of the excerpt comes before `at`, so that the excerpt contains the match.
    let (mut start, mut before, mut end) = (0, 0, 0);
    for cut_at in cuts {
        if cut_at <= at {
            (before, start) = (start, cut_at);
            end = cut_at;
        } else if end <= at || cut_at - before <= max_bytes {
            end = cut_at;
        } else {
            break;
        }
    }
    if end - before <= max_bytes {
        return before..end;
    }
    if end - start < MAX_TOKEN {
        return start..end;
    }
    // A run of this length is not a token, so a part of the run reveals no secret.
    let run_start = if start - before < MAX_TOKEN {
        start
    } else {
        before
    };
    let start_at = line.floor_char_boundary(at.saturating_sub(max_bytes / 4).max(run_start));
    start_at..line.floor_char_boundary((start_at + max_bytes).min(end))
}

/// Returns true if a private key begins in `before` and does not end there. Pass up to [`KEY`] bytes before the lines
/// to show, if the first of these lines [may be](in_key) part of a key.
pub fn opens_key(before: &[u8]) -> bool {
    let before = &before[before.len().saturating_sub(KEY)..];
    match memchr::memmem::rfind(before, BEGIN) {
        Some(at) => is_private_key_frame(&before[at..]) && key_end(before, at).is_none(),
        None => false,
    }
}

/// Returns true if a line looks like part of a private key: at least 16 characters of base64 only, or the END line.
pub fn in_key(line: &[u8]) -> bool {
    let inner = line.trim_ascii();
    let inner = trim_quotes(inner);
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=\\".contains(byte);
    inner.len() >= MIN_KEY_LINE && inner.iter().all(is_base64) || ends_key(line)
}

/// Returns true if a private key ends in this line.
pub fn ends_key(line: &[u8]) -> bool {
    memchr::memmem::find(line, END).is_some_and(|at| is_private_key_frame(&line[at..]))
}

/// Masks the lines of all private keys in a text, from the first line of a key to its last. Each line becomes a
/// [mark](KEY_MARK), so lines keep their numbers. For a whole text of which only some lines are shown.
///
/// ```
/// use mimir_sdk::pieces::{KEY_MARK, mask_keys};
///
/// let text = "a\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nb\n";
/// assert_eq!(mask_keys(text), format!("a\n{KEY_MARK}\n{KEY_MARK}\n{KEY_MARK}\nb\n"));
/// ```
pub fn mask_keys(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    if memchr::memmem::find(bytes, BEGIN).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    // Ends of the last complete key, and of the range after a BEGIN line that may belong to a key without an end.
    let (mut at, mut key_until, mut open_until) = (0usize, 0usize, 0usize);
    for line in text.split_inclusive('\n') {
        let line_at = at;
        at += line.len();
        for begin in memchr::memmem::find_iter(line.as_bytes(), BEGIN) {
            if !is_private_key_frame(&line.as_bytes()[begin..]) {
                continue;
            }
            match key_end(bytes, line_at + begin) {
                Some(end) => key_until = key_until.max(end),
                None => open_until = line_at + begin + KEY,
            }
        }
        let is_key = line_at < key_until || (line_at < open_until && in_key(line.as_bytes()));
        let content = line.trim_end_matches(['\n', '\r']);
        if is_key && !content.trim().is_empty() {
            out.push_str(KEY_MARK);
            out.push_str(&line[content.len()..]);
        } else {
            out.push_str(line);
        }
    }
    Cow::Owned(out)
}

/// Replacement for a line of a private key whose BEGIN line is not shown.
pub const KEY_MARK: &str = "[REDACTED:private-key]";

const BEGIN: &[u8] = b"-----BEGIN";
const END: &[u8] = b"-----END";

/// Returns true if a BEGIN or END line is that of a private key, not of a certificate.
fn is_private_key_frame(text: &[u8]) -> bool {
    let name = &text[..text.len().min(120)];
    let name = name.split(|byte| *byte == b'\n').next().unwrap_or(name);
    memchr::memmem::find(name, b"PRIVATE KEY").is_some()
}

fn trim_quotes(line: &[u8]) -> &[u8] {
    let is_content = |byte: &u8| !QUOTES.contains(byte);
    match (
        line.iter().position(is_content),
        line.iter().rposition(is_content),
    ) {
        (Some(first), Some(last)) => &line[first..=last],
        _ => &[],
    }
}

/// Returns the end of the private key that begins at `at`, or `None` if it does not end within [`KEY`] bytes.
fn key_end(text: &[u8], at: usize) -> Option<usize> {
    let candidate = &text[at..text.len().min(at + KEY)];
    let end = memchr::memmem::find(candidate, END)?;
    Some(at + end + END.len())
}

/// Returns the next allowed cut after `at`, which must itself be an allowed cut before the end of the text.
fn next_cut(text: &[u8], at: usize) -> usize {
    let mut end = line_end(text, at);
    if end - at > MAX_LINE {
        end = at + unsplit_prefix(&text[at..end], MAX_LINE);
    }
    let key_begin = memchr::memmem::find(&text[at..end], BEGIN);
    match key_begin.filter(|begin| is_private_key_frame(&text[at + begin..])) {
        Some(begin) => match key_end(text, at + begin) {
            Some(key_end_at) if key_end_at > end => {
                let rest = line_end(text, key_end_at);
                key_end_at + unsplit_prefix(&text[key_end_at..rest], MAX_LINE)
            }
            _ => end,
        },
        None => end,
    }
}

fn line_end(text: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1)
}

/// Returns the length of the first part of a line, about `max_bytes` bytes. The part ends after a member or else after
/// a word; a run with neither is cut at [`MAX_TOKEN`] bytes.
fn unsplit_prefix(line: &[u8], max_bytes: usize) -> usize {
    if line.len() <= max_bytes {
        return line.len();
    }
    let ends_member = |byte: &u8| b",;{}<>&".contains(byte);
    let ends_word = |byte: &u8| byte.is_ascii_whitespace();
    let head = &line[..max_bytes];
    let position = head
        .iter()
        .rposition(ends_member)
        .or_else(|| head.iter().rposition(ends_word))
        .or_else(|| {
            let tail = &line[max_bytes..line.len().min(MAX_TOKEN)];
            tail.iter()
                .position(|byte| ends_member(byte) || ends_word(byte))
                .map(|at| max_bytes + at)
        });
    match position {
        Some(at) => at + 1,
        None => {
            let mut end = line.len().min(MAX_TOKEN);
            // Moves on to a character boundary.
            while end < line.len() && line[end] & 0xc0 == 0x80 {
                end += 1;
            }
            end
        }
    }
}

#[cfg(test)]
mod tests;
