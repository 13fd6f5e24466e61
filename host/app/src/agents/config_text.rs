//! Entries in the text of a config file: reading, setting and removing one without touching the rest.
//!
//! Each edited text is parsed again. If it differs from the old one by more than the entry, it is not used. This module
//! does no file access.

use serde_json::{Map, Value};

use super::agent_kind::ENTRY_NAME;
use super::{json_text, toml_text, yaml_text};

/// Format of a config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigFormat {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// Reason why a text is not edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextError {
    /// The text is not valid; line and column are counted from 1.
    NotValid {
        line: usize,
        column: usize,
        message: String,
    },
    /// The text is valid, but cannot be edited.
    NotEditable(String),
}

/// A change of the entry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EntryEdit<'a> {
    /// Adds the entry, or replaces it.
    Set(&'a Value),
    /// Removes the entry, and with `prune` also the key of the servers if no other is left.
    Remove { prune: bool },
}

/// The byte order mark that some editors put at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

impl ConfigFormat {
    /// Name for messages.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }

    /// Parses a text. An empty text is an empty object.
    pub(crate) fn parse(self, text: &str) -> Result<Value, TextError> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let value = match self {
            Self::Json => json_text::parse(text)?,
            Self::Toml => toml_text::parse(text)?,
            Self::Yaml => yaml_text::parse(text)?,
        };
        match value {
            Value::Null => Ok(Value::Object(Map::new())),
            Value::Object(_) => Ok(value),
            _ => Err(TextError::NotEditable(
                "the file does not contain an object".to_owned(),
            )),
        }
    }

    /// The entry of mimir in a text.
    pub(crate) fn entry(self, text: &str, servers: &str) -> Result<Option<Value>, TextError> {
        match self.parse(text)?.get(servers) {
            None => Ok(None),
            Some(Value::Null) if self == Self::Yaml => Ok(None),
            Some(Value::Object(servers)) => Ok(servers.get(ENTRY_NAME).cloned()),
            Some(_) => Err(TextError::NotEditable(format!(
                "`{servers}` is not an object"
            ))),
        }
    }

    /// Applies an edit to a text.
    pub(crate) fn edit(
        self,
        text: &str,
        servers: &str,
        edit: EntryEdit<'_>,
    ) -> Result<String, TextError> {
        // Reports an unsuitable value at the key, too.
        self.entry(text, servers)?;
        let before = self.parse(text)?;
        let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let has_mark = body.len() != text.len();
        let body = if body.trim().is_empty() { "" } else { body };
        let edited = match self {
            Self::Json => json_text::edit(body, servers, edit)?,
            Self::Toml => toml_text::edit(body, servers, edit)?,
            Self::Yaml => yaml_text::edit(body, servers, edit)?,
        };
        let mut after = restore_line_ends(body, edited);
        if has_mark {
            after.insert(0, BYTE_ORDER_MARK);
        }
        let wanted = with_edit(before, servers, edit);
        match self.parse(&after) {
            Ok(parsed) if without_empty(&parsed, servers) == without_empty(&wanted, servers) => {
                Ok(after)
            }
            _ => Err(TextError::NotEditable(
                "the file has a form that mimir cannot edit".to_owned(),
            )),
        }
    }
}

/// Converts new lines to CRLF if all lines of the old text end so.
fn restore_line_ends(before: &str, after: String) -> String {
    let lines = before.matches('\n').count();
    if lines > 0 && before.matches("\r\n").count() == lines {
        after.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        after
    }
}

/// The value after an edit.
fn with_edit(mut value: Value, servers: &str, edit: EntryEdit<'_>) -> Value {
    let Some(root) = value.as_object_mut() else {
        return value;
    };
    let all = root
        .entry(servers)
        .or_insert_with(|| Value::Object(Map::new()));
    if all.is_null() {
        *all = Value::Object(Map::new());
    }
    if let Some(all) = all.as_object_mut() {
        match edit {
            EntryEdit::Set(entry) => drop(all.insert(ENTRY_NAME.to_owned(), entry.clone())),
            EntryEdit::Remove { .. } => drop(all.shift_remove(ENTRY_NAME)),
        }
    }
    value
}

/// The value without the key of the servers if it has none: formats differ in what they write then.
fn without_empty(value: &Value, servers: &str) -> Value {
    let mut value = value.clone();
    if let Some(root) = value.as_object_mut() {
        let is_empty = root
            .get(servers)
            .is_some_and(|all| all.is_null() || all.as_object().is_some_and(Map::is_empty));
        if is_empty {
            root.shift_remove(servers);
        }
    }
    value
}

/// Line and column, from 1, of a byte position.
pub(crate) fn line_and_column(text: &str, position: usize) -> (usize, usize) {
    let before = text.get(..position).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count();
    (before.matches('\n').count() + 1, column + 1)
}

#[cfg(test)]
mod tests;
