//! The port to a model: what it is asked, and what it answers.

use mimir_core::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::message::{Message, ToolCall, ToolSpec};

/// A model that can be asked. Dropping the future breaks the connection off.
pub trait Model: Send + Sync {
    /// `PROVIDER/MODEL`.
    fn name(&self) -> &str;

    /// Asks it once. `on` hears the words of the answer as they come in; an error may follow words.
    fn answer<'a>(
        &'a self,
        ask: Ask<'a>,
        on: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<Reply, ModelError>>;
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// What holds for the whole conversation.
    pub system: &'a str,
    /// What was said.
    pub messages: &'a [Message],
    /// What it may call.
    pub tools: &'a [ToolSpec],
    /// The most tokens that it answers.
    pub max_tokens: u64,
    /// The session that this belongs to, for the record.
    pub session: &'a str,
}

/// What a model answered, whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// Its words.
    pub text: String,
    /// The calls that it wants.
    pub calls: Vec<ToolCall>,
    /// What it took, where the provider says so.
    pub usage: Option<Usage>,
    /// Why it ended.
    pub stop: Stop,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of what was sent, also what the provider had kept from before.
    pub input: u64,
    /// Of what was answered.
    pub output: u64,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stop {
    /// It was finished.
    #[default]
    Finished,
    /// It reached the most tokens.
    Length,
    /// The provider did not let it go on.
    Withheld,
}
