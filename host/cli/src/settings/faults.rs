//! What is wrong in a config file, in the words of a person who is looking at it.

use mimir_core::names::nearer;
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

/// The error of what is not read at all.
pub fn unfit(file: &str, unfit: &mimir_script::yaml::Unfit) -> ToolError {
    ToolError::new(Code::InvalidInput, format!("{file}:{unfit}"))
}
