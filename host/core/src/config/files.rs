//! Files of the workspace, for all tools.

use schemars::JsonSchema;
use serde::Deserialize;

/// What of the workspace nobody reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileSettings {
    /// Globs below the workspace that no tool and no command reaches, by whichever argument or way.
    pub deny: Vec<String>,
}
