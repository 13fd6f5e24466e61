//! The list of tools.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Quarantined, Tool, ToolName, ToolSource};
use serde::Serialize;

use crate::args::DefinitionFormat;

use super::{TokenCost, TokenCosts};

/// All tools, and the files that were left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolList<'a> {
    /// The tools, sorted by name.
    pub tools: Vec<ToolRow<'a>>,
    /// Total cost of the listed tools; `None` if costs are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Files and tools that cannot be used.
    pub quarantined: &'a [Quarantined],
    /// The built-in tools that granted tools replace.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub replaced: &'a [Quarantined],
}

/// A tool in the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRow<'a> {
    /// Name of the tool.
    pub name: &'a ToolName,
    /// Aliases of the tool.
    pub aliases: &'a [ToolName],
    /// Source of the tool.
    pub source: ToolSource,
    /// True if the tool can be called.
    pub enabled: bool,
    /// True if models see the tool, because it is enabled and part of the profile.
    pub listed: bool,
    /// Token cost of the definition, if costs are shown.
    #[serde(flatten)]
    pub cost: Option<TokenCost>,
    /// True if models find the tool only by search.
    #[serde(skip)]
    pub only_searched: bool,
    group: &'static str,
    risk: &'static str,
    /// Description of the tool.
    pub description: &'a str,
    location: &'a str,
    digest: &'a str,
}

impl<'a> ToolList<'a> {
    /// Lists the tools of a snapshot, with their costs if `costs` is given.
    pub fn from_snapshot(
        snapshot: &'a PipelineSnapshot,
        mut costs: Option<&mut TokenCosts>,
        format: DefinitionFormat,
    ) -> Self {
        let tools = snapshot.registry.tools().iter();
        let tools: Vec<ToolRow<'a>> = tools
            .map(|tool| {
                let cost = costs.as_mut().map(|costs| costs.tool_cost(tool, format));
                ToolRow::from_tool(tool, snapshot, cost)
            })
            .collect();
        let costs_of_listed = tools.iter().filter(|row| row.listed);
        let costs_of_listed = costs_of_listed.filter_map(|row| row.cost);
        Self {
            total_tokens: costs.map(|_| costs_of_listed.map(|cost| u64::from(cost.tokens)).sum()),
            tools,
            quarantined: snapshot.registry.quarantined(),
            replaced: snapshot.registry.replaced(),
        }
    }
}

impl<'a> ToolRow<'a> {
    fn from_tool(tool: &'a Tool, snapshot: &PipelineSnapshot, cost: Option<TokenCost>) -> Self {
        let definition = &tool.definition;
        let enabled = snapshot.policy.refusal(tool).is_none();
        Self {
            name: tool.name(),
            aliases: &tool.aliases,
            source: tool.source,
            enabled,
            listed: enabled
                && snapshot.policy.is_shown(tool)
                && !snapshot.policy.is_only_searched(tool),
            cost,
            only_searched: snapshot.policy.is_only_searched(tool),
            group: definition.group.as_str(),
            risk: definition.risk.as_str(),
            description: &definition.description,
            location: &tool.origin.location,
            digest: &tool.origin.digest,
        }
    }
}
