//! Messages of a conversation, independent of any provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message. A conversation is stored as a list of messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Message {
    /// A message from the person.
    User {
        /// The text.
        text: String,
    },
    /// An answer of the model.
    Assistant {
        /// The text; may be empty.
        text: String,
        /// The tool calls that the model requests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// The result of a tool call.
    Tool {
        /// The id of the call.
        id: String,
        /// The name of the tool.
        name: String,
        /// The result text that the model gets.
        text: String,
        /// True if the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
}

/// A tool call that the model requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The id of the call, unique in the conversation.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them; may be invalid JSON.
    pub arguments: String,
    /// Opaque provider data that has to be sent back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

/// A tool in the form in which models get it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name of the tool.
    pub name: String,
    /// The description of the tool.
    pub description: String,
    /// The schema of the arguments; its root is an object.
    pub schema: Value,
}

impl Message {
    /// Creates a message from the person.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// The estimated number of tokens.
    pub fn estimate_tokens(&self) -> u64 {
        let bytes = match self {
            Self::User { text } => text.len(),
            Self::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| {
                    call.id.len() + call.name.len() + call.arguments.len() + CALL_OVERHEAD_BYTES
                });
                text.len() + calls.sum::<usize>()
            }
            Self::Tool { id, text, .. } => id.len() + text.len() + CALL_OVERHEAD_BYTES,
        };
        tokens(bytes) + MESSAGE_OVERHEAD_TOKENS
    }
}

/// Tokens of a message in addition to its text.
const MESSAGE_OVERHEAD_TOKENS: u64 = 4;

/// Bytes of a call in addition to its name and arguments.
const CALL_OVERHEAD_BYTES: usize = 24;

/// Estimated number of tokens of a text: one for four bytes, as in English and code.
pub(crate) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

impl ToolCall {
    /// Parses the arguments. An empty text counts as an empty object, which is how some models write it.
    pub fn parse_arguments(&self) -> Result<Value, serde_json::Error> {
        match self.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text),
        }
    }

    /// The arguments as an object, whatever the model wrote: providers accept only objects.
    pub(crate) fn arguments_object(&self) -> Value {
        match self.parse_arguments() {
            Ok(value @ Value::Object(_)) => value,
            _ => Value::Object(serde_json::Map::new()),
        }
    }
}
