//! What an edit changed, as hunks. The edit knows where it replaced, so nothing has to be compared
//! but the lines that it touched.

use std::fmt::Write;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

/// Lines shown around a change, as everybody's diff does.
const CONTEXT: usize = 3;

/// Most lines of all hunks together: a model reads a diff, and a longer one says no more.
const LINES_MAX: usize = 400;

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
    /// Whether there are more hunks than are shown.
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

/// A text with its lines.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let mut starts: Vec<usize> = std::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1))
            .collect();
        // What ends with a line end has no further, empty line.
        if starts.last() == Some(&text.len()) {
            starts.pop();
        }
        Self { text, starts }
    }

    fn count(&self) -> usize {
        self.starts.len()
    }

    /// Whether a line begins at `at`.
    fn begins(&self, at: usize) -> bool {
        at == 0 || self.text.as_bytes()[at - 1] == b'\n'
    }

    /// Where the line begins that `at` is in.
    fn begin(&self, at: usize) -> usize {
        memchr::memrchr(b'\n', &self.text.as_bytes()[..at]).map_or(0, |end| end + 1)
    }

    /// Where the line ends that `at` is in, its end included.
    fn end(&self, at: usize) -> usize {
        memchr::memchr(b'\n', &self.text.as_bytes()[at..])
            .map_or(self.text.len(), |end| at + end + 1)
    }

    /// The lines in a byte range of whole lines.
    fn numbers(&self, bytes: &Range<usize>) -> Range<usize> {
        let line = |at: usize| self.starts.partition_point(|&start| start < at);
        line(bytes.start)..line(bytes.end)
    }

    /// A line with its end, so that a changed end is a change.
    fn raw(&self, line: usize) -> &'a str {
        let end = self
            .starts
            .get(line + 1)
            .copied()
            .unwrap_or(self.text.len());
        &self.text[self.starts[line]..end]
    }

    fn shown(&self, line: usize, mark: char) -> String {
        let text = self.raw(line).trim_end_matches(['\n', '\r']);
        match text.char_indices().nth(LINE_MAX) {
            Some((cut, _)) => format!("{mark}{}…", &text[..cut]),
            None => format!("{mark}{text}"),
        }
    }
}

/// A block of lines that became another block.
#[derive(Debug, Clone)]
struct Block {
    old: Range<usize>,
    new: Range<usize>,
}

/// The difference that replacing `spans` made.
pub fn diff(path: &str, old: &str, new: &str, spans: &[Span]) -> Diff {
    let (old, new) = (Lines::of(old), Lines::of(new));
    let mut diff = Diff {
        unified: format!("--- a/{path}\n+++ b/{path}\n"),
        ..Diff::default()
    };
    let blocks = blocks(&old, &new, spans);
    let mut shown = 0;
    for group in groups(&blocks) {
        let hunk = hunk(&old, &new, group);
        shown += hunk.lines.len();
        if shown > LINES_MAX {
            diff.truncated = true;
            break;
        }
        let _ = writeln!(
            diff.unified,
            "@@ -{},{} +{},{} @@",
            hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines
        );
        for line in &hunk.lines {
            diff.unified.push_str(line);
            diff.unified.push('\n');
        }
        diff.hunks.push(hunk);
    }
    diff
}

/// The spans grown to whole lines, on both sides by the same unchanged text; those that then touch
/// the same line are one.
fn whole_lines(old: &Lines<'_>, new: &Lines<'_>, spans: &[Span]) -> Vec<Span> {
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
fn blocks(old: &Lines<'_>, new: &Lines<'_>, spans: &[Span]) -> Vec<Block> {
    let mut blocks: Vec<Block> = whole_lines(old, new, spans)
        .iter()
        .map(|span| Block {
            old: old.numbers(&span.old),
            new: new.numbers(&span.new),
        })
        .collect();
    for block in &mut blocks {
        while block.old.start < block.old.end
            && block.new.start < block.new.end
            && old.raw(block.old.start) == new.raw(block.new.start)
        {
            block.old.start += 1;
            block.new.start += 1;
        }
        while block.old.start < block.old.end
            && block.new.start < block.new.end
            && old.raw(block.old.end - 1) == new.raw(block.new.end - 1)
        {
            block.old.end -= 1;
            block.new.end -= 1;
        }
    }
    blocks.retain(|block| !block.old.is_empty() || !block.new.is_empty());
    blocks
}

/// Changes whose context would touch share a hunk.
fn groups(blocks: &[Block]) -> impl Iterator<Item = &[Block]> {
    blocks.chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT)
}

fn hunk(old: &Lines<'_>, new: &Lines<'_>, group: &[Block]) -> Hunk {
    let (first, last) = (&group[0], &group[group.len() - 1]);
    let before = first.old.start.min(first.new.start).min(CONTEXT);
    let after = (old.count() - last.old.end)
        .min(new.count() - last.new.end)
        .min(CONTEXT);
    let mut lines = Vec::new();
    let mut at = first.old.start - before;
    for block in group {
        lines.extend((at..block.old.start).map(|line| old.shown(line, ' ')));
        lines.extend(block.old.clone().map(|line| old.shown(line, '-')));
        lines.extend(block.new.clone().map(|line| new.shown(line, '+')));
        at = block.old.end;
    }
    lines.extend((at..at + after).map(|line| old.shown(line, ' ')));
    let old_lines = last.old.end + after - (first.old.start - before);
    let new_lines = last.new.end + after - (first.new.start - before);
    Hunk {
        // A side without lines is told by the line before it.
        old_start: first.old.start - before + usize::from(old_lines > 0),
        old_lines,
        new_start: first.new.start - before + usize::from(new_lines > 0),
        new_lines,
        lines,
    }
}

#[cfg(test)]
mod tests;
