//! Texts of strangers in responses: characters that a page would not show are written as `\u{…}`.
//!
//! Backends do this where they read texts. This is the second line of defence, for all responses alike.

use std::borrow::Cow;

use mimir_core::text;
use serde_json::Value;

/// Makes all strings and keys of a JSON value visible. Line feeds and tabs stay.
pub(crate) fn make_visible(item: &mut Value) {
    text::escape_value(item);
    escape_controls(item);
}

/// Makes all strings of a JSON text visible. A text that is not JSON becomes `null`.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    // Control characters are escaped in JSON, and the other invisible characters are not ASCII.
    let is_plain = json
        .bytes()
        .all(|byte| byte.is_ascii() && byte >= b' ' && byte != 0x7f);
    if is_plain && !json.contains(r"\u") && !json.contains(r"\r") {
        return Cow::Borrowed(json);
    }
    let mut item: Value = serde_json::from_str(json).unwrap_or_default();
    make_visible(&mut item);
    Cow::Owned(item.to_string())
}

fn escape_controls(item: &mut Value) {
    match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            if text.chars().any(is_hidden) {
                *text = visible_text(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(escape_controls),
        Value::Object(map) => {
            if map.keys().any(|key| key.chars().any(is_hidden)) {
                let old = std::mem::take(map);
                let renamed = old
                    .into_iter()
                    .map(|(key, item)| (visible_text(&key), item));
                map.extend(renamed);
            }
            map.values_mut().for_each(escape_controls);
        }
    }
}

fn visible_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_text_shows_hidden_characters_and_keeps_lines() {
        let mut item = json!({"a\u{202e}": ["x\u{1b}[31m", "line\n\ttab", {"z\u{7}": "\u{200b}"}]});
        make_visible(&mut item);
        let expected =
            json!({"a\\u{202e}": ["x\\u{1b}[31m", "line\n\ttab", {"z\\u{7}": "\\u{200b}"}]});
        assert_eq!(item, expected);
    }

    #[test]
    fn plain_text_of_events_is_visible_too() {
        assert!(matches!(visible_json(r#"{"a":"b"}"#), Cow::Borrowed(_)));
        for (json, expected) in [
            (r#"{"a":"\u001b[2J"}"#, r#"{"a":"\\u{1b}[2J"}"#),
            ("{\"a\":\"\u{202e}\"}", r#"{"a":"\\u{202e}"}"#),
            (r#"{"a":"x\ry"}"#, r#"{"a":"x\\u{d}y"}"#),
            ("{\"a\":\"ü\"}", "{\"a\":\"ü\"}"),
            // A line break would end the event.
            ("{\n\"a\":1}", r#"{"a":1}"#),
            ("\u{202e}", "null"),
        ] {
            assert_eq!(visible_json(json), expected);
        }
    }
}
