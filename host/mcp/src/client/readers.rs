//! Reading a server's resources and prompts as tools of mimir: so that each reading is judged, masked, labelled and on
//! record like any call. Models are not shown them; whoever lists resources or prompts reads through them. Proposals for
//! arguments and subscriptions are calls of the same tools: they carry words of the client to the server, too.
//!
//! Texts and data travel as parts of the result, where the limits of results hold for them; the rest, with a number
//! in place of each of them, is its structure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::backend::Raw;
use mimir_core::limits::Limits;
use mimir_core::needs::Needs;
use mimir_core::outcome::Output;
use mimir_core::{Code, Content, Decision, Definition, Group, Hints, Risk, Schema, ToolError};
use rmcp::model::{ArgumentInfo, CompletionContext, CompletionInfo, Reference, ServerResult};
use serde_json::{Value, json};

use super::flags::is_plain;
use super::names;
use super::spec::ServerSpec;
use super::wanted::Wanted;

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// A resource, by its URI.
    Resources,
    /// A prompt, by its name and arguments.
    Prompts,
}

/// The key that names the argument for which proposals are wanted, in place of what is read.
pub(super) const COMPLETE: &str = "complete";

/// The key that asks the server to say when a resource changes, in place of what it says.
pub(super) const WATCH: &str = "watch";

/// Characters of a proposal for an argument.
const PROPOSAL_MOST: usize = 256;

/// The key of a part's number, in place of what it is.
const PART: &str = "mimirPart";

impl Reads {
    /// What the tool is called whatever the prefix is: two servers without one have each their own.
    pub(super) fn name(self, spec: &ServerSpec) -> String {
        let word = names::word(&spec.name);
        match self {
            Self::Resources => format!("mcp_{word}_resources_read"),
            Self::Prompts => format!("mcp_{word}_prompts_get"),
        }
    }

    /// The tool of this server; none if no name can be made of it.
    pub(super) fn definition(self, spec: &ServerSpec) -> Option<Definition> {
        let name = self.name(spec);
        let fitted = names::fit("", &[&name]).into_iter().next().flatten()?;
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
        Some(Definition {
            name: fitted,
            title: None,
            description: format!("{what} the MCP server `{}`.", spec.name),
            group: Group::System,
            input_schema: Schema::parse(&schema.to_string()).ok()?,
            output_schema: None,
            approval: Decision::Ask,
            risk: Risk::Medium,
            hints: Hints {
                // A server does what it likes when it is read.
                read_only: false,
                destructive: false,
                idempotent: false,
                open_world: true,
            },
            needs: Needs::default(),
            // Like the tools of the server: what the settings say of all tools stands.
            silent: true,
        })
    }

    /// What a call of the tool asks the server for.
    pub(super) fn wanted(self, arguments: &Value) -> Wanted {
        let word = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        if arguments[COMPLETE].is_string() {
            let of = match self {
                Self::Resources => Reference::for_resource(word("uri")),
                Self::Prompts => Reference::for_prompt(word("name")),
            };
            return completion(of, word(COMPLETE), &arguments["arguments"]);
        }
        match self {
            Self::Resources => Wanted::Resource { uri: word("uri") },
            Self::Prompts => Wanted::Prompt {
                name: word("name"),
                arguments: arguments["arguments"]
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
            },
        }
    }
}

/// The proposals that are wanted for one argument, with what the others are.
fn completion(of: Reference, name: String, arguments: &Value) -> Wanted {
    let mut context = CompletionContext::new();
    let mut value = String::new();
    for (key, given) in arguments.as_object().into_iter().flatten() {
        let given = given.as_str().unwrap_or_default().to_owned();
        if *key == name {
            value = given;
        } else {
            let others = context.arguments.get_or_insert_default();
            others.insert(key.clone(), given);
        }
    }
    Wanted::Completion {
        of,
        argument: ArgumentInfo::new(name, value),
        context,
    }
}

/// The result of a subscription, which reads nothing.
pub(super) fn watched() -> Raw {
    Raw::from(Ok(Output {
        content: Vec::new(),
        structured: None,
        exit_code: None,
    }))
}

/// What was read, as a result.
pub(super) fn raw(mut result: ServerResult, limits: &Limits) -> Raw {
    let fault = |code, message: &str| Raw::failed(ToolError::new(code, message));
    match &mut result {
        ServerResult::ReadResourceResult(_) | ServerResult::GetPromptResult(_) => {}
        ServerResult::CompleteResult(proposals) => {
            proposals.completion.values = {
                let values = std::mem::take(&mut proposals.completion.values).into_iter();
                let values = values.take(CompletionInfo::MAX_VALUES);
                let short =
                    |value: String| mimir_core::text::prefix(&value, PROPOSAL_MOST).to_owned();
                // A proposal is too short for marks: one that addresses a model, or hides something, is none.
                values.map(short).filter(|value| is_plain(value)).collect()
            }
        }
        _ => {
            let message = "the server's answer is not what was asked for";
            return fault(Code::ExecutionError, message);
        }
    }
    let mut value = serde_json::to_value(result).unwrap_or_default();
    let mut parts = Vec::new();
    if lift(&mut value, &mut parts).is_err() {
        let message = "the server's answer has data that is no base64";
        return fault(Code::ExecutionError, message);
    }
    let bytes: usize = parts.iter().map(Content::len).sum();
    let most = usize::try_from(limits.output_bytes).unwrap_or(usize::MAX);
    if bytes.saturating_add(value.to_string().len()) > most {
        let most = mimir_core::text::bytes(limits.output_bytes);
        let message = format!("what the server sends is longer than {most} (limits.outputBytes)");
        return fault(Code::LimitExceeded, &message);
    }
    Raw::from(Ok(Output {
        content: parts,
        structured: Some(value),
        exit_code: None,
    }))
}

/// Takes texts and data out of a value.
fn lift(value: &mut Value, parts: &mut Vec<Content>) -> Result<(), base64::DecodeError> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| lift(item, parts)),
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
                        lift(item, parts)?;
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

/// What was read as the protocol has it, with the parts back in their places. None if a limit has cut one off.
pub(crate) fn whole(output: &Output) -> Option<Value> {
    let mut value = output.structured.clone()?;
    lower(&mut value, &output.content)?;
    Some(value)
}

fn lower(value: &mut Value, parts: &[Content]) -> Option<()> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| lower(item, parts)),
        Value::Object(map) => match map.get(PART).and_then(Value::as_u64) {
            Some(at) if map.len() == 1 => {
                let part = parts.get(usize::try_from(at).ok()?)?;
                *value = match part {
                    Content::Text { text } => text.clone().into(),
                    Content::Image { data, .. }
                    | Content::Audio { data, .. }
                    | Content::File { data, .. } => STANDARD.encode(data).into(),
                };
                Some(())
            }
            _ => map.values_mut().try_for_each(|item| lower(item, parts)),
        },
        _ => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_apart_is_put_together_again() {
        let theirs = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "words"}},
            {"role": "user", "content": {"type": "image", "data": "AAEC", "mimeType": "image/png"}},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "a:b", "blob": "AA==", "mimeType": "x/y"}}},
        ]});
        let mut value = theirs.clone();
        let mut content = Vec::new();
        lift(&mut value, &mut content).unwrap_or_default();
        assert_eq!(content.len(), 3);
        assert!(!value.to_string().contains("words"), "{value}");
        let mut output = Output {
            content,
            structured: Some(value),
            exit_code: None,
        };
        assert_eq!(whole(&output), Some(theirs));
        output.content.pop();
        assert_eq!(whole(&output), None, "a part is missing");
    }
}
