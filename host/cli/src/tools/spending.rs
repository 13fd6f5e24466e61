//! Token costs of the tools that models see, most expensive first.

use mimir_core::pipeline::World;
use mimir_core::{Source, ToolName};
use serde::Serialize;

use crate::args::Format;

use super::{Cost, Costs, listed};

/// Token costs of a prompt.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending<'a> {
    /// Format of the definitions.
    pub format: Format,
    /// The tools, most expensive first.
    pub tools: Vec<Spent<'a>>,
    /// The sources that have tools.
    pub sources: Vec<OfSource>,
    /// Total tokens.
    pub total_tokens: u64,
    /// Price in dollars for each request, by `tools.tokenPrice`.
    pub dollars: f64,
}

/// A tool with its cost.
#[derive(Serialize)]
pub struct Spent<'a> {
    /// Its name.
    pub name: &'a ToolName,
    /// Its source.
    pub source: Source,
    /// Its token cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// The tools of a source.
#[derive(Serialize)]
pub struct OfSource {
    /// The source.
    pub source: Source,
    /// Number of tools.
    pub tools: usize,
    /// Their token cost.
    pub tokens: u64,
}

const SOURCES: [Source; 4] = [Source::BuiltIn, Source::Custom, Source::Mcp, Source::Teams];

impl<'a> Spending<'a> {
    /// Costs of the listed tools of a snapshot, with a price in dollars per million tokens.
    pub fn of(world: &'a World, costs: &mut Costs, format: Format, price: f64) -> Self {
        let mut tools: Vec<Spent<'a>> = listed(world)
            .map(|tool| Spent {
                name: tool.name(),
                source: tool.source,
                cost: costs.of(tool, format),
            })
            .collect();
        // A stable sort, so that equal costs stay in alphabetical order.
        tools.sort_by_key(|spent| std::cmp::Reverse(spent.cost.tokens));
        let sources = SOURCES.into_iter().filter_map(|source| {
            let own = tools.iter().filter(|spent| spent.source == source);
            let own: Vec<u64> = own.map(|spent| u64::from(spent.cost.tokens)).collect();
            (!own.is_empty()).then(|| OfSource {
                source,
                tools: own.len(),
                tokens: own.iter().sum(),
            })
        });
        let sources: Vec<OfSource> = sources.collect();
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
