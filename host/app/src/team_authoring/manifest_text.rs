//! Text of `team.yml`: the template, and changes of its list of tools that keep the rest of the file.

use std::fmt::Write as _;

use super::authoring_folder::AuthoredTool;

/// Settings of a new team.
pub const SETTINGS_TEMPLATE: &str = "\
# Settings of every member, with the same keys as any config file (`mimir help config`). They override those of users
# and projects; limits and the network are caps. Members get them with the next `mimir team publish`.
#
# policy:
#   deny: [web_fetch]
# enforcement:
#   disableLocalTools: true
# audit:
#   durability: fsync
";

/// Returns the text of a new `team.yml`.
pub fn template(org_id: &str, name: &str) -> String {
    format!(
        "\
# A team of mimir: `mimir team publish` signs and publishes what this folder contains (`mimir help team-admin`).
orgId: {}
name: {}

# Members refuse a bundle that is older; publish again before that.
expiresInDays: 30

# Public keys that may sign the next bundle and approve tools: files in this folder, or PEM texts. Without any, only the
# key of `mimir team publish --sign`.
keys: []

# Public keys that may approve tools, but not sign bundles.
reviewKeys: []

# Ids of keys that members no longer accept.
revokedKeys: []

# Models that members may use, such as anthropic/*. Without any, all models.
models: []

# The catalog: `mimir team add`, `approve` and `remove` change this list.
tools: []
",
        quoted(org_id),
        quoted(name)
    )
}

/// Quotes a text for YAML, which reads strings of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Replaces the list `tools` in the text of `team.yml`, or adds it at the end.
pub fn with_tools(text: &str, tools: &[AuthoredTool]) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = lines.iter().position(|line| line.starts_with("tools:"));
    let Some(first) = first else {
        let mut all = text.to_owned();
        if !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        return all + &list(tools);
    };
    let after = &lines[first + 1..];
    let is_inside = |line: &&&str| line.starts_with([' ', '\t', '-', ']', '}', '\r', '\n', '#']);
    let block = after.iter().take_while(is_inside).count();
    // Comments and empty lines after the last entry belong to the next key.
    let is_entry = |line: &&&str| !line.starts_with(['#', '\r', '\n']);
    let block = after[..block]
        .iter()
        .rposition(|line| is_entry(&line))
        .map_or(0, |last| last + 1);
    let (before, after) = (lines[..first].concat(), after[block..].concat());
    before + &list(tools) + &after
}

fn list(tools: &[AuthoredTool]) -> String {
    if tools.is_empty() {
        return "tools: []\n".to_owned();
    }
    let mut text = "tools:\n".to_owned();
    for tool in tools {
        let _ = writeln!(text, "  - file: {}", quoted(&tool.file));
        let _ = writeln!(text, "    digest: {}", tool.digest);
        if let Some(reference) = &tool.reference {
            let _ = writeln!(text, "    reference: {}", quoted(reference));
        }
        if tool.enforced {
            text.push_str("    enforced: true\n");
        }
    }
    text
}
