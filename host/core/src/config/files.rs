//! Settings of file access for all tools.

use schemars::JsonSchema;
use serde::Deserialize;

/// Files of the workspace that tools and commands cannot access.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileSettings {
    /// Globs of workspace paths that no tool or command can access.
    pub deny: Vec<String>,
}
