//! Edits of settings files: shown as a difference first, then written as `mimir config set` does.

use std::sync::Arc;

use mimir_console::{PolicyEdit, PolicyEditFile};
use mimir_core::policy::UnusedSettingKind;
use mimir_core::text::visible;
use mimir_core::{Tool, ToolError};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use mimir::settings::{ConfigEdit, ConfigOwner, ConfigPreview, ConfigSchema};

use super::workspace::LoadedWorkspace;

/// Maximum number of changes of one edit, and of lines of a difference.
const CHANGES_MAX: usize = 100;
const LINES_MAX: usize = 2_000;

/// Number of unchanged lines around each change.
const CONTEXT_LINES: usize = 3;

/// Returns the owner of the edited file.
pub fn owner(edit: &PolicyEdit) -> ConfigOwner {
    match edit.file {
        PolicyEditFile::User => ConfigOwner::User,
        PolicyEditFile::Project => ConfigOwner::Project,
    }
}

/// Converts an edit. Fails if a key is unknown, or is removed but not set.
pub fn config_edits(
    workspace: &LoadedWorkspace,
    edit: &PolicyEdit,
) -> Result<Vec<ConfigEdit>, ToolError> {
    if edit.changes.is_empty() || edit.changes.len() > CHANGES_MAX {
        return Err(ToolError::invalid_input(format!(
            "an edit needs 1 to {CHANGES_MAX} changes, but it has {}",
            edit.changes.len()
        )));
    }
    let schema = ConfigSchema::default();
    let owner = owner(edit);
    let changes = edit.changes.iter().map(|change| {
        let path = schema.path(&change.key)?;
        if !change.value.is_null() {
            return Ok(ConfigEdit::Set(path, change.value.clone()));
        }
        let layers = workspace.setup.settings.layer_values(&path);
        if !layers.iter().any(|layer| layer.owner == owner) {
            return Err(ToolError::not_found(format!(
                "{} is not set in this file",
                visible(&path.join("."))
            )));
        }
        Ok(ConfigEdit::Remove(path))
    });
    changes.collect()
}

/// Applies an edit in memory.
pub fn preview(workspace: &LoadedWorkspace, edit: &PolicyEdit) -> Result<ConfigPreview, ToolError> {
    let edits = config_edits(workspace, edit)?;
    ConfigPreview::new(&workspace.setup, owner(edit), &edits)
}

/// Returns the difference that an edit makes, and what is wrong with it. An edit that is not valid has no difference.
pub fn propose(workspace: &LoadedWorkspace, edit: &PolicyEdit) -> Result<Value, ToolError> {
    let preview = match preview(workspace, edit) {
        Ok(preview) => preview,
        Err(error) => {
            return Ok(json!({
                "diff": [],
                "digest": Value::Null,
                "problems": [error.message],
                "notes": [],
            }));
        }
    };
    let redactor = workspace.redactor()?;
    let (mut before, mut after) = (preview.before.clone(), preview.after.clone());
    redactor.mask_texts([&mut before, &mut after]);
    Ok(json!({
        "diff": [diff(&preview.shown, &before, &after)],
        "digest": preview.digest,
        "problems": [],
        "notes": notes(workspace, edit, &preview),
    }))
}

/// Returns the settings without effect, and says if they only apply after the project's file is accepted.
fn notes(workspace: &LoadedWorkspace, edit: &PolicyEdit, preview: &ConfigPreview) -> Vec<String> {
    let mut notes = Vec::new();
    if let Ok(policy) = preview.settings.policy() {
        let snapshot = workspace.snapshot();
        let tools: Vec<&Tool> = snapshot.registry.tools().iter().map(Arc::as_ref).collect();
        let unused = policy.unused_settings(&tools).into_iter();
        let unused = unused.filter(|setting| setting.kind == UnusedSettingKind::NoEffect);
        let is_edited = |key: &str| {
            edit.changes
                .iter()
                .any(|change| key.starts_with(&change.key) || change.key.starts_with(key))
        };
        let unused = unused
            .filter(|setting| is_edited(setting.key.split(": ").next().unwrap_or(&setting.key)));
        notes.extend(unused.map(|setting| setting.to_string()));
    }
    let is_project = edit.file == PolicyEditFile::Project;
    let settings = &workspace.setup.settings;
    if is_project && !(settings.withheld().is_empty() && settings.unaccepted_texts().is_empty()) {
        notes.push(
            "the project's settings do not take full effect until you accept them: `mimir policy accept`"
                .to_owned(),
        );
    }
    notes
}

/// Writes an edit, if the file still has the digest from which the difference was made.
pub fn apply(
    workspace: &LoadedWorkspace,
    edit: &PolicyEdit,
    digest: &str,
    by: &str,
) -> Result<Value, ToolError> {
    let edits = config_edits(workspace, edit)?;
    let owner = owner(edit);
    let shown = ConfigPreview::write(&workspace.setup, owner, &edits, digest)?;
    let keys: Vec<&str> = edit
        .changes
        .iter()
        .map(|change| change.key.as_str())
        .collect();
    let detail = format!("{} changed by {} at the console", keys.join(", "), by);
    workspace.record(&LoadedWorkspace::change_event(&shown, &visible(&detail)));
    Ok(json!({ "applied": true, "file": shown }))
}

/// Returns the difference of two texts.
fn diff(path: &str, before: &str, after: &str) -> Value {
    let compared = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    let mut truncated = false;
    let mut push = |kind: &str, text: &str| {
        if lines.len() < LINES_MAX {
            lines.push(json!({ "type": kind, "text": text.trim_end_matches(['\n', '\r']) }));
        } else {
            truncated = true;
        }
    };
    for hunk in compared
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .iter_hunks()
    {
        push("hunk", &hunk.header().to_string());
        for line in hunk.iter_changes() {
            let kind = match line.tag() {
                ChangeTag::Equal => "context",
                ChangeTag::Insert => "add",
                ChangeTag::Delete => "remove",
            };
            push(kind, line.value());
        }
    }
    let kind = match (before.is_empty(), after.is_empty()) {
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    json!({ "path": path, "kind": kind, "lines": lines, "truncated": truncated })
}
