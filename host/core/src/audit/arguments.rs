//! The arguments of a call in the audit log: their structure, with long texts shortened. The full text that a tool
//! writes is content, and an event has to fit on a line.

use serde_json::{Map, Value};

/// Limits: characters of a text, items of a list or an object, levels.
const TEXT_MAX: usize = 200;
const ITEMS_MAX: usize = 20;
const DEPTH_MAX: usize = 6;

/// A copy of bounded length. Mask it before: truncation can leave the beginning of a secret.
pub fn brief(arguments: &Value) -> Value {
    level(arguments, DEPTH_MAX)
}

fn level(value: &Value, depth: usize) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => text_of(text),
        Value::Array(items) if depth == 0 => left_out(items.len()),
        Value::Object(map) if depth == 0 => left_out(map.len()),
        Value::Array(items) => {
            let mut kept: Vec<_> = items
                .iter()
                .take(ITEMS_MAX)
                .map(|item| level(item, depth - 1))
                .collect();
            if items.len() > ITEMS_MAX {
                kept.push(left_out(items.len() - ITEMS_MAX));
            }
            Value::Array(kept)
        }
        Value::Object(map) => {
            let mut kept: Map<_, _> = map
                .iter()
                .take(ITEMS_MAX)
                .map(|(key, item)| (cut(key), level(item, depth - 1)))
                .collect();
            if map.len() > ITEMS_MAX {
                kept.insert("…".to_owned(), left_out(map.len() - ITEMS_MAX));
            }
            Value::Object(kept)
        }
    }
}

fn text_of(text: &str) -> Value {
    Value::String(cut(text))
}

fn cut(text: &str) -> String {
    let kept = crate::text::prefix(text, TEXT_MAX);
    match text.len() - kept.len() {
        0 => kept.to_owned(),
        rest => format!("{kept}… ({rest} bytes more)"),
    }
}

fn left_out(count: usize) -> Value {
    Value::String(format!("… ({count} more)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn audit_arguments_are_cut_if_they_are_long() {
        let short = json!({"path": "a.txt", "n": 1.5, "list": [true, null, {"x": "ä"}]});
        assert_eq!(brief(&short), short);
        let mut deep = json!("bottom");
        for _ in 0..200 {
            deep = json!([deep]);
        }
        let long = json!({
            "content": "ä".repeat(1 << 20),
            "list": vec!["y".repeat(1000); 1000],
            "deep": deep,
        });
        let kept = brief(&long);
        assert_eq!(
            kept["content"],
            format!("{}… ({} bytes more)", "ä".repeat(200), (1 << 21) - 400)
        );
        assert_eq!(kept["list"][ITEMS_MAX], "… (980 more)");
        assert!(kept.to_string().len() < 8000);
        assert!(kept["deep"].to_string().contains("… (1 more)"));
    }

    #[test]
    fn audit_arguments_of_a_wide_tree_are_bounded() {
        let many =
            |item: Value| Value::Object((0..30).map(|n| (format!("{n}"), item.clone())).collect());
        let wide = (0..3).fold(json!("z"), |inner, _| many(inner));
        assert!(brief(&wide).to_string().len() < 200_000);
    }
}
