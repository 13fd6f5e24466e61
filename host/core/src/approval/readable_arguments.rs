//! The arguments on a card as lines for people: strings of several lines are shown as lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Card;
use crate::text::{escape_json, visible, wrapped};
use crate::tool::ToolSource;

/// Mark before each line of a string. Text of a model therefore cannot look like another argument.
const LINE_MARK: &str = "| ";

/// Mark before the rest of a line that is too long, be it a line of a string or of the JSON text.
const REST_MARK: &str = "↳ ";

/// Width of the wider mark in columns: a non-ASCII character counts as two.
const MARK_WIDTH: usize = 3;

const INDENT: usize = 2;

/// Minimum width of the lines in columns.
const MIN_WIDTH: usize = 20;

impl Card {
    /// Returns the arguments for display: indented JSON, in which strings of several lines are replaced by the number of
    /// their lines and the lines. Each line has a mark, which is repeated where a line is continued: a line without a
    /// mark is never text of a string. Binary content of a file, as base64, is replaced by its size and digest.
    ///
    /// The lines have at most `width` columns, but not less than 20. Text that is wrapped again would lose its mark.
    pub fn readable_arguments(&self, width: usize) -> Vec<String> {
        let mut out = ArgumentLines {
            width: width.max(MIN_WIDTH),
            ..ArgumentLines::default()
        };
        let mut arguments = serde_json::from_str::<Value>(&self.arguments);
        let described = match &mut arguments {
            Ok(arguments) if self.source == ToolSource::BuiltIn => describe_content(arguments),
            _ => false,
        };
        match arguments {
            Ok(arguments) if described || has_lines(&arguments) => {
                out.push_value(&arguments, 0);
                out.end_line(0);
            }
            _ => {
                for line in self.arguments.lines() {
                    let text = line.trim_start_matches(' ');
                    out.push_line(line.len() - text.len(), "", text);
                }
            }
        }
        out.lines
    }
}

/// Minimum size of base64 content that is described instead of shown, in characters.
const MIN_DESCRIBED: usize = 1024;

/// Replaces the base64 content of a file, which no person can read, by its size and digest. Content that is text is kept.
/// Returns true if it was replaced.
fn describe_content(arguments: &mut Value) -> bool {
    if arguments["encoding"] != "base64" {
        return false;
    }
    let content = arguments["content"].as_str();
    let Some(content) = content.filter(|content| content.len() >= MIN_DESCRIBED) else {
        return false;
    };
    let Ok(bytes) = STANDARD.decode(content) else {
        return false;
    };
    if std::str::from_utf8(&bytes).is_ok() {
        return false;
    }
    let digest = format!("{:x}", Sha256::digest(&bytes));
    // Real content is a string, so that a model cannot imitate this.
    arguments["content"] = json!({"binaryBytes": bytes.len(), "sha256": digest});
    true
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

/// The lines so far, and the line of JSON text that is being written.
#[derive(Default)]
struct ArgumentLines {
    width: usize,
    lines: Vec<String>,
    json: String,
    depth: usize,
}

impl ArgumentLines {
    /// Writes a value, of which the first line is at `depth`.
    fn push_value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::String(text) if is_block(text) => self.push_block(text, depth),
            Value::Array(items) if !items.is_empty() => {
                self.json.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.start_member(index, depth);
                    self.push_value(item, depth + 1);
                }
                self.end_line(depth);
                self.json.push(']');
            }
            Value::Object(members) if !members.is_empty() => {
                self.json.push('{');
                for (index, (key, member)) in members.iter().enumerate() {
                    self.start_member(index, depth);
                    self.push_json(&Value::from(key.as_str()));
                    self.json.push_str(": ");
                    self.push_value(member, depth + 1);
                }
                self.end_line(depth);
                self.json.push('}');
            }
            other => self.push_json(other),
        }
    }

    fn push_json(&mut self, value: &Value) {
        self.json.push_str(&escape_json(value.to_string()));
    }

    fn start_member(&mut self, index: usize, depth: usize) {
        // No comma after a block: it would look like a part of the text.
        if index > 0 && !self.json.is_empty() {
            self.json.push(',');
        }
        self.end_line(depth + 1);
    }

    /// Ends the line of JSON text. The next one is at `next_depth`.
    fn end_line(&mut self, next_depth: usize) {
        let json = std::mem::take(&mut self.json);
        if !json.is_empty() {
            self.push_line(self.depth * INDENT, "", &json);
        }
        self.depth = next_depth;
    }

    fn push_block(&mut self, text: &str, depth: usize) {
        let body = text.strip_suffix('\n');
        let lines = body.unwrap_or(text).split('\n');
        let end = if body.is_some() {
            ""
        } else {
            ", without a line break at the end"
        };
        let count = lines.clone().count();
        self.json.push_str(&format!("text of {count} lines{end}"));
        self.end_line(depth);
        for line in lines {
            self.push_line(depth * INDENT, LINE_MARK, &shown_line(line));
        }
    }

    /// Adds a line after an indentation and a mark, in parts if it is too long.
    fn push_line(&mut self, indent: usize, mut mark: &str, text: &str) {
        // Deeper values are not indented further, so that the text keeps half of the width.
        let indent = indent.min(self.width / 2);
        for part in wrapped(text, self.width - indent - MARK_WIDTH) {
            self.lines.push(format!("{:indent$}{mark}{part}", ""));
            mark = REST_MARK;
        }
    }
}

