//! Finds the lines of a hunk in a file.
//!
//! The lines are compared exactly first, then more leniently: without spaces at the end of lines, with another
//! indentation of the whole block, with plain instead of typographic punctuation, and last without the outermost
//! context lines, as `patch` does.

use std::borrow::Cow;
use std::ops::Range;

use mimir_patch::{HunkLine, LineKind, PatchHunk};

/// Maximum number of context lines that are ignored at each end of a hunk.
const MAX_FUZZ: usize = 2;

/// A position is taken among several if the next one is this many times as far from the stated line.
const CLEARLY_NEAREST: usize = 3;

/// The lines of a hunk at a position of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct HunkMatch {
    /// Index of the first line in the file.
    pub at: usize,
    /// The lines of the hunk that take part, without ignored context.
    pub used: Range<usize>,
    /// How the lines were compared.
    pub comparison: LineComparison,
    /// Number of context lines that were ignored.
    pub ignored: usize,
}

/// A comparison of a line of a hunk with a line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineComparison {
    /// The lines are equal.
    Exact,
    /// Spaces at the end are ignored.
    TrailingSpace,
    /// The block has another indentation in the file.
    Indentation,
    /// Typographic quotes, dashes and spaces are compared as plain ones.
    Punctuation,
}

/// The reason why a hunk has no position.
#[derive(Debug, PartialEq, Eq)]
pub enum HunkMismatch {
    /// An anchor is missing in the file.
    Anchor(String),
    /// The lines occur at several positions, as line indexes.
    Ambiguous(Vec<usize>),
    /// The lines do not occur. The position with the most equal lines, and the first line that differs there, as an
    /// index into the old lines of the hunk.
    Missing { nearest: usize, differs: usize },
}

/// The lines of the file, from `cursor` on, that a hunk may match.
pub struct HunkSearch<'a> {
    /// The lines of the file.
    pub file: &'a [Cow<'a, str>],
    /// The hunk must not begin before this line.
    pub cursor: usize,
    /// The number of lines by which the previous hunk was found below its stated line.
    pub offset: isize,
}

impl HunkSearch<'_> {
    /// Finds the position of a hunk.
    pub fn find(&self, hunk: &PatchHunk) -> Result<HunkMatch, HunkMismatch> {
        let from = self.skip_anchors(hunk)?;
        let stated = hunk
            .start
            .map(|start| start.saturating_sub(1).saturating_add_signed(self.offset));
        if hunk.old_lines().next().is_none() {
            return Ok(self.insertion(hunk, from, stated));
        }
        for comparison in [
            LineComparison::Exact,
            LineComparison::TrailingSpace,
            LineComparison::Indentation,
            LineComparison::Punctuation,
        ] {
            if let Some(found) =
                self.find_used(hunk, 0..hunk.lines.len(), comparison, from, stated)?
            {
                return Ok(found);
            }
        }
        for fuzz in 1..=MAX_FUZZ {
            let used = without_context(hunk, fuzz);
            if used.len() == hunk.lines.len() || !has_old_lines(&hunk.lines[used.clone()]) {
                continue;
            }
            let found = self.find_used(hunk, used, LineComparison::Exact, from, stated)?;
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(self.nearest_mismatch(hunk, from, stated))
    }

    /// Returns the line after the anchors of a hunk. An anchor may also be the first line of the hunk.
    fn skip_anchors(&self, hunk: &PatchHunk) -> Result<usize, HunkMismatch> {
        let mut from = self.cursor;
        for anchor in &hunk.anchors {
            let anchor = anchor.trim();
            let lines = self.file.iter().enumerate().skip(from);
            let mut matching = lines.filter(|(_, line)| line.trim() == anchor);
            let found = matching.next().or_else(|| {
                let mut lines = self.file.iter().enumerate().skip(from);
                lines.find(|(_, line)| line.trim_start().starts_with(anchor))
            });
            let (at, _) = found.ok_or_else(|| HunkMismatch::Anchor(anchor.to_owned()))?;
            let repeats = hunk
                .old_lines()
                .next()
                .is_some_and(|line| line.text.trim() == self.file[at].trim());
            from = at + usize::from(!repeats);
        }
        Ok(from)
    }

    /// Returns the position of a hunk that only adds lines.
    fn insertion(&self, hunk: &PatchHunk, from: usize, stated: Option<usize>) -> HunkMatch {
        let end = self.file.len();
        let at = match stated {
            Some(stated) => stated.clamp(from.min(end), end),
            None if hunk.anchors.is_empty() => end,
            None => from,
        };
        HunkMatch {
            at,
            used: 0..hunk.lines.len(),
            comparison: LineComparison::Exact,
            ignored: 0,
        }
    }

    /// Finds the position of some lines of a hunk. `None` if they do not occur.
    fn find_used(
        &self,
        hunk: &PatchHunk,
        used: Range<usize>,
        comparison: LineComparison,
        from: usize,
        stated: Option<usize>,
    ) -> Result<Option<HunkMatch>, HunkMismatch> {
        let lines = &hunk.lines[used.clone()];
        let old: Vec<&str> = old_texts(lines).collect();
        let skipped = old_texts(&hunk.lines[..used.start]).count();
        let stated = stated.map(|stated| stated.saturating_add(skipped));
        let found = |at| {
            Ok(Some(HunkMatch {
                at,
                ignored: hunk.lines.len() - used.len(),
                used: used.clone(),
                comparison,
            }))
        };
        let Some(last) = self.file.len().checked_sub(old.len()) else {
            return Ok(None);
        };
        let matches = |at: usize| matches_at(&self.file[at..at + old.len()], &old, comparison);
        if hunk.at_end {
            return if last >= from && matches(last) {
                found(last)
            } else {
                Ok(None)
            };
        }
        if let Some(stated) = stated.filter(|at| (from..=last).contains(at))
            && matches(stated)
        {
            return found(stated);
        }
        let mut positions: Vec<usize> = (from..=last).filter(|at| matches(*at)).collect();
        if let Some(stated) = stated {
            positions.sort_by_key(|at| at.abs_diff(stated));
        }
        match *positions.as_slice() {
            [] => Ok(None),
            [only] => found(only),
            [first, ..] if !hunk.anchors.is_empty() => found(first),
            [first, second, ..]
                if stated.is_some_and(|stated| {
                    let distance = first.abs_diff(stated);
                    second.abs_diff(stated) > distance.saturating_mul(CLEARLY_NEAREST)
                }) =>
            {
                found(first)
            }
            _ => {
                positions.sort_unstable();
                Err(HunkMismatch::Ambiguous(positions))
            }
        }
    }

    /// Returns the position at which most lines of the hunk are equal. Prefers the stated line.
    fn nearest_mismatch(
        &self,
        hunk: &PatchHunk,
        from: usize,
        stated: Option<usize>,
    ) -> HunkMismatch {
        let old: Vec<&str> = hunk.old_lines().map(|line| line.text.trim()).collect();
        let equal_lines = |at: usize| {
            let lines = self.file[at..].iter().zip(&old);
            lines
                .filter(|(line, old)| !old.is_empty() && line.trim() == **old)
                .count()
        };
        let nearest = (from..self.file.len()).max_by_key(|at| {
            let distance = stated.map_or(*at, |stated| stated.abs_diff(*at));
            (equal_lines(*at), std::cmp::Reverse(distance))
        });
        let nearest = nearest.unwrap_or(self.file.len());
        let lines = self.file[nearest..].iter().zip(&old);
        let equal = lines.take_while(|(line, old)| line.trim() == **old).count();
        HunkMismatch::Missing {
            nearest,
            differs: equal.min(old.len().saturating_sub(1)),
        }
    }
}

