//! Cuts a result to the output limit, at character boundaries, and marks a cut text.

use serde_json::Value;

use crate::outcome::{Content, json_len};
use crate::text;

/// The marker at the end of a cut text.
const CUT: &str = "\n[cut: the result was longer than the limit]";

/// Cuts all text parts to `max` characters in total. Returns true if a part was cut.
pub(super) fn cut_content(content: &mut Vec<Content>, max: usize) -> bool {
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
        let kept_len = text::prefix(text, left).len();
        if kept_len < text.len() {
            text.truncate(kept_len);
            text.push_str(CUT);
            cut = true;
        }
        left = left.saturating_sub(text.chars().count());
        true
    });
    cut
}

/// Strings up to this length, in bytes, are cut last: short strings often label the others.
const SHORT: usize = 256;

/// Number of JSON syntax characters, which count as well: a list of a million empty lists takes 3 MB.
const QUOTES: usize = 2;
const BRACKETS: usize = 2;
const COMMA: usize = 1;
/// Quotes, colon and comma.
const MEMBER: usize = QUOTES + 1 + COMMA;

/// Cuts a value to about `max` characters: first the longest strings, all to the same length, then the last values.
/// Returns true if the value was cut.
pub(super) fn cut_structured(item: &mut Value, max: usize) -> bool {
    let mut long = Vec::new();
    let rest = measure(item, &mut long);
    let remaining = max.checked_sub(rest);
    let shortened = match string_cap(&mut long, remaining.unwrap_or_default()) {
        Some(cap) => shorten(item, cap),
        None => false,
    };
    if remaining.is_some() {
        return shortened;
    }
    let mut left = max;
    cut_value(item, &mut left) || shortened
}

/// Returns the length of a value in characters, without the content of long strings. Adds their lengths to `long`.
fn measure(item: &Value, long: &mut Vec<usize>) -> usize {
    match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => json_len(item),
        Value::String(text) if text.len() <= SHORT => text.len() + QUOTES,
        Value::String(text) => {
            long.push(text.chars().count());
            QUOTES
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| measure(item, long) + COMMA);
            BRACKETS + items.sum::<usize>()
        }
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(key, item)| key.len() + MEMBER + measure(item, long));
            BRACKETS + members.sum::<usize>()
        }
    }
}

/// Returns the maximum length of long strings so that together they fit into `remaining`. `None` if they already fit.
fn string_cap(long: &mut [usize], remaining: usize) -> Option<usize> {
    if long.iter().sum::<usize>() <= remaining {
        return None;
    }
    long.sort_unstable();
    let mut left = remaining;
    for (at, length) in long.iter().enumerate() {
        let share = left / (long.len() - at);
        if *length > share {
            return Some(share);
        }
        left -= length;
    }
    None
}

fn shorten(item: &mut Value, cap: usize) -> bool {
    match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => {
            let kept = text::prefix(text, cap).len();
            let cut = text.len() > SHORT && kept < text.len();
            if cut {
                text.truncate(kept);
            }
            cut
        }
        // Shorten all of them: no short-circuit.
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |cut, item| shorten(item, cap) | cut),
        Value::Object(map) => map
            .values_mut()
            .fold(false, |cut, item| shorten(item, cap) | cut),
    }
}

/// Cuts a value to about `left` characters, and subtracts the used characters from `left`. Returns true if it was cut.
fn cut_value(item: &mut Value, left: &mut usize) -> bool {
    match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            *left = left.saturating_sub(json_len(item));
            false
        }
        Value::String(text) => {
            let kept = text::prefix(text, *left).len();
            let cut = kept < text.len();
            text.truncate(kept);
            *left = left.saturating_sub(text.chars().count() + QUOTES);
            cut
        }
        Value::Array(items) => {
            *left = left.saturating_sub(BRACKETS);
            let mut cut = false;
            let mut at = 0;
            while at < items.len() {
                if *left == 0 {
                    items.truncate(at);
                    return true;
                }
                cut |= cut_value(&mut items[at], left);
                *left = left.saturating_sub(COMMA);
                at += 1;
            }
            cut
        }
        Value::Object(map) => {
            *left = left.saturating_sub(BRACKETS);
            let before = map.len();
            let mut cut = false;
            map.retain(|key, item| {
                // Members that do not fit are removed. If the schema requires one, the result becomes an error.
                let kept = *left > 0;
                *left = left.saturating_sub(key.len() + MEMBER);
                cut |= kept && cut_value(item, left);
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
    fn cut_text_ends_between_characters_and_is_marked() {
        let mut content = vec![Content::text("äö".repeat(10)), Content::text("never seen")];
        assert!(super::cut_content(&mut content, 5));
        assert_eq!(content, [Content::text(format!("äöäöä{CUT}"))]);
        let mut short = vec![Content::text("äö"), Content::text("b")];
        assert!(!super::cut_content(&mut short, 100));
        assert_eq!(short.len(), 2);
    }

    #[test]
    fn cut_structured_shortens_the_longest_strings_first() {
        let mut file = json!({"content": "ä".repeat(9_000), "size": 9000, "encoding": "utf-8", "modified": null});
        assert!(cut_structured(&mut file, 1_000));
        assert_eq!(file["size"], 9000);
        assert_eq!(file["encoding"], "utf-8");
        let kept = file["content"].as_str().unwrap().chars().count();
        assert!((900..1_000).contains(&kept), "{kept}");
        let mut two = json!(["x".repeat(600), "y".repeat(5_000), "z"]);
        assert!(cut_structured(&mut two, 2_000));
        assert_eq!(
            two[0].as_str().unwrap().len(),
            600,
            "a string below its share was cut"
        );
        assert_eq!(two[2], "z");
        let mut fits = json!({"content": "x".repeat(900)});
        assert!(!cut_structured(&mut fits, 1_000));
    }

    #[test]
    fn cut_values_at_any_depth() {
        let mut value = json!({"size": 100, "lines": vec!["y"; 100], "content": "x".repeat(100)});
        let mut left = 60;
        assert!(super::cut_value(&mut value, &mut left));
        assert_eq!(value["size"], 100);
        assert!(value["lines"].as_array().unwrap().len() < 100);
        assert!(value.get("content").is_none());
        let many: serde_json::Map<_, _> =
            (0..10_000).map(|n| (format!("k{n}"), json!(n))).collect();
        let mut many = Value::Object(many);
        assert!(super::cut_value(&mut many, &mut 1_000));
        assert!(many.as_object().unwrap().len() < 200);
    }

    #[test]
    fn cut_structured_counts_brackets_and_commas() {
        let limit = 1_000;
        let lists = |item: Value| Value::Array(vec![item; 100_000]);
        for mut many in [
            lists(json!([])),
            lists(json!({})),
            lists(json!([[[], []]])),
            lists(json!({"a": {}})),
            lists(json!(0.123_456_789_012_345_6)),
            lists(json!("")),
        ] {
            assert!(cut_structured(&mut many, limit));
            // The last value that was added may be longer than the space that was left.
            let length = many.to_string().len();
            assert!((limit / 2..limit + 100).contains(&length), "{length}");
        }
    }
}
