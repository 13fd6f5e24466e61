//! What a worker's file says of its tools, as it is written.
//!
//! Never here: which tools that comes to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::ApprovalDefaults;
use crate::decision::Decision;

/// The tools of a worker. What is not named it does not have.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Toolsets {
    /// The file tools.
    pub filesystem: Option<Filesystem>,
    /// Commands.
    pub shell: Option<Shell>,
    /// Tools of one's own.
    pub custom: Option<Custom>,
    /// Tools of MCP servers, by the names of the servers in the settings.
    pub mcp: BTreeMap<String, Server>,
    /// The tools of the web.
    pub web: Option<Nothing>,
    /// The memory.
    pub memory: Option<Nothing>,
    /// `run_code`.
    pub code: Option<Nothing>,
    /// Workers that it may call.
    pub workers: Vec<String>,
}

/// A toolset without settings: `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// `toolsets.filesystem`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Filesystem {
    /// Only the tools that change nothing.
    pub read_only: bool,
    /// Globs below the workspace that it does not reach, by commands and tools of any kind.
    pub deny: Vec<String>,
}

/// `toolsets.shell`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shell {
    /// Patterns of commands. Of all that match a command the strictest word counts.
    pub rules: Vec<ShellRule>,
    /// What happens to commands that no rule names.
    #[schemars(with = "String")]
    pub default: Decision,
}

impl Default for Shell {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default: Decision::Ask,
        }
    }
}

/// A pattern of commands, and what happens to those that match.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShellRule {
    /// Words: `git status *`. A space at the end (`git `) means any words after it.
    pub pattern: String,
    /// preApproved, ask or blocked.
    #[schemars(with = "String")]
    pub approval: Decision,
}

/// `toolsets.custom`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// The file of the tools in `.mimir/tools`.
    pub module: String,
    /// Those of its tools that the worker has.
    pub tools: Vec<String>,
    /// What happens to their calls.
    #[serde(default)]
    pub approval: ApprovalDefaults,
}

/// `toolsets.mcp.NAME`
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Those of its tools that the worker has; all, where none are named.
    pub tools: Option<Vec<String>>,
    /// What happens to their calls.
    pub approval: ApprovalDefaults,
}
