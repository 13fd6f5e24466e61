//! Unified diffs, as `diff -u` and `git diff` print them.

use crate::lines::PatchLines;
use crate::paths::{PathPair, read_name};
use crate::{FilePatch, HunkLine, LineKind, PatchChange, PatchError, PatchHunk, codex};

/// Marks the line before it as the last one of a file without a final line break.
const NO_NEWLINE: &str = "\\ No newline";

/// Modes of files whose content is text.
const FILE_MODES: [&str; 2] = ["100644", "100755"];

/// The line ranges in the header of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HunkRange {
    pub(crate) old_start: usize,
    pub(crate) old_count: usize,
    pub(crate) new_start: usize,
    pub(crate) new_count: usize,
}

/// The header lines that precede the hunks of a file.
#[derive(Default)]
struct GitHeader {
    paths: Option<PathPair>,
    rename_from: Option<String>,
    rename_to: Option<String>,
    is_new: bool,
    is_deleted: bool,
    line: usize,
}

/// Reads the changes of a diff.
pub(crate) fn parse(lines: &PatchLines<'_>) -> Result<Vec<FilePatch>, PatchError> {
    let mut files = Vec::new();
    let mut header: Option<GitHeader> = None;
    // Text is ignored before the first change, and in the message of a commit.
    let mut is_text = true;
    let mut at = 0;
    while at < lines.len() {
        let line = lines.header(at);
        if let Some(rest) = line.strip_prefix("diff --git ") {
            finish_header(header.take(), &mut files)?;
            header = Some(GitHeader {
                paths: PathPair::read_git(rest),
                line: at,
                ..GitHeader::default()
            });
            is_text = false;
            at += 1;
        } else if is_file_header(lines, at) {
            let old = lines.header(at).strip_prefix("--- ").unwrap_or_default();
            let new = lines
                .header(at + 1)
                .strip_prefix("+++ ")
                .unwrap_or_default();
            let paths = PathPair::read(old, new);
            let start = at;
            at += 2;
            let hunks = read_hunks(lines, &mut at)?;
            files.push(file_patch(
                start,
                header.take().unwrap_or_default(),
                paths,
                hunks,
            )?);
            is_text = false;
        } else if is_commit(line) {
            finish_header(header.take(), &mut files)?;
            is_text = true;
            at += 1;
        } else if line.starts_with("@@") {
            return Err(PatchError::at(
                at,
                "the hunk has no file: expected `--- a/FILE` and `+++ b/FILE` before it",
            ));
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return Err(PatchError::at(
                at,
                "binary files cannot be patched; write_file with `encoding: base64` writes one",
            ));
        } else if line.trim_end() == codex::BEGIN {
            return Err(PatchError::at(
                at,
                "a unified diff and `*** Begin Patch` cannot be mixed: send them in two calls",
            ));
        } else if !is_text && is_hunk_line(lines, at) {
            return Err(PatchError::at(
                at,
                "this line is outside of a hunk: expected `--- FILE`, `+++ FILE` and `@@ … @@` before it, and no other text after the first change",
            ));
        } else {
            if let Some(header) = &mut header {
                read_header_line(header, line, at)?;
            }
            at += 1;
        }
    }
    finish_header(header, &mut files)?;
    Ok(files)
}

/// Returns true for a line that would change a file if it were part of a hunk, or is its context.
fn is_hunk_line(lines: &PatchLines<'_>, at: usize) -> bool {
    lines.header(at).starts_with([' ', '+', '-'])
        && !is_file_header(lines, at)
        && !is_signature(lines, at)
}

/// Returns true for the line `-- ` that git writes at the end of a patch. Git's version follows, so that it differs from
/// the removal of a line `-`.
fn is_signature(lines: &PatchLines<'_>, at: usize) -> bool {
    let next = lines.header(at + 1);
    lines.header(at).trim_end() == "--"
        && !next.is_empty()
        && !next.starts_with([' ', '+', '-', '@', '\\'])
        && !next.starts_with("diff ")
}

