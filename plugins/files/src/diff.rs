//! What an edit changed, as hunks. The edit knows where it replaced, so nothing has to be compared
//! but the lines that it touched.

use std::fmt::Write;
use std::ops::Range;

use mimir_sdk::text;
use schemars::JsonSchema;
use serde::Serialize;

/// Lines shown around a change, as everybody's diff does.
const CONTEXT: usize = 3;

/// Most lines of all hunks together: a model reads a diff, and a longer one says no more.
pub const LINES_MAX: usize = 400;

/// Longest line in a diff, in characters.
const LINE_MAX: usize = 500;

/// The difference between two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// The changed places in their order.
    pub hunks: Vec<Hunk>,
    /// The same as a unified diff.
    pub unified: String,
    /// Whether more has changed than is shown.
    pub truncated: bool,
}

/// One changed place with a few lines around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// The first line of the hunk before the change, from 1.
    pub old_start: usize,
    /// How many lines it has before the change.
    pub old_lines: usize,
    /// The first line of the hunk after the change, from 1.
    pub new_start: usize,
    /// How many lines it has after the change.
    pub new_lines: usize,
    /// The lines, each with ` `, `-` or `+` before it.
    pub lines: Vec<String>,
}

/// A replaced piece: byte ranges before and after, in their order and apart from each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// In the old text.
    pub old: Range<usize>,
    /// In the new text.
    pub new: Range<usize>,
}

/// A text of lines. Where they begin is looked up and not kept: a file may have millions.
#[derive(Clone, Copy)]
struct Lines<'a>(&'a str);

impl<'a> Lines<'a> {
    /// Whether a line begins at `at`.
    fn begins(self, at: usize) -> bool {
        at == 0 || self.0.as_bytes()[at - 1] == b'\n'
    }

    /// Where the line begins that `at` is in.
    fn begin(self, at: usize) -> usize {
        memchr::memrchr(b'\n', &self.0.as_bytes()[..at]).map_or(0, |end| end + 1)
    }

    /// Where the line ends that `at` is in, its end included.
    fn end(self, at: usize) -> usize {
        memchr::memchr(b'\n', &self.0.as_bytes()[at..]).map_or(self.0.len(), |end| at + end + 1)
    }

    /// How many line ends there are in a byte range.
    fn ends(self, bytes: Range<usize>) -> usize {
        memchr::memchr_iter(b'\n', &self.0.as_bytes()[bytes]).count()
    }

    /// The lines in a byte range of whole lines, each with its end, so that a changed end is a change.
    fn within(self, bytes: Range<usize>) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0[bytes].split_inclusive('\n')
    }

    /// The byte range of the next lines from `at` on, and how many of the wanted ones there are.
    fn ahead(self, at: usize, wanted: usize) -> (Range<usize>, usize) {
        let (mut end, mut count) = (at, 0);
        while count < wanted && end < self.0.len() {
            end = self.end(end);
            count += 1;
        }
        (at..end, count)
    }
}

fn shown(line: &str, mark: char) -> String {
    let text = line.trim_end_matches(['\n', '\r']);
    match text.char_indices().nth(LINE_MAX) {
        Some((cut, _)) => format!("{mark}{}…", &text[..cut]),
        None => format!("{mark}{text}"),
    }
}

/// Whole lines of a text.
#[derive(Debug, Clone)]
struct Piece {
    bytes: Range<usize>,
    /// How many lines are before it.
    first: usize,
    lines: usize,
}

impl Piece {
    /// Takes off the first line, of so many bytes.
    fn drop_first(&mut self, bytes: usize) {
        self.bytes.start += bytes;
        self.first += 1;
        self.lines -= 1;
    }

    /// Takes off the last line, of so many bytes.
    fn drop_last(&mut self, bytes: usize) {
        self.bytes.end -= bytes;
        self.lines -= 1;
    }

    /// Its first lines.
    fn cut(&self, text: Lines<'_>, lines: usize) -> Self {
        let (bytes, lines) = text.ahead(self.bytes.start, lines.min(self.lines));
        Self {
            bytes,
            lines,
            first: self.first,
        }
    }
}

/// A block of lines that became another block.
#[derive(Debug, Clone)]
struct Block {
    old: Piece,
    new: Piece,
}

impl Block {
    fn lines(&self) -> usize {
        self.old.lines + self.new.lines
    }

    /// How many unchanged lines are between this one and the next.
    fn gap(&self, next: &Self) -> usize {
        next.old.first - (self.old.first + self.old.lines)
    }
}

