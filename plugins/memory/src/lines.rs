//! Lines of a memory, and their display in a result.

use mimir_sdk::pieces;

/// A line of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Line number, from 1.
    pub(crate) number: usize,
    /// Byte offset in the text.
    pub(crate) at: usize,
    pub(crate) text: &'a str,
}

/// Iterates over the lines of a text, without line breaks.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0;
    text.split_inclusive('\n')
        .enumerate()
        .map(move |(line, whole)| {
            let begin = at;
            at += whole.len();
            Line {
                number: line + 1,
                at: begin,
                text: whole.trim_end_matches(['\n', '\r']),
            }
        })
}

/// Returns the text of a line for display without the lines before it. A line from the inside of a private key is
/// masked, because the host detects a key only by its first line.
pub(crate) fn without_key_material<'a>(text: &str, line: Line<'a>) -> &'a str {
    let bytes = line.text.as_bytes();
    if pieces::in_key(bytes) && pieces::opens_key(&text.as_bytes()[..line.at]) {
        return pieces::KEY_MARK;
    }
    line.text
}

/// Formats a count with its noun: `1 line`, `3 lines`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
