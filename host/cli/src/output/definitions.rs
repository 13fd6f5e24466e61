//! Tool definitions in the formats that models are given them in.

use mimir_core::Tool;
use serde_json::{Map, Value, json};

use crate::args::Format;

/// One tool in the given format.
pub fn definition(tool: &Tool, format: Format) -> Value {
    let definition = &tool.definition;
    let name = tool.name().as_str();
    let schema = definition.input_schema.to_value();
    match format {
        Format::Openai => json!({
            "type": "function",
            "function": { "name": name, "description": definition.description, "parameters": schema },
        }),
        Format::Anthropic => json!({
            "name": name,
            "description": definition.description,
            "input_schema": schema,
        }),
        Format::Mcp => mcp(tool, schema),
    }
}

fn mcp(tool: &Tool, schema: Value) -> Value {
    let definition = &tool.definition;
    let mut value = Map::new();
    value.insert("name".into(), tool.name().as_str().into());
    if let Some(title) = &definition.title {
        value.insert("title".into(), title.as_str().into());
    }
    value.insert("description".into(), definition.description.as_str().into());
    value.insert("inputSchema".into(), schema);
    if let Some(output) = &definition.output_schema {
        value.insert("outputSchema".into(), output.to_value());
    }
    let hints = definition.hints;
    value.insert(
        "annotations".into(),
        json!({
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        }),
    );
    Value::Object(value)
}
