//! Tools of other processes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, BoxFuture, RawResult};
use crate::error::ToolError;
use crate::grants::GrantChanges;
use crate::needs::Needs;
use crate::pipeline::Approved;
use crate::tool::{Tool, ToolDefinition, ToolName, ToolOrigin, ToolSource, ToolTrust};

/// A tool of another process, with the facts that a front end needs to list it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolMessage {
    definition: ToolDefinition,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<ToolName>,
    source: ToolSource,
    origin: ToolOrigin,
    trust: ToolTrust,
    #[serde(default)]
    granted: Needs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changes: Option<GrantChanges>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flags: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    assessed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    off: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    enforced: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_cost: Option<u32>,
}

impl ToolMessage {
    /// Describes a tool of this process.
    pub fn from_tool(tool: &Tool) -> Self {
        Self {
            definition: tool.definition.clone(),
            aliases: tool.aliases.clone(),
            source: tool.source,
            origin: (*tool.origin).clone(),
            trust: tool.trust,
            granted: tool.granted.clone(),
            changes: tool.changes.clone(),
            flags: tool.flags.clone(),
            assessed: tool.assessed,
            off: tool.off,
            enforced: tool.enforced,
            token_cost: tool.token_cost,
        }
    }

    /// Returns the tool for a registry of this process, which can list it but not run it.
    pub fn into_tool(self) -> Tool {
        Tool {
            definition: self.definition,
            aliases: self.aliases,
            source: self.source,
            origin: Arc::new(self.origin),
            trust: self.trust,
            granted: self.granted,
            changes: self.changes,
            flags: self.flags,
            assessed: self.assessed,
            off: self.off,
            enforced: self.enforced,
            token_cost: self.token_cost,
            backend: Arc::new(ForwardingBackend),
        }
    }
}

/// The backend of a tool of another process. It never runs: a pipeline with such tools forwards its calls.
pub struct ForwardingBackend;

impl Backend for ForwardingBackend {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let message = format!(
            "`{}` runs in other processes, but its call was not forwarded to one",
            call.tool().name()
        );
        Box::pin(std::future::ready(RawResult::failed(ToolError::internal(
            message,
        ))))
    }
}
