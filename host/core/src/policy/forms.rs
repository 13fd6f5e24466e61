//! The overlapping forms of the built-in tools: one that does several operations, and one tool for each of
//! these. What is said about the one tool holds for the operation too.

use serde_json::Value;

use crate::config::Profile;
use crate::tool::{Source, Tool};

/// The tool of several operations.
const COMPACT: &str = "file_operations";

/// Its operations, and the tool that does only that.
const OPERATIONS: [(&str, &str); 6] = [
    ("read", "read_file"),
    ("write", "write_file"),
    ("edit", "edit_file"),
    ("list", "list_directory"),
    ("delete", "delete_file"),
    ("exists", "file_info"),
];

/// Whether models see this form under the profile.
pub(super) fn is_shown(tool: &Tool, profile: Profile) -> bool {
    let name = tool.name().as_str();
    let hidden = match profile {
        Profile::Fine => name == COMPACT,
        Profile::Compact => OPERATIONS.iter().any(|(_, fine)| *fine == name),
    };
    tool.source != Source::BuiltIn || !hidden
}

/// The name of the tool that does the same as this call, if it is a call of the compact form.
pub(crate) fn same_as(tool: &Tool, arguments: &Value) -> Option<&'static str> {
    if tool.source != Source::BuiltIn || tool.name().as_str() != COMPACT {
        return None;
    }
    let operation = arguments["operation"].as_str()?;
    let found = OPERATIONS.iter().find(|(name, _)| *name == operation);
    found.map(|(_, fine)| *fine)
}
