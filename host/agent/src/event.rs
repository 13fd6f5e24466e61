//! Events of a running task, for front ends.

use std::sync::Arc;

use mimir_core::call::{CallObserver, NoObserver};
use mimir_core::{BoxFuture, Outcome, RequestId};
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
    /// A request to the model begins.
    Turn {
        /// The number of the turn, from 1.
        turn: u64,
    },
    /// A chunk of the reply's text.
    Text {
        /// The chunk.
        text: &'a str,
    },
    /// The reply is complete.
    Answered {
        /// Usage of this reply.
        usage: TokenUsage,
        /// Usage of the task so far.
        #[serde(rename = "spent")]
        task_usage: &'a TaskUsage,
    },
    /// The request failed and is retried.
    #[serde(rename = "again")]
    Retry {
        /// The error message.
        #[serde(rename = "because")]
        reason: &'a str,
        /// The wait before the retry, in milliseconds.
        after_ms: u64,
        /// True if text of the failed reply was received. Front-ends should discard it.
        #[serde(rename = "heard")]
        received: bool,
    },
    /// The conversation is too long to be sent in full.
    LeftOut {
        /// Number of messages shortened or left out.
        messages: usize,
    },
    /// The older part of the conversation was replaced by a summary.
    Compacted {
        /// Number of messages that the summary covers.
        messages: usize,
        /// Estimated tokens of the sent messages before.
        before_tokens: u64,
        /// Estimated tokens of the sent messages after.
        after_tokens: u64,
    },
    /// The conversation could not be summarised. If it is too long, its oldest messages are left out.
    CompactionFailed {
        /// The reason.
        reason: &'a str,
    },
    /// A tool call begins.
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
        /// The outcome; `None` if the call was not made or was stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<&'a Outcome>,
        /// The result text sent to the model.
        text: &'a str,
        /// The request id of the call in the pipeline; `None` if the call was not made.
        #[serde(skip)]
        request_id: Option<&'a RequestId>,
    },
}

/// Receives the events of a task.
pub trait AgentEventSink: Send + Sync {
    /// Receives an event.
    fn handle_event(&self, event: AgentEvent<'_>);

    /// Receives the conversation after messages were added: a user message, a reply, or results of calls.
    fn conversation_changed(&self, conversation: &Conversation) {
        let _ = conversation;
    }

    /// Returns the observer of a call, which receives its output while it runs.
    fn observer(&self, call: &ToolCall) -> Arc<dyn CallObserver> {
        let _ = call;
        Arc::new(NoObserver)
    }

    /// Completes when the running tool calls should be cancelled. The task itself continues.
    fn calls_stop_requested(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
