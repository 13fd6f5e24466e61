//! The interface to a model: requests and replies.

use mimir_core::BoxFuture;
use mimir_core::config::TokenPrice;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::message::{Message, ToolCall, ToolSpec};

/// A language model.
pub trait Model: Send + Sync {
    /// Returns the name as `PROVIDER/MODEL`.
    fn name(&self) -> &str;

    /// Returns true if the model reads images.
    fn reads_images(&self) -> bool {
        false
    }

    /// Returns true if requests ask the provider to write what they send to its cache, which may cost more.
    fn writes_cache(&self) -> bool {
        false
    }

    /// Returns the price for estimates before a request: that of all input tokens written to the cache, if the provider
    /// may charge it.
    fn estimate_price(&self, price: Option<TokenPrice>) -> Option<TokenPrice> {
        let price = price?;
        let input = if self.writes_cache() {
            price.input.max(price.cache_write())
        } else {
            price.input
        };
        Some(TokenPrice { input, ..price })
    }

    /// Sends one request. `on_text` receives the text of the reply in chunks; an error may follow after some text.
    /// Dropping the future closes the connection.
    fn answer<'a>(
        &'a self,
        request: ModelRequest<'a>,
        on_text: &'a (dyn Fn(&str) + Send + Sync),
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
    /// Maximum number of tokens of the reply.
    pub max_tokens: u64,
    /// The session id, for the audit log.
    pub session: &'a str,
}

/// A complete reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// The tool calls that the model requests.
    pub calls: Vec<ToolCall>,
    /// Token usage, if the provider reports it.
    pub usage: Option<TokenUsage>,
    /// Reason why the reply ended.
    pub stop: StopReason,
}

/// Token counts of one reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Tokens sent, including those read from the provider's cache or written to it.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Tokens of `input` that the provider has read from its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Tokens of `input` that the provider has written to its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
}

impl TokenUsage {
    /// Creates a usage without cached tokens.
    pub const fn new(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            cache_read: 0,
            cache_write: 0,
        }
    }
}

/// Returns true for zero, for counts that are left out of JSON.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Reason why a reply ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopReason {
    /// The reply is complete.
    #[default]
    Finished,
    /// The token limit was reached.
    Length,
    /// The provider withheld the rest, such as a content filter.
    Withheld,
}