/// The difference that replacing `spans` made.
pub fn diff(path: &str, old: &str, new: &str, spans: &[Span]) -> Diff {
    let (old, new) = (Lines(old), Lines(new));
    let side = |side: &str| text::name(&format!("{side}/{path}")).into_owned();
    let mut diff = Diff {
        unified: format!("--- {}\n+++ {}\n", side("a"), side("b")),
        ..Diff::default()
    };
    let blocks = blocks(old, new, spans);
    let mut room = LINES_MAX;
    // Changes whose context would touch share a hunk.
    for group in blocks.chunk_by(|a, b| a.gap(b) <= 2 * CONTEXT) {
        let Some((hunk, whole)) = fitting(old, new, group, room) else {
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
        room = room.saturating_sub(hunk.lines.len());
        diff.hunks.push(hunk);
        if !whole {
            diff.truncated = true;
            break;
        }
    }
    diff
}

/// As much of a group as there is room for, and whether that is all of it.
fn fitting(old: Lines<'_>, new: Lines<'_>, group: &[Block], room: usize) -> Option<(Hunk, bool)> {
    let mut size = 2 * CONTEXT;
    let fits = group
        .iter()
        .enumerate()
        .take_while(|(at, block)| {
            let gap = at.checked_sub(1).map_or(0, |last| group[last].gap(block));
            size += gap + block.lines();
            size <= room
        })
        .count();
    if fits == group.len() {
        return Some((hunk(old, new, group, true), true));
    }
    if fits > 0 {
        return Some((hunk(old, new, &group[..fits], false), false));
    }
    // A single large change: its beginning says more than nothing does, if nothing else is shown.
    let first = group.first().filter(|_| room == LINES_MAX)?;
    let half = (room - 2 * CONTEXT) / 2;
    let part = Block {
        old: first.old.cut(old, half),
        new: first.new.cut(new, half),
    };
    Some((hunk(old, new, &[part], false), false))
}

/// The spans grown to whole lines, on both sides by the same unchanged text; those that then touch
/// the same line are one.
fn whole_lines(old: Lines<'_>, new: Lines<'_>, spans: &[Span]) -> Vec<Span> {
    let mut grown: Vec<Span> = Vec::new();
    for span in spans {
        let end = if old.begins(span.old.end) && new.begins(span.new.end) {
            span.old.end
        } else {
            old.end(span.old.end)
        };
        let new_end = span.new.end + (end - span.old.end);
        let start = old.begin(span.old.start);
        match grown.last_mut() {
            Some(last) if start < last.old.end => {
                last.old.end = end;
                last.new.end = new_end;
            }
            _ => {
                let new_start = span.new.start - (span.old.start - start);
                grown.push(Span {
                    old: start..end,
                    new: new_start..new_end,
                });
            }
        }
    }
    grown
}

/// The changed lines, without those that came out equal.
fn blocks(old: Lines<'_>, new: Lines<'_>, spans: &[Span]) -> Vec<Block> {
    let (mut in_old, mut in_new) = (Counter::new(old), Counter::new(new));
    let mut blocks: Vec<Block> = whole_lines(old, new, spans)
        .into_iter()
        .map(|span| Block {
            old: in_old.piece(span.old),
            new: in_new.piece(span.new),
        })
        .collect();
    for block in &mut blocks {
        loop {
            let (a, b) = (&block.old.bytes, &block.new.bytes);
            match (old.within(a.clone()).next(), new.within(b.clone()).next()) {
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
                old.within(a.clone()).next_back(),
                new.within(b.clone()).next_back(),
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

    /// The whole lines in a byte range, which is behind the one before.
    fn piece(&mut self, bytes: Range<usize>) -> Piece {
        let first = self.line + self.text.ends(self.at..bytes.start);
        let ends = self.text.ends(bytes.clone());
        (self.at, self.line) = (bytes.end, first + ends);
        // The last line of a text need not have an end.
        let lines = ends + usize::from(!bytes.is_empty() && !self.text.begins(bytes.end));
        Piece {
            bytes,
            first,
            lines,
        }
    }
}

fn hunk(old: Lines<'_>, new: Lines<'_>, group: &[Block], context_after: bool) -> Hunk {
    let (first, last) = (&group[0], &group[group.len() - 1]);
    let before = first.old.first.min(first.new.first).min(CONTEXT);
    let mut at = (0..before).fold(first.old.bytes.start, |at, _| old.begin(at - 1));
    let wanted = if context_after { CONTEXT } else { 0 };
    let after = old.ahead(last.old.bytes.end, wanted).1;
    let after = after.min(new.ahead(last.new.bytes.end, wanted).1);
    let mut lines = Vec::new();
    for block in group {
        let same = old.within(at..block.old.bytes.start);
        lines.extend(same.map(|line| shown(line, ' ')));
        let gone = old.within(block.old.bytes.clone());
        lines.extend(gone.map(|line| shown(line, '-')));
        let come = new.within(block.new.bytes.clone());
        lines.extend(come.map(|line| shown(line, '+')));
        at = block.old.bytes.end;
    }
    let same = old.within(old.ahead(at, after).0);
    lines.extend(same.map(|line| shown(line, ' ')));
    let sides = |side: fn(&Block) -> &Piece| {
        let (first, last) = (side(first), side(last));
        let start = first.first - before;
        let lines = last.first + last.lines + after - start;
        // A side without lines is told by the line before it.
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
