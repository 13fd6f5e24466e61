//! The arguments on a card as text for people: strings of several lines are shown as lines.

use serde_json::Value;

use super::Card;
use crate::text::visible;

/// Prefix of each line of a string. Text of a model therefore cannot look like another argument.
const LINE_MARK: &str = "| ";

const INDENT: usize = 2;

impl Card {
    /// Returns the arguments for display: indented JSON, in which strings of several lines are replaced by their length
    /// and their lines.
    pub fn readable_arguments(&self) -> String {
        match serde_json::from_str::<Value>(&self.arguments) {
            Ok(arguments) if has_lines(&arguments) => {
                let mut text = String::new();
                push_value(&arguments, 0, &mut text);
                text
            }
            _ => self.arguments.clone(),
        }
    }
}

/// Returns true if a value contains a string of several lines, at any depth.
fn has_lines(value: &Value) -> bool {
    match value {
        Value::String(text) => is_block(text),
        Value::Array(items) => items.iter().any(has_lines),
        Value::Object(members) => members.values().any(has_lines),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_block(text: &str) -> bool {
    text.trim_end_matches('\n').contains('\n')
}

/// Appends a value whose first line is already indented. `depth` is the depth of its members.
fn push_value(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::String(text) if is_block(text) => push_block(text, depth, out),
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                start_member(index, depth, out);
                push_value(item, depth + 1, out);
            }
            end_members(depth, out);
            out.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                start_member(index, depth, out);
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(": ");
                push_value(member, depth + 1, out);
            }
            end_members(depth, out);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn start_member(index: usize, depth: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', (depth + 1) * INDENT));
}

fn end_members(depth: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth * INDENT));
}

fn push_block(text: &str, depth: usize, out: &mut String) {
    let body = text.strip_suffix('\n');
    let lines = body.unwrap_or(text).split('\n');
    let end = if body.is_some() {
        ""
    } else {
        ", without a line break at the end"
    };
    out.push_str(&format!("text of {} lines{end}", lines.clone().count()));
    for line in lines {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth * INDENT));
        out.push_str(LINE_MARK);
        out.push_str(&shown_line(line));
    }
}

/// Makes a line safe to print. Tabs become arrows, and other control characters are written out, because a reader has
/// to see that they are there.
fn shown_line(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => shown.push_str("→   "),
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    visible(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(arguments: &Value) -> String {
        let mut text = String::new();
        push_value(arguments, 0, &mut text);
        text
    }

    #[test]
    fn readable_arguments_show_lines_and_plain_json() {
        let patch = "*** Begin Patch\n-old\n+new\n*** End Patch\n";
        let text = shown(&json!({ "patch": patch, "strip": [1, {}] }));
        assert_eq!(
            text,
            "{\n  \"patch\": text of 4 lines\n  | *** Begin Patch\n  | -old\n  | +new\n  | *** End Patch,\n  \
             \"strip\": [\n    1,\n    {}\n  ]\n}"
        );
    }

    #[test]
    fn readable_arguments_cannot_be_imitated_by_text() {
        let text = shown(&json!({ "a": "x\n\"b\": 1\r\u{1b}[2K\u{202e}y" }));
        let marked = text
            .lines()
            .filter(|line| line.trim_start().starts_with(LINE_MARK));
        assert_eq!(marked.count(), 2, "{text}");
        assert!(text.contains("without a line break at the end"), "{text}");
        let is_hidden = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(is_hidden), "{text:?}");
        assert!(text.contains("\\u{1b}"), "{text}");
    }

    #[test]
    fn readable_arguments_keep_short_strings_as_json() {
        assert!(!has_lines(
            &json!({ "content": "one line\n", "n": [null, true] })
        ));
        assert!(has_lines(&json!([{ "content": "two\nlines" }])));
    }
}
