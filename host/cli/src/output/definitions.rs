//! Tool definitions in the formats of model APIs.

use mimir_core::Tool;
use serde_json::{Value, json};

use crate::args::Format;

/// Converts a definition to the given format.
pub fn definition(tool: &Tool, format: Format) -> Value {
    let definition = &tool.definition;
    let name = tool.name().as_str();
    let schema = definition.input_schema.for_models();
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
        // Shared with `mimir serve`, so that the two never differ.
        Format::Mcp => serde_json::to_value(mimir_mcp::definition(tool)).unwrap_or_default(),
    }
}
