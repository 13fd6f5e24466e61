//! Tools with behaviour defined by a test.

use std::sync::Arc;

use mimir_core::outcome::ToolOutput;
use mimir_core::pipeline::Approved;
use mimir_core::tool::{ToolDefinition, ToolHints, ToolOrigin, ToolTrust};
use mimir_core::{
    Backend, BoxFuture, Content, Decision, Needs, RawResult, RiskLevel, Schema, Tool, ToolGroup,
    ToolName, ToolSource,
};

type ToolFn = dyn Fn(Approved) -> BoxFuture<'static, RawResult> + Send + Sync;

/// A backend made of a closure.
pub struct Fake(Box<ToolFn>);

impl Backend for Fake {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        (self.0)(call)
    }
}

/// Returns a backend that calls the closure.
pub fn fake<F>(run: impl Fn(Approved) -> F + Send + Sync + 'static) -> Fake
where
    F: Future<Output = RawResult> + Send + 'static,
{
    Fake(Box::new(move |call| Box::pin(run(call))))
}

/// Returns a result with one text.
pub fn text_result(text: &str) -> RawResult {
    RawResult::from(Ok(ToolOutput {
        content: vec![Content::text(text)],
        ..ToolOutput::default()
    }))
}

/// Returns a trusted built-in tool of this name.
pub fn tool(name: &str, backend: Fake) -> Tool {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    Tool::new(
        ToolDefinition {
            name: ToolName::new(name).unwrap(),
            title: Some(format!("The tool {name}")),
            description: "a tool".into(),
            group: ToolGroup::System,
            input_schema: Schema::parse(schema).unwrap(),
            output_schema: None,
            approval: Decision::Allow,
            silent: false,
            risk: RiskLevel::Low,
            hints: ToolHints {
                read_only: true,
                ..ToolHints::default()
            },
            needs: Needs::default(),
        },
        ToolSource::BuiltIn,
        Arc::new(ToolOrigin {
            plugin: name.into(),
            version: "1.0.0".into(),
            location: "built-in".into(),
            digest: "00".into(),
            declares_needs: true,
            ..ToolOrigin::default()
        }),
        ToolTrust::Trusted,
        Arc::new(backend),
    )
}
