//! Joining of texts that are split by their format, namely consecutive JSON strings and hex dumps, to search them for
//! known values.

use std::ops::Range;

use super::invisible::StrippedText;

/// Maximum length of a key between two JSON strings, in bytes.
const KEY_MAX: usize = 64;

/// Maximum number of other object members between two strings.
const MEMBERS_MAX: usize = 8;

/// Joins the strings of a JSON text by removing the bytes between them. Strings are joined only if `may_continue`
/// returns true for the last byte of one and the first byte of the next. Returns `None` if no strings are joined.
pub(super) fn join_strings(
    text: &[u8],
    may_continue: impl Fn(u8, u8) -> bool,
) -> Option<StrippedText> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].iter().position(|byte| *byte == b'"') {
        let quote = at + next;
        at = quote + 1;
        if let Some(end) = next_string(text, at) {
            // Inside a JSON string, the quote has backslashes.
            let slashes = text[..quote]
                .iter()
                .rev()
                .take_while(|byte| **byte == b'\\')
                .count();
            if may_continue_in(&text[..quote - slashes], &text[end..], &may_continue) {
                parts.push(quote - slashes..end);
            }
            at = end;
        }
    }
    (!parts.is_empty()).then(|| StrippedText::new(text, parts.into_iter()))
}

/// Returns true if a value may continue from one string to the next. Escapes and empty strings may hide the adjacent
/// bytes.
fn may_continue_in(before: &[u8], after: &[u8], may_continue: impl Fn(u8, u8) -> bool) -> bool {
    let may_begin_escape = |byte: &u8| matches!(byte, b'%' | b'&' | b'\\');
    let mut end = before;
    while let [rest @ .., b'\\', b'n' | b'r'] = end {
        end = rest;
    }
    let (Some(last), Some(first)) = (end.last(), after.first()) else {
        return false;
    };
    may_continue(*last, *first)
        || *last == b'"'
        || *first == b'"'
        || may_begin_escape(first)
        || end.iter().rev().take(6).any(may_begin_escape)
}

/// Returns the start of the string that follows the string that ends at `at`. Keys, numbers and brackets may be between
/// the two.
fn next_string(text: &[u8], mut at: usize) -> Option<usize> {
    let mut has_comma = false;
    for _ in 0..MEMBERS_MAX {
        while let Some(byte) = text.get(at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b'[' | b']' | b'{' | b'}' => at += 1,
                b',' => {
                    has_comma = true;
                    at += 1;
                }
                // A line end inside a JSON string.
                b'\\' if matches!(text.get(at + 1), Some(b'n' | b't' | b'r')) => at += 2,
                _ => break,
            }
        }
        let start = string_start(text, at)?;
        if !has_comma {
            return None;
        }
        let Some(value) = value_of_key(text, start) else {
            return Some(start);
        };
        if let Some(start) = string_start(text, value) {
            return Some(start);
        }
        let is_scalar =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        at = value
            + text[value..]
                .iter()
                .take(KEY_MAX)
                .take_while(is_scalar)
                .count();
    }
    None
}

/// Returns the start of the text of a string whose quote is at `at`.
fn string_start(text: &[u8], at: usize) -> Option<usize> {
    let slashes = text
        .get(at..)?
        .iter()
        .take_while(|byte| **byte == b'\\')
        .count();
    (text.get(at + slashes) == Some(&b'"')).then_some(at + slashes + 1)
}

/// Returns the start of the value of the key whose text begins at `start`, or `None` if the string is not a key.
fn value_of_key(text: &[u8], start: usize) -> Option<usize> {
    let near = &text[start..text.len().min(start + KEY_MAX)];
    let quote = start + near.iter().position(|byte| *byte == b'"')?;
    let mut at = quote + 1;
    let count_spaces = |at: usize| {
        text[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count()
    };
    at += count_spaces(at);
    if text.get(at) != Some(&b':') {
        return None;
    }
    at += 1;
    Some(at + count_spaces(at))
}

/// A line of a hex dump.
struct HexDumpLine {
    /// The groups of digits.
    digits: Vec<Range<usize>>,
    /// The column of characters after the digits.
    characters: Option<Range<usize>>,
}

/// Maximum number of hex digits in a group.
const GROUP_MAX: usize = 16;

/// Minimum number of digit pairs in a line of a dump without offsets.
const PAIRS_MIN: usize = 4;

/// Joins the digits of the hex dumps in a text, and their columns of characters. Each is `None` if the text has none.
pub(super) fn join_dumps(text: &[u8]) -> [Option<StrippedText>; 2] {
    let (mut digits, mut characters) = (Vec::new(), Vec::new());
    let mut start = 0;
    let mut may_continue = false;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let dump = dump_line(line, may_continue);
        may_continue = dump.is_some();
        if let Some(dump) = dump {
            let moved = |at: Range<usize>| at.start + start..at.end + start;
            digits.extend(dump.digits.into_iter().map(moved));
            characters.extend(dump.characters.map(moved));
        }
        start += line.len();
    }
    [digits, characters].map(|ranges| {
        (!ranges.is_empty()).then(|| StrippedText::new(text, gaps(ranges, text.len())))
    })
}

