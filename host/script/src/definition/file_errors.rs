//! Errors in a tool file, each prefixed with its position. Errors never quote the content, because the file may be a
//! secret that was linked or copied into the folder.

use mimir_core::name_suggestions::{did_you_mean, with_nearest_name};
use mimir_core::{ToolError, ToolErrorCode, text};

use serde_json::Value;

use super::file_positions::FilePositions;
use super::yaml_file::{KEYS, PERMISSION_KEYS};
use crate::compile::{self, CodeFault};
use crate::spelling::is_misspelt;

/// Returns the faults in a file that does not deserialize: all unknown keys, the deserializer's error, and the faults
/// in the code.
pub(super) fn unreadable_file_errors(
    file_name: &str,
    content: &str,
    positions: &FilePositions,
    error: &serde_yaml::Error,
) -> Vec<ToolError> {
    let mut faults = vec![yaml_reader_error(file_name, error)];
    let Ok(Value::Object(file)) = serde_yaml::from_str(content) else {
        return faults;
    };
    let error_line = error.location().map(|at| at.line());
    let unknown = file.keys().filter(|key| !KEYS.contains(&key.as_str()));
    let mut unknown: Vec<(usize, &String)> =
        unknown.map(|key| (positions.line(key), key)).collect();
    unknown.sort_unstable();
    for (key_line, key) in unknown {
        if error_line != Some(key_line) {
            let problem = if let Some(hint) = misplaced_permission_hint(key) {
                hint
            } else if is_misspelt(key, KEYS) {
                format!("unknown key `{key}`.{}", did_you_mean(key, KEYS))
            } else {
                "unknown key.".to_owned()
            };
            let known = KEYS.join(", ");
            let message = format!("{file_name}:{key_line}: {problem} Known: {known}.");
            faults.push(ToolError::new(ToolErrorCode::InvalidInput, message));
        }
    }
    let is_typescript = match &file.get("runtime").map(Value::as_str) {
        None | Some(Some("typescript")) => true,
        Some(Some("javascript")) => false,
        _ => return faults,
    };
    if let Some(code) = file.get("code").and_then(Value::as_str)
        && let Err(faults_in_code) = compile::compile(code, is_typescript)
    {
        let faults_in_code = faults_in_code.into_iter();
        faults.extend(faults_in_code.map(|fault| code_error(file_name, positions, fault)));
    }
    faults
}

/// Converts an error of the YAML deserializer to an error with its position.
fn yaml_reader_error(file_name: &str, error: &serde_yaml::Error) -> ToolError {
    let message = error.to_string();
    let message = match error.location() {
        Some(location) => {
            let tail = format!(" at line {} column {}", location.line(), location.column());
            let message = message.strip_suffix(&tail).unwrap_or(&message);
            format!(
                "{file_name}:{}:{}: {}",
                location.line(),
                location.column(),
                redact_yaml_message(message)
            )
        }
        None => format!("{file_name}: {}", redact_yaml_message(&message)),
    };
    ToolError::new(ToolErrorCode::InvalidInput, text::visible(&message))
}

/// Removes content of the file from a message of the YAML deserializer. An unknown key is quoted only if it resembles a
/// known one.
fn redact_yaml_message(message: &str) -> String {
    // A path of keys may come first.
    let fault = message.strip_prefix("platform").unwrap_or(message);
    let fault = fault.strip_prefix(".docker").unwrap_or(fault);
    let fault = fault.strip_prefix(": ").unwrap_or(fault);
    if fault.starts_with("missing field ") || fault.starts_with("duplicate field ") {
        return message.to_owned();
    }
    // The part after `expected` does not come from the file.
    let (before_expected, expected) = match message.rfind(", expected ") {
        Some(at) => message.split_at(at),
        None => (message, ""),
    };
    let quoted = before_expected.find(['`', '"']).and_then(|open| {
        let close = before_expected.rfind(before_expected[open..].chars().next()?)?;
        (close > open).then_some((open, close))
    });
    let Some((open, close)) = quoted else {
        return message.to_owned();
    };
    let word = &before_expected[open + 1..close];
    let known = expected.split('`').skip(1).step_by(2);
    if expected.contains("`permissions`")
        && let Some(message) = misplaced_permission_hint(word)
    {
        return message;
    }
    if is_misspelt(word, known) {
        return with_nearest_name(message);
    }
    let message = format!(
        "{}{}{expected}",
        before_expected[..open].trim_end(),
        &before_expected[close + 1..]
    );
    message
        .replacen("unknown field", "unknown key", 1)
        .replacen("unknown variant", "unknown value", 1)
}

/// Returns the hint for a key of `permissions` that was written at the top level.
fn misplaced_permission_hint(key: &str) -> Option<String> {
    let known = PERMISSION_KEYS.contains(&key);
    known.then(|| format!("unknown key `{key}`. Did you mean `permissions.{key}`?"))
}

/// Creates the error for a fault in the code, with its position in the file.
pub(super) fn code_error(
    file_name: &str,
    positions: &FilePositions,
    fault: CodeFault,
) -> ToolError {
    let position = positions.code_position(fault.line, fault.column);
    let message = format!("{file_name}:{position}: {}", fault.message);
    ToolError::new(fault.code, text::visible(&message))
}
