//! Settings of a server beyond its command or URL: each is converted, or reported with a hint. None is dropped
//! silently.
//!
//! Out of scope: command, arguments, variables, URL and headers.

use mimir_core::text::{prefix, visible};
use serde_json::{Map, Value, json};

/// Keys that `server_block` converts, or that have no effect.
const READ: [&str; 17] = [
    "command",
    "args",
    "env",
    "envFile",
    "env_vars",
    "cwd",
    "url",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "disabled",
    "enabled",
    "type",
    "transport",
    "description",
    "name",
];

/// Time settings: the agent's key, its unit in milliseconds, and mimir's key.
const TIMES: [(&str, f64, &str); 4] = [
    ("startup_timeout_sec", 1_000.0, "startTimeoutMs"),
    ("startup_timeout_ms", 1.0, "startTimeoutMs"),
    ("tool_timeout_sec", 1_000.0, "timeoutMs"),
    ("tool_timeout_ms", 1.0, "timeoutMs"),
];

/// Longest supported time in milliseconds: a day.
const DAY: f64 = 86_400_000.0;

/// Converts the settings that mimir supports into `block`. Returns hints about the others.
pub fn convert_other_settings(
    theirs: &Map<String, Value>,
    server: &str,
    block: &mut Map<String, Value>,
) -> Vec<String> {
    let mut hints = Vec::new();
    for (key, value) in theirs {
        if READ.contains(&key.as_str()) || value.is_null() {
            continue;
        }
        let time = TIMES.iter().find(|(name, ..)| name == key);
        if let Some((_, unit, ours)) = time {
            let time = value.as_f64().map(|value| (value * unit).round());
            match time.filter(|time| (1.0..=DAY).contains(time)) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is within a day"
                )]
                Some(time) => {
                    block.insert((*ours).to_owned(), json!(time as u64));
                }
                None => hints.push(format!(
                    "`{key}` is not a valid time: set `{ours}` in the server's block, to at most a day"
                )),
            }
            continue;
        }
        let advice = match key.as_str() {
            "disabled_tools" | "disabledTools" | "excludeTools" => format!(
                "the tools that it disables are enabled here: {} disables them",
                tools_hint(value, server, "enabled: false")
            ),
            "enabled_tools" | "enabledTools" | "tools" | "includeTools" => format!(
                "tools that it does not name are enabled, too: `tools: {{{}: {{enabled: false}}}}` in the settings disables one",
                tool(server, "NAME")
            ),
            "alwaysAllow" | "autoApprove" | "autoApproved" | "trust" | "approval_mode"
            | "default_tools_approval_mode" => format!(
                "approvals in other programs do not apply here: {} allows the tools once you trust the server",
                tools_hint(value, server, "approval: allow")
            ),
            "timeout" => {
                "its unit differs between agents: set `timeoutMs` in the server's block, the time limit of a call in milliseconds"
                    .to_owned()
            }
            "oauth" | "auth" | "scopes" | "oauth_resource" => format!(
                "set `oauth` in the server's block, and log in with `mimir mcp login {server}`"
            ),
            "sandbox" | "sandboxEnabled" => {
                "set `sandbox`, `networkAccess` and `bindMounts` in the server's block instead"
                    .to_owned()
            }
            _ => "mimir does not support it".to_owned(),
        };
        let key = visible(prefix(key, 64));
        hints.push(format!("`{key}` is not imported: {advice}"));
    }
    hints
}

/// Describes the settings to write for these tools.
fn tools_hint(tools: &Value, server: &str, what: &str) -> String {
    let names = tools.as_array().into_iter().flatten();
    let names = names.filter_map(Value::as_str).take(20);
    let mut names: Vec<String> = names
        .map(|name| format!("{}: {{{what}}}", tool(server, prefix(name, 64))))
        .collect();
    if names.is_empty() {
        names.push(format!("{}: {{{what}}}", tool(server, "NAME")));
    }
    format!("`tools: {{{}}}` in the settings", names.join(", "))
}

/// Returns mimir's name of a server's tool, with placeholders for parts that cannot be derived.
fn tool(server: &str, theirs: &str) -> String {
    let is_plain = |name: &str| {
        let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        name.bytes().all(good)
    };
    let server = if is_plain(server) { server } else { "SERVER" };
    let theirs = if is_plain(theirs) { theirs } else { "NAME" };
    format!("mcp_{server}_{theirs}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_reports_settings_that_are_not_imported() {
        let theirs = json!({
            "command": "x", "enabled_tools": ["read"], "disabled_tools": ["delete_all"], "startup_timeout_sec": 3,
            "tool_timeout_sec": 0.5, "alwaysAllow": ["rm"], "autoApprove": [], "timeout": 5, "whatever": {"a": 1},
        });
        let mut block = Map::new();
        let hints = convert_other_settings(theirs.as_object().unwrap(), "e", &mut block);
        assert_eq!(
            Value::Object(block),
            json!({"startTimeoutMs": 3000, "timeoutMs": 500})
        );
        let hints = hints.join("\n");
        for words in [
            "`enabled_tools` is not imported",
            "`tools: {mcp_e_delete_all: {enabled: false}}`",
            "`tools: {mcp_e_rm: {approval: allow}}`",
            "`autoApprove` is not imported",
            "`timeout` is not imported: its unit differs between agents",
            "`whatever` is not imported: mimir does not support it",
        ] {
            assert!(hints.contains(words), "{words}: {hints}");
        }
        assert!(!hints.contains("command"), "{hints}");
        let mut block = Map::new();
        let theirs = json!({"tool_timeout_sec": 1e9});
        let hints = convert_other_settings(theirs.as_object().unwrap(), "a", &mut block);
        assert!(
            block.is_empty() && hints[0].contains("`timeoutMs`"),
            "{hints:?}"
        );
    }
}
