//! Edits of single keys in the text of a config file. Comments, quotes, order and line endings are preserved.
//!
//! The result is parsed again. If it differs from the old content by more than the edit, the edit fails, and the error
//! contains the text to insert by hand.
//!
//! Out of scope: file access.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_yaml::{Mapping, Value};
use yaml_edit::YamlFile;

/// An edit of a config file. A path lists the keys from the outermost to the innermost.
#[derive(Debug, Clone)]
pub enum ConfigEdit {
    /// Sets the key, replacing any value.
    Set(Vec<String>, serde_json::Value),
    /// Removes the key. The caller must check that it exists.
    Remove(Vec<String>),
}

impl ConfigEdit {
    /// Creates an edit that sets the key at `path`.
    pub fn set_key(path: &[&str], value: impl Into<serde_json::Value>) -> Self {
        Self::Set(owned(path), value.into())
    }

    /// Creates an edit that removes the key at `path`.
    pub fn remove(path: &[&str]) -> Self {
        Self::Remove(owned(path))
    }

    /// Reads a value as a person writes it: YAML, of which JSON is a part.
    ///
    /// # Errors
    /// The text is not valid YAML.
    pub fn read_value(text: &str) -> Result<serde_json::Value, ToolError> {
        serde_yaml::from_str(text).map_err(|error| {
            let message = format!("the value is not valid YAML: {error}");
            ToolError::invalid_input(visible(&message))
        })
    }

    /// Returns instructions for making the edit by hand.
    fn manual_instructions(&self) -> String {
        match self {
            Self::Set(path, value) => {
                let block = nested(path, &to_yaml(value));
                format!("add\n{}", text_of(&block).trim_end())
            }
            Self::Remove(path) => format!("remove `{}`", visible(&path.join("."))),
        }
    }

    /// Applies the edit to a parsed value.
    fn apply_to_value(&self, value: &mut Value) {
        let (path, new_value) = match self {
            Self::Set(path, new_value) => (path, Some(to_yaml(new_value))),
            Self::Remove(path) => (path, None),
        };
        let Some((last, outer)) = path.split_last() else {
            return;
        };
        let mut current = value;
        for key in outer {
            if !current.is_mapping() {
                *current = Value::Mapping(Mapping::new());
            }
            let Some(map) = current.as_mapping_mut() else {
                return;
            };
            let key = Value::String(key.clone());
            current = map.entry(key).or_insert(Value::Null);
        }
        if current.is_null() && new_value.is_some() {
            *current = Value::Mapping(Mapping::new());
        }
        if let Some(map) = current.as_mapping_mut() {
            let key = Value::String(last.clone());
            match new_value {
                Some(new_value) => drop(map.insert(key, new_value)),
                None => drop(map.remove(&key)),
            }
        }
    }

    /// Extends a removal to the outer blocks that it would leave empty.
    fn with_emptied_blocks(&self, before: &Value) -> Self {
        let Self::Remove(path) = self else {
            return self.clone();
        };
        let mut path = path.clone();
        while let Some((_, outer)) = path.split_last()
            && !outer.is_empty()
            && mapping_at(before, outer).is_some_and(|map| map.len() == 1)
        {
            path.truncate(outer.len());
        }
        Self::Remove(path)
    }

    /// Applies the edit to the text. Returns `None` if the YAML syntax of the text is not supported.
    fn apply_to_text(&self, file: &YamlFile) -> Option<()> {
        let mut map = file.ensure_document().as_mapping()?;
        let (path, new_value) = match self {
            Self::Set(path, new_value) => (path, Some(new_value)),
            Self::Remove(path) => (path, None),
        };
        let (last, outer) = path.split_last()?;
        for (at, key) in outer.iter().enumerate() {
            if let Some(inner) = map.get_mapping(key.as_str()) {
                map = inner;
                continue;
            }
            // An alias is replaced and not followed, because its target is also used elsewhere.
            let block = nested(&path[at + 1..], &to_yaml(new_value?));
            return set_value(&map, key, &block);
        }
        match new_value {
            Some(new_value) => set_value(&map, last, &to_yaml(new_value)),
            None => map.remove(last.as_str()).map(drop),
        }
    }
}

