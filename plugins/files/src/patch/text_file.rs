//! Applies hunks to the text of a file.

use std::borrow::Cow;
use std::collections::HashSet;

use mimir_patch::{HunkLine, LineKind, PatchHunk};
use mimir_sdk::pieces;

use super::matching::{HunkMatch, HunkMismatch, HunkSearch, IndentChange, LineComparison};

/// The text of a file as lines without line breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    lines: Vec<Cow<'static, str>>,
    /// True if the line breaks are CRLF.
    crlf: bool,
    /// True if the last line has a line break.
    ends_with_newline: bool,
}

/// A hunk that was applied.
#[derive(Debug, PartialEq, Eq)]
pub struct AppliedHunk {
    /// Deviations from the text of the patch, in words; empty for an exact match.
    pub notes: Vec<String>,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
}

/// A hunk that does not match the file.
#[derive(Debug, PartialEq, Eq)]
pub struct RejectedHunk {
    /// Number of the hunk in its file, from 1.
    pub number: usize,
    /// The reason.
    pub mismatch: HunkMismatch,
    /// True if the new lines of the hunk are in the file.
    pub already_applied: bool,
}

impl FileText {
    /// Reads a text. The line breaks count as CRLF if all of them are.
    pub fn new(text: &str) -> Self {
        let breaks = text.matches('\n').count();
        let crlf = breaks > 0 && text.matches("\r\n").count() == breaks;
        let ends_with_newline = text.is_empty() || text.ends_with('\n');
        let body = text.strip_suffix('\n').unwrap_or(text);
        let lines = if text.is_empty() {
            Vec::new()
        } else {
            body.split('\n')
                .map(|line| match line.strip_suffix('\r') {
                    Some(line) if crlf => line.to_owned().into(),
                    _ => line.to_owned().into(),
                })
                .collect()
        };
        Self {
            lines,
            crlf,
            ends_with_newline,
        }
    }

    /// Builds the text of a new file from the added lines of a hunk.
    pub fn from_added(hunk: Option<&PatchHunk>) -> Self {
        let lines = hunk.map_or(&[][..], |hunk| &hunk.lines);
        Self {
            ends_with_newline: !lines.last().is_some_and(|line| line.no_newline),
            crlf: false,
            lines: lines
                .iter()
                .map(|line| Cow::Owned(line.text.clone()))
                .collect(),
        }
    }

    /// Returns the text with its own line breaks.
    pub fn to_text(&self) -> String {
        let line_break = if self.crlf { "\r\n" } else { "\n" };
        let mut text = self.lines.join(line_break);
        if self.ends_with_newline && !self.lines.is_empty() {
            text.push_str(line_break);
        }
        text
    }

    /// Returns lines of the file, from an index on.
    pub fn lines_from(&self, from: usize, count: usize) -> &[Cow<'static, str>] {
        let from = from.min(self.lines.len());
        &self.lines[from..(from + count).min(self.lines.len())]
    }

    /// Returns a copy to show, with the lines of private keys masked. `old` is the text before the hunks, because a hunk
    /// may remove the line that begins a key.
    pub fn mask_keys(&self, old: &str) -> Self {
        let masked = pieces::mask_keys(old);
        let key_lines: HashSet<&str> = old
            .lines()
            .zip(masked.lines())
            .filter(|(line, shown)| line != shown)
            .map(|(line, _)| line)
            .collect();
        let mut copy = self.clone();
        for line in &mut copy.lines {
            let content: &str = line;
            let content = content.strip_suffix('\r').unwrap_or(content);
            if key_lines.contains(content) {
                *line = Cow::Borrowed(pieces::KEY_MARK);
            }
        }
        copy
    }

    /// Returns the number of lines.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Applies hunks. Returns all hunks that do not match, and then the text is not complete.
    pub fn apply(&mut self, hunks: &[PatchHunk]) -> Result<Vec<AppliedHunk>, Vec<RejectedHunk>> {
        let (mut applied, mut rejected) = (Vec::new(), Vec::new());
        // Difference between a line in the old file and the same line now, and the end of the previous hunk.
        let (mut growth, mut cursor, mut offset) = (0isize, 0usize, 0isize);
        for (number, hunk) in (1..).zip(hunks) {
            let hunk = self.adapt_line_breaks(hunk);
            let search = HunkSearch {
                file: &self.lines,
                cursor,
                offset: growth.saturating_add(offset),
            };
            let found = match search.find(&hunk) {
                Ok(found) => found,
                Err(mismatch) => {
                    rejected.push(RejectedHunk {
                        number,
                        mismatch,
                        already_applied: self.has_new_lines(&hunk, cursor),
                    });
                    continue;
                }
            };
            let skipped = hunk.lines[..found.used.start].len();
            let stated = hunk
                .start
                .map(|start| start.saturating_sub(1).saturating_add(skipped))
                .map(|start| start.saturating_add_signed(growth));
            let moved = stated.map_or(0, |stated| {
                found.at.cast_signed().saturating_sub_unsigned(stated)
            });
            if hunk.start.is_some() && hunk.old_lines().next().is_some() {
                offset = moved;
            }
            let change = self.replace(&hunk, &found);
            cursor = change.end;
            growth += change.added.cast_signed() - change.removed.cast_signed();
            applied.push(AppliedHunk {
                notes: notes(&found, moved),
                added: change.added,
                removed: change.removed,
            });
        }
        if rejected.is_empty() {
            Ok(applied)
        } else {
            Err(rejected)
        }
    }

