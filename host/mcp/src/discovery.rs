//! Tool discovery for large tool lists: three tools to search, describe and call tools replace the tools in the list.
//!
//! The discovery tools find exactly the tools that would be listed. A call through them is a call of the actual tool,
//! with the same policy checks.
//!
//! Out of scope: tools that would not be listed, and calls that bypass the pipeline.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Names of the discovery tools.
const SEARCH: &str = "mimir_search_tools";
const DESCRIBE: &str = "mimir_describe_tool";
const CALL: &str = "mimir_call_tool";

/// Maximum number of tools in a search result, and maximum length of each description in characters.
const MAX_RESULTS: usize = 20;
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Returns the approximate number of tokens of a tool's definition.
pub(crate) fn estimate_tokens(tool: &Tool) -> u64 {
    let text = serde_json::to_string(tool);
    text.map_or(0, |text| mimir_core::token_estimate::estimate_tokens(&text))
}

/// Maximum number of servers named in the description of the search tool.
const MAX_NAMED_SERVERS: usize = 20;

/// Returns the three discovery tools, described as searching `count` tools of these servers.
pub(crate) fn discovery_tools(count: usize, servers: &[String]) -> Vec<Tool> {
    let named: Vec<String> = servers
        .iter()
        .take(MAX_NAMED_SERVERS)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = if servers.len() > MAX_NAMED_SERVERS {
        " and others"
    } else {
        ""
    };
    let servers_note = if named.is_empty() {
        String::new()
    } else {
        format!(" (of the servers {}{more})", named.join(", "))
    };
    let text = |description: &str| json!({"type": "string", "description": description});
    let tool = |name: &'static str, description: String, schema: Value, reads: bool| {
        let schema = match schema {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        };
        let hints =
            ToolAnnotations::from_raw(None, Some(reads), Some(!reads), Some(reads), Some(!reads));
        Tool::new(name, description, schema).with_annotations(hints)
    };
    // Sorted by name, like all lists.
    vec![
        tool(
            CALL,
            format!(
                "Calls a tool that `{SEARCH}` has found, with arguments that match the schema from `{DESCRIBE}`."
            ),
            json!({"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
                "name": text("The tool's name."),
                "arguments": {"type": "object", "description": "The tool's own arguments."}}}),
            false,
        ),
        tool(
            DESCRIBE,
            "Describes a tool: what it does, and the schema of its arguments.".to_owned(),
            json!({"type": "object", "required": ["name"], "additionalProperties": false,
                "properties": {"name": text("The tool's name.")}}),
            true,
        ),
        tool(
            SEARCH,
            format!(
                "Searches {count} unlisted tools{servers_note} by words in their descriptions. Search here before you say that something cannot be done."
            ),
            json!({"type": "object", "required": ["query"], "additionalProperties": false,
                "properties": {"query": text("Search words, such as `send mail`; an empty query returns the first tools.")}}),
            true,
        ),
    ]
}

/// Result of a call of a discovery tool.
pub(crate) enum DiscoveryReply {
    /// An answer from the tool list alone.
    Answer(CallToolResult),
    /// A call of the actual tool.
    Call { name: String, arguments: JsonObject },
}

/// Handles a call of a discovery tool, or returns `None` for another tool. `tools` are the tools to search, and
/// `listed` those in the list.
pub(crate) fn handle_discovery_call(
    name: &str,
    arguments: &JsonObject,
    tools: &[Tool],
    listed: &[Tool],
) -> Option<DiscoveryReply> {
    let string_argument = |key: &str| arguments.get(key).and_then(Value::as_str);
    let missing_argument = |key: &str| {
        let message = format!("`{name}` needs the string argument `{key}` [INVALID_INPUT]");
        DiscoveryReply::Answer(CallToolResult::error(vec![ContentBlock::text(message)]))
    };
    Some(match name {
        SEARCH => match string_argument("query") {
            Some(query) => DiscoveryReply::Answer(search(query, tools)),
            None => missing_argument("query"),
        },
        DESCRIBE => match string_argument("name") {
            Some(tool_name) => {
                DiscoveryReply::Answer(describe(tool_name, tools.iter().chain(listed)))
            }
            None => missing_argument("name"),
        },
        CALL => match (string_argument("name"), arguments.get("arguments")) {
            (None, _) => missing_argument("name"),
            (Some(SEARCH | DESCRIBE | CALL), _) => {
                let message = "`name` is a discovery tool: call it directly [INVALID_INPUT]";
                DiscoveryReply::Answer(CallToolResult::error(vec![ContentBlock::text(message)]))
            }
            (Some(tool_name), None) => DiscoveryReply::Call {
                name: tool_name.to_owned(),
                arguments: JsonObject::new(),
            },
            (Some(tool_name), Some(Value::Object(arguments))) => DiscoveryReply::Call {
                name: tool_name.to_owned(),
                arguments: arguments.clone(),
            },
            (Some(_), Some(_)) => {
                let message = "`arguments` is not an object [INVALID_INPUT]";
                DiscoveryReply::Answer(CallToolResult::error(vec![ContentBlock::text(message)]))
            }
        },
        _ => return None,
    })
}

fn search(query: &str, tools: &[Tool]) -> CallToolResult {
    let query = query.to_lowercase();
    let terms: Vec<&str> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let mut scored: Vec<(usize, &Tool)> = tools
        .iter()
        .map(|tool| (score(tool, &terms), tool))
        .filter(|(score, _)| *score > 0 || terms.is_empty())
        .collect();
    // The sort is stable, so equal matches keep their order.
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let count = scored.len();
    let results: Vec<Value> = scored
        .iter()
        .take(MAX_RESULTS)
        .map(|(_, tool)| {
            let description = tool.description.as_deref().unwrap_or_default();
            let description = mimir_core::text::prefix(description, MAX_DESCRIPTION_CHARS);
            json!({"name": tool.name, "description": description})
        })
        .collect();
    let results = json!({"tools": results, "found": count, "of": tools.len()});
    CallToolResult::success(vec![ContentBlock::text(results.to_string())])
}

/// Returns true for the names of the discovery tools, which no other tool can have.
pub(crate) fn is_discovery_tool(name: &str) -> bool {
    [SEARCH, DESCRIBE, CALL].contains(&name)
}

/// Returns the relevance of a tool: matches in the name count more than matches in the description.
fn score(tool: &Tool, terms: &[&str]) -> usize {
    let name = tool.name.to_lowercase();
    let title = tool.title.as_deref().unwrap_or_default().to_lowercase();
    let description = tool
        .description
        .as_deref()
        .unwrap_or_default()
        .to_lowercase();
    let each = terms.iter().map(|word| {
        let is_name_part = name.split('_').any(|part| part == *word);
        8 * usize::from(is_name_part)
            + 4 * usize::from(name.contains(word))
            + 2 * usize::from(title.contains(word))
            + usize::from(description.contains(word))
    });
    each.sum()
}

fn describe<'a>(name: &str, mut tools: impl Iterator<Item = &'a Tool>) -> CallToolResult {
    let Some(tool) = tools.find(|tool| tool.name == name) else {
        let message = format!("unknown tool: find tools with `{SEARCH}` [NOT_FOUND]");
        return CallToolResult::error(vec![ContentBlock::text(message)]);
    };
    let text = serde_json::to_string(tool).unwrap_or_default();
    CallToolResult::success(vec![ContentBlock::text(text)])
}
