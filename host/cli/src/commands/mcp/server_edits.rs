//! Edits that add servers to a config file or remove them.

use mimir_core::config::{Config, McpServerSettings};
use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::Value;

use mimir::settings::ConfigEdit;

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
}
