//! Saves conversations as they grow, so that a crash loses nothing that a person typed or saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_agent::{Conversation, Event, Face, ToolCall};
use mimir_core::call::Observer;
use mimir_core::{BoxFuture, Pipeline};

use crate::output::note;

use super::Bench;
use mimir::conversations::Shelf;

/// Saves conversations with the worst taint label of their content.
pub struct Saver {
    shelf: Shelf,
    pipeline: Pipeline,
    /// Set after the first failure was reported; later ones are not reported.
    failed: AtomicBool,
}

impl Saver {
    /// Creates a saver for the conversations of this agent.
    pub fn of(bench: &Bench) -> Self {
        Self {
            shelf: bench.shelf.clone(),
            pipeline: bench.pipeline().clone(),
            failed: AtomicBool::new(false),
        }
    }

    /// Saves the current state of a conversation, before its session ends. The first failure is reported on stderr.
    pub fn save(&self, talk: &Conversation) {
        let mut talk = talk.clone();
        talk.read = Some(self.pipeline.read_by(&talk.id));
        if let Err(error) = self.shelf.keep(&talk)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            note(format_args!(
                "the conversation is not saved: {}",
                error.message
            ));
        }
    }
}

/// Forwards the events of a task, and saves the conversation each time it has grown.
pub struct Saving<'a> {
    /// Receives the events.
    pub face: &'a dyn Face,
    /// Saves the conversation.
    pub saver: Saver,
}

impl Face for Saving<'_> {
    fn on(&self, event: Event<'_>) {
        self.face.on(event);
    }

    fn conversation(&self, talk: &Conversation) {
        self.saver.save(talk);
    }

    fn observer(&self, call: &ToolCall) -> Arc<dyn Observer> {
        self.face.observer(call)
    }

    fn stop_calls(&self) -> BoxFuture<'_, ()> {
        self.face.stop_calls()
    }
}
