//! The text of an API's file: YAML that a person can read, with one line for each argument.

use std::fmt::Write as _;

use mimir_core::text;
use serde::Serialize;
use serde_json::Value;

use super::api_file::{ApiFile, ApiOperation};

/// Words that YAML reads as something else than text.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Returns the text of a file. `name` is the name of the API.
pub(crate) fn file_text(name: &str, file: &ApiFile) -> String {
    let mut out = format!(
        "# The API {}, as tools. Written by `mimir tools import openapi`; you may edit it.\n\
         # `mimir tools import openapi --update --name {name}` imports it again, and shows the difference first.\n",
        if file.title.is_empty() {
            name.to_owned()
        } else {
            format!("\"{}\"", text::visible(&file.title))
        }
    );
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("openapi: {}", file.openapi));
    line(format!("title: {}", flow_of(&file.title)));
    line(format!("source: {}", flow_of(&file.source)));
    line(format!("server: {}", flow_of(&file.server)));
    if !file.secrets.is_empty() {
        line("secrets:".to_owned());
        for secret in &file.secrets {
            line(format!("  - {}", flow_of(secret)));
        }
    }
    line("operations:".to_owned());
    for operation in &file.operations {
        push_operation(operation, &mut line);
    }
    out
}

fn push_operation(operation: &ApiOperation, line: &mut impl FnMut(String)) {
    line(format!("  - name: {}", flow_of(&operation.name)));
    match block_lines(&operation.description) {
        Some(lines) => {
            line("    description: |-".to_owned());
            for text in lines {
                line(if text.is_empty() {
                    String::new()
                } else {
                    format!("      {text}")
                });
            }
        }
        None => line(format!(
            "    description: {}",
            flow_of(&operation.description)
        )),
    }
    line(format!("    request: {}", flow_of(&operation.request)));
    if let Some(server) = &operation.server {
        line(format!("    server: {}", flow_of(server)));
    }
    if !operation.secrets.is_empty() {
        line(format!("    secrets: {}", flow_of(&operation.secrets)));
    }
    if let Some(accept) = &operation.accept {
        line(format!("    accept: {}", flow_of(accept)));
    }
    if !operation.parameters.is_empty() {
        line("    parameters:".to_owned());
        for parameter in &operation.parameters {
            line(format!("      - {}", flow_of(parameter)));
        }
    }
    if let Some(body) = &operation.body {
        line(format!("    body: {}", flow_of(body)));
    }
    line("    schema:".to_owned());
    for (key, value) in operation.schema.as_object().into_iter().flatten() {
        match value {
            Value::Object(members) if key == "properties" && !members.is_empty() => {
                line("      properties:".to_owned());
                for (name, schema) in members {
                    line(format!("        {}: {}", scalar(name), flow(schema)));
                }
            }
            value => line(format!("      {}: {}", scalar(key), flow(value))),
        }
    }
}

/// Returns the lines of a text for a block, if it has several and a block keeps them as they are.
fn block_lines(text: &str) -> Option<Vec<&str>> {
    let lines: Vec<&str> = text.split('\n').collect();
    let is_plain = |c: char| c != '\r' && !needs_escape(c);
    let fits = lines.len() > 1
        && !text.starts_with([' ', '\n', '\t'])
        && !text.ends_with(['\n', ' '])
        && text.chars().all(|c| c == '\n' || is_plain(c));
    fits.then_some(lines)
}

fn flow_of(value: &impl Serialize) -> String {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    remove_defaults(&mut value);
    flow(&value)
}

/// Removes empty members, which have the same meaning as missing ones.
fn remove_defaults(value: &mut Value) {
    if let Value::Object(members) = value {
        members.values_mut().for_each(remove_defaults);
        members.retain(|key, value| match value {
            Value::Null => false,
            // Without `explode`, the style determines it.
            Value::Bool(flag) => *flag || key == "explode",
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => true,
        });
    }
}

/// Returns a value in one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(flow).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{}: {}", scalar(name), flow(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns a string without quotes if it is a word, else in double quotes.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str());
    if is_word {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if needs_escape(c) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns true for characters that YAML does not allow or that a reader does not see.
fn needs_escape(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || matches!(code, 0xa0 | 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202f | 0x2060..=0x206f)
        || matches!(code, 0xfe00..=0xfe0f | 0xfeff | 0xfff0..=0xffff | 0xe0000..=0xe0fff)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn openapi_file_text_keeps_every_value() {
        let value = json!({
            "word": "a_1", "yes": "No", "number": "12", "text": "a: b # c, [d] {e} \"f\" \\ \u{1f}\u{202e}\u{7f}😀\n",
            "nested": [{"a.b": null, "c": [true, 1.5, -3, "~", "- x", ""]}], "é": "ü", "1": "e"
        });
        let read: Value = serde_yaml::from_str(&format!("value: {}\n", flow(&value))).unwrap();
        assert_eq!(read["value"], value);
        assert_eq!(flow(&json!({"type": "string"})), "{type: string}");
        assert!(!flow(&value).contains(['\u{202e}', '\n']));
    }

    #[test]
    fn openapi_descriptions_are_blocks_only_if_they_stay_the_same() {
        assert_eq!(block_lines("a\n\n  b: c"), Some(vec!["a", "", "  b: c"]));
        for text in ["one line", " a\nb", "a\nb\n", "a\r\nb", "a\u{85}\nb"] {
            assert_eq!(block_lines(text), None, "{text:?}");
        }
    }
}
