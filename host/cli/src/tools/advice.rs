//! Possible token savings: costly descriptions, near duplicates, unused tools.

use std::collections::BTreeSet;

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Tool, ToolName};
use serde::Serialize;

use crate::args::DefinitionFormat;

use super::search::words_of;
use super::usage::ToolUsage;
use super::{TokenCosts, listed};

/// Suggested savings.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostAdvice<'a> {
    /// Current token cost of the tools.
    pub total_tokens: u64,
    /// The longest descriptions.
    pub descriptions: Vec<CostlyDescription<'a>>,
    /// Pairs of tools with nearly the same description.
    pub duplicates: Vec<SimilarTools<'a>>,
    /// Tools without a call in the audit log.
    pub unused: Vec<UnusedTool<'a>>,
    /// Time of the first recorded call; empty if there is none.
    pub since: String,
    /// Number of recorded calls.
    pub calls: u64,
}

/// A costly description.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostlyDescription<'a> {
    /// The tool.
    pub name: &'a ToolName,
    /// Tokens of the description.
    pub description_tokens: u32,
    /// Tokens of the whole definition.
    pub tokens: u32,
}

/// Two tools with nearly the same description.
#[derive(Serialize)]
pub struct SimilarTools<'a> {
    /// The more expensive tool.
    pub name: &'a ToolName,
    /// The other tool.
    pub other: &'a ToolName,
    /// Cost of the first tool.
    pub tokens: u32,
}

/// A tool that was never called.
#[derive(Serialize)]
pub struct UnusedTool<'a> {
    /// The tool.
    pub name: &'a ToolName,
    /// Token cost.
    pub tokens: u32,
}

/// Maximum number of listed descriptions, and their minimum cost, which one or two sentences do not reach.
const MAX_COSTLY_TOOLS: usize = 5;
const MIN_COSTLY_TOKENS: u32 = 60;

/// Minimum percentage of common words in two descriptions that count as near duplicates.
const MIN_SIMILARITY_PERCENT: usize = 80;

/// Minimum number of different words in a description. Shorter descriptions are similar by chance.
const MIN_WORDS: usize = 4;

impl<'a> CostAdvice<'a> {
    /// Analyses the tools that models see, and the recorded calls.
    pub fn analyze(
        snapshot: &'a PipelineSnapshot,
        costs: &mut TokenCosts,
        format: DefinitionFormat,
        usage: &ToolUsage,
    ) -> Self {
        let tools: Vec<(&'a Tool, u32)> = listed(snapshot)
            .map(|tool| (&**tool, costs.tool_cost(tool, format).tokens))
            .collect();
        let mut descriptions: Vec<CostlyDescription<'a>> = tools
            .iter()
            .map(|(tool, tokens)| CostlyDescription {
                name: tool.name(),
                description_tokens: costs.text_tokens(&tool.definition.description),
                tokens: *tokens,
            })
            .filter(|description| description.description_tokens >= MIN_COSTLY_TOKENS)
            .collect();
        descriptions.sort_by_key(|description| std::cmp::Reverse(description.description_tokens));
        descriptions.truncate(MAX_COSTLY_TOOLS);
        let uncalled = tools.iter().filter(|_| usage.calls > 0);
        let uncalled = uncalled.filter(|(tool, _)| !usage.called.contains(tool.name().as_str()));
        let mut unused: Vec<UnusedTool<'a>> = uncalled
            .map(|(tool, tokens)| UnusedTool {
                name: tool.name(),
                tokens: *tokens,
            })
            .collect();
        unused.sort_by_key(|unused| std::cmp::Reverse(unused.tokens));
        Self {
            total_tokens: tools.iter().map(|(_, tokens)| u64::from(*tokens)).sum(),
            descriptions,
            duplicates: find_similar(&tools),
            unused,
            since: usage.since.clone(),
            calls: usage.calls,
        }
    }
}

fn find_similar<'a>(tools: &[(&'a Tool, u32)]) -> Vec<SimilarTools<'a>> {
    let words: Vec<BTreeSet<String>> = tools
        .iter()
        .map(|(tool, _)| words_of(&tool.definition.description).into_iter().collect())
        .collect();
    let mut similar = Vec::new();
    for (at, (tool, tokens)) in tools.iter().enumerate() {
        for (other_at, (other, other_tokens)) in tools[..at].iter().enumerate() {
            if !is_alike(&words[at], &words[other_at]) {
                continue;
            }
            let (name, other, tokens) = if tokens > other_tokens {
                (tool.name(), other.name(), *tokens)
            } else {
                (other.name(), tool.name(), *other_tokens)
            };
            similar.push(SimilarTools {
                name,
                other,
                tokens,
            });
        }
    }
    similar.sort_by_key(|pair| std::cmp::Reverse(pair.tokens));
    similar
}

fn is_alike(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let (fewer, more) = (one.len().min(other.len()), one.len().max(other.len()));
    // Sets whose sizes differ that much cannot be similar, so skip the comparison.
    if fewer < MIN_WORDS || fewer * 100 < more * MIN_SIMILARITY_PERCENT {
        return false;
    }
    let both = one.intersection(other).count();
    let all = one.len() + other.len() - both;
    both * 100 >= all * MIN_SIMILARITY_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let set = |text: &str| words_of(text).into_iter().collect();
        is_alike(&set(one), &set(other))
    }

    #[test]
    fn advice_alike_descriptions_ignore_order_and_case() {
        assert!(same("Reads a file of text.", "of text: reads a FILE"));
        assert!(!same(
            "Reads a file of text.",
            "Writes a file of text and numbers."
        ));
        assert!(
            !same("Reads files", "Reads files"),
            "descriptions with few words count as similar"
        );
    }
}
