//! Reader tools: tools that read a server's resources and prompts, so that each read is checked, masked, labelled and
//! recorded like any call. Models do not see these tools; clients that list resources or prompts read through them.
//! Completions and subscriptions are calls of these tools, because they send the client's text to the server, too.
//!
//! Text and binary data become parts of the result, subject to the limits of results. The rest of the response, with a
//! number in place of each part, becomes the structured content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::backend::RawResult;
use mimir_core::limits::Limits;
use mimir_core::name_suggestions::mcp_snake;
use mimir_core::needs::Needs;
use mimir_core::outcome::ToolOutput;
use mimir_core::{
    Content, Decision, RiskLevel, Schema, ToolDefinition, ToolError, ToolErrorCode, ToolGroup,
    ToolHints,
};
use rmcp::model::{ArgumentInfo, CompletionContext, CompletionInfo, Reference, ServerResult};
use serde_json::{Value, json};

use super::flags::is_plain;
use super::names;
use super::operation::ServerOperation;
use super::spec::ServerSpec;

/// The kind of entry that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A resource, by its URI.
    Resources,
    /// A prompt, by its name and arguments.
    Prompts,
}

/// Key of the argument to be completed. If present, the entry is not read.
pub(super) const COMPLETE: &str = "complete";

/// Key of the argument for subscriptions. If present, the server is asked for updates of the resource, not its content.
pub(super) const WATCH: &str = "watch";

/// Maximum length of a completion value in characters.
const MAX_COMPLETION_CHARS: usize = 256;

/// Key of the number that replaces a part.
const PART: &str = "mimirPart";

impl EntryKind {
    /// Returns the name of the reader tool. It contains the server's name, not the prefix, so that servers without a
    /// prefix have separate tools.
    pub(super) fn name(self, spec: &ServerSpec) -> String {
        let word = mcp_snake(&spec.name);
        match self {
            Self::Resources => format!("mcp_{word}_resources_read"),
            Self::Prompts => format!("mcp_{word}_prompts_get"),
        }
    }

    /// Returns the definition of the reader tool for this server, or `None` if its name is not valid.
    pub(super) fn definition(self, spec: &ServerSpec) -> Option<ToolDefinition> {
        let name = self.name(spec);
        let unique_name = names::unique_names("", &[&name])
            .into_iter()
            .next()
            .flatten()?;
        let (what, schema) = match self {
            Self::Resources => (
                "Reads a resource of",
                json!({"type": "object", "properties": {"uri": {"type": "string"},
                    "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
                    COMPLETE: {"type": "string"}, WATCH: {"type": "boolean"}},
                    "required": ["uri"], "additionalProperties": false}),
            ),
            Self::Prompts => (
                "Gets the messages of a prompt of",
                json!({"type": "object", "properties": {"name": {"type": "string"},
                    "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
                    COMPLETE: {"type": "string"}},
                    "required": ["name"], "additionalProperties": false}),
            ),
        };
        Some(ToolDefinition {
            name: unique_name,
            title: None,
            description: format!("{what} the MCP server `{}`.", spec.name),
            group: ToolGroup::System,
            input_schema: Schema::parse(&schema.to_string()).ok()?,
            output_schema: None,
            approval: Decision::Ask,
            risk: RiskLevel::Medium,
            hints: ToolHints {
                // A read can have any effect at the server.
                read_only: false,
                destructive: false,
                idempotent: false,
                open_world: true,
            },
            needs: Needs::default(),
            // The general settings apply, as for the other tools of the server.
            silent: true,
        })
    }

    /// Converts the arguments of a call to an operation at the server.
    pub(super) fn operation(self, arguments: &Value) -> ServerOperation {
        let text_of = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        if arguments[COMPLETE].is_string() {
            let reference = match self {
                Self::Resources => Reference::for_resource(text_of("uri")),
                Self::Prompts => Reference::for_prompt(text_of("name")),
            };
            return completion(reference, text_of(COMPLETE), &arguments["arguments"]);
        }
        match self {
            Self::Resources => ServerOperation::Resource {
                uri: text_of("uri"),
            },
            Self::Prompts => ServerOperation::Prompt {
                name: text_of("name"),
                arguments: arguments["arguments"]
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
            },
        }
    }
}

/// Returns the completion request for one argument, given the values of the others.
fn completion(reference: Reference, name: String, arguments: &Value) -> ServerOperation {
    let mut context = CompletionContext::new();
    let mut value = String::new();
    for (key, text) in arguments.as_object().into_iter().flatten() {
        let text = text.as_str().unwrap_or_default().to_owned();
        if *key == name {
            value = text;
        } else {
            let others = context.arguments.get_or_insert_default();
            others.insert(key.clone(), text);
        }
    }
    ServerOperation::Completion {
        of: reference,
        argument: ArgumentInfo::new(name, value),
        context,
    }
}

