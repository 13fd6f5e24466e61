//! Reads patches into typed changes: unified diffs, as `diff -u` and `git diff` print them, and the format of Codex
//! (`*** Begin Patch`).
//!
//! The policy and the file tools use the same parser, so both see the same paths.
//!
//! Out of scope: files. The file tools find the lines of a hunk in a file and change it.
//!
//! ```
//! let patch = mimir_patch::parse("--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-old\n+new\n")?;
//! assert_eq!(patch.files[0].path, "x.txt");
//! # Ok::<_, mimir_patch::PatchError>(())
//! ```

mod codex;
mod lines;
mod paths;
mod rewrite;
mod unified;

pub use rewrite::{HunkEdit, keeps_files, replace_hunks};

use lines::PatchLines;

/// A patch: changes of files, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The changes, at least one.
    pub files: Vec<FilePatch>,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch {
    /// The path as written, without the prefixes `a/` and `b/` of diffs.
    pub path: String,
    /// Kind of the change.
    pub change: PatchChange,
    /// Number of the line of the patch with the path, from 1.
    pub line: usize,
}

/// A kind of change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchChange {
    /// Creates the file from the added lines of the hunk. `None` for an empty file.
    Add(Option<PatchHunk>),
    /// Changes the lines of the file.
    Update(Vec<PatchHunk>),
    /// Moves the file, and changes its lines.
    Move {
        /// The new path.
        to: String,
        /// The changes of lines; may be empty.
        hunks: Vec<PatchHunk>,
    },
    /// Deletes the file. A diff contains its lines, which must match the file.
    Delete(Option<PatchHunk>),
}

/// A block of lines that are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchHunk {
    /// First line of the block in the file, from 1, if the patch states it.
    pub start: Option<usize>,
    /// Lines that come before the block, in their order: the texts after `@@` in the format of Codex.
    pub anchors: Vec<String>,
    /// The lines of the block.
    pub lines: Vec<HunkLine>,
    /// True if the block is at the end of the file.
    pub at_end: bool,
    /// Indexes of the lines of the patch with the hunk, its header included.
    pub span: std::ops::Range<usize>,
    /// True if the hunk begins with a header line.
    pub has_header: bool,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkLine {
    /// Kind of the line.
    pub kind: LineKind,
    /// The text without its line break.
    pub text: String,
    /// True if the line has no line break at the end of the file.
    pub no_newline: bool,
}

/// A kind of line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// A line that is in the old and in the new file.
    Context,
    /// A line of the old file.
    Removed,
    /// A line of the new file.
    Added,
}

/// A fault in the text of a patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The text contains no change.
    #[error(
        "the patch contains no changes: expected a unified diff (`--- a/FILE`, `+++ b/FILE`, `@@ … @@`) or `*** Begin Patch`"
    )]
    Empty,
    /// A line does not fit the format.
    #[error("line {line} of the patch: {message}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The fault, and what was expected.
        message: String,
    },
}

impl PatchError {
    /// Creates an error about the line with this index.
    fn at(index: usize, message: impl Into<String>) -> Self {
        Self::Line {
            line: index + 1,
            message: message.into(),
        }
    }
}

/// Reads a patch in either format. Text before the first change is ignored, as `git apply` does.
pub fn parse(text: &str) -> Result<Patch, PatchError> {
    let lines = PatchLines::new(text);
    // The text of a diff may be about patches, and contain this line.
    let begin = (0..lines.len())
        .take_while(|&at| !unified::is_first_header(&lines, at))
        .find(|&at| lines[at].trim_end() == codex::BEGIN);
    let files = match begin {
        Some(begin) => codex::parse(&lines, begin)?,
        None => unified::parse(&lines)?,
    };
    if files.is_empty() {
        return Err(PatchError::Empty);
    }
    Ok(Patch { files })
}

impl PatchChange {
    /// Returns the hunks of the change.
    pub fn hunks(&self) -> &[PatchHunk] {
        match self {
            Self::Add(hunk) | Self::Delete(hunk) => hunk.as_slice(),
            Self::Update(hunks) | Self::Move { hunks, .. } => hunks,
        }
    }
}

impl PatchHunk {
    /// Returns the lines of the old file.
    pub fn old_lines(&self) -> impl Iterator<Item = &HunkLine> {
        let lines = self.lines.iter();
        lines.filter(|line| line.kind != LineKind::Added)
    }

    /// Returns the lines of the new file.
    pub fn new_lines(&self) -> impl Iterator<Item = &HunkLine> {
        let lines = self.lines.iter();
        lines.filter(|line| line.kind != LineKind::Removed)
    }

    /// Returns the number of the first line of the hunk in the patch, from 1.
    pub fn patch_line(&self) -> usize {
        self.span.start + 1
    }
}

#[cfg(test)]
mod tests;
