//! What is wrong in a config file, in the words of a person who is looking at it.

use mimir_core::names::did_you_mean;
use mimir_core::{Code, ToolError};

/// The error with file, line and column, and the nearest name where a key or a value is unknown.
pub fn explain(file: &str, error: &serde_yaml::Error) -> ToolError {
    let mut message = error.to_string();
    let mut place = file.to_owned();
    if let Some(at) = error.location() {
        place = format!("{file}:{}:{}", at.line(), at.column());
        let tail = format!(" at line {} column {}", at.line(), at.column());
        message = message.replace(&tail, "");
    }
    let message = mimir_core::text::visible(mimir_core::text::prefix(&nearer(&message), 500));
    ToolError::new(Code::InvalidInput, format!("{place}: {message}"))
}

/// serde names what it does not know and what it knows, all in backticks; the nearest name is what helps.
fn nearer(message: &str) -> String {
    for (theirs, ours) in [
        ("unknown field ", "unknown key "),
        ("unknown variant ", "unknown value "),
    ] {
        let Some((before, after)) = message.split_once(theirs) else {
            continue;
        };
        let names: Vec<&str> = after.split('`').skip(1).step_by(2).collect();
        let Some((unknown, known)) = names.split_first() else {
            continue;
        };
        let near = did_you_mean(unknown, known.iter().copied());
        let all = if known.is_empty() {
            " Nothing is known there.".to_owned()
        } else {
            format!(" Known: {}.", known.join(", "))
        };
        return format!("{before}{ours}`{unknown}`.{near}{all}");
    }
    message.to_owned()
}