    /// Removes the carriage returns of a hunk for a file whose line breaks are all CRLF.
    fn adapt_line_breaks(&self, hunk: &PatchHunk) -> PatchHunk {
        let mut hunk = hunk.clone();
        if self.crlf {
            for line in &mut hunk.lines {
                if line.text.ends_with('\r') {
                    line.text.pop();
                }
            }
        }
        hunk
    }

    /// Returns true if the new lines of a hunk occur, and there are at least two or a change with context.
    fn has_new_lines(&self, hunk: &PatchHunk, from: usize) -> bool {
        let new: Vec<&str> = hunk.new_lines().map(|line| line.text.as_str()).collect();
        new.iter().any(|line| !line.trim().is_empty())
            && self.lines[from.min(self.lines.len())..]
                .windows(new.len())
                .any(|lines| lines.iter().zip(&new).all(|(line, new)| line == new))
    }

    /// Replaces the lines of a hunk. Context lines keep the text of the file.
    fn replace(&mut self, hunk: &PatchHunk, found: &HunkMatch) -> LineChange {
        let used = &hunk.lines[found.used.clone()];
        let old: Vec<&str> = used
            .iter()
            .filter(|line| line.kind != LineKind::Added)
            .map(|line| line.text.as_str())
            .collect();
        let range = found.at..found.at + old.len();
        let indent = (found.comparison == LineComparison::Indentation)
            .then(|| IndentChange::between(&self.lines[range.clone()], &old))
            .flatten();
        let reaches_end = range.end == self.lines.len();
        let (mut new, mut at) = (Vec::with_capacity(used.len()), range.start);
        let (mut added, mut removed) = (0, 0);
        for line in used {
            match line.kind {
                LineKind::Context => {
                    new.push(self.lines[at].clone());
                    at += 1;
                }
                LineKind::Removed => {
                    removed += 1;
                    at += 1;
                }
                LineKind::Added => {
                    added += 1;
                    let text = match &indent {
                        Some(indent) => indent.apply(&line.text).into_owned(),
                        None => line.text.clone(),
                    };
                    new.push(text.into());
                }
            }
        }
        if reaches_end {
            self.update_final_newline(used);
        }
        let end = range.start + new.len();
        self.lines.splice(range, new);
        LineChange {
            end,
            added,
            removed,
        }
    }

    /// Adds or removes the line break at the end of the file, if the hunk says so.
    fn update_final_newline(&mut self, used: &[HunkLine]) {
        let last = |skipped: LineKind| used.iter().rev().find(|line| line.kind != skipped);
        let (old, new) = (last(LineKind::Added), last(LineKind::Removed));
        if new.is_some_and(|line| line.no_newline) {
            self.ends_with_newline = false;
        } else if old.is_some_and(|line| line.no_newline) {
            self.ends_with_newline = true;
        }
    }
}

/// The lines that a hunk has changed.
struct LineChange {
    /// Index of the line after the hunk.
    end: usize,
    added: usize,
    removed: usize,
}

/// Describes how a match deviates from the patch.
fn notes(found: &HunkMatch, moved: isize) -> Vec<String> {
    let mut notes = Vec::new();
    let lines = |count: usize| if count == 1 { "line" } else { "lines" };
    let distance = moved.unsigned_abs();
    match moved {
        0 => {}
        1.. => notes.push(format!("{distance} {} lower", lines(distance))),
        _ => notes.push(format!("{distance} {} higher", lines(distance))),
    }
    match found.comparison {
        LineComparison::Exact => {}
        LineComparison::TrailingSpace => notes.push("other spaces at the end of lines".to_owned()),
        LineComparison::Indentation => notes.push("another indentation".to_owned()),
        LineComparison::Punctuation => notes.push("other quotes, dashes or spaces".to_owned()),
    }
    if found.ignored > 0 {
        notes.push(format!(
            "{} context {} ignored",
            found.ignored,
            lines(found.ignored)
        ));
    }
    notes
}