/// Returns true for the first line of a commit, as `git log` and `git format-patch` print it.
fn is_commit(line: &str) -> bool {
    let rest = line
        .strip_prefix("commit ")
        .or_else(|| line.strip_prefix("From "));
    let hash = rest.and_then(|rest| rest.split(' ').next());
    hash.is_some_and(|hash| hash.len() >= 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns true if the diff of a file begins at a line.
pub(crate) fn is_first_header(lines: &PatchLines<'_>, at: usize) -> bool {
    is_file_header(lines, at) || lines.header(at).starts_with("diff --git ")
}

/// Returns true if the two headers of a file begin at a line.
fn is_file_header(lines: &PatchLines<'_>, at: usize) -> bool {
    lines.header(at).starts_with("--- ") && lines.header(at + 1).starts_with("+++ ")
}

fn read_header_line(header: &mut GitHeader, line: &str, at: usize) -> Result<(), PatchError> {
    let mode = |mode: &str| {
        if FILE_MODES.contains(&mode.trim()) {
            Ok(())
        } else {
            Err(PatchError::at(
                at,
                "only regular files can be patched, not links or submodules",
            ))
        }
    };
    if let Some(rest) = line.strip_prefix("new file mode ") {
        mode(rest)?;
        header.is_new = true;
    } else if let Some(rest) = line.strip_prefix("deleted file mode ") {
        mode(rest)?;
        header.is_deleted = true;
    } else if line.starts_with("old mode ") || line.starts_with("new mode ") {
        return Err(PatchError::at(
            at,
            "the mode of a file cannot be changed; leave out the lines `old mode` and `new mode`",
        ));
    } else if let Some(path) = line.strip_prefix("rename from ") {
        header.rename_from = Some(read_name(path));
    } else if let Some(path) = line.strip_prefix("rename to ") {
        header.rename_to = Some(read_name(path));
    } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
        return Err(PatchError::at(
            at,
            "copies are not supported; add the file with all its lines",
        ));
    }
    Ok(())
}

/// Adds the change of a header without hunks: a move, or an empty file.
fn finish_header(header: Option<GitHeader>, files: &mut Vec<FilePatch>) -> Result<(), PatchError> {
    let Some(header) = header else {
        return Ok(());
    };
    let line = header.line;
    let is_change = header.rename_from.is_some() || header.is_new || header.is_deleted;
    let paths = match &header.paths {
        // The paths of the move are in their own lines.
        _ if header.rename_from.is_some() => PathPair {
            old: None,
            new: None,
        },
        Some(paths) if is_change => PathPair {
            old: paths.old.clone().filter(|_| !header.is_new),
            new: paths.new.clone().filter(|_| !header.is_deleted),
        },
        _ => return Err(PatchError::at(line, "the diff of this file has no hunks")),
    };
    files.push(file_patch(line, header, paths, Vec::new())?);
    Ok(())
}

/// Builds the change of a file from its headers and hunks.
fn file_patch(
    at: usize,
    header: GitHeader,
    paths: PathPair,
    mut hunks: Vec<PatchHunk>,
) -> Result<FilePatch, PatchError> {
    let fault = |message: String| Err(PatchError::at(at, message));
    let (path, change) = match (header.rename_from, header.rename_to, paths) {
        (Some(from), Some(to), paths) => {
            // The headers of another file, which is not a part of the move.
            let names = |name: &str, path: &str| {
                let rest = name.strip_suffix(path);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            };
            let mut others = paths.old.iter().chain(&paths.new);
            if let Some(other) = others.find(|path| !names(&from, path) && !names(&to, path)) {
                return fault(format!(
                    "`{other}` is not a file of the move from `{from}` to `{to}`: add a line `diff --git` before it"
                ));
            }
            (from, PatchChange::Move { to, hunks })
        }
        (Some(_), None, _) | (None, Some(_), _) => {
            return fault("a move needs both `rename from` and `rename to`".to_owned());
        }
        (
            None,
            None,
            PathPair {
                old: None,
                new: None,
            },
        ) => {
            return fault("both paths are `/dev/null`".to_owned());
        }
        (
            None,
            None,
            PathPair {
                old: None,
                new: Some(path),
            },
        ) => {
            if hunks.len() > 1 || hunks.iter().any(|hunk| hunk.old_lines().next().is_some()) {
                return fault(format!(
                    "`{path}` is new, so it needs one hunk with only `+` lines"
                ));
            }
            (path, PatchChange::Add(hunks.pop()))
        }
        (
            None,
            None,
            PathPair {
                old: Some(path),
                new: None,
            },
        ) => {
            if hunks.len() > 1 || hunks.iter().any(|hunk| hunk.new_lines().next().is_some()) {
                return fault(format!(
                    "`{path}` is deleted, so it needs one hunk with only `-` lines"
                ));
            }
            (path, PatchChange::Delete(hunks.pop()))
        }
        (
            None,
            None,
            PathPair {
                old: Some(old),
                new: Some(new),
            },
        ) => {
            if old != new {
                return fault(format!(
                    "the paths `{old}` and `{new}` differ; for a move, add the lines `rename from {old}` and `rename to {new}` after `diff --git`"
                ));
            }
            if hunks.is_empty() {
                return fault(format!("the diff of `{old}` has no hunks"));
            }
            (old, PatchChange::Update(hunks))
        }
    };
    Ok(FilePatch {
        path,
        change,
        line: at + 1,
    })
}

/// Reads the hunks after the headers of a file.
fn read_hunks(lines: &PatchLines<'_>, at: &mut usize) -> Result<Vec<PatchHunk>, PatchError> {
    let mut hunks = Vec::new();
    while lines.header(*at).starts_with("@@") {
        let header = *at;
        if lines.header(header).starts_with("@@@") {
            return Err(PatchError::at(
                header,
                "the diff of a merge cannot be applied: expected `@@`, as in the diff between two versions",
            ));
        }
        *at += 1;
        let range = read_range(lines.header(header));
        let counted = range.and_then(|range| count_lines(lines, *at, range));
        let end = counted.unwrap_or_else(|| find_end(lines, *at));
        let mut hunk_lines: Vec<HunkLine> = Vec::new();
        for index in *at..end {
            if lines[index].starts_with(NO_NEWLINE) {
                if let Some(last) = hunk_lines.last_mut() {
                    last.no_newline = true;
                }
                continue;
            }
            hunk_lines.push(read_line(lines[index]).ok_or_else(|| {
                PatchError::at(index, "expected a line with ` `, `-` or `+` before it")
            })?);
        }
        if counted.is_none() {
            drop_blank_end(&mut hunk_lines, &lines[..end]);
        }
        *at = end;
        if hunk_lines.is_empty() {
            return Err(PatchError::at(header, "the hunk has no lines"));
        }
        hunks.push(PatchHunk {
            // A range without lines begins after its line number.
            start: range.map(|range| {
                range
                    .old_start
                    .saturating_add(usize::from(range.old_count == 0))
            }),
            anchors: Vec::new(),
            at_end: hunk_lines
                .iter()
                .any(|line| line.no_newline && line.kind != LineKind::Added),
            lines: hunk_lines,
            span: header..end,
            has_header: true,
        });
    }
    Ok(hunks)
}

/// Reads a line of a hunk. An empty line is context, because some programs strip spaces at the end of lines.
pub(crate) fn read_line(line: &str) -> Option<HunkLine> {
    let (kind, text) = match line.as_bytes().first() {
        None => (LineKind::Context, ""),
        Some(b'\r') => (LineKind::Context, line),
        Some(b' ') => (LineKind::Context, &line[1..]),
        Some(b'-') => (LineKind::Removed, &line[1..]),
        Some(b'+') => (LineKind::Added, &line[1..]),
        Some(_) => return None,
    };
    Some(HunkLine {
        kind,
        text: text.to_owned(),
        no_newline: false,
    })
}

/// Removes empty lines at the end of a hunk whose end is not known. `lines` ends with the hunk.
pub(crate) fn drop_blank_end(hunk: &mut Vec<HunkLine>, lines: &[&str]) {
    for line in lines.iter().rev() {
        if !line.trim_end_matches('\r').is_empty() || hunk.is_empty() {
            break;
        }
        hunk.pop();
    }
}

/// Returns the end of a hunk if the counts of its header are right.
fn count_lines(lines: &PatchLines<'_>, first: usize, range: HunkRange) -> Option<usize> {
    let (mut old, mut new) = (range.old_count, range.new_count);
    let mut at = first;
    while old > 0 || new > 0 {
        let line = lines.get(at)?;
        if !line.starts_with(NO_NEWLINE) {
            let kind = read_line(line)?.kind;
            if kind != LineKind::Added {
                old = old.checked_sub(1)?;
            }
            if kind != LineKind::Removed {
                new = new.checked_sub(1)?;
            }
        }
        at += 1;
    }
    if lines
        .get(at)
        .is_some_and(|line| line.starts_with(NO_NEWLINE))
    {
        at += 1;
    }
    // Blank context lines may have lost their spaces.
    let next = (at..lines.len()).find(|&at| !lines.header(at).is_empty());
    let continues = next.is_some_and(|next| is_hunk_line(lines, next));
    (!continues).then_some(at)
}

/// Returns the end of a hunk whose header has no counts or wrong ones: the next header.
fn find_end(lines: &PatchLines<'_>, first: usize) -> usize {
    (first..lines.len())
        .find(|&at| {
            let line = lines.header(at);
            line.starts_with("@@")
                || line.starts_with("diff ")
                || line.starts_with("Index: ")
                || line.starts_with("```")
                || is_signature(lines, at)
                || is_file_header(lines, at)
        })
        .unwrap_or(lines.len())
}

/// Reads a header `@@ -1,2 +1,3 @@`. `None` if it has no ranges.
pub(crate) fn read_range(line: &str) -> Option<HunkRange> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let ((old_start, old_count), (new_start, new_count)) = (range(old)?, range(new)?);
    Some(HunkRange {
        old_start,
        old_count,
        new_start,
        new_count,
    })
}
