//! Reading and editing of mimir's entry in a config file in JSON with comments.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

use super::agent_kind::ENTRY_NAME;
use super::config_text::{EntryEdit, TextError};

/// Comments and trailing commas are accepted, since several agents do; everything else is strict.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses a text. An empty text is null.
pub(crate) fn parse(text: &str) -> Result<Value, TextError> {
    Ok(root(text)?.to_serde_value().unwrap_or(Value::Null))
}

fn root(text: &str) -> Result<CstRootNode, TextError> {
    CstRootNode::parse(text, &OPTIONS).map_err(|error| TextError::NotValid {
        line: error.line_display(),
        column: error.column_display(),
        message: lower_first(&error.kind().to_string()),
    })
}

/// Applies an edit to the entry below the key `servers`.
pub(crate) fn edit(text: &str, servers: &str, edit: EntryEdit<'_>) -> Result<String, TextError> {
    let mut root = root(text)?;
    if root.value().is_none() && matches!(edit, EntryEdit::Set(_)) {
        root = self::root(&format!("{}{{}}\n", comment_lines(text)))?;
    }
    let not_editable = || TextError::NotEditable(format!("`{servers}` cannot be edited"));
    match edit {
        EntryEdit::Set(entry) => {
            let object = root.object_value().ok_or_else(not_editable)?;
            let entries = object
                .object_value_or_create(servers)
                .ok_or_else(not_editable)?;
            match entries.get(ENTRY_NAME) {
                Some(property) => property.set_value(input_value(entry)),
                None => drop(entries.append(ENTRY_NAME, input_value(entry))),
            }
        }
        EntryEdit::Remove { prune } => {
            let object = root.object_value().ok_or_else(not_editable)?;
            if let Some(property) = object.get(servers)
                && let Some(entries) = property.object_value()
                && let Some(entry) = entries.get(ENTRY_NAME)
            {
                entry.remove();
                let has_comment = entries.children().iter().any(|child| child.is_comment());
                if prune && entries.properties().is_empty() && !has_comment {
                    property.remove();
                }
            }
        }
    }
    Ok(root.to_string())
}

/// Returns the comments of a text without a value, with a line break at the end.
fn comment_lines(text: &str) -> String {
    match text.trim_end() {
        "" => String::new(),
        comments => format!("{comments}\n"),
    }
}

fn input_value(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input_value).collect()),
        Value::Object(values) => CstInputValue::Object(
            values
                .iter()
                .map(|(key, value)| (key.clone(), input_value(value)))
                .collect(),
        ),
    }
}

/// Returns the message with a lower-case first letter, for use in the middle of a sentence.
fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}
