//! Search for tools by words in their names and descriptions.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Tool, ToolName, ToolSource};
use serde::Serialize;

use crate::args::DefinitionFormat;

use super::{TokenCost, TokenCosts};

/// A search result.
#[derive(Serialize)]
pub struct ToolMatch<'a> {
    /// Name of the tool.
    pub name: &'a ToolName,
    /// Source of the tool.
    pub source: ToolSource,
    /// True if the tool can be called.
    pub enabled: bool,
    /// Token cost of the definition.
    #[serde(flatten)]
    pub cost: TokenCost,
    /// Description of the tool.
    pub description: &'a str,
}

/// Returns the tools that match at least one word, best match first.
pub fn search<'a>(
    snapshot: &'a PipelineSnapshot,
    costs: &mut TokenCosts,
    words: &str,
) -> Vec<ToolMatch<'a>> {
    let words = words_of(words);
    let mut scored: Vec<(usize, &Tool)> = snapshot
        .registry
        .tools()
        .iter()
        .map(|tool| (score(tool, &words), &**tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    // A stable sort, so that equal scores stay in alphabetical order.
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let matches = scored.into_iter().map(|(_, tool)| ToolMatch {
        name: tool.name(),
        source: tool.source,
        enabled: snapshot.policy.refusal(tool).is_none(),
        cost: costs.tool_cost(tool, DefinitionFormat::Openai),
        description: &tool.definition.description,
    });
    matches.collect()
}

/// Returns the words of a text in lower case.
pub fn words_of(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Scores a match; 0 means no match. Words in the name count more than words in the description, and the score grows
/// with the number of matching words.
pub(super) fn score(tool: &Tool, words: &[String]) -> usize {
    let definition = &tool.definition;
    let aliases = tool.aliases.iter().map(ToolName::as_str);
    let names: Vec<&str> = std::iter::once(tool.name().as_str())
        .chain(aliases)
        .collect();
    let title = definition.title.as_deref().unwrap_or_default();
    let about = definition.description.to_lowercase();
    let title = title.to_lowercase();
    let scores = words.iter().map(|word| {
        let is_name_part = names
            .iter()
            .any(|name| name.split('_').any(|part| part == word));
        let is_in_name = names.iter().any(|name| name.contains(word.as_str()));
        8 * usize::from(is_name_part)
            + 4 * usize::from(is_in_name)
            + 2 * usize::from(title.contains(word.as_str()))
            + usize::from(about.contains(word.as_str()))
    });
    let scores: Vec<usize> = scores.collect();
    let hits = scores.iter().filter(|score| **score > 0).count();
    scores.iter().sum::<usize>() * hits
}
