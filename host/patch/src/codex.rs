//! The format of Codex: sections that begin with `*** Add File`, `*** Update File` and `*** Delete File`.

use crate::lines::PatchLines;
use crate::{FilePatch, HunkLine, LineKind, PatchChange, PatchError, PatchHunk, unified};

pub(crate) const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File: ";
const UPDATE: &str = "*** Update File: ";
const DELETE: &str = "*** Delete File: ";
const MOVE: &str = "*** Move to: ";

/// Reads the sections after the line `begin`, and those of further blocks.
pub(crate) fn parse(lines: &PatchLines<'_>, begin: usize) -> Result<Vec<FilePatch>, PatchError> {
    let mut files = Vec::new();
    let mut next = Some(begin);
    while let Some(begin) = next {
        let end = read_block(lines, begin + 1, &mut files)?;
        next = find_next_block(lines, end + 1)?;
    }
    Ok(files)
}

/// Returns the line with which another block begins. Other text is ignored if it cannot be a part of a patch.
fn find_next_block(lines: &PatchLines<'_>, first: usize) -> Result<Option<usize>, PatchError> {
    for at in first..lines.len() {
        let line = lines.header(at);
        if line.trim_end() == BEGIN {
            return Ok(Some(at));
        }
        let is_end = line.trim_end() == END;
        if line.starts_with([' ', '+', '-', '@']) || (line.starts_with("*** ") && !is_end) {
            return Err(PatchError::at(
                at,
                format!(
                    "this line is after `{END}`: expected `{BEGIN}` before further changes, and no other text"
                ),
            ));
        }
    }
    Ok(None)
}

/// Reads the sections of a block. Returns the index of its last line.
fn read_block(
    lines: &PatchLines<'_>,
    first: usize,
    files: &mut Vec<FilePatch>,
) -> Result<usize, PatchError> {
    let mut at = first;
    loop {
        let line = lines.header(at).trim_end();
        let header = at;
        if at >= lines.len() {
            return Err(PatchError::at(
                lines.len().saturating_sub(1),
                format!("`{END}` is missing, so the patch may be cut off"),
            ));
        }
        if line == END {
            return Ok(at);
        }
        at += 1;
        let (path, change) = if let Some(path) = line.strip_prefix(ADD) {
            (path, PatchChange::Add(read_added(lines, &mut at)?))
        } else if let Some(path) = line.strip_prefix(DELETE) {
            (path, PatchChange::Delete(None))
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            let to = lines.header(at).trim_end().strip_prefix(MOVE);
            at += usize::from(to.is_some());
            let hunks = read_hunks(lines, &mut at)?;
            let change = match to {
                Some(to) => PatchChange::Move {
                    to: to.trim().to_owned(),
                    hunks,
                },
                None if hunks.is_empty() => {
                    return Err(PatchError::at(
                        header,
                        "the section changes nothing: expected lines that begin with ` `, `-` or `+`",
                    ));
                }
                None => PatchChange::Update(hunks),
            };
            (path, change)
        } else if line.is_empty() {
            continue;
        } else {
            return Err(PatchError::at(
                header,
                format!("expected `{ADD}…`, `{UPDATE}…`, `{DELETE}…` or `{END}`"),
            ));
        };
        files.push(FilePatch {
            path: path.trim().to_owned(),
            change,
            line: header + 1,
        });
    }
}

/// Returns true for a line that ends a section.
fn ends_section(lines: &PatchLines<'_>, at: usize) -> bool {
    let line = lines.header(at).trim_end();
    at >= lines.len() || line == END || [ADD, UPDATE, DELETE].iter().any(|o| line.starts_with(o))
}

/// Reads the lines of a new file.
fn read_added(lines: &PatchLines<'_>, at: &mut usize) -> Result<Option<PatchHunk>, PatchError> {
    let first = *at;
    let mut added = Vec::new();
    while !ends_section(lines, *at) {
        match lines[*at].strip_prefix('+') {
            Some(text) => added.push(HunkLine {
                kind: LineKind::Added,
                text: text.to_owned(),
                no_newline: false,
            }),
            // A blank line between sections.
            None if lines.header(*at).trim().is_empty() && ends_section(lines, *at + 1) => {}
            None => {
                return Err(PatchError::at(
                    *at,
                    "expected a line of the new file, with `+` before it",
                ));
            }
        }
        *at += 1;
    }
    Ok((!added.is_empty()).then(|| PatchHunk {
        start: None,
        anchors: Vec::new(),
        lines: added,
        at_end: false,
        span: first..*at,
        has_header: false,
    }))
}

/// Reads the hunks of an update.
fn read_hunks(lines: &PatchLines<'_>, at: &mut usize) -> Result<Vec<PatchHunk>, PatchError> {
    let mut hunks = Vec::new();
    while !ends_section(lines, *at) {
        let mut hunk = PatchHunk {
            start: None,
            anchors: Vec::new(),
            lines: Vec::new(),
            at_end: false,
            span: *at..*at,
            has_header: false,
        };
        // Several anchors may follow each other: a class, then a method.
        while let Some(anchor) = lines.header(*at).strip_prefix("@@") {
            if let Some(range) = unified::read_range(lines.header(*at)) {
                hunk.start = Some(range.old_start);
            } else {
                let anchor = anchor.trim();
                let anchor = anchor.strip_suffix("@@").unwrap_or(anchor).trim_end();
                if !anchor.is_empty() {
                    hunk.anchors.push(anchor.to_owned());
                }
            }
            hunk.has_header = true;
            *at += 1;
        }
        while !ends_section(lines, *at) && !lines[*at].starts_with("@@") {
            let line = lines[*at];
            if lines.header(*at).trim_end() == END_OF_FILE {
                hunk.at_end = true;
                *at += 1;
                break;
            }
            hunk.lines.push(unified::read_line(line).ok_or_else(|| {
                PatchError::at(*at, "expected a line with ` `, `-` or `+` before it")
            })?);
            *at += 1;
        }
        // Blank lines between sections are not context.
        if ends_section(lines, *at) && !hunk.at_end {
            unified::drop_blank_end(&mut hunk.lines, &lines[..*at]);
        }
        hunk.span.end = *at;
        if hunk.lines.is_empty() {
            if hunk.has_header {
                return Err(PatchError::at(
                    hunk.span.start,
                    "the hunk has no lines: expected lines that begin with ` `, `-` or `+`",
                ));
            }
            continue;
        }
        hunks.push(hunk);
    }
    Ok(hunks)
}
