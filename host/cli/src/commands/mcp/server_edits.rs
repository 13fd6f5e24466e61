//! Edits that add servers to a config file or remove them.

use mimir_core::config::{Config, McpServerSettings, ToolSettings};
use mimir_core::name_suggestions::mcp_snake;
use mimir_core::text::{prefix, visible};
use mimir_core::{Decision, ToolError, ToolErrorCode};
use serde_json::Value;

use mimir::settings::ConfigEdit;

/// The keys of a tool's settings that `mimir mcp trust` writes.
const PERMISSION_KEYS: [&str; 3] = ["server", "approval", "labels"];

/// Returns the edits that add these servers to the config file `text`.
pub fn add_servers(text: &str, servers: &[(String, Value)]) -> Result<Vec<ConfigEdit>, ToolError> {
    let config = read(text)?;
    let mut edits = Vec::new();
    for (name, block) in servers {
        if config.mcp.servers.contains_key(name) {
            check_name_is_free(name)?;
        }
        let server: McpServerSettings =
            serde_json::from_value(block.clone()).map_err(ToolError::invalid_input)?;
        server.check(name).map_err(ToolError::invalid_input)?;
        edits.push(ConfigEdit::set_key(
            &["mcp", "servers", name],
            block.clone(),
        ));
    }
    Ok(edits)
}

/// Returns the error about a name that is in use.
pub fn check_name_is_free(name: &str) -> Result<(), ToolError> {
    let name = visible(prefix(name, 64));
    let message = format!("a server `{name}` already exists; `mimir mcp remove {name}` removes it");
    Err(ToolError::new(ToolErrorCode::AlreadyExists, message))
}

/// Returns the block of a server as written in the file, or `None` if the file does not contain the server.
pub fn block(text: &str, name: &str) -> Result<Option<Value>, ToolError> {
    if !read(text)?.mcp.servers.contains_key(name) {
        return Ok(None);
    }
    let value: serde_yaml::Value = serde_yaml::from_str(text).map_err(ToolError::invalid_input)?;
    let block = &value["mcp"]["servers"][name];
    serde_json::to_value(block)
        .map(Some)
        .map_err(ToolError::invalid_input)
}

/// Returns the edit that removes a server from the config file `text`.
pub fn remove(text: &str, name: &str) -> Result<Vec<ConfigEdit>, ToolError> {
    if !read(text)?.mcp.servers.contains_key(name) {
        let message = format!("this file has no server `{}`", visible(prefix(name, 64)));
        return Err(ToolError::not_found(message));
    }
    Ok(vec![ConfigEdit::remove(&["mcp", "servers", name])])
}

/// Returns the edits that remove the permissions that `mimir mcp trust` has written for the tools of a server, so that
/// they do not apply to a later server of the same name. Other settings of the tools stay.
pub fn remove_permissions(text: &str, name: &str) -> Result<Vec<ConfigEdit>, ToolError> {
    let config = read(text)?;
    let server = config.mcp.servers.get(name);
    let prefix = match server.and_then(|server| server.prefix.as_deref()) {
        Some(prefix) => prefix.to_owned(),
        None => format!("mcp_{}_", mcp_snake(name)),
    };
    // Older versions did not write the name of the server.
    let is_of_server = |tool: &str, settings: &ToolSettings| match &settings.server {
        Some(server) => server == name,
        None => {
            let is_allowed = settings.approval.level() == Some(Decision::Allow);
            is_allowed && !prefix.is_empty() && tool.starts_with(&prefix)
        }
    };
    let tools = config.tools.each.iter();
    let tools = tools.filter(|(tool, settings)| is_of_server(tool, settings));
    let names: Vec<&str> = tools.map(|(tool, _)| tool.as_str()).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let file: serde_yaml::Value = serde_yaml::from_str(text).map_err(ToolError::invalid_input)?;
    let mut edits = Vec::new();
    for tool in names {
        let keys = file["tools"][tool].as_mapping().into_iter().flatten();
        let keys: Vec<&str> = keys.filter_map(|(key, _)| key.as_str()).collect();
        let (written, others): (Vec<&str>, Vec<&str>) = keys
            .into_iter()
            .partition(|key| PERMISSION_KEYS.contains(key));
        if others.is_empty() {
            edits.push(ConfigEdit::remove(&["tools", tool]));
        } else {
            let written = written.into_iter();
            edits.extend(written.map(|key| ConfigEdit::remove(&["tools", tool, key])));
        }
    }
    Ok(edits)
}

fn read(text: &str) -> Result<Config, ToolError> {
    let bad = |error: &dyn std::fmt::Display| {
        ToolError::invalid_input(format!("cannot read the config file: {error}"))
    };
    mimir_script::yaml::check_yaml(text).map_err(|fault| bad(&fault))?;
    let bad = |error: serde_yaml::Error| bad(&error);
    match serde_yaml::from_str(text).map_err(bad)? {
        serde_yaml::Value::Null => Ok(Config::default()),
        value => serde_yaml::from_value(value).map_err(bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn server_edits_refuse_duplicate_and_invalid_names() {
        let text = "mcp: {servers: {old: {command: x}}}\n";
        let server = |name: &str| vec![(name.to_owned(), json!({"command": "npx"}))];
        assert_eq!(add_servers(text, &server("new")).unwrap().len(), 1);
        assert_eq!(add_servers("", &server("new")).unwrap().len(), 1);
        let taken = add_servers(text, &server("old")).unwrap_err();
        assert_eq!(taken.code, ToolErrorCode::AlreadyExists);
        assert!(
            add_servers("", &server("x y"))
                .unwrap_err()
                .message
                .contains("the name")
        );
        assert_eq!(remove(text, "old").unwrap().len(), 1);
        assert_eq!(
            remove(text, "none").unwrap_err().code,
            ToolErrorCode::NotFound
        );
    }

    #[test]
    fn server_edits_remove_the_permissions_of_a_server() {
        let text = "\
# my servers
mcp:
  servers:
    demo: {command: x}
    other: {command: y, prefix: ''}
tools:
  mcp_demo_now: {server: demo, approval: allow, labels: {outputTrust: untrusted}}
  mcp_demo_old: {approval: allow}
  mcp_demo_asks: {approval: ask}
  mcp_demo_slow: {server: demo, approval: allow, limits: {timeMs: 5000}}
  mcp_demo_else: {server: other, approval: allow}
  read_file: {approval: allow}
";
        let edits = remove_permissions(text, "demo").unwrap();
        let after = mimir::settings::apply_edits(text, &edits).unwrap();
        for gone in ["mcp_demo_now", "mcp_demo_old", "server: demo"] {
            assert!(!after.contains(gone), "{gone}: {after}");
        }
        for kept in [
            "# my servers",
            "mcp_demo_asks: {approval: ask}",
            "timeMs: 5000",
            "mcp_demo_else: {server: other, approval: allow}",
            "read_file: {approval: allow}",
        ] {
            assert!(after.contains(kept), "{kept}: {after}");
        }
        // A server without prefix has no names of its own.
        let other = remove_permissions(text, "other").unwrap();
        assert_eq!(other.len(), 1);
    }
}
