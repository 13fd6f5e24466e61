//! Diff of an edit, as hunks. The positions of the replacements are known, so only the lines around them are compared.

use std::fmt::Write;
use std::ops::Range;

use mimir_sdk::text;
use schemars::JsonSchema;
use serde::Serialize;

/// Context lines around a change, as usual in diffs.
const CONTEXT: usize = 3;

/// Maximum number of lines of all hunks together: enough for a model to check an edit.
pub const MAX_LINES: usize = 400;

/// Maximum length of a line in a diff, in characters.
const MAX_LINE: usize = 500;

/// The difference between two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// The hunks in their order.
    pub hunks: Vec<Hunk>,
    /// The hunks as a unified diff.
    pub unified: String,
    /// True if some changes are not shown.
    pub truncated: bool,
}

/// A changed position with a few lines around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// First line of the hunk in the old text, from 1.
    pub old_start: usize,
    /// Number of lines of the hunk in the old text.
    pub old_lines: usize,
    /// First line of the hunk in the new text, from 1.
    pub new_start: usize,
    /// Number of lines of the hunk in the new text.
    pub new_lines: usize,
    /// The lines, each with ` `, `-` or `+` before it.
    pub lines: Vec<String>,
}

/// A replacement: byte ranges before and after. Spans are sorted and do not touch each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// In the old text.
    pub old: Range<usize>,
    /// In the new text.
    pub new: Range<usize>,
}

/// A text as lines. Line starts are searched for instead of stored, because a file may have millions of lines.
#[derive(Clone, Copy)]
struct Lines<'a>(&'a str);

impl<'a> Lines<'a> {
    /// Returns true if a line begins at `at`.
    fn is_line_start(self, at: usize) -> bool {
        at == 0 || self.0.as_bytes()[at - 1] == b'\n'
    }

    /// Returns the start of the line that contains `at`.
    fn line_start(self, at: usize) -> usize {
        memchr::memrchr(b'\n', &self.0.as_bytes()[..at]).map_or(0, |end| end + 1)
    }

    /// Returns the end of the line that contains `at`, after its line break.
    fn line_end(self, at: usize) -> usize {
        memchr::memchr(b'\n', &self.0.as_bytes()[at..]).map_or(self.0.len(), |end| at + end + 1)
    }

    /// Counts the line breaks in a byte range.
    fn count_breaks(self, bytes: Range<usize>) -> usize {
        memchr::memchr_iter(b'\n', &self.0.as_bytes()[bytes]).count()
    }

    /// Iterates over the lines in a byte range of whole lines. The lines include their line breaks, so that a changed
    /// line break counts as a change.
    fn lines_in(self, bytes: Range<usize>) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0[bytes].split_inclusive('\n')
    }

    /// Returns the byte range and the number of the next lines from `at` on, at most `wanted` lines.
    fn next_lines(self, at: usize, wanted: usize) -> (Range<usize>, usize) {
        let (mut end, mut count) = (at, 0);
        while count < wanted && end < self.0.len() {
            end = self.line_end(end);
            count += 1;
        }
        (at..end, count)
    }
}

fn format_line(line: &str, mark: char) -> String {
    let text = line.trim_end_matches(['\n', '\r']);
    match text.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{mark}{}…", &text[..end]),
        None => format!("{mark}{text}"),
    }
}

/// Whole lines of a text.
#[derive(Debug, Clone)]
struct LineRange {
    bytes: Range<usize>,
    /// Number of lines before the range.
    first: usize,
    lines: usize,
}

impl LineRange {
    /// Removes the first line, which has the given number of bytes.
    fn drop_first(&mut self, bytes: usize) {
        self.bytes.start += bytes;
        self.first += 1;
        self.lines -= 1;
    }

    /// Removes the last line, which has the given number of bytes.
    fn drop_last(&mut self, bytes: usize) {
        self.bytes.end -= bytes;
        self.lines -= 1;
    }