/// Returns the gaps before, between and after ranges.
fn gaps(ranges: Vec<Range<usize>>, end: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(ranges.clone().into_iter().map(|at| at.end));
    let ends = ranges.into_iter().map(|at| at.start).chain([end]);
    starts
        .zip(ends)
        .map(|(start, end)| start..end)
        .filter(|gap| !gap.is_empty())
}

/// Parses a line of a dump: with an offset, as `xxd` and `hexdump` write it, or as pairs separated by spaces or
/// colons, as `openssl` and `od` do. `may_continue` is true if the previous line belongs to a dump.
fn dump_line(line: &[u8], may_continue: bool) -> Option<HexDumpLine> {
    let line = line.trim_ascii_end();
    let indent = line
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    let offset = hex_digits(line, indent);
    let rest = line.get(indent + offset..).unwrap_or_default();
    let at = match rest {
        [b':', b' ', ..] if (4..=GROUP_MAX).contains(&offset) => Some(indent + offset + 2),
        [b' ', b' ', ..] if (6..=GROUP_MAX).contains(&offset) => Some(indent + offset + 2),
        _ => None,
    };
    if let Some(at) = at {
        let (digits, end) = groups(line, at, GROUP_MAX);
        if digits.is_empty() {
            return None;
        }
        let is_frame = |byte: &u8| matches!(byte, b' ' | b'|');
        let from = end + line[end..].iter().take_while(|byte| is_frame(byte)).count();
        let to = line.len() - usize::from(from < line.len() && line.ends_with(b"|"));
        return Some(HexDumpLine {
            digits,
            characters: (from < to).then_some(from..to),
        });
    }
    let (digits, _) = groups(line, indent, 4);
    let pairs: usize = digits.iter().map(|at| at.len() / 2).sum();
    if digits.len() >= 2 && pairs >= PAIRS_MIN || may_continue && !digits.is_empty() {
        return Some(HexDumpLine {
            digits,
            characters: None,
        });
    }
    inline_pairs(line).map(|digits| HexDumpLine {
        digits,
        characters: None,
    })
}

/// Returns digit pairs inside a line, such as `Key: 6d:79:2d:6f` or `{0x6d, 0x79, 0x2d, 0x6f}`.
fn inline_pairs(line: &[u8]) -> Option<Vec<Range<usize>>> {
    let is_pair = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    let is_between = |byte: u8| matches!(byte, b' ' | b':' | b'-');
    // The separators are checked first, because that excludes nearly every position.
    let is_start = |at: usize, near: &[u8]| {
        is_between(near[2])
            && is_between(near[5])
            && is_between(near[8])
            && [0, 3, 6, 9]
                .iter()
                .all(|pair| is_pair(&near[*pair..pair + 2]))
            && (at == 0 || !line[at - 1].is_ascii_alphanumeric())
    };
    let mut windows = line.windows(3 * PAIRS_MIN - 1).enumerate();
    let separated = windows
        .find(|(at, near)| is_start(*at, near))
        .map(|(at, _)| at);
    let prefixed = || {
        let mut windows = line.windows(4).enumerate();
        let pair = windows.find(|(_, near)| near.starts_with(b"0x") && is_pair(&near[2..]));
        pair.map(|(at, _)| at + 2)
    };
    let (digits, _) = groups(line, separated.or_else(prefixed)?, 2);
    (digits.len() >= PAIRS_MIN).then_some(digits)
}

/// Returns the groups of digits from `at` on, and the offset after them.
fn groups(line: &[u8], mut at: usize, max: usize) -> (Vec<Range<usize>>, usize) {
    let mut groups: Vec<Range<usize>> = Vec::new();
    loop {
        let length = hex_digits(line, at);
        if length == 0 || length % 2 == 1 || length > max {
            let end = groups.last().map_or(at, |last| last.end);
            return (groups, end);
        }
        groups.push(at..at + length);
        at += length;
        at += match line.get(at..).unwrap_or_default() {
            [b',', b' ', b'0', b'x', ..] => 4,
            [b',', b'0', b'x', ..] => 3,
            [b' ', b' ', next, ..] if next.is_ascii_hexdigit() => 2,
            [b' ' | b':' | b'-', ..] => 1,
            _ => return (groups, at),
        };
    }
}

/// Returns the number of hex digits from `at` on.
fn hex_digits(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or_default().iter();
    rest.take(GROUP_MAX + 1)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count()
}
