//! The toolsets in a worker's file.
//!
//! Out of scope: resolving toolsets to tools.

use std::collections::BTreeMap;

use mimir_core::Decision;
use mimir_core::config::ApprovalDefaults;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ExternalToolset;

/// Tools of a worker. Tools of unset toolsets are not available.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerToolsets {
    /// File tools.
    pub filesystem: Option<FilesystemToolset>,
    /// Tools that run commands.
    pub shell: Option<ShellToolset>,
    /// Custom tools of one file.
    pub custom: Option<CustomToolset>,
    /// Tools of an npm package.
    pub external: Option<ExternalToolset>,
    /// Tools of MCP servers, by server name as in the settings.
    pub mcp: BTreeMap<String, McpToolset>,
    /// Web and browser tools.
    pub web: Option<EmptyToolset>,
    /// Memory tools.
    pub memory: Option<EmptyToolset>,
    /// The tool `run_code`.
    pub code: Option<EmptyToolset>,
    /// Workers that this worker may call.
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
    /// Limits the worker to tools and access that change nothing.
    pub read_only: bool,
    /// Globs of workspace paths that no tool or command of the worker can access.
    pub deny: Vec<String>,
}

/// `toolsets.shell`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellToolset {
    /// Command patterns with decisions. The strictest matching rule applies.
    pub rules: Vec<ShellRule>,
    /// Decision for commands that no rule matches.
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

/// A command pattern with a decision.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShellRule {
    /// Words, such as `git status *`. A space at the end (`git `) allows any further words.
    pub pattern: String,
    /// Decision: preApproved, ask or blocked.
    #[schemars(with = "String")]
    pub approval: Decision,
}

/// `toolsets.custom`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomToolset {
    /// TypeScript or JavaScript module, relative to the worker's file, whose tools only the worker gets; or a file in
    /// `.mimir/tools`, or the module that it was built from.
    pub module: String,
    /// Tools of the file that the worker may call.
    pub tools: Vec<String>,
    /// Decisions for calls of these tools.
    #[serde(default)]
    pub approval: ApprovalDefaults,
}

/// `toolsets.mcp.NAME`
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpToolset {
    /// Tools of the server that the worker may call. Default: all.
    pub tools: Option<Vec<String>>,
    /// Decisions for calls of these tools.
    pub approval: ApprovalDefaults,
}
