//! The person of a test: gives scripted answers and records the cards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mimir_core::{ApprovalAnswer, Approver, BoxFuture, Card};

/// Answers of the person.
#[derive(Clone, Default)]
pub enum Approve {
    /// Yes to everything.
    #[default]
    Always,
    /// Yes to everything, for the rest of the session.
    Session,
    /// No to everything.
    Never,
    /// No person is available, as in a pipe or a CI job.
    Nobody,
    /// The function decides for each card.
    By(Arc<dyn Fn(&Card) -> bool + Send + Sync>),
}

impl Approve {
    /// Creates an answer that depends on the card.
    pub fn by(judge: impl Fn(&Card) -> bool + Send + Sync + 'static) -> Self {
        Approve::By(Arc::new(judge))
    }

    fn answer(&self, card: &Card) -> ApprovalAnswer {
        match self {
            Approve::Always => ApprovalAnswer::Once,
            Approve::Session => ApprovalAnswer::Session,
            Approve::Never => ApprovalAnswer::No,
            Approve::Nobody => ApprovalAnswer::Unattended {
                remedy: "The test has no person to ask.".to_owned(),
            },
            Approve::By(judge) if judge(card) => ApprovalAnswer::Once,
            Approve::By(_) => ApprovalAnswer::No,
        }
    }
}

/// The person, shared with the pipeline.
#[derive(Default)]
pub(crate) struct ScriptedPerson {
    approve: Mutex<Approve>,
    cards: Mutex<Vec<Card>>,
}

impl ScriptedPerson {
    pub(crate) fn set(&self, approve: Approve) {
        *lock(&self.approve) = approve;
    }

    pub(crate) fn cards(&self) -> Vec<Card> {
        lock(&self.cards).clone()
    }
}

impl Approver for ScriptedPerson {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        lock(&self.cards).push(card.clone());
        let approve = lock(&self.approve).clone();
        Box::pin(std::future::ready(approve.answer(card)))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
