//! The two forms of the built-in file tools: the compact form is one tool with several operations, the fine-grained
//! form is one tool per operation. Rules for a fine-grained tool also apply to the operation of the compact tool. A
//! compact tool that is denied, switched off or asked about also denies, switches off or asks about its operations.
//!
//! The operations of `git` also have names, such as `git_status`, but only for calls. Rules cannot use these names: a
//! rule for `git_status` would apply to all of `git`, and allow more than intended.

use std::sync::Arc;

use serde_json::Value;

use crate::config::ToolProfile;
use crate::error::{ToolError, ToolErrorCode};
use crate::registry::Registry;
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::{Policy, argument_forms};

/// The compact tool.
pub(super) const COMPACT: &str = "file_operations";

/// The operations of the compact tool, each with the equivalent fine-grained tool.
const OPERATIONS: [(&str, &str); 6] = [
    ("read", "read_file"),
    ("write", "write_file"),
    ("edit", "edit_file"),
    ("list", "list_directory"),
    ("delete", "delete_file"),
    ("exists", "file_info"),
];

/// The compact form of the browser tools, each of which is an action of it.
const COMPACT_BROWSER: &str = "browser";

/// The browser tools, whose rules also apply to the actions of the compact form.
pub const BROWSER_TOOLS: [&str; 24] = [
    "browser_navigate",
    "browser_navigate_back",
    "browser_snapshot",
    "browser_find",
    "browser_click",
    "browser_hover",
    "browser_drag",
    "browser_type",
    "browser_fill_form",
    "browser_select_option",
    "browser_press_key",
    "browser_wait_for",
    "browser_handle_dialog",
    "browser_file_upload",
    "browser_downloads",
    "browser_tabs",
    "browser_evaluate",
    "browser_take_screenshot",
    "browser_pdf_save",
    "browser_console_messages",
    "browser_network_requests",
    "browser_network_request",
    "browser_resize",
    "browser_close",
];

/// The compact tools. They stand for all of their operations in the lists of allowed and denied tools.
pub(super) const COMPACT_TOOLS: [&str; 2] = [COMPACT, COMPACT_BROWSER];

/// Returns true if the tool is an operation of the compact tool of this name.
pub(super) fn is_operation_of(tool: &Tool, compact: &str) -> bool {
    let name = match tool.name().as_str() {
        argument_forms::READ_DOCUMENT => argument_forms::READ_FILE,
        name => name,
    };
    let is_operation = match compact {
        COMPACT => OPERATIONS.iter().any(|(_, fine)| *fine == name),
        COMPACT_BROWSER => BROWSER_TOOLS.contains(&name),
        _ => false,
    };
    is_operation && tool.source == ToolSource::BuiltIn
}

impl Policy {
    /// Returns the key of the setting that limits the calls per minute of a tool to `max`. That of its compact form counts
    /// if the tool has none of its own.
    pub(crate) fn calls_per_minute_key(&self, tool: &Tool, max: u32) -> String {
        let teams = self.team_files().map(|file| &file.settings);
        let mut each = std::iter::once(&self.settings)
            .chain(teams)
            .flat_map(|settings| settings.restricting(tool));
        match each.find(|(_, settings)| settings.limits.calls_per_minute == Some(max)) {
            Some((name, _)) => format!("tools.{name}.limits.callsPerMinute"),
            None => "limits.callsPerMinute".to_owned(),
        }
    }
}

/// The part of these names before the action.
const BROWSER_PREFIX: &str = "browser_";

/// Returns true if the tool is a built-in tool for the browser.
pub(super) fn is_browser_tool(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn && tool.definition.group == ToolGroup::Browser
}

/// Returns true for the reader of documents, which is reached by calls of `read_file` and of the compact tool, and obeys
/// the rules for them.
pub(crate) fn is_inner_form(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn && tool.name().as_str() == argument_forms::READ_DOCUMENT
}

/// Returns true if models see this form of the tool under the profile.
pub(super) fn is_shown(tool: &Tool, profile: ToolProfile) -> bool {
    let name = tool.name().as_str();
    if is_inner_form(tool) {
        return false;
    }
    let hidden = match profile {
        ToolProfile::Fine => name == COMPACT || name == COMPACT_BROWSER,
        ToolProfile::Compact => {
            OPERATIONS.iter().any(|(_, fine)| *fine == name)
                || (is_browser_tool(tool) && name != COMPACT_BROWSER)
        }
    };
    tool.source != ToolSource::BuiltIn || !hidden
}

