//! A tool for tests, and tests of token counts.

use std::sync::Arc;

use mimir_core::ToolName;
use mimir_core::backend::{BoxFuture, RawResult};
use mimir_core::tool::{RiskLevel, ToolDefinition, ToolGroup, ToolHints, ToolOrigin, ToolTrust};
use mimir_core::{Approved, Backend, Decision, Needs, Schema, Tool, ToolError, ToolSource};

use serde_json::{Value, json};

use super::TokenCosts;
use crate::args::DefinitionFormat;
use crate::output::definitions::tool_definition;
use mimir::user_dirs::UserDirs;

struct Nothing;

impl Backend for Nothing {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        let error = ToolError::unavailable("it is not run here");
        Box::pin(std::future::ready(RawResult::failed(error)))
    }
}

/// A custom tool of this name.
pub fn tool(name: &str) -> Tool {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    Tool::new(
        ToolDefinition {
            name: ToolName::new(name).unwrap(),
            title: None,
            description: "Looks at what the tests want it to look at, and at nothing else.".into(),
            group: ToolGroup::System,
            input_schema: Schema::parse(schema).unwrap(),
            output_schema: None,
            approval: Decision::Allow,
            silent: false,
            risk: RiskLevel::Low,
            hints: ToolHints::default(),
            needs: Needs::default(),
        },
        ToolSource::Custom,
        Arc::new(ToolOrigin {
            plugin: name.into(),
            version: "1.0.0".into(),
            location: format!(".mimir/tools/{name}.wasm"),
            digest: "00".into(),
            declares_needs: true,
            ..ToolOrigin::default()
        }),
        ToolTrust::Harmless,
        Arc::new(Nothing),
    )
}

/// The book keeps counts under what these are made of: if a definition is written in another way one day, its file has
/// to have another name.
#[test]
fn token_cache_counts_the_definition_as_written() {
    let mut tool = tool("look");
    tool.definition.description = "Looks.".to_owned();
    let schema = tool.definition.input_schema.as_str();
    let openai = format!(
        r#"{{"type":"function","function":{{"name":"look","description":"Looks.","parameters":{schema}}}}}"#
    );
    let anthropic = format!(r#"{{"name":"look","description":"Looks.","input_schema":{schema}}}"#);
    for (format, written) in [
        (DefinitionFormat::Openai, openai),
        (DefinitionFormat::Anthropic, anthropic),
    ] {
        assert_eq!(tool_definition(&tool, format).to_string(), written);
        let cost = TokenCosts::open(&UserDirs::default()).tool_cost(&tool, format);
        assert_eq!(cost.tokens, mimir_tokens::count(&written));
    }
}

#[test]
fn token_count_changes_with_the_definition() {
    let mut costs = TokenCosts::open(&UserDirs::default());
    let first = tool("look");
    let tokens = |costs: &mut TokenCosts, tool: &Tool| {
        DefinitionFormat::ALL.map(|format| costs.tool_cost(tool, format).tokens)
    };
    let before = tokens(&mut costs, &first);
    let mut other = first.clone();
    other
        .definition
        .description
        .push_str(" More words are said here.");
    assert!(
        tokens(&mut costs, &other)
            .iter()
            .zip(before)
            .all(|(now, before)| *now > before)
    );
    let mut other = first.clone();
    other.definition.input_schema = Schema::parse(r#"{"type":"object"}"#).unwrap();
    assert!(
        tokens(&mut costs, &other)
            .iter()
            .zip(before)
            .all(|(now, before)| *now < before)
    );
    let mut other = first.clone();
    other.token_cost = Some(7);
    assert_eq!(tokens(&mut costs, &other), [7; DefinitionFormat::ALL.len()]);
    assert_eq!(tokens(&mut costs, &first), before, "from the book");
}

#[test]
fn token_estimate_is_close_to_the_tokenizer_count() {
    let row = |n: usize| json!({"id": n, "name": format!("user{n}"), "score": n * 37 % 100});
    let rows: Value = (0..50).map(row).collect();
    for text in [
        include_str!("../../../../README.md"),
        include_str!("../../Cargo.toml"),
        include_str!("tests.rs"),
        include_str!("../../../builtins/python/mimir.py"),
        &rows.to_string(),
        &format!("{rows:#}"),
    ] {
        let about = mimir_core::token_estimate::estimate_tokens(text);
        let counted = u64::from(mimir_tokens::count(text));
        let start = mimir_core::text::prefix(text, 60);
        assert!(
            about.abs_diff(counted) * 6 <= counted,
            "{about} for {counted}: {start}"
        );
    }
}
