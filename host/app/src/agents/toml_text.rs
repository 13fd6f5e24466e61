//! Entries in TOML.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::agent_kind::ENTRY_NAME;
use super::config_text::{EntryEdit, TextError, line_and_column};

/// Parses a text.
pub(crate) fn parse(text: &str) -> Result<Value, TextError> {
    document(text)?;
    toml_edit::de::from_str(text).map_err(|error| not_valid(text, error.span(), error.message()))
}

fn document(text: &str) -> Result<DocumentMut, TextError> {
    text.parse::<DocumentMut>()
        .map_err(|error| not_valid(text, error.span(), error.message()))
}

fn not_valid(text: &str, span: Option<std::ops::Range<usize>>, message: &str) -> TextError {
    let (line, column) = line_and_column(text, span.map_or(0, |span| span.start));
    TextError::NotValid {
        line,
        column,
        message: message.replace('\n', "; "),
    }
}

/// Applies an edit.
pub(crate) fn edit(text: &str, servers: &str, edit: EntryEdit<'_>) -> Result<String, TextError> {
    let mut document = document(text)?;
    let root = document.as_table_mut();
    match edit {
        EntryEdit::Set(entry) => {
            let all = root.entry(servers).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            let all = all
                .as_table_like_mut()
                .ok_or_else(|| TextError::NotEditable(format!("`{servers}` is not a table")))?;
            set_entry(all, entry)?;
        }
        EntryEdit::Remove { prune } => {
            if let Some(all) = root.get_mut(servers).and_then(Item::as_table_like_mut) {
                let removed = all.remove(ENTRY_NAME);
                if prune && all.is_empty() {
                    root.remove(servers);
                }
                let comment = removed.as_ref().and_then(comment_above);
                if let Some(comment) = comment {
                    return Ok(with_comment(text, &document.to_string(), comment));
                }
            }
        }
    }
    Ok(document.to_string())
}

/// The lines between a table and the one above it, if there is a comment among them.
fn comment_above(item: &Item) -> Option<&str> {
    let prefix = item.as_table()?.decor().prefix()?.as_str()?;
    prefix.contains('#').then_some(prefix)
}

/// Puts the comment of a table that was removed back where it was: it may be about the whole file.
fn with_comment(before: &str, after: &str, comment: &str) -> String {
    let is_place = |at: usize| {
        before[at + comment.len()..].starts_with('[')
            && after.get(..at).is_some_and(|start| start == &before[..at])
    };
    let places = before.match_indices(comment).map(|(at, _)| at);
    let at = places.filter(|at| is_place(*at)).last();
    let at = at.unwrap_or(after.len());
    format!("{}{comment}{}", &after[..at], &after[at..])
}

/// Sets the entry. The table of an existing one stays, with the comment above it.
fn set_entry(all: &mut dyn TableLike, entry: &Value) -> Result<(), TextError> {
    let keys = entry.as_object().into_iter().flatten();
    let keys: Vec<_> = keys
        .filter_map(|(key, value)| Some((key, toml_value(value)?)))
        .collect();
    if let Some(existing) = all
        .get_mut(ENTRY_NAME)
        .and_then(|existing| existing.as_table_like_mut())
    {
        let old: Vec<String> = existing.iter().map(|(key, _)| key.to_owned()).collect();
        for key in old
            .iter()
            .filter(|old| !keys.iter().any(|(key, _)| key == old))
        {
            existing.remove(key);
        }
        for (key, value) in keys {
            existing.insert(key, Item::Value(value));
        }
        return Ok(());
    }
    let mut table = Table::new();
    for (key, value) in keys {
        table.insert(key, Item::Value(value));
    }
    all.insert(ENTRY_NAME, Item::Table(table));
    Ok(())
}

/// Converts a value; null has no form in TOML.
fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(value) => value.as_str().into(),
        Value::Array(values) => values
            .iter()
            .filter_map(toml_value)
            .collect::<Array>()
            .into(),
        Value::Object(values) => values
            .iter()
            .filter_map(|(key, value)| Some((key.as_str(), toml_value(value)?)))
            .collect::<InlineTable>()
            .into(),
    })
}
