//! Servers in a config file: what of it changes.

use mimir_core::config::{Config, McpServer};
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};
use serde_json::Value;

use crate::settings::Edit;

/// What puts these servers into a file.
pub fn add(text: &str, servers: &[(String, Value)]) -> Result<Vec<Edit>, ToolError> {
    let before = read(text)?;
    let mut edits = Vec::new();
    for (name, block) in servers {
        if before.mcp.servers.contains_key(name) {
            taken(name)?;
        }
        let server: McpServer = serde_json::from_value(block.clone())
            .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))?;
        server
            .check(name)
            .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))?;
        edits.push(Edit::set(&["mcp", "servers", name], block.clone()));
    }
    Ok(edits)
}

/// Refuses a name that another server has.
pub fn taken(name: &str) -> Result<(), ToolError> {
    let name = visible(prefix(name, 64));
    let message =
        format!("there is a server `{name}` already; `mimir mcp remove {name}` takes it out");
    Err(ToolError::new(Code::AlreadyExists, message))
}

/// The block of a server as a file has it.
pub fn block(text: &str, name: &str) -> Result<Option<Value>, ToolError> {
    if !read(text)?.mcp.servers.contains_key(name) {
        return Ok(None);
    }
    let value: serde_yaml::Value = serde_yaml::from_str(text)
        .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))?;
    let block = &value["mcp"]["servers"][name];
    serde_json::to_value(block)
        .map(Some)
        .map_err(|error| ToolError::new(Code::InvalidInput, error.to_string()))
}

/// What takes this server out of a file.
pub fn remove(text: &str, name: &str) -> Result<Vec<Edit>, ToolError> {
    if !read(text)?.mcp.servers.contains_key(name) {
        let message = format!(
            "there is no server `{}` in this file",
            visible(prefix(name, 64))
        );
        return Err(ToolError::new(Code::NotFound, message));
    }
    Ok(vec![Edit::remove(&["mcp", "servers", name])])
}

fn read(text: &str) -> Result<Config, ToolError> {
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("the config file cannot be read: {error}");
        ToolError::new(Code::InvalidInput, message)
    };
    mimir_script::yaml::fit(text).map_err(|unfit| bad(&unfit))?;
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
    fn a_name_is_taken_once_and_a_block_is_checked() {
        let text = "mcp: {servers: {old: {command: x}}}\n";
        let server = |name: &str| vec![(name.to_owned(), json!({"command": "npx"}))];
        assert_eq!(add(text, &server("new")).unwrap().len(), 1);
        assert_eq!(add("", &server("new")).unwrap().len(), 1);
        let taken = add(text, &server("old")).unwrap_err();
        assert_eq!(taken.code, Code::AlreadyExists);
        assert!(
            add("", &server("x y"))
                .unwrap_err()
                .message
                .contains("the name")
        );
        assert_eq!(remove(text, "old").unwrap().len(), 1);
        assert_eq!(remove(text, "none").unwrap_err().code, Code::NotFound);
    }
}
