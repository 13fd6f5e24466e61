//! Search and replacement for edits, and hints about near matches.

use std::ops::Range;

use mimir_sdk::{Error, Result};
use regex::{Captures, Regex, RegexBuilder};

use crate::diff::{self, Span};
use crate::formatting;

/// Maximum size of a result in bytes. Old and new text, each also with the original line ends, are in memory at the
/// same time.
const MAX_RESULT: usize = 32 << 20;

/// Maximum estimated size in bytes of a text after expanding a match. The estimate is too high if groups are short.
const MAX_EXPANDED: usize = 3 * MAX_RESULT;

/// Maximum number of tracked changes: one more than the number of lines that a diff shows.
const MAX_SPANS: usize = diff::MAX_LINES + 1;

/// Maximum number of lines that are compared to find a near match, to bound the cost of a hint.
const MAX_COMPARED: usize = 1_000_000;

/// Maximum number of line numbers listed in a hint.
const MAX_HINT_LINES: usize = 20;

/// Pattern to search for.
pub enum Needle<'p> {
    /// Literal text.
    Literal(&'p str),
    /// A regular expression.
    Regex(Regex),
}

/// A text after replacing.
pub struct Replaced {
    /// The new text.
    pub text: String,
    /// Number of replacements.
    pub count: usize,
    /// Positions of the changes; adjacent ones may be merged.
    pub spans: Vec<Span>,
}

impl<'p> Needle<'p> {
    pub fn new(pattern: &'p str, regex: bool) -> Result<Self> {
        if !regex {
            return Ok(Self::Literal(pattern));
        }
        RegexBuilder::new(pattern)
            .multi_line(true)
            .build()
            .map(Self::Regex)
            .map_err(|error| Error::invalid_input(format_args!("pattern: {error}")))
    }

    /// Returns the byte ranges of the matches, in order.
    pub fn ranges<'t>(&'t self, text: &'t str) -> Box<dyn Iterator<Item = Range<usize>> + 't> {
        match self {
            Self::Literal(literal) => {
                let found = memchr::memmem::find_iter(text.as_bytes(), literal.as_bytes());
                Box::new(found.map(|at| at..at + literal.len()))
            }
            Self::Regex(regex) => Box::new(regex.find_iter(text).map(|found| found.range())),
        }
    }

    /// Replaces every match and records the positions. In the replacement of a regular expression `${1}` stands for
    /// the first group.
    pub fn replace(&self, old: &str, replacement: &str) -> Result<Replaced> {
        let mut new = Replaced {
            text: String::with_capacity(old.len() + replacement.len().min(MAX_RESULT)),
            count: 0,
            spans: Vec::new(),
        };
        let mut at = 0;
        let mut put = |range: Range<usize>, captures: Option<&Captures<'_>>| {
            let groups = captures.map_or(0, |_| replacement.matches('$').count());
            let max_size = replacement
                .len()
                .saturating_add(groups.saturating_mul(range.len()));
            let text = &mut new.text;
            text.push_str(&old[at..range.start]);
            let from = text.len();
            if from.saturating_add(max_size) > MAX_EXPANDED {
                return Err(too_large());
            }
            match captures {
                Some(captures) => captures.expand(replacement, text),
                None => text.push_str(replacement),
            }
            if text.len() > MAX_RESULT {
                return Err(too_large());
            }
            at = range.end;
            let to = text.len();
            new.record(
                old,
                Span {
                    old: range,
                    new: from..to,
                },
            );
            Ok(())
        };
        match self {
            // Capturing groups costs several times as much as finding matches.
            Self::Regex(regex) if replacement.contains('$') => {
                for captures in regex.captures_iter(old) {
                    put(captures.get_match().range(), Some(&captures))?;
                }
            }
            _ => self.ranges(old).try_for_each(|range| put(range, None))?,
        }
        new.text.push_str(&old[at..]);
        if new.text.len() > MAX_RESULT {
            return Err(too_large());
        }
        Ok(new)
    }
}

fn too_large() -> Error {
    let max_size = formatting::bytes(MAX_RESULT as u64);
    Error::limit_exceeded(format_args!(
        "the edited file would have more than {max_size}, so nothing was changed: replace less text"
    ))
}

impl Replaced {
    /// Records a change. Changes in the same line and changes over the limit are merged, because there may be millions.
    fn record(&mut self, old: &str, span: Span) {
        self.count += 1;
        let full = self.spans.len() == MAX_SPANS;
        match self.spans.last_mut() {
            Some(last) if full || same_line(old, last.old.end, span.old.start) => {
                last.old.end = span.old.end;
                last.new.end = span.new.end;
            }
            _ => self.spans.push(span),
        }
    }
}

fn same_line(text: &str, from: usize, to: usize) -> bool {
    !text[..from].ends_with('\n') && memchr::memchr(b'\n', &text.as_bytes()[from..to]).is_none()
}

/// Returns a hint for a pattern without a match, if a near match exists.
pub fn hint(text: &str, pattern: &str) -> Option<String> {
    mixed_line_ends_hint(text, pattern).or_else(|| {
        find_similar_line(text, pattern).map(|line| {
            format!("line {line} differs only in spaces: copy it exactly as it is in the file")
        })
    })
}

/// Returns a hint for a pattern that would match if the file had consistent line ends. In a file with consistent line
/// ends, the pattern has already been adapted to them.
fn mixed_line_ends_hint(text: &str, pattern: &str) -> Option<String> {
    if !text.contains("\r\n") || !pattern.contains('\n') {
        return None;
    }
    let plain = |text: &str| text.replace("\r\n", "\n");
    let (text_lf, pattern_lf) = (plain(text), plain(pattern));
    let at = memchr::memmem::find(text_lf.as_bytes(), pattern_lf.as_bytes())?;
    let ends = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let first = ends(&text_lf[..at]) + 1;
    let lines = text.split_inclusive('\n').zip(1..);
    let crlf: Vec<String> = lines
        .skip(first - 1)
        .take(ends(&pattern_lf))
        .filter(|(line, _)| line.ends_with("\r\n"))
        .take(MAX_HINT_LINES)
        .map(|(_, number)| number.to_string())
        .collect();
    Some(match crlf.as_slice() {
        [] => format!("the same text is at line {first}, but its lines end with LF: write `\\n`"),
        lines => format!(
            "the same text is at line {first}, but the file has both CRLF and LF line ends: write `\\r\\n` at the end of line {} and `\\n` elsewhere",
            lines.join(", ")
        ),
    })
}

/// Returns the number of the line at which `pattern` would match if indentation and trailing spaces were ignored.
fn find_similar_line(text: &str, pattern: &str) -> Option<usize> {
    let mut wanted = pattern.trim().lines().map(str::trim);
    let first = wanted.next()?;
    let (mut rest, mut number, mut compared) = (text, 0, 0);
    while !rest.is_empty() && compared < MAX_COMPARED {
        number += 1;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if line.trim() == first {
            let mut lines = after.lines().map(str::trim);
            let same = wanted.clone().all(|wanted| {
                compared += 1;
                lines.next() == Some(wanted)
            });
            if same {
                return Some(number);
            }
        }
        rest = after;
    }
    None
}
