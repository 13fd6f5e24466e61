//! What is said in a conversation, in no provider's words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message. A conversation is kept as a list of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Message {
    /// What the person said.
    User {
        /// The words.
        text: String,
    },
    /// What the model answered.
    Assistant {
        /// The words, which may be none.
        text: String,
        /// The tools that it wants called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// What came of one of these calls.
    Tool {
        /// Which call.
        id: String,
        /// Of which tool.
        name: String,
        /// What the model reads of it.
        text: String,
        /// Whether it did not do what it was asked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
}

/// A call that the model wants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Names it in this conversation.
    pub id: String,
    /// The tool, as the model calls it.
    pub name: String,
    /// The arguments as the model wrote them, which may be no JSON.
    pub arguments: String,
    /// What the provider wants to have back with it, unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments; the root says that it is an object.
    pub schema: Value,
}

impl Message {
    /// What the person said.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// About how many tokens it takes.
    pub fn tokens(&self) -> u64 {
        let bytes = match self {
            Self::User { text } => text.len(),
            Self::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| {
                    call.id.len() + call.name.len() + call.arguments.len() + CALL_BESIDE
                });
                text.len() + calls.sum::<usize>()
            }
            Self::Tool { id, text, .. } => id.len() + text.len() + CALL_BESIDE,
        };
        tokens(bytes) + MESSAGE_BESIDE
    }
}

/// Tokens of a message beside what it says.
const MESSAGE_BESIDE: u64 = 4;

/// Bytes that a call takes beside its words.
const CALL_BESIDE: usize = 24;

/// About how many tokens a text takes: four bytes each, as English and code do.
pub(crate) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

impl ToolCall {
    /// The arguments, or what is wrong with them. None at all are an empty object, as some models mean it.
    pub fn parsed(&self) -> Result<Value, serde_json::Error> {
        match self.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text),
        }
    }

    /// The arguments as an object, whatever the model wrote: providers take nothing else back.
    pub(crate) fn object(&self) -> Value {
        match self.parsed() {
            Ok(value @ Value::Object(_)) => value,
            _ => Value::Object(serde_json::Map::new()),
        }
    }
}
