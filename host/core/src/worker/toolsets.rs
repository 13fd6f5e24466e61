//! The toolsets in a worker's file.
//!
//! Out of scope: the tools that they resolve to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::ApprovalDefaults;
use crate::decision::Decision;

/// The tools of a worker. It has only those that are named.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Toolsets {
    /// The file tools.
    pub filesystem: Option<Filesystem>,
    /// Commands.
    pub shell: Option<Shell>,
    /// Custom tools.
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
    /// Globs below the workspace that are out of reach, for commands and tools of any kind.
    pub deny: Vec<String>,
}

/// `toolsets.shell`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shell {
    /// Patterns of commands. The strictest matching one counts.
    pub rules: Vec<ShellRule>,
    /// The decision for commands that no rule matches.
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

/// A pattern of commands with a decision.
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
    /// The tools that the worker has.
    pub tools: Vec<String>,
    /// The decision for their calls.
    #[serde(default)]
    pub approval: ApprovalDefaults,
}

/// `toolsets.mcp.NAME`
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// The tools that the worker has; all if unset.
    pub tools: Option<Vec<String>>,
    /// The decision for their calls.
    pub approval: ApprovalDefaults,
}
