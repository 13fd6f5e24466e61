//! The interface to a model: its requests and answers.

use mimir_core::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::message::{Message, ToolCall, ToolSpec};

/// A model that can be asked. Dropping the future closes the connection.
pub trait Model: Send + Sync {
    /// The name, as `PROVIDER/MODEL`.
    fn name(&self) -> &str;

    /// Sends one request. `on` receives the text of the answer as it arrives; an error may follow after text.
    fn answer<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        on: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;
}

/// A request to a model.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The conversation.
    pub messages: &'a [Message],
    /// The tools that the model may call.
    pub tools: &'a [ToolSpec],
    /// Maximum number of tokens of the answer.
    pub max_tokens: u64,
    /// The session id, for the audit log.
    pub session: &'a str,
}

/// A complete answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// The tool calls that the model requests.
    pub calls: Vec<ToolCall>,
    /// Token usage, if the provider reports it.
    pub usage: Option<TokenUsage>,
    /// The reason why the answer ended.
    pub stop: StopReason,
}

/// Token counts of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens sent, including those that the provider read from its cache.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
}

/// The reason why an answer ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopReason {
    /// The answer is complete.
    #[default]
    Finished,
    /// The token limit was reached.
    Length,
    /// The provider withheld the rest.
    Withheld,
}
