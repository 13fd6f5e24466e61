//! The simulated person of a test, who gives scripted answers and records the approval cards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mimir_core::{ApprovalAnswer, Approver, BoxFuture, Card};

/// Answers of the simulated person to approval cards.
#[derive(Clone, Default)]
pub enum Approve {
    /// Approves each call once.
    #[default]
    Always,
    /// Approves each call for the rest of the session.
    Session,
    /// Denies every call.
    Never,
    /// No person is available to answer, as in a pipe or a CI job.
    Nobody,
    /// Approves the calls for which the function returns true and denies the others.
    By(Arc<dyn Fn(&Card) -> bool + Send + Sync>),
}

impl Approve {
    /// Creates [`Approve::By`] from a function: true approves the call.
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
