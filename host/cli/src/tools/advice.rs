//! What could be saved: descriptions that cost most, tools that say much the same, tools that nobody calls.

use std::collections::BTreeSet;

use mimir_core::pipeline::World;
use mimir_core::{Tool, ToolName};
use serde::Serialize;

use crate::args::Format;

use super::search::words_of;
use super::usage::Usage;
use super::{Costs, listed};

/// What could be saved.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice<'a> {
    /// What the tools cost now.
    pub total_tokens: u64,
    /// The costliest descriptions.
    pub descriptions: Vec<Wordy<'a>>,
    /// Pairs of tools that say much the same.
    pub duplicates: Vec<Alike<'a>>,
    /// Tools that were not called since the record begins.
    pub unused: Vec<Unused<'a>>,
    /// When the record begins; empty if nothing was called yet.
    pub since: String,
    /// Calls on record.
    pub calls: u64,
}

/// A description that costs much.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wordy<'a> {
    /// The tool.
    pub name: &'a ToolName,
    /// Tokens of its description.
    pub description_tokens: u32,
    /// Tokens of all of it.
    pub tokens: u32,
}

/// Two tools that say much the same.
#[derive(Serialize)]
pub struct Alike<'a> {
    /// The tool that costs more.
    pub name: &'a ToolName,
    /// The other one.
    pub other: &'a ToolName,
    /// What the first one costs.
    pub tokens: u32,
}

/// A tool that nobody calls.
#[derive(Serialize)]
pub struct Unused<'a> {
    /// The tool.
    pub name: &'a ToolName,
    /// What it costs.
    pub tokens: u32,
}

/// Descriptions that are named, and what one has to cost for that: a sentence or two are worth what they cost.
const WORDY_MOST: usize = 5;
const WORDY_LEAST: u32 = 60;

/// Of a hundred words that two descriptions have, so many are in both where they say much the same.
const ALIKE: usize = 80;

/// With fewer words, two descriptions are alike by chance.
const WORDS_LEAST: usize = 4;

impl<'a> Advice<'a> {
    /// Looks at the tools that models see, and at what was called.
    pub fn of(world: &'a World, costs: &mut Costs, format: Format, usage: &Usage) -> Self {
        let tools: Vec<(&'a Tool, u32)> = listed(world)
            .map(|tool| (&**tool, costs.of(tool, format).tokens))
            .collect();
        let mut descriptions: Vec<Wordy<'a>> = tools
            .iter()
            .map(|(tool, tokens)| Wordy {
                name: tool.name(),
                description_tokens: costs.text(&tool.definition.description),
                tokens: *tokens,
            })
            .filter(|wordy| wordy.description_tokens >= WORDY_LEAST)
            .collect();
        descriptions.sort_by_key(|wordy| std::cmp::Reverse(wordy.description_tokens));
        descriptions.truncate(WORDY_MOST);
        let idle = tools.iter().filter(|_| usage.calls > 0);
        let idle = idle.filter(|(tool, _)| !usage.called.contains(tool.name().as_str()));
        let mut unused: Vec<Unused<'a>> = idle
            .map(|(tool, tokens)| Unused {
                name: tool.name(),
                tokens: *tokens,
            })
            .collect();
        unused.sort_by_key(|unused| std::cmp::Reverse(unused.tokens));
        Self {
            total_tokens: tools.iter().map(|(_, tokens)| u64::from(*tokens)).sum(),
            descriptions,
            duplicates: alike(&tools),
            unused,
            since: usage.since.clone(),
            calls: usage.calls,
        }
    }
}

fn alike<'a>(tools: &[(&'a Tool, u32)]) -> Vec<Alike<'a>> {
    let words: Vec<BTreeSet<String>> = tools
        .iter()
        .map(|(tool, _)| words_of(&tool.definition.description).into_iter().collect())
        .collect();
    let mut found = Vec::new();
    for (at, (one, tokens)) in tools.iter().enumerate() {
        for (before, (other, fewer)) in tools[..at].iter().enumerate() {
            if !is_alike(&words[at], &words[before]) {
                continue;
            }
            let (name, other, tokens) = match tokens > fewer {
                true => (one.name(), other.name(), *tokens),
                false => (other.name(), one.name(), *fewer),
            };
            found.push(Alike {
                name,
                other,
                tokens,
            });
        }
    }
    found.sort_by_key(|pair| std::cmp::Reverse(pair.tokens));
    found
}

fn is_alike(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let (fewer, more) = (one.len().min(other.len()), one.len().max(other.len()));
    // Sets whose sizes differ that much cannot be alike, and need no look.
    if fewer < WORDS_LEAST || fewer * 100 < more * ALIKE {
        return false;
    }
    let both = one.intersection(other).count();
    let all = one.len() + other.len() - both;
    both * 100 >= all * ALIKE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let set = |text: &str| words_of(text).into_iter().collect();
        is_alike(&set(one), &set(other))
    }

    #[test]
    fn alike_is_what_says_the_same_in_other_order_or_spelling() {
        assert!(same("Reads a file of text.", "of text: reads a FILE"));
        assert!(!same(
            "Reads a file of text.",
            "Writes a file of text and numbers."
        ));
        assert!(!same("Reads files", "Reads files"), "too few words to say");
    }
}
