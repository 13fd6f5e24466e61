//! The names, texts and values of an OpenAPI document that become part of a tool's schema, each bounded in size.

use std::collections::HashSet;

use mimir_core::text;
use serde_json::Value;

/// Maximum size of all values of `enum` in bytes.
const MAX_ENUM_BYTES: usize = 4 << 10;

/// Maximum nesting of the value of `default`, `const` or `enum`. The files of APIs have a limit as well.
const MAX_VALUE_DEPTH: usize = 8;

/// Maximum length of the name of a parameter, a field or a member in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 200;

/// Returns the distinct values of `enum`, and `null` if it is accepted as well. `None` if they are too large.
pub(super) fn unique_values(values: &[Value], is_nullable: bool) -> Option<Vec<Value>> {
    let null = is_nullable.then_some(&Value::Null);
    let (mut unique, mut known, mut bytes) = (Vec::new(), HashSet::new(), 0);
    for value in values.iter().chain(null) {
        let text = small_json(value, MAX_ENUM_BYTES - bytes)?;
        if !known.contains(&text) {
            bytes += text.len();
            known.insert(text);
            unique.push(value.clone());
        }
    }
    Some(unique)
}

/// Returns a value as JSON if it has at most `max` bytes and is not nested deep. Stops at the first byte that is too
/// much.
pub(super) fn small_json(value: &Value, max: usize) -> Option<Vec<u8>> {
    struct BoundedText(Vec<u8>, usize);
    impl std::io::Write for BoundedText {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0.len() + bytes.len() > self.1 {
                return Err(std::io::ErrorKind::FileTooLarge.into());
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut text = BoundedText(Vec::new(), max);
    serde_json::to_writer(&mut text, value).ok()?;
    is_shallow(value, MAX_VALUE_DEPTH).then_some(text.0)
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_shallow(item, depth - 1)),
        Value::Object(members) => {
            depth > 0 && members.values().all(|value| is_shallow(value, depth - 1))
        }
        _ => true,
    }
}

/// Returns true for the name of a parameter, a field or a member that is not too long.
pub(crate) fn is_usable_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
}

/// Returns the name of a member for a schema, with invisible characters made visible.
pub(crate) fn visible_name(name: &str) -> String {
    text::visible(name)
}

/// Shortens a text to this many characters at the end of a word, and makes invisible characters visible.
pub(crate) fn shorten(description: &str, max: usize) -> String {
    // An invisible character becomes up to ten visible ones.
    let description = text::prefix(description, max * 4).trim();
    let description = text::sanitize(text::prefix(description, max * 2).to_owned());
    let description = description.trim();
    let short = text::prefix(description, max);
    if short.len() == description.len() {
        return short.to_owned();
    }
    let end = short.rfind(char::is_whitespace).unwrap_or(short.len());
    format!("{}…", short[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn openapi_descriptions_are_shortened_and_visible() {
        assert_eq!(shorten("  one two three ", 9), "one two…");
        assert_eq!(shorten("short", 9), "short");
        assert_eq!(shorten("a\u{202e}b\u{1b}[31mc", 40), "a\\u{202e}bc");
    }

    #[test]
    fn openapi_enum_values_are_distinct_and_bounded() {
        let values = [json!("a"), json!("a"), json!(1)];
        let expected = vec![json!("a"), json!(1), Value::Null];
        assert_eq!(unique_values(&values, true), Some(expected));
        let long = json!("x".repeat(MAX_ENUM_BYTES / 2));
        let longer = json!("y".repeat(MAX_ENUM_BYTES / 2));
        assert_eq!(unique_values(&[long, longer], false), None);
        let mut nested = json!([]);
        for _ in 0..MAX_VALUE_DEPTH {
            nested = json!([nested]);
        }
        assert!(small_json(&nested, 1_000).is_none() && small_json(&nested[0], 1_000).is_some());
    }
}
