//! Restores masked values in the lines of a patch.

use std::sync::Arc;

use mimir_patch::{HunkEdit, HunkLine, PatchChange, PatchHunk};

use super::{RestoreTask, mask_error};
use crate::error::ToolError;
use crate::pipeline::approve::Approved;
use crate::redact::Redactor;
use crate::redact::restore::{has_mark, rules_of_marks};
use crate::text;

/// Replaces the marks in the hunks of a patch by the values in the files that the hunks change. Returns a redactor that
/// masks these values, too. `None` if the patch has no marks.
pub(super) fn restore_patch(call: &mut Approved) -> Result<Option<Redactor>, ToolError> {
    let checked = &call.checked;
    let given = checked.arguments.get("patch").and_then(|it| it.as_str());
    let Some(given) = given.filter(|patch| has_mark(patch)) else {
        return Ok(None);
    };
    // The tool reports a patch that cannot be read.
    let Ok(patch) = mimir_patch::parse(given) else {
        return Ok(None);
    };
    let session = call.session();
    let mut redactor = call.redactor().clone();
    let mut edits = Vec::new();
    for file in &patch.files {
        let hunks = file.change.hunks();
        if !hunks.iter().any(has_marks) {
            continue;
        }
        let is_new = matches!(file.change, PatchChange::Add(_));
        let current = if is_new {
            None
        } else {
            let backend = &checked.tool.backend;
            backend.read_text(&file.path, checked.paths())
        };
        let current = current.unwrap_or_default();
        let task = RestoreTask {
            path: &file.path,
            current: &current,
            redactor: call.redactor(),
            session: &session,
        };
        for hunk in hunks.iter().filter(|hunk| has_marks(hunk)) {
            edits.push(if is_new {
                task.restore_added(hunk)?
            } else {
                task.restore_hunk(hunk)?
            });
        }
        let masked = call.redactor().mask_restorable(&current);
        redactor = redactor.with_restored(masked.values());
    }
    let restored = mimir_patch::replace_hunks(given, &edits);
    // Restored lines without counts may look like the header of another file, which nobody has judged.
    let is_same = mimir_patch::parse(&restored)
        .is_ok_and(|again| mimir_patch::keeps_files(&patch, &edits, &again));
    if !is_same {
        return Err(ToolError::invalid_input(
            "nothing was changed: with the masked values in place, the patch would be read in another way; write the \
             hunks with line counts, such as `@@ -1,2 +1,2 @@`, or change the lines around the mask with edit_file",
        ));
    }
    Arc::make_mut(&mut call.checked.arguments)["patch"] = restored.into();
    call.mask_with(redactor.clone());
    Ok(Some(redactor))
}

fn has_marks(hunk: &PatchHunk) -> bool {
    hunk.lines.iter().any(|line| has_mark(&line.text))
}

fn join<'l>(lines: impl Iterator<Item = &'l HunkLine>) -> String {
    let texts: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
    texts.join("\n")
}

impl RestoreTask<'_> {
    /// Restores the lines of a new file, which can only contain marks that are literal text.
    fn restore_added<'h>(&self, hunk: &'h PatchHunk) -> Result<HunkEdit<'h>, ToolError> {
        let new = join(hunk.new_lines());
        let restored = self.restore_whole(&new)?;
        Ok(HunkEdit {
            hunk,
            old: String::new(),
            new: text_of(restored.into_iter().next()).unwrap_or(new),
        })
    }

    /// Restores the lines of a hunk that changes a file. Fails if the lines do not match exactly, because then it is
    /// not known which values the marks stand for.
    fn restore_hunk<'h>(&self, hunk: &'h PatchHunk) -> Result<HunkEdit<'h>, ToolError> {
        let (old, new) = (join(hunk.old_lines()), join(hunk.new_lines()));
        let mut restored = self.restore_edit(&old, &new, "new", false)?.into_iter();
        let parts = text_of(restored.next()).zip(text_of(restored.next()));
        let Some((old, new)) = parts else {
            let rules = rules_of_marks(&old).into_iter().chain(rules_of_marks(&new));
            let rule = rules.into_iter().next().unwrap_or_default().to_owned();
            let message = format!(
                "`{}` was not changed: the hunk at line {} of the patch contains the mask `[REDACTED:{rule}]`, and its \
                 lines do not match the file exactly; copy the lines around the mask as read_file shows them",
                text::visible(self.path),
                hunk.patch_line()
            );
            return Err(mask_error(message, &rule));
        };
        Ok(HunkEdit { hunk, old, new })
    }
}

fn text_of(argument: Option<(String, serde_json::Value)>) -> Option<String> {
    argument.and_then(|(_, value)| value.as_str().map(str::to_owned))
}
