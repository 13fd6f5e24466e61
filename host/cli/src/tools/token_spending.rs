//! Token costs of the tools that models see, most expensive first.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{ToolName, ToolSource};
use serde::Serialize;

use crate::args::DefinitionFormat;

use super::{TokenCost, TokenCosts, listed};

/// Token costs of the listed tools.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenSpending<'a> {
    /// Format of the definitions.
    pub format: DefinitionFormat,
    /// The tools, most expensive first.
    pub tools: Vec<ToolSpending<'a>>,
    /// The costs by source, for sources that have tools.
    pub sources: Vec<SourceSpending>,
    /// Total tokens.
    pub total_tokens: u64,
    /// Price of the definitions in dollars per request, from `tools.tokenPrice`.
    pub dollars: f64,
}

/// A tool with its cost.
#[derive(Serialize)]
pub struct ToolSpending<'a> {
    /// Name of the tool.
    pub name: &'a ToolName,
    /// Source of the tool.
    pub source: ToolSource,
    /// Token cost of the definition.
    #[serde(flatten)]
    pub cost: TokenCost,
}

/// The tools of a source.
#[derive(Serialize)]
pub struct SourceSpending {
    /// The source.
    pub source: ToolSource,
    /// Number of tools.
    pub tools: usize,
    /// Token cost of the tools.
    pub tokens: u64,
}

const SOURCES: [ToolSource; 4] = [
    ToolSource::BuiltIn,
    ToolSource::Custom,
    ToolSource::Mcp,
    ToolSource::Teams,
];

impl<'a> TokenSpending<'a> {
    /// Computes the costs of the listed tools. `price` is in dollars per million tokens.
    pub fn from_snapshot(
        snapshot: &'a PipelineSnapshot,
        costs: &mut TokenCosts,
        format: DefinitionFormat,
        price: f64,
    ) -> Self {
        let mut tools: Vec<ToolSpending<'a>> = listed(snapshot)
            .map(|tool| ToolSpending {
                name: tool.name(),
                source: tool.source,
                cost: costs.tool_cost(tool, format),
            })
            .collect();
        // A stable sort, so that equal costs stay in alphabetical order.
        tools.sort_by_key(|spending| std::cmp::Reverse(spending.cost.tokens));
        let sources = SOURCES.into_iter().filter_map(|source| {
            let of_source = tools.iter().filter(|spending| spending.source == source);
            let costs: Vec<u64> = of_source
                .map(|spending| u64::from(spending.cost.tokens))
                .collect();
            (!costs.is_empty()).then(|| SourceSpending {
                source,
                tools: costs.len(),
                tokens: costs.iter().sum(),
            })
        });
        let sources: Vec<SourceSpending> = sources.collect();
        let total_tokens = sources.iter().map(|source| source.tokens).sum();
        Self {
            format,
            tools,
            sources,
            total_tokens,
            dollars: total_tokens as f64 / 1e6 * price,
        }
    }
}
