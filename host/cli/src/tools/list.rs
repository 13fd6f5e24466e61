//! The list of tools.

use mimir_core::pipeline::World;
use mimir_core::{Quarantined, Source, Tool, ToolName};
use serde::Serialize;

use crate::args::Format;

use super::{Cost, Costs};

/// All tools, and the skipped files.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List<'a> {
    /// The tools, by name.
    pub tools: Vec<Row<'a>>,
    /// Total cost of the listed tools; `None` if costs are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Files and tools that cannot be used.
    pub quarantined: &'a [Quarantined],
}

/// A tool in the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row<'a> {
    /// Its name.
    pub name: &'a ToolName,
    /// Its aliases.
    pub aliases: &'a [ToolName],
    /// Its source.
    pub source: Source,
    /// True if it can be called.
    pub enabled: bool,
    /// True if models see it: enabled, and part of the profile.
    pub listed: bool,
    /// Its token cost.
    #[serde(flatten)]
    pub cost: Option<Cost>,
    group: &'static str,
    risk: &'static str,
    /// Its description.
    pub description: &'a str,
    location: &'a str,
    digest: &'a str,
}

impl<'a> List<'a> {
    /// Lists the tools of a snapshot, with costs on request.
    pub fn of(world: &'a World, mut costs: Option<&mut Costs>, format: Format) -> Self {
        let tools = world.registry.tools().iter();
        let tools: Vec<Row<'a>> = tools
            .map(|tool| {
                let cost = costs.as_mut().map(|costs| costs.of(tool, format));
                Row::of(tool, world, cost)
            })
            .collect();
        let spent = tools.iter().filter(|row| row.listed);
        let spent = spent.filter_map(|row| row.cost);
        Self {
            total_tokens: costs.map(|_| spent.map(|cost| u64::from(cost.tokens)).sum()),
            tools,
            quarantined: world.registry.quarantined(),
        }
    }
}

impl<'a> Row<'a> {
    fn of(tool: &'a Tool, world: &World, cost: Option<Cost>) -> Self {
        let definition = &tool.definition;
        let enabled = world.policy.refusal(tool).is_none();
        Self {
            name: tool.name(),
            aliases: &tool.aliases,
            source: tool.source,
            enabled,
            listed: enabled && world.policy.is_shown(tool),
            cost,
            group: definition.group.as_str(),
            risk: definition.risk.as_str(),
            description: &definition.description,
            location: &tool.origin.location,
            digest: &tool.origin.digest,
        }
    }
}
