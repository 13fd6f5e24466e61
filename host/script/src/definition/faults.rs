//! What is wrong with a file, with its place in front, and without what stands in the file: that need not be a tool, but
//! a secret that somebody has linked to, or copied to the wrong place.

use mimir_core::names::{did_you_mean, nearer};
use mimir_core::{Code, ToolError, text};

use serde_json::Value;

use super::file::KEYS;
use super::places::Places;
use crate::compile::{self, Fault};

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
            let said = match is_misspelt(key, KEYS) {
                true => format!("unknown key `{key}`.{}", did_you_mean(key, KEYS)),
                false => "unknown key.".to_owned(),
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

/// Letters of a key that may be one misspelt.
const KEY_MAX: usize = 30;

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

/// Whether a word is a known one but for a letter in three.
fn is_misspelt<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain = word.len() <= KEY_MAX && word.chars().all(fits);
    let mut known = known.into_iter();
    plain && known.any(|one| distance(word.as_bytes(), one.as_bytes()) <= one.len() / 3)
}

/// Letters to change, add or leave out to make one word of the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.iter().enumerate() {
        let mut corner = at;
        row[0] = at + 1;
        for (to, b) in other.iter().enumerate() {
            let changed = corner + usize::from(!a.eq_ignore_ascii_case(b));
            corner = row[to + 1];
            row[to + 1] = changed.min(corner + 1).min(row[to] + 1);
        }
    }
    row[other.len()]
}

pub(super) fn wrong_code(place: &str, places: &Places, fault: Fault) -> ToolError {
    let at = places.in_code(fault.line, fault.column);
    let message = format!("{place}:{at}: {}", fault.message);
    ToolError::new(fault.code, text::visible(&message))
}
