//! Edits of settings files: shown as a difference first, then written as `mimir config set` does.
//!
//! The console of a server that others use edits rules only: other settings could start programs as the server's user, or
//! give people more rights.

use std::sync::Arc;

use mimir_console::{PolicyChange, PolicyEdit, PolicyEditFile};
use mimir_core::config::{Config, NetworkSettings};
use mimir_core::policy::UnusedSettingKind;
use mimir_core::text::visible;
use mimir_core::{Tool, ToolError, ToolErrorCode};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use mimir::settings::{ConfigEdit, ConfigLocation, ConfigOwner, ConfigPreview, ConfigSchema};

use super::workspace::LoadedWorkspace;

/// Maximum number of changes of one edit, and of lines of a difference.
const CHANGES_MAX: usize = 100;
const LINES_MAX: usize = 2_000;

/// Maximum length of a value as text in bytes.
const VALUE_MAX: usize = 64 << 10;

/// Number of unchanged lines around each change.
const CONTEXT_LINES: usize = 3;

/// The settings that a console may edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditScope {
    /// All settings: the console belongs to the user who owns the files.
    AllSettings,
    /// Only rules about calls: others use the console.
    RulesOnly,
}

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
        let path = schema.path(change.key.trim())?;
        let value = new_value(change)?;
        if !value.is_null() {
            return Ok(ConfigEdit::Set(path, value));
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

fn new_value(change: &PolicyChange) -> Result<Value, ToolError> {
    match &change.yaml {
        Some(_) if !change.value.is_null() => Err(ToolError::invalid_input(
            "a change has `value` and `yaml`: expected one of both",
        )),
        Some(text) if text.len() > VALUE_MAX => Err(ToolError::invalid_input(format!(
            "the value has {} bytes: expected at most {VALUE_MAX}; edit the file itself",
            text.len()
        ))),
        Some(text) => ConfigEdit::read_value(text),
        None => Ok(change.value.clone()),
    }
}

/// Fails if an edit changes a setting that this console does not edit.
fn check_scope(
    workspace: &LoadedWorkspace,
    edit: &PolicyEdit,
    preview: &ConfigPreview,
    scope: EditScope,
) -> Result<(), ToolError> {
    if scope == EditScope::AllSettings {
        return Ok(());
    }
    let refused = |what: &str, why: &str| {
        Err(ToolError::permission_denied(format!(
            "{what} cannot be changed at the console of a server, because {why}: expected a rule, which is an approval, a list of tools, commands, files or hosts, or a limit; the server's operator can edit {}",
            visible(&preview.shown)
        )))
    };
    let changed = preview.changed_paths()?;
    if let Some(path) = changed.iter().find(|path| !Config::is_rule_key(path)) {
        return refused(
            &format!("`{}`", visible(&path.join("."))),
            "it could start programs, give people more rights, or switch off protection",
        );
    }
    let config = |settings: &mimir::settings::MergedSettings| {
        let owner = owner(edit);
        let file = settings.files.iter().find(|file| file.owner == owner);
        file.map(|file| listed_addresses(&file.config))
            .unwrap_or_default()
    };
    let before = config(&workspace.setup.settings);
    let added = config(&preview.settings)
        .into_iter()
        .find(|address| !before.contains(address));
    match added {
        Some(address) => refused(
            &format!("the address `{}` in a list of hosts", visible(&address)),
            "it could open the server's own network to tools",
        ),
        None => Ok(()),
    }
}

/// Returns the addresses and this machine's names in the lists of hosts, which allow requests to private networks.
fn listed_addresses(config: &Config) -> Vec<String> {
    let of_tools = config.tools.each.values().map(|tool| &tool.network);
    let blocks = std::iter::once(&config.network).chain(of_tools);
    let hosts = blocks.flat_map(|block: &NetworkSettings| block.allowed_hosts.iter().flatten());
    let private = hosts.filter(|host| host.is_address() || host.is_this_machine());
    private.map(ToString::to_string).collect()
}

/// Applies an edit in memory.
pub fn preview(workspace: &LoadedWorkspace, edit: &PolicyEdit) -> Result<ConfigPreview, ToolError> {
    let edits = config_edits(workspace, edit)?;
    ConfigPreview::new(&workspace.setup, owner(edit), &edits)
}

/// Returns the difference that an edit makes, and what is wrong with it. An edit that is not valid has no difference.
pub fn propose(
    workspace: &LoadedWorkspace,
    edit: &PolicyEdit,
    scope: EditScope,
) -> Result<Value, ToolError> {
    let checked = preview(workspace, edit).and_then(|preview| {
        check_scope(workspace, edit, &preview, scope)?;
        Ok(preview)
    });
    let preview = match checked {
        Ok(preview) => preview,
        Err(error) => {
            return Ok(json!({
                "diff": [],
                "digest": Value::Null,
                "problems": [without_position(workspace, edit, &error.message)],
                "fault": fault(edit, &error),
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

/// Removes the position in the edited file from a message: the person has not seen the edited file.
fn without_position<'a>(
    workspace: &LoadedWorkspace,
    edit: &PolicyEdit,
    message: &'a str,
) -> &'a str {
    let setup = &workspace.setup;
    let locations = ConfigLocation::all_locations(&setup.user_dirs, &setup.workspace);
    let file = locations
        .iter()
        .find(|location| location.owner == owner(edit));
    let rest = file.and_then(|file| message.strip_prefix(&format!("{}:", file.shown)));
    rest.and_then(|rest| rest.split_once(": "))
        .filter(|(position, _)| {
            position
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b':')
        })
        .map_or(message, |(_, text)| text)
}

/// Returns the field of an edit that an error is about: the key or the value of a change, with the kind of value that is
/// expected. Null if it is about all of them.
fn fault(edit: &PolicyEdit, error: &ToolError) -> Value {
    let schema = ConfigSchema::default();
    let unknown = edit
        .changes
        .iter()
        .position(|change| schema.path(change.key.trim()).is_err());
    if let Some(change) = unknown {
        return json!({ "change": change, "field": "key" });
    }
    let is_refused = error.code == ToolErrorCode::PermissionDenied;
    let unreadable = edit
        .changes
        .iter()
        .position(|change| new_value(change).is_err());
    let only = (edit.changes.len() == 1).then_some(0);
    let Some(change) = unreadable.or(only) else {
        return Value::Null;
    };
    let path = schema.path(edit.changes[change].key.trim());
    let expected = path.ok().and_then(|path| schema.expected_value(&path));
    let is_about_key = is_refused || error.code == ToolErrorCode::NotFound;
    let field = if is_about_key { "key" } else { "value" };
    json!({ "change": change, "field": field, "expected": expected.filter(|_| !is_about_key) })
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
    scope: EditScope,
    digest: &str,
    by: &str,
) -> Result<Value, ToolError> {
    let edits = config_edits(workspace, edit)?;
    if scope == EditScope::RulesOnly {
        let preview = preview(workspace, edit)?;
        // The check holds for the text that is written: writing compares the digest again.
        if preview.digest != digest {
            return Err(ToolError::unavailable(
                "the file has changed since the difference was shown; nothing was written: look at the difference again",
            ));
        }
        check_scope(workspace, edit, &preview, scope)?;
    }
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
