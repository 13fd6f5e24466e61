//! Events of a running task, for front-ends.

use std::sync::Arc;

use mimir_core::call::{CallObserver, NoObserver};
use mimir_core::{BoxFuture, Outcome};
use serde::Serialize;

use crate::conversation::Conversation;
use crate::message::ToolCall;
use crate::model::TokenUsage;
use crate::task_usage::TaskUsage;

/// An event of a task. Its JSON form is a line of `mimir run --json`.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(
    tag = "event",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum AgentEvent<'a> {
    /// The model is asked.
    Turn {
        /// The number of the request, from 1.
        turn: u64,
    },
    /// Text of the answer.
    Text {
        /// The text.
        text: &'a str,
    },
    /// The answer is complete.
    Answered {
        /// Usage of this answer.
        usage: TokenUsage,
        /// Usage of the task so far.
        spent: &'a TaskUsage,
    },
    /// The answer failed or was incomplete, and is retried.
    Again {
        /// The reason.
        because: &'a str,
        /// The wait before the retry, in milliseconds.
        after_ms: u64,
        /// True if text of the failed answer was received; it is to be discarded.
        #[serde(rename = "heard")]
        received: bool,
    },
    /// The conversation is too long to be sent completely.
    LeftOut {
        /// Number of messages shortened or left out.
        messages: usize,
    },
    /// A tool is called.
    Call {
        /// The id of the call.
        id: &'a str,
        /// The name of the tool, as the model wrote it.
        name: &'a str,
        /// The arguments, as the model wrote them.
        arguments: &'a str,
    },
    /// A call has ended.
    Result {
        /// The id of the call.
        id: &'a str,
        /// The name of the tool.
        name: &'a str,
        /// The outcome, if the call was started.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<&'a Outcome>,
        /// The result text that the model gets.
        text: &'a str,
    },
}

/// Receives the events of a task.
pub trait AgentEventSink: Send + Sync {
    /// Receives an event.
    fn handle_event(&self, event: AgentEvent<'_>);

    /// Receives the conversation each time it has grown: after a question, an answer, and the results of its calls.
    fn conversation(&self, conversation: &Conversation) {
        let _ = conversation;
    }

    /// The observer that receives the output of this call while it runs.
    fn observer(&self, call: &ToolCall) -> Arc<dyn CallObserver> {
        let _ = call;
        Arc::new(NoObserver)
    }

    /// Completes when the running calls are to be stopped while the task goes on.
    fn stop_calls(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
