//! What happens while a task is worked on, for whoever watches.

use std::sync::Arc;

use mimir_core::call::{Observer, Unobserved};
use mimir_core::{BoxFuture, Outcome};
use serde::Serialize;

use crate::conversation::Conversation;
use crate::message::ToolCall;
use crate::model::Usage;
use crate::spent::Spent;

/// Something that happened. As JSON it is a line of `mimir run --json`.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(
    tag = "event",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Event<'a> {
    /// The model is asked.
    Turn {
        /// Which time, from 1.
        turn: u64,
    },
    /// Words of its answer.
    Text {
        /// The words.
        text: &'a str,
    },
    /// The answer is there.
    Answered {
        /// What it took.
        usage: Usage,
        /// What all of the task has taken.
        spent: &'a Spent,
    },
    /// The answer did not come, or not to the end; it is asked for again.
    Again {
        /// Why.
        because: &'a str,
        /// After how long, in milliseconds.
        after_ms: u64,
        /// Whether words were heard of it, which do not count.
        heard: bool,
    },
    /// The conversation is too long to be sent whole.
    LeftOut {
        /// How many messages are shorter, or not sent.
        messages: usize,
    },
    /// A tool is called.
    Call {
        /// Names the call.
        id: &'a str,
        /// The tool, as the model calls it.
        name: &'a str,
        /// The arguments as the model wrote them.
        arguments: &'a str,
    },
    /// What came of it.
    Result {
        /// Names the call.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// How it ended, if it began.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<&'a Outcome>,
        /// What the model reads of it.
        text: &'a str,
    },
}

/// Who watches a task.
pub trait Face: Send + Sync {
    /// Something happened.
    fn on(&self, event: Event<'_>);

    /// Receives the conversation each time it has grown: after a question, an answer, and the results of its calls.
    fn conversation(&self, talk: &Conversation) {
        let _ = talk;
    }

    /// Who hears what this call says while it runs.
    fn observer(&self, call: &ToolCall) -> Arc<dyn Observer> {
        let _ = call;
        Arc::new(Unobserved)
    }

    /// Ends when the calls under way are to be stopped, and the task is to go on.
    fn stop_calls(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
