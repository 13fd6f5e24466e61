//! What the tools that models see cost, the costliest first.

use mimir_core::pipeline::World;
use mimir_core::{Source, ToolName};
use serde::Serialize;

use crate::args::Format;

use super::{Cost, Costs, listed};

/// What the tools cost a prompt.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending<'a> {
    /// Whose format the definitions are in.
    pub format: Format,
    /// Each tool, the costliest first.
    pub tools: Vec<Spent<'a>>,
    /// Each source that has any.
    pub sources: Vec<OfSource>,
    /// All together.
    pub total_tokens: u64,
    /// In dollars, by `tools.tokenPrice`, each time that a model reads them.
    pub dollars: f64,
}

/// One tool.
#[derive(Serialize)]
pub struct Spent<'a> {
    /// Its name.
    pub name: &'a ToolName,
    /// Where it comes from.
    pub source: Source,
    /// What it costs.
    #[serde(flatten)]
    pub cost: Cost,
}

/// The tools of one source.
#[derive(Serialize)]
pub struct OfSource {
    /// Which.
    pub source: Source,
    /// How many tools.
    pub tools: usize,
    /// What they cost.
    pub tokens: u64,
}

const SOURCES: [Source; 4] = [Source::BuiltIn, Source::Custom, Source::Mcp, Source::Teams];

impl<'a> Spending<'a> {
    /// What the listed tools of this world cost, at so many dollars for a million tokens.
    pub fn of(world: &'a World, costs: &mut Costs, format: Format, price: f64) -> Self {
        let mut tools: Vec<Spent<'a>> = listed(world)
            .map(|tool| Spent {
                name: tool.name(),
                source: tool.source,
                cost: costs.of(tool, format),
            })
            .collect();
        // Those that cost the same stay in the order of their names.
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
