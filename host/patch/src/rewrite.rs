//! Replaces the lines of hunks in the text of a patch.

use std::fmt::Write;

use crate::lines::PatchLines;
use crate::{HunkLine, LineKind, Patch, PatchChange, PatchHunk, unified};

/// New lines for a hunk.
#[derive(Debug)]
pub struct HunkEdit<'a> {
    /// The hunk.
    pub hunk: &'a PatchHunk,
    /// The old lines, each with a line break except the last.
    pub old: String,
    /// The new lines, each with a line break except the last.
    pub new: String,
}

/// Replaces hunks of a patch. The edits are in the order of the text. A replaced hunk removes all its old lines and
/// adds all its new lines, which has the same effect.
pub fn replace_hunks(text: &str, edits: &[HunkEdit<'_>]) -> String {
    let lines = PatchLines::new(text);
    let mut out = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in edits {
        let span = &edit.hunk.span;
        lines[at..span.start].iter().for_each(|line| {
            out.push_str(line);
            out.push('\n');
        });
        write_hunk(&mut out, &lines, edit);
        at = span.end;
    }
    lines[at..].iter().for_each(|line| {
        out.push_str(line);
        out.push('\n');
    });
    out
}

/// Returns true if a patch with [replaced hunks](replace_hunks) changes the same files in the same way: equal paths,
/// kinds, move targets and numbers of hunks, and the lines of the edits in the replaced hunks. The lines of a hunk
/// without counts may look like the header of another file after they were replaced.
pub fn keeps_files(judged: &Patch, edits: &[HunkEdit<'_>], replaced: &Patch) -> bool {
    judged.files.len() == replaced.files.len()
        && judged
            .files
            .iter()
            .zip(&replaced.files)
            .all(|(one, other)| {
                one.path == other.path && is_same_kind(&one.change, &other.change) && {
                    let (hunks, again) = (one.change.hunks(), other.change.hunks());
                    hunks.len() == again.len()
                        && hunks
                            .iter()
                            .zip(again)
                            .all(|(hunk, again)| has_lines(hunk, edits, again))
                }
            })
}

fn is_same_kind(one: &PatchChange, other: &PatchChange) -> bool {
    match (one, other) {
        (PatchChange::Move { to, .. }, PatchChange::Move { to: other_to, .. }) => to == other_to,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// Returns true if a hunk that was read again has the lines of its edit. A hunk without an edit is unchanged text.
fn has_lines(hunk: &PatchHunk, edits: &[HunkEdit<'_>], again: &PatchHunk) -> bool {
    let edit = edits.iter().find(|edit| edit.hunk.span == hunk.span);
    edit.is_none_or(|edit| {
        join(again.old_lines()) == edit.old && join(again.new_lines()) == edit.new
    })
}

fn join<'l>(lines: impl Iterator<Item = &'l HunkLine>) -> String {
    let texts: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
    texts.join("\n")
}

fn write_hunk(out: &mut String, lines: &PatchLines<'_>, edit: &HunkEdit<'_>) {
    let hunk = edit.hunk;
    let (has_old, has_new) = (
        hunk.old_lines().next().is_some(),
        hunk.new_lines().next().is_some(),
    );
    let count = |present: bool, text: &str| {
        if present { text.split('\n').count() } else { 0 }
    };
    let first = hunk.span.start;
    for at in hunk.span.clone() {
        let line = lines.header(at);
        if !line.starts_with("@@") {
            break;
        }
        match unified::read_range(line) {
            Some(range) if at == first => {
                let _ = writeln!(
                    out,
                    "@@ -{},{} +{},{} @@",
                    range.old_start,
                    count(has_old, &edit.old),
                    range.new_start,
                    count(has_new, &edit.new)
                );
            }
            _ => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    let ends_without = |kind: LineKind| {
        hunk.lines
            .iter()
            .any(|line| line.no_newline && (line.kind == kind || line.kind == LineKind::Context))
    };
    for (present, text, sign, kind) in [
        (has_old, &edit.old, '-', LineKind::Removed),
        (has_new, &edit.new, '+', LineKind::Added),
    ] {
        if !present {
            continue;
        }
        for line in text.split('\n') {
            let _ = writeln!(out, "{sign}{line}");
        }
        if ends_without(kind) {
            out.push_str("\\ No newline at end of file\n");
        }
    }
    if hunk.at_end && !hunk.lines.iter().any(|line| line.no_newline) {
        out.push_str("*** End of File\n");
    }
}
