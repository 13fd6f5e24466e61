//! Differences between the files before and after a call, for display to the user.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use mimir_core::redact::Redactor;
use sha2::{Digest as _, Sha256};
use similar::{ChangeTag, TextDiff};

use super::undo_path::UndoPath;
use super::{PathState, UndoChange, UndoRecord, UndoStore};

/// The difference of one file. Secrets in it are masked; control characters are not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDiff {
    /// Path relative to the workspace root.
    pub path: String,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
    /// The changed lines with the lines around them.
    pub lines: Vec<CallDiffLine>,
    /// Number of lines that are not in `lines`, because there are too many.
    pub lines_left_out: usize,
    /// Reason why the difference is not known.
    pub unknown: Option<&'static str>,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDiffLine {
    /// The kind of the line.
    pub kind: CallDiffKind,
    /// The text without its line break.
    pub text: String,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDiffKind {
    /// The position of the next lines, such as `@@ -1,4 +1,5 @@`.
    Position,
    /// An unchanged line.
    Unchanged,
    /// An added line.
    Added,
    /// A removed line.
    Removed,
}

/// Reason why the difference of a file is not known: it was changed after the call, so that undo restores it only if forced.
pub const CHANGED_SINCE: &str = "it has changed since";

/// Maximum size of a record and of a file that is compared, in bytes.
const MAX_RECORD_SIZE: u64 = 1 << 20;
const MAX_FILE_SIZE: u64 = 256 << 10;

/// Maximum number of lines of the two contents of a file together.
const MAX_FILE_LINES: usize = 20_000;

/// Time after which the differences of a call are not the smallest ones any more: the whole rest of a file is removed
/// and added.
const COMPARE_TIME: Duration = Duration::from_millis(200);

/// Number of unchanged lines around each change.
const CONTEXT_LINES: usize = 3;

/// Maximum number of files of a call that are compared.
const MAX_FILES: usize = 10;

impl UndoStore {
    /// Returns the differences of the files that a call has changed, with at most `max_lines` lines in all; none if the
    /// call has changed no files. Files that cannot be compared have a reason. Takes a limited time.
    pub fn call_diffs(
        &self,
        request_id: &str,
        redactor: &Redactor,
        max_lines: usize,
    ) -> Vec<CallDiff> {
        let Some(record) = self.call_record(request_id) else {
            return Vec::new();
        };
        let mut comparison = Comparison {
            redactor,
            lines_left: max_lines,
            until: Instant::now() + COMPARE_TIME,
        };
        let mut diffs = Vec::new();
        for change in record.changes.iter().take(MAX_FILES) {
            let is_item =
                |state: &PathState| matches!(state, PathState::Absent | PathState::File { .. });
            if !is_item(&change.before) || !is_item(&change.after) {
                continue;
            }
            let diff = match self.contents(change) {
                Ok([before, after]) => comparison.diff(change, before, after),
                Err(reason) => CallDiff {
                    path: change.path.clone(),
                    added: 0,
                    removed: 0,
                    lines: Vec::new(),
                    lines_left_out: 0,
                    unknown: Some(reason),
                },
            };
            diffs.push(diff);
        }
        diffs
    }

    pub(super) fn call_record(&self, request_id: &str) -> Option<UndoRecord> {
        let path = self.folder.join(format!("{request_id}.json"));
        let size = std::fs::symlink_metadata(&path).ok()?.len();
        if size > MAX_RECORD_SIZE
            || mimir_core::files::reject_links(&self.root, &self.folder).is_err()
        {
            return None;
        }
        self.read(&path).ok()
    }

    /// Reads a file before and after the call. The error is the reason why it cannot be compared.
    fn contents(&self, change: &UndoChange) -> Result<[String; 2], &'static str> {
        let before = match &change.before {
            PathState::File {
                backup: Some(backup),
                ..
            } => read_text(&self.folder, backup, &change.before)?,
            PathState::File { .. } => return Err("no copy of the old content exists"),
            _ => String::new(),
        };
        let after = match &change.after {
            PathState::File { .. } => read_text(&self.root, &change.path, &change.after)?,
            _ => String::new(),
        };
        let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        if lines(&before) + lines(&after) > MAX_FILE_LINES {
            return Err("it has too many lines to be compared");
        }
        Ok([before, after])
    }
}

/// Reads a text file that must have the recorded content.
fn read_text(root: &Path, path: &str, state: &PathState) -> Result<String, &'static str> {
    let unreadable = |_| "it cannot be read";
    let location = UndoPath::resolve(root, path, false).map_err(unreadable)?;
    let mut content = Vec::new();
    let file = location.open().map_err(unreadable)?;
    file.take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut content)
        .map_err(unreadable)?;
    if content.len() as u64 > MAX_FILE_SIZE {
        return Err("it is too large to be compared");
    }
    if let PathState::File {
        sha256: Some(recorded),
        ..
    } = state
    {
        let digest: String = Sha256::digest(&content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if digest != *recorded {
            return Err(CHANGED_SINCE);
        }
    }
    String::from_utf8(content).map_err(|_| "it is not a text file")
}

/// The comparison of the files of a call.
struct Comparison<'r> {
    redactor: &'r Redactor,
    /// Number of lines that can still be shown.
    lines_left: usize,
    /// Time from which on differences need not be the smallest ones.
    until: Instant,
}

impl Comparison<'_> {
    /// Compares two contents of a file.
    fn diff(&mut self, change: &UndoChange, mut before: String, mut after: String) -> CallDiff {
        self.redactor.mask_text(&mut before);
        self.redactor.mask_text(&mut after);
        let compared = TextDiff::configure()
            .deadline(self.until)
            .diff_lines(&before, &after);
        let (mut added, mut removed) = (0, 0);
        let (mut lines, mut lines_left_out) = (Vec::new(), 0);
        let mut push = |kind: CallDiffKind, text: &str| {
            if self.lines_left == 0 {
                lines_left_out += 1;
                return;
            }
            self.lines_left -= 1;
            let text = text.trim_end_matches(['\n', '\r']).to_owned();
            lines.push(CallDiffLine { kind, text });
        };
        for hunk in compared
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .iter_hunks()
        {
            push(CallDiffKind::Position, &hunk.header().to_string());
            for line in hunk.iter_changes() {
                let kind = match line.tag() {
                    ChangeTag::Equal => CallDiffKind::Unchanged,
                    ChangeTag::Insert => {
                        added += 1;
                        CallDiffKind::Added
                    }
                    ChangeTag::Delete => {
                        removed += 1;
                        CallDiffKind::Removed
                    }
                };
                push(kind, line.value());
            }
        }
        CallDiff {
            path: change.path.clone(),
            added,
            removed,
            lines,
            lines_left_out,
            unknown: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_call_diff_is_coarse_after_its_time() {
        let redactor = Redactor::new();
        let change = UndoChange {
            path: "a.txt".to_owned(),
            before: PathState::Absent,
            after: PathState::Absent,
        };
        let diff_until = |until| {
            let mut comparison = Comparison {
                redactor: &redactor,
                lines_left: 0,
                until,
            };
            let texts = ["same\na\nb\nc\nend\n", "same\nb\nx\nc\ny\nend\n"];
            let [before, after] = texts.map(str::to_owned);
            let diff = comparison.diff(&change, before, after);
            (diff.added, diff.removed)
        };
        let now = Instant::now();
        assert_eq!(diff_until(now + Duration::from_secs(600)), (2, 1));
        let Some(past) = now.checked_sub(Duration::from_millis(1)) else {
            return;
        };
        assert_eq!(diff_until(past), (4, 3));
    }
}