    /// Returns the range of the first `lines` lines.
    fn truncate(&self, text: Lines<'_>, lines: usize) -> Self {
        let (bytes, lines) = text.next_lines(self.bytes.start, lines.min(self.lines));
        Self {
            bytes,
            lines,
            first: self.first,
        }
    }
}

/// A block of changed lines, in the old and in the new text.
#[derive(Debug, Clone)]
struct Block {
    old: LineRange,
    new: LineRange,
}

impl Block {
    fn lines(&self) -> usize {
        self.old.lines + self.new.lines
    }

    /// Returns the number of unchanged lines between this block and the next.
    fn gap(&self, next: &Self) -> usize {
        next.old.first - (self.old.first + self.old.lines)
    }
}

/// Builds the diff between `old` and `new`, which differ in `spans`.
pub fn diff(path: &str, old: &str, new: &str, spans: &[Span]) -> Diff {
    let (old, new) = (Lines(old), Lines(new));
    let side = |side: &str| text::name(&format!("{side}/{path}")).into_owned();
    let mut diff = Diff {
        unified: format!("--- {}\n+++ {}\n", side("a"), side("b")),
        ..Diff::default()
    };
    let blocks = blocks(old, new, spans);
    let mut remaining = MAX_LINES;
    // Changes whose context would touch share a hunk.
    for group in blocks.chunk_by(|a, b| a.gap(b) <= 2 * CONTEXT) {
        let Some((hunk, whole)) = fit_hunk(old, new, group, remaining) else {
            diff.truncated = true;
            break;
        };
        let _ = writeln!(
            diff.unified,
            "@@ -{},{} +{},{} @@",
            hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines
        );
        for line in &hunk.lines {
            diff.unified.push_str(line);
            diff.unified.push('\n');
        }
        remaining = remaining.saturating_sub(hunk.lines.len());
        diff.hunks.push(hunk);
        if !whole {
            diff.truncated = true;
            break;
        }
    }
    diff
}

/// Builds a hunk for a group of blocks with at most `remaining` lines, or `None` if no block fits. The flag is true if
/// the whole group fits.
fn fit_hunk(
    old: Lines<'_>,
    new: Lines<'_>,
    group: &[Block],
    remaining: usize,
) -> Option<(Hunk, bool)> {
    let mut size = 2 * CONTEXT;
    let fits = group
        .iter()
        .enumerate()
        .take_while(|(at, block)| {
            let gap = at.checked_sub(1).map_or(0, |last| group[last].gap(block));
            size += gap + block.lines();
            size <= remaining
        })
        .count();
    if fits == group.len() {
        return Some((hunk(old, new, group, true), true));
    }
    if fits > 0 {
        return Some((hunk(old, new, &group[..fits], false), false));
    }
    // If even the first block does not fit, its beginning is shown, but only as the first hunk.
    let first = group.first().filter(|_| remaining == MAX_LINES)?;
    let half = (remaining - 2 * CONTEXT) / 2;
    let part = Block {
        old: first.old.truncate(old, half),
        new: first.new.truncate(new, half),
    };
    Some((hunk(old, new, &[part], false), false))
}

/// Extends the spans to whole lines, by the same unchanged text in both texts, and merges spans that share a line.
fn whole_lines(old: Lines<'_>, new: Lines<'_>, spans: &[Span]) -> Vec<Span> {
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        let end = if old.is_line_start(span.old.end) && new.is_line_start(span.new.end) {
            span.old.end
        } else {
            old.line_end(span.old.end)
        };
        let new_end = span.new.end + (end - span.old.end);
        let start = old.line_start(span.old.start);
        match merged.last_mut() {
            Some(last) if start < last.old.end => {
                last.old.end = end;
                last.new.end = new_end;
            }
            _ => {
                let new_start = span.new.start - (span.old.start - start);
                merged.push(Span {
                    old: start..end,
                    new: new_start..new_end,
                });
            }
        }
    }
    merged
}