/// Returns the texts of the lines that are in the old file.
fn old_texts(lines: &[HunkLine]) -> impl Iterator<Item = &str> {
    let old = lines.iter().filter(|line| line.kind != LineKind::Added);
    old.map(|line| line.text.as_str())
}

fn has_old_lines(lines: &[HunkLine]) -> bool {
    old_texts(lines).any(|line| !line.trim().is_empty())
}

/// Returns the lines of a hunk without `fuzz` context lines at each end.
fn without_context(hunk: &PatchHunk, fuzz: usize) -> Range<usize> {
    let is_context = |line: &&HunkLine| line.kind == LineKind::Context;
    let leading = hunk.lines.iter().take_while(is_context).count().min(fuzz);
    let trailing = hunk.lines.iter().rev().take_while(is_context).count();
    let end = hunk.lines.len() - trailing.min(fuzz);
    leading.min(end)..end
}

fn matches_at(file: &[Cow<'_, str>], old: &[&str], comparison: LineComparison) -> bool {
    let mut lines = file.iter().zip(old);
    match comparison {
        LineComparison::Exact => lines.all(|(line, old)| line == old),
        LineComparison::TrailingSpace => lines.all(|(line, old)| line.trim_end() == old.trim_end()),
        LineComparison::Indentation => IndentChange::between(file, old).is_some(),
        LineComparison::Punctuation => {
            lines.all(|(line, old)| plain(line).trim_end() == plain(old).trim_end())
        }
    }
}

/// A change of the indentation of all lines of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndentChange {
    /// The file has this text before each line of the hunk.
    Deeper(String),
    /// The hunk has this text before each line of the file.
    Shallower(String),
}

impl IndentChange {
    /// Returns the change that makes the lines of a hunk equal to lines of a file. `None` if there is none.
    pub fn between(file: &[Cow<'_, str>], old: &[&str]) -> Option<Self> {
        let mut change = None;
        for (line, old) in file.iter().zip(old) {
            let (line, old) = (line.trim_end(), old.trim_end());
            // Compared first, because most positions differ here.
            if line.trim_start() != old.trim_start() {
                return None;
            }
            if line.is_empty() {
                continue;
            }
            let this = match (line.strip_suffix(old), old.strip_suffix(line)) {
                (Some(more), _) => Self::Deeper(more.to_owned()),
                (None, Some(more)) => Self::Shallower(more.to_owned()),
                (None, None) => return None,
            };
            match &change {
                None => change = Some(this),
                Some(change) if *change == this => {}
                Some(_) => return None,
            }
        }
        change
    }

    /// Changes the indentation of a line. A line that is too shallow keeps its own.
    pub fn apply<'t>(&self, line: &'t str) -> Cow<'t, str> {
        match self {
            _ if line.trim().is_empty() => line.into(),
            Self::Deeper(more) => format!("{more}{line}").into(),
            Self::Shallower(more) => line.strip_prefix(more.as_str()).unwrap_or(line).into(),
        }
    }
}

/// Replaces typographic punctuation by plain characters.
fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let plain = text.chars().map(|character| match character {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    });
    plain.collect::<String>().into()
}
