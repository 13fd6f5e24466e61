//! What is wrong with a file, with its place in front, and without what stands in the file: that need not be a tool, but
//! a secret that somebody has linked to, or copied to the wrong place.

use mimir_core::names::{did_you_mean, nearer};
use mimir_core::{Code, ToolError, text};

use serde_json::Value;

use super::file::{KEYS, PERMISSION_KEYS};
use super::places::Places;
use crate::compile::{self, Fault};
use crate::misspelt::is_misspelt;

/// The faults of a file that the reader with the types does not take: all keys that are unknown, what that reader says,
/// and what is wrong with the code, if there is any.
pub(super) fn of_unread(
    place: &str,
    content: &str,
    places: &Places,
    error: &serde_yaml::Error,
) -> Vec<ToolError> {
    let mut faults = vec![unread(place, error)];
    let Ok(Value::Object(file)) = serde_yaml::from_str(content) else {
        return faults;
    };
    let line = error.location().map(|at| at.line());
    let unknown = file.keys().filter(|key| !KEYS.contains(&key.as_str()));
    let mut unknown: Vec<(usize, &String)> = unknown.map(|key| (places.line(key), key)).collect();
    unknown.sort_unstable();
    for (at, key) in unknown {
        if line != Some(at) {
            let said = if let Some(said) = misplaced(key) {
                said
            } else if is_misspelt(key, KEYS) {
                format!("unknown key `{key}`.{}", did_you_mean(key, KEYS))
            } else {
                "unknown key.".to_owned()
            };
            let known = KEYS.join(", ");
            let message = format!("{place}:{at}: {said} Known: {known}.");
            faults.push(ToolError::new(Code::InvalidInput, message));
        }
    }
    let typed = match &file.get("runtime").map(Value::as_str) {
        None | Some(Some("typescript")) => true,
        Some(Some("javascript")) => false,
        _ => return faults,
    };
    if let Some(code) = file.get("code").and_then(Value::as_str)
        && let Err(found) = compile::compile(code, typed)
    {
        let found = found.into_iter();
        faults.extend(found.map(|fault| wrong_code(place, places, fault)));
    }
    faults
}

/// What the YAML reader says, with its place in front.
fn unread(place: &str, error: &serde_yaml::Error) -> ToolError {
    let said = error.to_string();
    let message = match error.location() {
        Some(at) => {
            let tail = format!(" at line {} column {}", at.line(), at.column());
            let said = said.strip_suffix(&tail).unwrap_or(&said);
            format!("{place}:{}:{}: {}", at.line(), at.column(), withheld(said))
        }
        None => format!("{place}: {}", withheld(&said)),
    };
    ToolError::new(Code::InvalidInput, text::visible(&message))
}

/// What the YAML reader says, without what stands in the file: that need not be a tool, but a secret that somebody has
/// linked to, or copied to the wrong place. A key is told if it looks like one that is known.
fn withheld(said: &str) -> String {
    if said.starts_with("missing field ") || said.starts_with("duplicate field ") {
        return said.to_owned();
    }
    // What is expected, this program says.
    let (found, expected) = match said.rfind(", expected ") {
        Some(at) => said.split_at(at),
        None => (said, ""),
    };
    let quoted = found.find(['`', '"']).and_then(|open| {
        let close = found.rfind(found[open..].chars().next()?)?;
        (close > open).then_some((open, close))
    });
    let Some((open, close)) = quoted else {
        return said.to_owned();
    };
    let word = &found[open + 1..close];
    let known = expected.split('`').skip(1).step_by(2);
    if expected.contains("`permissions`")
        && let Some(said) = misplaced(word)
    {
        return said;
    }
    if is_misspelt(word, known) {
        return nearer(said);
    }
    let said = format!(
        "{}{}{expected}",
        found[..open].trim_end(),
        &found[close + 1..]
    );
    said.replacen("unknown field", "unknown key", 1)
        .replacen("unknown variant", "unknown value", 1)
}

/// The message for a key of `permissions` that is written at the top of the file.
fn misplaced(key: &str) -> Option<String> {
    let known = PERMISSION_KEYS.contains(&key);
    known.then(|| format!("unknown key `{key}`. Did you mean `permissions.{key}`?"))
}

pub(super) fn wrong_code(place: &str, places: &Places, fault: Fault) -> ToolError {
    let at = places.in_code(fault.line, fault.column);
    let message = format!("{place}:{at}: {}", fault.message);
    ToolError::new(fault.code, text::visible(&message))
}
