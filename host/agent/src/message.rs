//! Messages of a conversation, independent of any provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::image::MessageImage;

/// One message. A conversation is stored as a list of messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Message {
    /// A message of the user.
    User {
        /// The text.
        text: String,
        /// The images that the user has attached.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<MessageImage>,
    },
    /// A reply of the model.
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
        /// The result text sent to the model.
        text: String,
        /// True if the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
        /// The images of the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<MessageImage>,
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
    /// Opaque data of the provider, which has to be sent back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

/// A tool as sent to models.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name of the tool.
    pub name: String,
    /// The description of the tool.
    pub description: String,
    /// The JSON Schema of the arguments; the root is an object.
    pub schema: Value,
}

impl Message {
    /// Creates a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::user_with_images(text, Vec::new())
    }

    /// Creates a message of the user with attached images.
    pub fn user_with_images(text: impl Into<String>, images: Vec<MessageImage>) -> Self {
        Self::User {
            text: text.into(),
            images,
        }
    }

    /// Estimates the number of tokens.
    pub fn estimate_tokens(&self) -> u64 {
        let bytes = match self {
            Self::User { text, .. } => text.len(),
            Self::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| {
                    call.id.len() + call.name.len() + call.arguments.len() + CALL_OVERHEAD_BYTES
                });
                text.len() + calls.sum::<usize>()
            }
            Self::Tool { id, text, .. } => id.len() + text.len() + CALL_OVERHEAD_BYTES,
        };
        let images: u64 = self.images().iter().map(|image| image.tokens).sum();
        tokens(bytes)
            .saturating_add(images)
            .saturating_add(MESSAGE_OVERHEAD_TOKENS)
    }
}

/// Estimated tokens of a message in addition to its text.
const MESSAGE_OVERHEAD_TOKENS: u64 = 4;

/// Estimated bytes of a call or a result in addition to its texts.
const CALL_OVERHEAD_BYTES: usize = 24;

/// Estimates the number of tokens of a text: one per four bytes, as in English and code.
pub(crate) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

impl ToolCall {
    /// Parses the arguments. Empty text is an empty object: some models write nothing.
    pub fn parse_arguments(&self) -> Result<Value, serde_json::Error> {
        match self.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text),
        }
    }

    /// Returns the arguments, or an empty object if they are not a JSON object: providers accept only objects.
    pub(crate) fn arguments_object(&self) -> Value {
        match self.parse_arguments() {
            Ok(value @ Value::Object(_)) => value,
            _ => Value::Object(serde_json::Map::new()),
        }
    }
}
