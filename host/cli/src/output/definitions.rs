//! Tool definitions in the formats of model APIs.

use mimir_core::Tool;
use serde_json::{Value, json};

use crate::args::DefinitionFormat;

/// Converts a definition to the given format.
pub fn tool_definition(tool: &Tool, format: DefinitionFormat) -> Value {
    let definition = &tool.definition;
    let name = tool.name().as_str();
    let schema = || definition.input_schema.for_models();
    match format {
        DefinitionFormat::Openai => json!({
            "type": "function",
            "function": { "name": name, "description": definition.description, "parameters": schema() },
        }),
        DefinitionFormat::Anthropic => json!({
            "name": name,
            "description": definition.description,
            "input_schema": schema(),
        }),
        DefinitionFormat::OpenApi3 => json!({
            "name": name,
            "description": definition.description,
            "input_schema": definition.input_schema.for_open_api(),
        }),
        // Shared with `mimir serve`, so that both print the same definition.
        DefinitionFormat::Mcp => {
            serde_json::to_value(mimir_mcp::definition(tool)).unwrap_or_default()
        }
    }
}
