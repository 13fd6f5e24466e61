//! Comparison of the outcome of a call with what a case expects.

use std::fmt;
use std::time::Duration;

use mimir_core::outcome::ToolOutput;
use mimir_core::text::{prefix_bytes, sanitize};
use mimir_core::{Content, ToolError, ToolErrorCode};
use serde_json::Value;
use similar::TextDiff;

use super::PluginCase;

/// Maximum length of a shown text in bytes.
const MAX_SHOWN: usize = 4 << 10;

/// Maximum length in bytes of each text that is compared by lines.
const MAX_DIFF: usize = 256 << 10;

/// Maximum time to find a short diff. After it, the diff is longer than necessary.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// A difference between an outcome and what was expected. It is displayed in several lines, without control characters.
#[derive(Debug, Clone, PartialEq)]
pub enum CaseMismatch {
    /// The text differs.
    Text {
        /// Lines that are missing, and lines that are not expected.
        diff: String,
    },
    /// A part of the text is missing.
    MissingPart {
        /// The part.
        part: String,
        /// The whole text.
        text: String,
    },
    /// The structured result differs.
    Structured {
        /// Lines that are missing, and lines that are not expected.
        diff: String,
    },
    /// There is no structured result.
    Unstructured {
        /// The whole text.
        text: String,
    },
    /// The call failed.
    Failure {
        /// The error.
        error: ToolError,
    },
    /// The call succeeded.
    Success {
        /// The expected code.
        expected: ToolErrorCode,
        /// The whole text.
        text: String,
    },
    /// The call failed with another code.
    Code {
        /// The expected code.
        expected: ToolErrorCode,
        /// The error.
        error: ToolError,
    },
}

impl PluginCase {
    /// Compares the outcome of a call with what the case expects. Returns the first difference.
    pub fn mismatch(&self, result: Result<&ToolOutput, &ToolError>) -> Option<CaseMismatch> {
        let output = match (result, self.error) {
            (Ok(output), None) => output,
            (Ok(output), Some(expected)) => {
                let text = output_text(output);
                return Some(CaseMismatch::Success { expected, text });
            }
            (Err(error), Some(expected)) if error.code == expected => {
                return self.missing_part(&error.message);
            }
            (Err(error), expected) => {
                let error = error.clone();
                return Some(match expected {
                    Some(expected) => CaseMismatch::Code { expected, error },
                    None => CaseMismatch::Failure { error },
                });
            }
        };
        let text = output_text(output);
        if let Some(expected) = &self.text
            && without_last_breaks(expected) != without_last_breaks(&text)
        {
            let diff = diff(without_last_breaks(expected), without_last_breaks(&text));
            return Some(CaseMismatch::Text { diff });
        }
        if let Some(mismatch) = self.missing_part(&text) {
            return Some(mismatch);
        }
        match (&self.structured, &output.structured) {
            (Some(expected), Some(actual)) if !is_same_json(expected, actual) => {
                let diff = diff(&sorted_json(expected), &sorted_json(actual));
                Some(CaseMismatch::Structured { diff })
            }
            (Some(_), None) => Some(CaseMismatch::Unstructured { text }),
            _ => None,
        }
    }

    fn missing_part(&self, text: &str) -> Option<CaseMismatch> {
        let parts = self.contains.as_slice().iter();
        let missing = parts
            .into_iter()
            .find(|part| !text.contains(part.as_str()))?;
        Some(CaseMismatch::MissingPart {
            part: missing.clone(),
            text: text.to_owned(),
        })
    }
}

/// Returns the text parts of a result.
fn output_text(output: &ToolOutput) -> String {
    let texts = output.content.iter().filter_map(|part| match part {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns a text without line breaks at its end: a text after `|` in YAML ends with one.
fn without_last_breaks(text: &str) -> &str {
    text.trim_end_matches(['\n', '\r'])
}

/// Compares JSON values. Integers are equal to floating-point numbers of the same value.
fn is_same_json(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() != other.is_f64() && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_same_json(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has_same = |(key, value)| {
                other
                    .get(key)
                    .is_some_and(|other| is_same_json(value, other))
            };
            one.len() == other.len() && one.iter().all(has_same)
        }
        _ => one == other,
    }
}

/// Formats JSON in lines, with sorted keys.
fn sorted_json(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    format!("{value:#}")
}

/// Returns the changed lines with some context: `-` is expected, `+` is actual.
fn diff(expected: &str, actual: &str) -> String {
    let [expected, actual] = [expected, actual].map(|text| shown(prefix_bytes(text, MAX_DIFF)));
    let mut config = TextDiff::configure();
    config.timeout(DIFF_TIMEOUT);
    let diff = config.diff_lines(&expected, &actual);
    let mut unified = diff.unified_diff();
    unified
        .context_radius(CONTEXT_LINES)
        .missing_newline_hint(false);
    let mut text = "--- expected\n+++ actual\n".to_owned();
    for hunk in unified.iter_hunks() {
        // The header of a hunk has line numbers, which mean nothing without a file.
        if !text.ends_with("actual\n") {
            text.push_str("…\n");
        }
        for change in hunk.iter_changes() {
            let line = change.value().trim_end_matches('\n');
            text.push_str(&format!("{}{line}\n", change.tag()));
        }
    }
    shortened(&text)
}

/// Returns a text for a terminal, with escapes for what cannot be seen.
fn shown(text: &str) -> String {
    // Otherwise, both would be removed or changed, and with them the difference.
    let text = text
        .replace('\u{1b}', "\\u{1b}")
        .replace('\u{9b}', "\\u{9b}");
    sanitize(text.replace('\r', "\\r"))
}

/// Returns at most [`MAX_SHOWN`] bytes.
fn shortened(text: &str) -> String {
    let start = prefix_bytes(text, MAX_SHOWN);
    if start.len() == text.len() {
        return text.trim_end().to_owned();
    }
    let rest = mimir_core::text::bytes((text.len() - start.len()) as u64);
    format!("{}\n… ({rest} more)", start.trim_end())
}

impl fmt::Display for CaseMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |text: &str| shortened(&shown(text));
        match self {
            Self::Text { diff } => write!(f, "the text differs:\n{diff}"),
            Self::MissingPart { part, text } => {
                write!(
                    f,
                    "the text does not contain\n{}\nit is\n{}",
                    show(part),
                    show(text)
                )
            }
            Self::Structured { diff } => write!(f, "the structured result differs:\n{diff}"),
            Self::Unstructured { text } => {
                write!(
                    f,
                    "expected a structured result, found only the text:\n{}",
                    show(text)
                )
            }
            Self::Failure { error } => {
                write!(
                    f,
                    "the call failed: {} {}",
                    error.code,
                    show(&error.message)
                )
            }
            Self::Success { expected, text } => {
                write!(
                    f,
                    "expected {expected}, but the call succeeded with the text\n{}",
                    show(text)
                )
            }
            Self::Code { expected, error } => {
                write!(
                    f,
                    "expected {expected}, but the call failed with {} {}",
                    error.code,
                    show(&error.message)
                )
            }
        }
    }
}