/// Makes a line safe to print. Tabs become arrows, and other control characters are written out, because a reader has
/// to see that they are there.
fn shown_line(line: &str) -> String {
    // At the start of a text, a byte order mark would be invisible.
    let mut shown = LINE_MARK.to_owned();
    for c in line.chars() {
        match c {
            '\t' => shown.push_str("→   "),
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    visible(&shown).split_off(LINE_MARK.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &Value, width: usize) -> Vec<String> {
        let mut out = ArgumentLines {
            width,
            ..ArgumentLines::default()
        };
        out.push_value(arguments, 0);
        out.end_line(0);
        out.lines
    }

    #[test]
    fn readable_arguments_show_lines_and_plain_json() {
        let patch = "*** Begin Patch\n-old\n+new\n*** End Patch\n";
        let lines = shown(&json!({ "patch": patch, "strip": [1, {}], "n": null }), 80);
        assert_eq!(
            lines,
            [
                "{",
                "  \"patch\": text of 4 lines",
                "  | *** Begin Patch",
                "  | -old",
                "  | +new",
                "  | *** End Patch",
                "  \"strip\": [",
                "    1,",
                "    {}",
                "  ],",
                "  \"n\": null",
                "}",
            ]
        );
    }

    #[test]
    fn binary_content_is_described_by_size_and_digest() {
        let bytes = vec![0xff_u8; 60_000];
        let write =
            |content: String| json!({"path": "a.png", "content": content, "encoding": "base64"});
        let mut arguments = write(STANDARD.encode(&bytes));
        assert!(describe_content(&mut arguments));
        let lines = shown(&arguments, 100).join("\n");
        let digest = format!("{:x}", Sha256::digest(&bytes));
        assert!(lines.contains("\"binaryBytes\": 60000"), "{lines}");
        assert!(lines.contains(&digest) && lines.len() < 300, "{lines}");
        assert!(
            lines.contains("\"a.png\"") && lines.contains("base64"),
            "{lines}"
        );
        // Text, short content and content that is not base64 are shown, and so is all of another argument.
        let mut plain = write(STANDARD.encode(&bytes));
        plain["encoding"] = "utf8".into();
        let mut other = json!({"code": STANDARD.encode(&bytes), "encoding": "base64"});
        for kept in [
            &mut write(STANDARD.encode("rm -rf ~\n".repeat(500))),
            &mut write(STANDARD.encode(&bytes[..60])),
            &mut write(format!("{}!", STANDARD.encode(&bytes))),
            &mut plain,
            &mut other,
        ] {
            let before = kept.clone();
            assert!(!describe_content(kept));
            assert_eq!(*kept, before);
        }
    }

    /// The screenshot of a page, which is too long for the form of a client as base64. Tools of others may understand these
    /// arguments differently, so that their cards show all of them.
    #[test]
    fn card_describes_binary_content_of_built_in_tools_only() {
        let content = STANDARD.encode(vec![0xff_u8; 500_000]);
        let arguments = json!({"path": "a.png", "content": content, "encoding": "base64"});
        let lines = |source: ToolSource| {
            let card = Card {
                fingerprint: crate::approval::Fingerprint::new("write_file", "", &arguments),
                tool: "write_file".into(),
                caller: None,
                source,
                location: String::new(),
                digest: String::new(),
                arguments: arguments.to_string(),
                summary: String::new(),
                risk: crate::tool::RiskLevel::Medium,
                risks: Vec::new(),
                grants: Vec::new(),
                changes: Vec::new(),
                proofs: Vec::new(),
                reasons: Vec::new(),
                always: None,
                remedies: Vec::new(),
                editable: true,
                facts: crate::approval::CardFacts::default(),
            };
            card.readable_arguments(72).join("\n")
        };
        let described = lines(ToolSource::BuiltIn);
        assert!(described.len() < 400, "{described}");
        assert!(described.contains("\"binaryBytes\": 500000"), "{described}");
        assert!(lines(ToolSource::Custom).len() > content.len());
    }

    #[test]
    fn readable_arguments_cannot_be_imitated_by_text() {
        let forged = "\"createDirs\": false,";
        let content = format!(
            "{}{forged}\n\u{feff}{forged}\r\u{1b}[2K\u{202e}y",
            " ".repeat(70)
        );
        let key = format!("{}{forged}", "k".repeat(70));
        let arguments = json!({ "a": content, key: "x".repeat(200), "createDirs": true });
        for width in [24, 35, 72, 75] {
            let lines = shown(&arguments, width);
            let real = |line: &&String| line.trim_start().starts_with("\"createDirs\"");
            let real: Vec<&String> = lines.iter().filter(real).collect();
            assert_eq!(real, ["  \"createDirs\": true"], "{width}: {lines:#?}");
            let text = lines.join("\n");
            let is_hidden = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{feff}".contains(c);
            assert!(!text.contains(is_hidden), "{text:?}");
            for line in &lines {
                let columns: usize = line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
                assert!(columns <= width, "{width}: {line}");
            }
        }
        let text = shown(&arguments, 80).join("\n");
        assert!(text.contains("without a line break at the end"), "{text}");
        assert!(text.contains("| \\u{feff}\"createDirs\""), "{text}");
        assert!(text.contains("\\u{d}\\u{1b}[2K\\u{202e}y"), "{text}");
    }

    #[test]
    fn readable_arguments_keep_deep_values_within_the_width() {
        let mut deep = json!("two\nlines");
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let lines = shown(&deep, 20);
        let fits = |line: &String| line.chars().count() <= 20;
        assert!(lines.iter().all(fits), "{lines:#?}");
        let is_text = |line: &&String| line.trim_start().starts_with(LINE_MARK);
        assert_eq!(lines.iter().filter(is_text).count(), 2);
    }

    #[test]
    fn readable_arguments_keep_short_strings_as_json() {
        assert!(!has_lines(
            &json!({ "content": "one line\n", "n": [null, true] })
        ));
        assert!(has_lines(&json!([{ "content": "two\nlines" }])));
    }
}
