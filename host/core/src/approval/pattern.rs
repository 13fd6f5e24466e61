//! Which calls one answer covers: those with the same arguments, but for what a built-in tool writes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text;
use crate::tool::{Source, Tool};

/// Arguments that must be the same, and those that may be anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// These, exactly, and no others.
    fixed: Map<String, Value>,
    /// These may have any value, or be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<String>,
}

/// What built-in tools put into a file. A person who says "always" says it about the file.
const PAYLOAD: &[(&str, &[&str])] = &[
    ("write_file", &["content", "encoding"]),
    ("edit_file", &["pattern", "replacement", "regex", "all"]),
];

/// The longest argument that is shown whole.
const SHOWN: usize = 80;

impl Pattern {
    /// What "always" covers for this call. Of a tool whose author is unknown, only the very same arguments.
    pub fn of(tool: &Tool, arguments: &Value) -> Self {
        let name = tool.name().as_str();
        let payload = PAYLOAD
            .iter()
            .find(|(known, _)| tool.source == Source::BuiltIn && *known == name)
            .map_or(&[][..], |(_, open)| open);
        let mut fixed = arguments.as_object().cloned().unwrap_or_default();
        fixed.retain(|key, _| !payload.contains(&key.as_str()));
        Self {
            fixed,
            open: payload.iter().map(|&key| key.to_owned()).collect(),
        }
    }

    /// Whether a call with these arguments is covered.
    pub fn covers(&self, arguments: &Value) -> bool {
        let Some(arguments) = arguments.as_object() else {
            return false;
        };
        let same = |(key, value): (&String, &Value)| {
            self.open.contains(key) || self.fixed.get(key) == Some(value)
        };
        arguments.iter().all(same) && self.fixed.keys().all(|key| arguments.contains_key(key))
    }

    /// The pattern as a person reads it: `path="notes.md", any content`.
    pub fn describe(&self) -> String {
        let fixed = self.fixed.iter().map(|(key, value)| {
            let value = value.to_string();
            let cut = text::prefix(&value, SHOWN);
            let dots = if cut.len() < value.len() { "…" } else { "" };
            format!("{key}={cut}{dots}")
        });
        let open = self.open.iter().map(|key| format!("any {key}"));
        let all: Vec<String> = fixed.chain(open).collect();
        if all.is_empty() {
            return "no arguments".to_owned();
        }
        text::visible(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::tests::tool;
    use serde_json::json;

    #[test]
    fn a_pattern_covers_what_was_shown_and_no_more() {
        let mut write = tool("write_file");
        let arguments = json!({"path": "a.md", "content": "x", "createDirs": true});
        let stranger = Pattern::of(&write, &arguments);
        assert!(stranger.covers(&arguments));
        assert!(!stranger.covers(&json!({"path": "a.md", "content": "y", "createDirs": true})));

        write.source = Source::BuiltIn;
        let ours = Pattern::of(&write, &arguments);
        assert!(ours.covers(&json!({"createDirs": true, "path": "a.md", "content": "y"})));
        for more in [
            json!({"path": "b.md", "content": "x", "createDirs": true}),
            json!({"path": "a.md", "content": "x"}),
            json!({"path": "a.md", "content": "x", "createDirs": true, "backup": false}),
            json!([]),
        ] {
            assert!(!ours.covers(&more), "{more}");
        }
        assert_eq!(
            ours.describe(),
            r#"path="a.md", createDirs=true, any content, any encoding"#
        );
    }
}
