//! Files of the workspace, for all tools.

use schemars::JsonSchema;
use serde::Deserialize;

/// Files of the workspace that are out of reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileSettings {
    /// Globs below the workspace that no tool and no command can reach, by any argument.
    pub deny: Vec<String>,
}
