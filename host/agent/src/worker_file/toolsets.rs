//! The toolsets in a worker's file.
//!
//! Out of scope: the tools that they resolve to.

use std::collections::BTreeMap;

use mimir_core::Decision;
use mimir_core::config::ApprovalDefaults;
use schemars::JsonSchema;
use serde::Deserialize;

/// The tools of a worker. It has only those that are named.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerToolsets {
    /// The file tools.
    pub filesystem: Option<FilesystemToolset>,
    /// Commands.
    pub shell: Option<ShellToolset>,
    /// Custom tools.
    pub custom: Option<CustomToolset>,
    /// Tools of MCP servers, by the names of the servers in the settings.
    pub mcp: BTreeMap<String, McpToolset>,
    /// The tools of the web.
    pub web: Option<EmptyToolset>,
    /// The memory.
    pub memory: Option<EmptyToolset>,
    /// `run_code`.
    pub code: Option<EmptyToolset>,
    /// Workers that it may call.
    pub workers: Vec<String>,
}

/// A toolset without settings: `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyToolset {}

/// `toolsets.filesystem`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct FilesystemToolset {
    /// Only the tools that change nothing.
    pub read_only: bool,
    /// Globs below the workspace that are out of reach, for commands and tools of any kind.
    pub deny: Vec<String>,
}

/// `toolsets.shell`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellToolset {
    /// Patterns of commands. The strictest matching one counts.
    pub rules: Vec<ShellRule>,
    /// The decision for commands that no rule matches.
    #[schemars(with = "String")]
    pub default: Decision,
}

impl Default for ShellToolset {
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
pub struct CustomToolset {
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
pub struct McpToolset {
    /// The tools that the worker has; all if unset.
    pub tools: Option<Vec<String>>,
    /// The decision for their calls.
    pub approval: ApprovalDefaults,
}