/// Returns the blocks of changed lines, without equal lines at their beginning and end.
fn blocks(old: Lines<'_>, new: Lines<'_>, spans: &[Span]) -> Vec<Block> {
    let (mut in_old, mut in_new) = (Counter::new(old), Counter::new(new));
    let mut blocks: Vec<Block> = whole_lines(old, new, spans)
        .into_iter()
        .map(|span| Block {
            old: in_old.line_range(span.old),
            new: in_new.line_range(span.new),
        })
        .collect();
    for block in &mut blocks {
        loop {
            let (a, b) = (&block.old.bytes, &block.new.bytes);
            match (
                old.lines_in(a.clone()).next(),
                new.lines_in(b.clone()).next(),
            ) {
                (Some(a), Some(b)) if a == b => {
                    block.old.drop_first(a.len());
                    block.new.drop_first(b.len());
                }
                _ => break,
            }
        }
        loop {
            let (a, b) = (&block.old.bytes, &block.new.bytes);
            match (
                old.lines_in(a.clone()).next_back(),
                new.lines_in(b.clone()).next_back(),
            ) {
                (Some(a), Some(b)) if a == b => {
                    block.old.drop_last(a.len());
                    block.new.drop_last(b.len());
                }
                _ => break,
            }
        }
    }
    blocks.retain(|block| block.lines() > 0);
    blocks
}

/// Numbers the lines of a text from its beginning to its end.
struct Counter<'a> {
    text: Lines<'a>,
    at: usize,
    line: usize,
}

impl<'a> Counter<'a> {
    fn new(text: Lines<'a>) -> Self {
        Self {
            text,
            at: 0,
            line: 0,
        }
    }

    /// Returns the whole lines in a byte range, which must come after the range of the previous call.
    fn line_range(&mut self, bytes: Range<usize>) -> LineRange {
        let first = self.line + self.text.count_breaks(self.at..bytes.start);
        let ends = self.text.count_breaks(bytes.clone());
        (self.at, self.line) = (bytes.end, first + ends);
        // The last line of a text may have no line break.
        let lines = ends + usize::from(!bytes.is_empty() && !self.text.is_line_start(bytes.end));
        LineRange {
            bytes,
            first,
            lines,
        }
    }
}

fn hunk(old: Lines<'_>, new: Lines<'_>, group: &[Block], context_after: bool) -> Hunk {
    let (first, last) = (&group[0], &group[group.len() - 1]);
    let before = first.old.first.min(first.new.first).min(CONTEXT);
    let mut at = (0..before).fold(first.old.bytes.start, |at, _| old.line_start(at - 1));
    let wanted = if context_after { CONTEXT } else { 0 };
    let after = old.next_lines(last.old.bytes.end, wanted).1;
    let after = after.min(new.next_lines(last.new.bytes.end, wanted).1);
    let mut lines = Vec::new();
    for block in group {
        let context = old.lines_in(at..block.old.bytes.start);
        lines.extend(context.map(|line| format_line(line, ' ')));
        let removed = old.lines_in(block.old.bytes.clone());
        lines.extend(removed.map(|line| format_line(line, '-')));
        let added = new.lines_in(block.new.bytes.clone());
        lines.extend(added.map(|line| format_line(line, '+')));
        at = block.old.bytes.end;
    }
    let context = old.lines_in(old.next_lines(at, after).0);
    lines.extend(context.map(|line| format_line(line, ' ')));
    let sides = |side: fn(&Block) -> &LineRange| {
        let (first, last) = (side(first), side(last));
        let start = first.first - before;
        let lines = last.first + last.lines + after - start;
        // An empty side is numbered by the line before it, as in unified diffs.
        (start + usize::from(lines > 0), lines)
    };
    let (old_start, old_lines) = sides(|block| &block.old);
    let (new_start, new_lines) = sides(|block| &block.new);
    Hunk {
        old_start,
        old_lines,
        new_start,
        new_lines,
        lines,
    }
}

#[cfg(test)]
mod tests;
