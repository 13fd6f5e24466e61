//! Saves conversations as they grow, so that a crash loses nothing that a person typed or saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_agent::{AgentEvent, AgentEventSink, Conversation, ToolCall};
use mimir_core::call::CallObserver;
use mimir_core::{BoxFuture, Pipeline};

use crate::output::note;

use super::AgentRuntime;
use mimir::conversations::ConversationStore;

/// Saves conversations together with the taint label of their session.
pub struct ConversationSaver {
    conversations: ConversationStore,
    pipeline: Pipeline,
    /// True after the first failure was reported. Later failures are not reported.
    failed: AtomicBool,
}

impl ConversationSaver {
    /// Creates a saver for the conversations of this agent.
    pub fn for_agent(runtime: &AgentRuntime) -> Self {
        Self {
            conversations: runtime.conversations.clone(),
            pipeline: runtime.pipeline().clone(),
            failed: AtomicBool::new(false),
        }
    }

    /// Saves the current state of a conversation. Call it before the session ends, which discards the label. The first
    /// failure is reported on stderr.
    pub fn save(&self, conversation: &Conversation) {
        let mut conversation = conversation.clone();
        conversation.read = Some(self.pipeline.session_label(&conversation.id));
        if let Err(error) = self.conversations.save(&conversation)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            note(format_args!(
                "cannot save the conversation: {}",
                error.message
            ));
        }
    }
}

/// Event sink that forwards events, and saves the conversation whenever it has grown.
pub struct SavingEventSink<'a> {
    /// Receives the events.
    pub events: &'a dyn AgentEventSink,
    /// Saves the conversation.
    pub saver: ConversationSaver,
}

impl AgentEventSink for SavingEventSink<'_> {
    fn handle_event(&self, event: AgentEvent<'_>) {
        self.events.handle_event(event);
    }

    fn conversation_changed(&self, conversation: &Conversation) {
        self.saver.save(conversation);
    }

    fn observer(&self, call: &ToolCall) -> Arc<dyn CallObserver> {
        self.events.observer(call)
    }

    fn calls_stop_requested(&self) -> BoxFuture<'_, ()> {
        self.events.calls_stop_requested()
    }
}