/// The byte order mark that some editors put at the start of a UTF-8 file.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Removes the byte order mark from a text. The YAML parser would count it as a column, so that the first key would be
/// indented differently from the others.
pub fn strip_bom(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Applies edits to the text of a config file. A block that a removal leaves empty is removed too, unless it contains
/// comments.
pub fn apply_edits(text: &str, edits: &[ConfigEdit]) -> Result<String, ToolError> {
    // Counting `#` is a rough check: a removed block may have contained comments. If so, keep the empty block. A `#` in
    // a value only makes this more cautious.
    let count_hashes = |text: &str| text.matches('#').count();
    match try_edits(text, edits, true) {
        Ok(after) if count_hashes(&after) >= count_hashes(text) => Ok(after),
        _ => try_edits(text, edits, false),
    }
}

/// Applies edits to the text and checks the result. With `prune`, also removes blocks that a removal leaves empty.
fn try_edits(text: &str, edits: &[ConfigEdit], prune: bool) -> Result<String, ToolError> {
    let mut expected = parse(text)?;
    let unsupported = || {
        let instructions: Vec<String> = edits.iter().map(ConfigEdit::manual_instructions).collect();
        let message = "mimir cannot edit this config file without changing other parts of it";
        // A blank line between the edits, because each may end with a block of YAML to paste.
        ToolError::invalid_input(format!(
            "{message}; edit it by hand: {}",
            instructions.join("\n\n")
        ))
    };
    let mark = if strip_bom(text) == text {
        ""
    } else {
        BYTE_ORDER_MARK
    };
    let text = strip_bom(text);
    let file = YamlFile::from_str(text).map_err(|_| unsupported())?;
    for edit in &merge_new_blocks(&expected, edits) {
        let edit = if prune {
            edit.with_emptied_blocks(&expected)
        } else {
            edit.clone()
        };
        edit.apply_to_value(&mut expected);
        edit.apply_to_text(&file).ok_or_else(unsupported)?;
    }
    let mut after = format!("{mark}{file}");
    if expected.as_mapping().is_some_and(Mapping::is_empty) {
        remove_empty_root(&mut after);
    }
    if !after.ends_with('\n') {
        after.push_str(if text.contains("\r\n") { "\r\n" } else { "\n" });
    }
    match parse(&after) {
        Ok(value) if value == expected => Ok(after),
        _ => Err(unsupported()),
    }
}

/// Merges edits below the same missing block into one, because each edit processes the whole text.
fn merge_new_blocks(before: &Value, edits: &[ConfigEdit]) -> Vec<ConfigEdit> {
    // A removal depends on the result of the edits before it.
    if edits
        .iter()
        .any(|edit| matches!(edit, ConfigEdit::Remove(_)))
    {
        return edits.to_vec();
    }
    let mut after = before.clone();
    edits
        .iter()
        .for_each(|edit| edit.apply_to_value(&mut after));
    let mut merged_blocks = BTreeSet::new();
    let mut merged = Vec::new();
    for edit in edits {
        if let ConfigEdit::Set(path, _) = edit
            && let Some(block) = missing_block(before, path)
        {
            if merged_blocks.insert(block)
                && let Some(value) = value_at(&after, block)
                && let Ok(value) = serde_json::to_value(value)
            {
                merged.push(ConfigEdit::Set(block.to_vec(), value));
            }
        } else {
            merged.push(edit.clone());
        }
    }
    merged
}

/// Returns the part of a path up to the first missing key; `None` if all keys exist, or a value on the path is not a
/// mapping.
fn missing_block<'p>(before: &Value, path: &'p [String]) -> Option<&'p [String]> {
    let mut at = before;
    for (index, key) in path.iter().enumerate() {
        match at.as_mapping()?.get(key.as_str()) {
            Some(inner) => at = inner,
            None => return path.get(..=index),
        }
    }
    None
}

/// Parses the text of a config file. An empty file is an empty mapping.
fn parse(text: &str) -> Result<Value, ToolError> {
    let yaml = strip_bom(text);
    mimir_script::yaml::check_yaml(yaml).map_err(|rejection| {
        ToolError::invalid_input(format!("the config file is not valid YAML: {rejection}"))
    })?;
    let value = serde_yaml::from_str(yaml).map_err(|error| {
        ToolError::invalid_input(format!("the config file is not valid YAML: {error}"))
    })?;
    Ok(match value {
        Value::Null => Value::Mapping(Mapping::new()),
        value => value,
    })
}

fn set_value(map: &yaml_edit::Mapping, key: &str, value: &Value) -> Option<()> {
    let value = YamlFile::from_str(&text_of(value)).ok()?.ensure_document();
    if let Some(value) = value.as_mapping() {
        map.set(key, value);
    } else if let Some(value) = value.as_sequence() {
        map.set(key, value);
    } else {
        map.set(key, value.as_scalar()?);
    }
    Some(())
}

/// Returns the value at a path of keys.
fn value_at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |at, key| at.get(key.as_str()))
}

/// Returns the mapping at a path of keys.
fn mapping_at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Mapping> {
    value_at(value, path)?.as_mapping()
}

/// Removes the `{}` of an empty file, because keys that a person adds below it would be invalid.
fn remove_empty_root(text: &mut String) {
    let trimmed = text.trim_end();
    if let Some(before) = trimmed.strip_suffix("{}")
        && (before.is_empty() || before.ends_with('\n'))
    {
        text.truncate(before.len());
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}

/// Nests a value under these keys.
fn nested(path: &[String], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, key| {
        Value::Mapping(Mapping::from_iter([(Value::String(key.clone()), inner)]))
    })
}

/// Converts JSON to a YAML value.
fn to_yaml(value: &serde_json::Value) -> Value {
    serde_yaml::to_value(value).unwrap_or_default()
}

fn text_of(value: &Value) -> String {
    serde_yaml::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