/// Returns the name of the fine-grained tool with the same effect as a call, if it is a call of the compact tool.
pub(crate) fn equivalent_tool_name(tool: &Tool, arguments: &Value) -> Option<&'static str> {
    if tool.source != ToolSource::BuiltIn {
        return None;
    }
    match tool.name().as_str() {
        COMPACT => {}
        argument_forms::READ_DOCUMENT => return Some(argument_forms::READ_FILE),
        COMPACT_BROWSER => {
            let action = arguments["action"].as_str()?;
            let mut tools = BROWSER_TOOLS.iter().copied();
            return tools.find(|name| name.strip_prefix(BROWSER_PREFIX) == Some(action));
        }
        _ => return None,
    }
    let operation = arguments["operation"].as_str()?;
    let entry = OPERATIONS.iter().find(|(name, _)| *name == operation);
    entry.map(|(_, fine)| *fine)
}

/// The tool whose operations can be called by name, such as `git_status`.
const GIT: &str = "git";

/// Finds the called tool, and converts its arguments to the form of its schema. A call that reads a document
/// becomes a call of the reader of documents. `root` is the absolute path of the workspace for commands, if known.
pub(crate) fn resolve_called_tool(
    registry: &Registry,
    name: &str,
    root: Option<&str>,
    arguments: &mut Value,
) -> Result<Arc<Tool>, ToolError> {
    let tool = resolve_operation(registry, name, arguments)?;
    argument_forms::convert(&tool, name, root, arguments);
    let reader = argument_forms::document_reader(registry, &tool, arguments);
    Ok(reader.map_or(tool, Arc::clone))
}

/// Finds the called tool. If `name` is the name of an operation, the operation is added to the arguments.
fn resolve_operation(
    registry: &Registry,
    name: &str,
    arguments: &mut Value,
) -> Result<Arc<Tool>, ToolError> {
    let by_name = registry.find(name).map(Arc::clone);
    let operation = name
        .strip_prefix(GIT)
        .and_then(|rest| rest.strip_prefix('_'));
    let (Err(_), Some(operation), Some(tool)) = (&by_name, operation, registry.get(GIT)) else {
        return by_name;
    };
    let Some(given) = arguments.as_object_mut() else {
        return by_name;
    };
    if tool.source != ToolSource::BuiltIn
        || !operations(tool).iter().any(|known| known == operation)
    {
        return by_name;
    }
    let given_operation = given.entry("operation").or_insert_with(|| operation.into());
    if given_operation != operation {
        let message = format!(
            "`{name}` is the operation `{operation}`, but the arguments name another operation; leave `operation` out"
        );
        return Err(ToolError::new(ToolErrorCode::InvalidInput, message));
    }
    Ok(Arc::clone(tool))
}

/// Returns the values that the schema allows for the argument `operation`.
fn operations(tool: &Tool) -> Vec<Value> {
    let schema = tool.definition.input_schema.to_value();
    let operation = &schema["properties"]["operation"];
    let variants = operation["oneOf"].as_array().into_iter().flatten();
    let constants = variants.map(|variant| variant["const"].clone());
    let list = operation["enum"].as_array().into_iter().flatten().cloned();
    list.chain(constants).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pipeline::tests::tool;
    use crate::schema::Schema;

    fn registry(source: ToolSource) -> Registry {
        let mut git = tool(GIT);
        git.source = source;
        git.definition.input_schema = Schema::parse(
            r#"{"type": "object", "properties": {"operation": {"enum": ["status", "commit"]}}}"#,
        )
        .unwrap();
        Registry::new(vec![git], Vec::new())
    }

    #[test]
    fn tool_form_operation_name_resolves_to_the_compact_tool() {
        let registry = registry(ToolSource::BuiltIn);
        let mut arguments = json!({"args": ["--short"]});
        let tool = resolve_called_tool(&registry, "git_status", None, &mut arguments).unwrap();
        assert_eq!(tool.name().as_str(), GIT);
        assert_eq!(
            arguments,
            json!({"args": ["--short"], "operation": "status"})
        );
        for name in ["git_push", "git_", "status", "github"] {
            let error = resolve_called_tool(&registry, name, None, &mut json!({})).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::NotFound, "{name}");
        }
        let other = resolve_called_tool(
            &registry,
            "git_status",
            None,
            &mut json!({"operation": "commit"}),
        );
        assert_eq!(other.unwrap_err().code, ToolErrorCode::InvalidInput);
    }

    #[test]
    fn tool_form_operation_names_need_a_built_in_tool() {
        let registry = registry(ToolSource::Custom);
        assert!(resolve_called_tool(&registry, "git_status", None, &mut json!({})).is_err());
    }
}
