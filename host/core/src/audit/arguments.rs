//! Shortens the arguments of a call for the audit log, where an event has to fit on a line.

use serde_json::{Map, Value};

/// Limits: characters of a text, items of a list or an object, nesting levels.
const TEXT_MAX: usize = 200;
const ITEMS_MAX: usize = 20;
const DEPTH_MAX: usize = 6;

/// Returns a copy of bounded size. Mask secrets before, because truncation can leave the beginning of a secret.
pub fn shorten_arguments(arguments: &Value) -> Value {
    shorten(arguments, DEPTH_MAX)
}

fn shorten(value: &Value, depth: usize) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => shorten_text(text),
        Value::Array(items) if depth == 0 => omitted(items.len()),
        Value::Object(map) if depth == 0 => omitted(map.len()),
        Value::Array(items) => {
            let mut shortened: Vec<_> = items
                .iter()
                .take(ITEMS_MAX)
                .map(|item| shorten(item, depth - 1))
                .collect();
            if items.len() > ITEMS_MAX {
                shortened.push(omitted(items.len() - ITEMS_MAX));
            }
            Value::Array(shortened)
        }
        Value::Object(map) => {
            let mut shortened: Map<_, _> = map
                .iter()
                .take(ITEMS_MAX)
                .map(|(key, item)| (truncate(key), shorten(item, depth - 1)))
                .collect();
            if map.len() > ITEMS_MAX {
                shortened.insert("…".to_owned(), omitted(map.len() - ITEMS_MAX));
            }
            Value::Object(shortened)
        }
    }
}

fn shorten_text(text: &str) -> Value {
    Value::String(truncate(text))
}

fn truncate(text: &str) -> String {
    let prefix = crate::text::prefix(text, TEXT_MAX);
    match text.len() - prefix.len() {
        0 => prefix.to_owned(),
        rest => format!("{prefix}… ({rest} bytes more)"),
    }
}

fn omitted(count: usize) -> Value {
    Value::String(format!("… ({count} more)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn audit_arguments_are_cut_if_they_are_long() {
        let short = json!({"path": "a.txt", "n": 1.5, "list": [true, null, {"x": "ä"}]});
        assert_eq!(shorten_arguments(&short), short);
        let mut deep = json!("bottom");
        for _ in 0..200 {
            deep = json!([deep]);
        }
        let long = json!({
            "content": "ä".repeat(1 << 20),
            "list": vec!["y".repeat(1000); 1000],
            "deep": deep,
        });
        let brief_copy = shorten_arguments(&long);
        assert_eq!(
            brief_copy["content"],
            format!("{}… ({} bytes more)", "ä".repeat(200), (1 << 21) - 400)
        );
        assert_eq!(brief_copy["list"][ITEMS_MAX], "… (980 more)");
        assert!(brief_copy.to_string().len() < 8000);
        assert!(brief_copy["deep"].to_string().contains("… (1 more)"));
    }

    #[test]
    fn audit_arguments_of_a_wide_tree_are_bounded() {
        let many =
            |item: Value| Value::Object((0..30).map(|n| (format!("{n}"), item.clone())).collect());
        let wide = (0..3).fold(json!("z"), |inner, _| many(inner));
        assert!(shorten_arguments(&wide).to_string().len() < 200_000);
    }
}
