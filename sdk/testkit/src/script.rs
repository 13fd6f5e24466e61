//! The person of a test: answers as the script says and remembers what was shown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mimir_core::{Answer, Approver, BoxFuture, Card};

/// What the person of a test answers.
#[derive(Clone, Default)]
pub enum Approve {
    /// Yes to everything.
    #[default]
    Always,
    /// Yes to everything, for the rest of the session.
    Session,
    /// No to everything.
    Never,
    /// Nobody is there, as in a pipe or a CI job.
    Nobody,
    /// Whatever the function says of the card.
    By(Arc<dyn Fn(&Card) -> bool + Send + Sync>),
}

impl Approve {
    /// An answer that depends on what is shown.
    pub fn by(judge: impl Fn(&Card) -> bool + Send + Sync + 'static) -> Self {
        Approve::By(Arc::new(judge))
    }

    fn answer(&self, card: &Card) -> Answer {
        match self {
            Approve::Always => Answer::Once,
            Approve::Session => Answer::Session,
            Approve::Never => Answer::No,
            Approve::Nobody => Answer::Nobody {
                way_out: "The test has nobody to ask.".to_owned(),
            },
            Approve::By(judge) if judge(card) => Answer::Once,
            Approve::By(_) => Answer::No,
        }
    }
}

/// The person, shared with the pipeline.
#[derive(Default)]
pub(crate) struct Person {
    approve: Mutex<Approve>,
    cards: Mutex<Vec<Card>>,
}

impl Person {
    pub(crate) fn set(&self, approve: Approve) {
        *lock(&self.approve) = approve;
    }

    pub(crate) fn cards(&self) -> Vec<Card> {
        lock(&self.cards).clone()
    }
}

impl Approver for Person {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, Answer> {
        lock(&self.cards).push(card.clone());
        let approve = lock(&self.approve).clone();
        Box::pin(std::future::ready(approve.answer(card)))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
