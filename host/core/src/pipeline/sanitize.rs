//! Fifth stage: the result is cut to its limits and can no longer drive a terminal.

use serde_json::Value;

use crate::backend::Usage;
use crate::error::{Code, ToolError};
use crate::outcome::{Content, Output};
use crate::text;

use super::run::Ran;

/// A result within its limits, safe to show.
pub struct Clean {
    pub(super) result: Result<Output, ToolError>,
    pub(super) usage: Usage,
    pub(super) truncated: bool,
    pub(super) bytes_out: u64,
    pub(super) duration: std::time::Duration,
    pub(super) ran: bool,
}

/// What stands where text was cut.
const CUT: &str = "\n[cut: the result was longer than the limit]";

/// The longest message of an error, in characters.
const MESSAGE_MAX: usize = 2_000;

pub(super) fn sanitize(ran: Ran) -> Clean {
    let Ran {
        raw,
        tool,
        limits,
        duration,
    } = ran;
    let mut truncated = raw.truncated;
    let mut bytes_out = 0;
    let result = match raw.result {
        Ok(mut output) => {
            bytes_out = size(&output);
            truncated |= cut_content(&mut output.content, limits.output_chars);
            match output.structured.take() {
                Some(mut value) => {
                    let mut left = limits.output_chars;
                    let cut = cut_value(&mut value, &mut left);
                    truncated |= cut;
                    let schema = tool
                        .as_ref()
                        .and_then(|tool| tool.definition.output_schema.as_ref());
                    output.structured = Some(value);
                    match schema {
                        Some(schema) if cut => whole(output, schema),
                        _ => Ok(output),
                    }
                }
                None => Ok(output),
            }
        }
        Err(error) => {
            bytes_out += error.message.len() as u64;
            Err(clean_error(error, limits.output_chars, &mut truncated))
        }
    };
    Clean {
        result,
        usage: raw.usage,
        truncated,
        bytes_out,
        duration,
        ran: tool.is_some(),
    }
}

/// A cut result still has to be what the schema promises.
fn whole(output: Output, schema: &crate::schema::Schema) -> Result<Output, ToolError> {
    let fits = output
        .structured
        .as_ref()
        .is_some_and(|value| schema.validate("the result", value).is_ok());
    if fits {
        return Ok(output);
    }
    Err(ToolError::new(
        Code::LimitExceeded,
        "the structured result is longer than the limit (limits.outputChars) and cannot be cut; ask for less at a time",
    ))
}

fn size(output: &Output) -> u64 {
    let content: usize = output.content.iter().map(Content::len).sum();
    let structured = output.structured.as_ref().map_or(0, weight);
    (content + structured) as u64
}

/// About as many bytes as the value has as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => {
            map.iter()
                .map(|(key, item)| key.len() + weight(item) + 4)
                .sum::<usize>()
                + 2
        }
    }
}

/// Cuts all text parts to `max` characters together and makes them safe to show.
fn cut_content(content: &mut Vec<Content>, max: usize) -> bool {
    let mut left = max;
    let mut cut = false;
    content.retain_mut(|part| {
        let Content::Text { text } = part else {
            return true;
        };
        if cut {
            return false;
        }
        *text = text::sanitize(std::mem::take(text));
        if text.len() <= left {
            left -= text.len();
            return true;
        }
        let kept = text::prefix(text, left).len();
        if kept < text.len() {
            text.truncate(kept);
            text.push_str(CUT);
            cut = true;
        }
        left = left.saturating_sub(text.chars().count());
        true
    });
    cut
}

/// Cuts strings, arrays and objects in a value until it has about `left` characters.
fn cut_value(value: &mut Value, left: &mut usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            *left = left.saturating_sub(4);
            false
        }
        Value::String(text) => {
            let kept = text::prefix(text, *left).len();
            let cut = kept < text.len();
            *left = left.saturating_sub(kept + 2);
            text.truncate(kept);
            cut
        }
        Value::Array(items) => {
            let mut cut = false;
            let mut at = 0;
            while at < items.len() {
                if *left == 0 {
                    items.truncate(at);
                    return true;
                }
                cut |= cut_value(&mut items[at], left);
                at += 1;
            }
            cut
        }
        Value::Object(map) => {
            let before = map.len();
            let mut cut = false;
            map.retain(|key, item| {
                // What no longer has room goes; a schema that requires it makes an error of that.
                let kept = *left > 0;
                *left = left.saturating_sub(key.len() + 4);
                cut |= kept && cut_value(item, left);
                kept
            });
            cut || map.len() < before
        }
    }
}

fn clean_error(mut error: ToolError, max: usize, truncated: &mut bool) -> ToolError {
    let kept = text::prefix(&error.message, MESSAGE_MAX).len();
    if kept < error.message.len() {
        error.message.truncate(kept);
        error.message.push('…');
        *truncated = true;
    }
    error.message = text::sanitize(error.message);
    if let Some(details) = &mut error.details {
        let mut left = max;
        *truncated |= cut_value(details, &mut left);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_cut_between_characters_and_marked() {
        let mut content = vec![Content::text("äö".repeat(10)), Content::text("never seen")];
        assert!(cut_content(&mut content, 5));
        assert_eq!(content, [Content::text(format!("äöäöä{CUT}"))]);
        let mut short = vec![Content::text("äö"), Content::text("b")];
        assert!(!cut_content(&mut short, 100));
        assert_eq!(short.len(), 2);
    }

    #[test]
    fn values_are_cut_at_any_depth() {
        let mut value = json!({"size": 100, "lines": vec!["y"; 100], "content": "x".repeat(100)});
        let mut left = 60;
        assert!(cut_value(&mut value, &mut left));
        assert_eq!(value["size"], 100);
        assert!(value["lines"].as_array().unwrap().len() < 100);
        assert!(value.get("content").is_none());
        let many: serde_json::Map<_, _> =
            (0..10_000).map(|n| (format!("k{n}"), json!(n))).collect();
        let mut many = Value::Object(many);
        assert!(cut_value(&mut many, &mut 1_000));
        assert!(many.as_object().unwrap().len() < 200);
    }
}
