//! Cutting a result to what its reader gets, between characters and marked.

use serde_json::Value;

use crate::outcome::Content;
use crate::text;

/// What stands where text was cut.
const CUT: &str = "\n[cut: the result was longer than the limit]";

/// Cuts all text parts to `max` characters together.
pub(super) fn content(content: &mut Vec<Content>, max: usize) -> bool {
    let mut left = max;
    let mut cut = false;
    content.retain_mut(|part| {
        let Content::Text { text } = part else {
            return true;
        };
        if cut {
            return false;
        }
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
pub(super) fn value(item: &mut Value, left: &mut usize) -> bool {
    match item {
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
                cut |= value(&mut items[at], left);
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
                cut |= kept && value(item, left);
                kept
            });
            cut || map.len() < before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_cut_between_characters_and_marked() {
        let mut content = vec![Content::text("äö".repeat(10)), Content::text("never seen")];
        assert!(super::content(&mut content, 5));
        assert_eq!(content, [Content::text(format!("äöäöä{CUT}"))]);
        let mut short = vec![Content::text("äö"), Content::text("b")];
        assert!(!super::content(&mut short, 100));
        assert_eq!(short.len(), 2);
    }

    #[test]
    fn values_are_cut_at_any_depth() {
        let mut value = json!({"size": 100, "lines": vec!["y"; 100], "content": "x".repeat(100)});
        let mut left = 60;
        assert!(super::value(&mut value, &mut left));
        assert_eq!(value["size"], 100);
        assert!(value["lines"].as_array().unwrap().len() < 100);
        assert!(value.get("content").is_none());
        let many: serde_json::Map<_, _> =
            (0..10_000).map(|n| (format!("k{n}"), json!(n))).collect();
        let mut many = Value::Object(many);
        assert!(super::value(&mut many, &mut 1_000));
        assert!(many.as_object().unwrap().len() < 200);
    }
}