/// Returns the result of a subscription, which has no content.
pub(super) fn watch_result() -> RawResult {
    RawResult::from(Ok(ToolOutput {
        content: Vec::new(),
        structured: None,
        exit_code: None,
    }))
}

/// Converts the server's response to a result, within the limits.
pub(super) fn read_result(mut result: ServerResult, limits: &Limits) -> RawResult {
    let failure = |code, message: &str| RawResult::failed(ToolError::new(code, message));
    match &mut result {
        ServerResult::ReadResourceResult(_) | ServerResult::GetPromptResult(_) => {}
        ServerResult::CompleteResult(completions) => {
            completions.completion.values = {
                let values = std::mem::take(&mut completions.completion.values).into_iter();
                let values = values.take(CompletionInfo::MAX_VALUES);
                let short = |value: String| {
                    mimir_core::text::prefix(&value, MAX_COMPLETION_CHARS).to_owned()
                };
                // Completion values carry no marks, so values that address a model or hide something are dropped.
                values.map(short).filter(|value| is_plain(value)).collect()
            }
        }
        _ => {
            let message = "the server's response does not match the request";
            return failure(ToolErrorCode::ExecutionError, message);
        }
    }
    let mut value = serde_json::to_value(result).unwrap_or_default();
    let mut parts = Vec::new();
    if extract_parts(&mut value, &mut parts).is_err() {
        let message = "the server's response contains data that is not valid base64";
        return failure(ToolErrorCode::ExecutionError, message);
    }
    let bytes: usize = parts.iter().map(Content::len).sum();
    let limit = usize::try_from(limits.output_bytes).unwrap_or(usize::MAX);
    if bytes.saturating_add(value.to_string().len()) > limit {
        let limit = mimir_core::text::bytes(limits.output_bytes);
        let message = format!("the server's response is larger than {limit} (limits.outputBytes)");
        return failure(ToolErrorCode::LimitExceeded, &message);
    }
    RawResult::from(Ok(ToolOutput {
        content: parts,
        structured: Some(value),
        exit_code: None,
    }))
}

/// Moves text and data out of a value into parts.
fn extract_parts(value: &mut Value, parts: &mut Vec<Content>) -> Result<(), base64::DecodeError> {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| extract_parts(item, parts)),
        Value::Object(map) => {
            let mime_type = map.get("mimeType").and_then(Value::as_str);
            let mime_type = mime_type.unwrap_or("application/octet-stream").to_owned();
            for (key, item) in map.iter_mut() {
                let part = match (key.as_str(), &*item) {
                    ("text", Value::String(text)) => Content::text(text.clone()),
                    ("blob", Value::String(data)) => Content::File {
                        data: STANDARD.decode(data.trim())?,
                        mime_type: mime_type.clone(),
                        name: "resource".to_owned(),
                    },
                    ("data", Value::String(data)) if mime_type.starts_with("audio/") => {
                        Content::Audio {
                            data: STANDARD.decode(data.trim())?,
                            mime_type: mime_type.clone(),
                        }
                    }
                    ("data", Value::String(data)) => Content::Image {
                        data: STANDARD.decode(data.trim())?,
                        mime_type: mime_type.clone(),
                    },
                    _ => {
                        extract_parts(item, parts)?;
                        continue;
                    }
                };
                *item = json!({ PART: parts.len() });
                parts.push(part);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Restores the server's response from the structured content and the parts. Returns `None` if a part is missing
/// because of a limit.
pub(crate) fn restore_output(output: &ToolOutput) -> Option<Value> {
    let mut value = output.structured.clone()?;
    insert_parts(&mut value, &output.content)?;
    Some(value)
}

fn insert_parts(value: &mut Value, parts: &[Content]) -> Option<()> {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| insert_parts(item, parts)),
        Value::Object(map) => match map.get(PART).and_then(Value::as_u64) {
            Some(index) if map.len() == 1 => {
                let part = parts.get(usize::try_from(index).ok()?)?;
                *value = match part {
                    Content::Text { text } => text.clone().into(),
                    Content::Image { data, .. }
                    | Content::Audio { data, .. }
                    | Content::File { data, .. } => STANDARD.encode(data).into(),
                };
                Some(())
            }
            _ => map
                .values_mut()
                .try_for_each(|item| insert_parts(item, parts)),
        },
        _ => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_restore_the_answer_from_its_parts() {
        let answer = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "words"}},
            {"role": "user", "content": {"type": "image", "data": "AAEC", "mimeType": "image/png"}},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "a:b", "blob": "AA==", "mimeType": "x/y"}}},
        ]});
        let mut value = answer.clone();
        let mut content = Vec::new();
        extract_parts(&mut value, &mut content).unwrap_or_default();
        assert_eq!(content.len(), 3);
        assert!(!value.to_string().contains("words"), "{value}");
        let mut output = ToolOutput {
            content,
            structured: Some(value),
            exit_code: None,
        };
        assert_eq!(restore_output(&output), Some(answer));
        output.content.pop();
        assert_eq!(restore_output(&output), None, "a part is missing");
    }
}
