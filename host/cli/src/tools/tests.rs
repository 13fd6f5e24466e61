//! A tool for tests, and that a count is of the definition as it is written.

use std::sync::Arc;

use mimir_core::ToolName;
use mimir_core::backend::{BoxFuture, Raw};
use mimir_core::tool::{Definition, Group, Hints, Origin, Risk, Trust};
use mimir_core::{Approved, Backend, Code, Decision, Needs, Schema, Source, Tool, ToolError};

use serde_json::{Value, json};

use super::Costs;
use crate::args::Format;
use crate::output::definitions::definition;
use mimir::places::Places;

struct Nothing;

impl Backend for Nothing {
    fn run(&self, _: Approved) -> BoxFuture<'_, Raw> {
        let error = ToolError::new(Code::Unavailable, "it is not run here");
        Box::pin(std::future::ready(Raw::failed(error)))
    }
}

/// A custom tool of this name.
pub fn tool(name: &str) -> Tool {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    Tool {
        definition: Definition {
            name: ToolName::new(name).unwrap(),
            title: None,
            description: "Looks at what the tests want it to look at, and at nothing else.".into(),
            group: Group::System,
            input_schema: Schema::parse(schema).unwrap(),
            output_schema: None,
            approval: Decision::Allow,
            silent: false,
            risk: Risk::Low,
            hints: Hints::default(),
            needs: Needs::default(),
        },
        aliases: vec![],
        source: Source::Custom,
        origin: Arc::new(Origin {
            prefix: String::new(),
            plugin: name.into(),
            version: "1.0.0".into(),
            location: format!(".mimir/tools/{name}.wasm"),
            digest: "00".into(),
            imports: vec![],
            proofs: vec![],
            listed: Vec::new(),
            speaks: true,
        }),
        trust: Trust::Harmless,
        granted: Needs::default(),
        changes: None,
        flags: Vec::new(),
        assessed: false,
        off: false,
        token_cost: None,
        backend: Arc::new(Nothing),
    }
}

/// The book keeps counts under what these are made of: if a definition is written in another way one day, its file has
/// to have another name.
#[test]
fn definitions_are_written_as_the_book_takes_them_to_be() {
    let mut tool = tool("look");
    tool.definition.description = "Looks.".to_owned();
    let schema = tool.definition.input_schema.as_str();
    let openai = format!(
        r#"{{"type":"function","function":{{"name":"look","description":"Looks.","parameters":{schema}}}}}"#
    );
    let anthropic = format!(r#"{{"name":"look","description":"Looks.","input_schema":{schema}}}"#);
    for (format, written) in [(Format::Openai, openai), (Format::Anthropic, anthropic)] {
        assert_eq!(definition(&tool, format).to_string(), written);
        let cost = Costs::open(&Places::default()).of(&tool, format);
        assert_eq!(cost.tokens, mimir_tokens::count(&written));
    }
}

#[test]
fn what_changes_a_definition_changes_its_count() {
    let mut costs = Costs::open(&Places::default());
    let first = tool("look");
    let tokens =
        |costs: &mut Costs, tool: &Tool| Format::ALL.map(|format| costs.of(tool, format).tokens);
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
    assert_eq!(tokens(&mut costs, &other), [7; 3]);
    assert_eq!(tokens(&mut costs, &first), before, "from the book");
}

#[test]
fn what_receipts_say_is_about_what_the_tokenizer_counts() {
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
        let about = mimir_core::tokens::about(text);
        let counted = u64::from(mimir_tokens::count(text));
        let start = mimir_core::text::prefix(text, 60);
        assert!(
            about.abs_diff(counted) * 6 <= counted,
            "{about} for {counted}: {start}"
        );
    }
}
