//! Reading and editing of mimir's entry in a YAML config file.

use mimir_core::ToolError;
use serde_json::Value;

use super::agent_kind::ENTRY_NAME;
use super::config_text::{EntryEdit, TextError};
use crate::settings::{ConfigEdit, apply_edits};

/// Parses a text. An empty text is null.
pub(crate) fn parse(text: &str) -> Result<Value, TextError> {
    mimir_script::yaml::check_yaml(text).map_err(|rejection| TextError::NotValid {
        line: rejection.line,
        column: rejection.column,
        message: rejection.message.to_string(),
    })?;
    let value: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| not_valid(&error))?;
    serde_json::to_value(value)
        .map_err(|_| TextError::NotEditable("the file has keys that are not strings".to_owned()))
}

fn not_valid(error: &serde_yaml::Error) -> TextError {
    let location = error.location();
    let (line, column) = location.map_or((1, 1), |location| (location.line(), location.column()));
    let message = error.to_string();
    // The position is removed, because callers show it before the message.
    let end = message.find(" at line ").unwrap_or(message.len());
    TextError::NotValid {
        line,
        column,
        message: message.get(..end).unwrap_or(&message).to_owned(),
    }
}

/// Applies an edit to the entry below the key `servers`. A removal also removes the key if no entry and no comment is
/// left, with and without `prune`.
pub(crate) fn edit(text: &str, servers: &str, edit: EntryEdit<'_>) -> Result<String, TextError> {
    let path = [servers, ENTRY_NAME];
    let edit = match edit {
        EntryEdit::Set(entry) => ConfigEdit::set_key(&path, entry.clone()),
        EntryEdit::Remove { .. } => ConfigEdit::remove(&path),
    };
    apply_edits(text, &[edit]).map_err(|_: ToolError| {
        TextError::NotEditable("the file has a form that mimir cannot edit".to_owned())
    })
}
