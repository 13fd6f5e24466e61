//! The report about hunks that do not match.

use std::fmt::Write;

use mimir_patch::PatchHunk;
use mimir_sdk::prelude::*;
use mimir_sdk::text;
use serde_json::{Value, json};

use super::matching::HunkMismatch;
use super::text_file::{FileText, RejectedHunk};
use crate::workspace_path::WorkspacePath;

/// Maximum number of hunks in an error.
const MAX_REJECTED: usize = 10;

/// Maximum number of lines of a file in an error, per hunk.
const MAX_SHOWN_LINES: usize = 12;

/// Maximum number of positions that are listed for an ambiguous hunk.
const MAX_LISTED_LINES: usize = 10;

/// Number of lines shown before a line that differs.
const LINES_BEFORE: usize = 3;

/// Collects the hunks that do not match.
#[derive(Default)]
pub struct RejectedHunks {
    message: String,
    details: Vec<Value>,
    total: usize,
}

impl RejectedHunks {
    /// Adds the rejected hunks of a file.
    pub fn add(
        &mut self,
        location: &WorkspacePath,
        file: &FileText,
        hunks: &[PatchHunk],
        rejected: Vec<RejectedHunk>,
    ) {
        for reject in rejected {
            self.total += 1;
            let Some(hunk) = hunks.get(reject.number - 1) else {
                continue;
            };
            if self.details.len() < MAX_REJECTED {
                self.describe(location, file, hunk, &reject);
            }
        }
    }

    /// Adds a deletion whose lines are not all lines of the file.
    pub fn add_incomplete_deletion(&mut self, location: &WorkspacePath, remaining: usize) {
        self.total += 1;
        let _ = write!(
            self.message,
            "\n`{location}` would be deleted, but has {remaining} more lines than the patch removes; delete it with `*** Delete File: {location}` if that is intended"
        );
        self.details
            .push(json!({ "path": location.exact(), "remainingLines": remaining }));
    }

    /// Fails if hunks were rejected.
    pub fn into_result(self) -> Result<()> {
        if self.total == 0 {
            return Ok(());
        }
        let hidden = self.total - self.details.len().min(self.total);
        let more = match hidden {
            0 => String::new(),
            hidden => format!("\n… and {hidden} more"),
        };
        Err(Error::not_found(format_args!(
            "the patch does not match the files, so nothing was changed:{}{more}",
            self.message
        ))
        .with_details(json!({ "rejects": self.details })))
    }

    fn describe(
        &mut self,
        location: &WorkspacePath,
        file: &FileText,
        hunk: &PatchHunk,
        reject: &RejectedHunk,
    ) {
        let message = &mut self.message;
        let (number, patch_line) = (reject.number, hunk.patch_line());
        let _ = write!(
            message,
            "\n`{location}`, hunk {number} (line {patch_line} of the patch): "
        );
        let mut details = json!({
            "path": location.exact(),
            "hunk": number,
            "patchLine": patch_line,
        });
        match &reject.mismatch {
            HunkMismatch::Anchor(anchor) => {
                let anchor = text::brief(anchor);
                let _ = write!(
                    message,
                    "no line after the previous hunk begins with `{anchor}`; write a line of the file after `@@`, or leave it out"
                );
            }
            HunkMismatch::Ambiguous(positions) => {
                let lines: Vec<usize> = positions.iter().map(|at| at + 1).collect();
                let listed: Vec<String> = lines
                    .iter()
                    .take(MAX_LISTED_LINES)
                    .map(usize::to_string)
                    .collect();
                let more = if lines.len() > MAX_LISTED_LINES {
                    " and more"
                } else {
                    ""
                };
                let _ = write!(
                    message,
                    "its lines occur more than once, at lines {}{more}; add context lines, or a line `@@ …` with the text of a line before it",
                    listed.join(", ")
                );
                details["lines"] = lines.into_iter().take(MAX_LISTED_LINES).collect();
            }
            HunkMismatch::Missing { nearest, differs } => {
                if reject.already_applied {
                    message.push_str("its new lines are already in the file; ");
                    details["alreadyApplied"] = true.into();
                }
                let expected = hunk.old_lines().nth(*differs);
                let expected = expected.map_or("", |line| line.text.as_str());
                let line = nearest + differs;
                let actual = file.lines_from(line, 1).first();
                let _ = match actual {
                    Some(actual) => write!(
                        message,
                        "expected `{}`, but line {} is `{}`",
                        text::brief(expected),
                        line + 1,
                        text::brief(actual)
                    ),
                    None => write!(
                        message,
                        "expected `{}`, but the file has {} lines",
                        text::brief(expected),
                        file.line_count()
                    ),
                };
                let first = line.saturating_sub(LINES_BEFORE);
                let found = file.lines_from(first, MAX_SHOWN_LINES);
                if !found.is_empty() {
                    message.push_str("; the lines there are:");
                }
                for (at, line) in (first + 1..).zip(found) {
                    let _ = write!(message, "\n{at}|{}", text::brief(line));
                }
                details["line"] = (line + 1).into();
                details["expected"] = expected.into();
                details["found"] = found.iter().map(|line| line.as_ref()).collect();
            }
        }
        self.details.push(details);
    }
}
