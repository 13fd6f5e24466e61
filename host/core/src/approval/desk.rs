//! The open cards: identical calls of one session share one card, unless each has to be answered by itself, and the cards
//! of one tool are shown one after the other, so that an answer for the session counts for those that wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard};

use super::fingerprint::Fingerprint;
use super::{Answer, Approver, Card};

/// The answer of one card; `None` if an earlier answer turned out to cover it.
type Open = Arc<OnceCell<Option<Answer>>>;

/// What makes two cards the same: the session, the call, who made it, why it is asked about, and whoever is asked for
/// one call alone.
type Key = (
    String,
    Fingerprint,
    Option<String>,
    Vec<(String, String)>,
    Option<usize>,
);

/// The session and the tool whose cards wait for each other.
type Queue = (String, String);

/// The cards that are open now.
#[derive(Default)]
pub(crate) struct Desk {
    open: Mutex<HashMap<Key, Open>>,
    turns: Mutex<HashMap<Queue, Weak<AsyncMutex<()>>>>,
}

/// An answer. The next card of the tool is not shown before this is dropped, so that the answer can be remembered first.
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Desk {
    /// Returns the answer to a card. If the same is being asked in this session, it is the answer to that. Whoever asks
    /// may go away: then the next one asks. `is_covered` is looked at when the card's turn comes; `None` if it is true
    /// then, for an answer that was given meanwhile.
    pub(crate) async fn ask(
        &self,
        approver: &dyn Approver,
        session: &str,
        card: &Card,
        is_covered: impl Fn() -> bool,
    ) -> Option<Answered> {
        let reasons = card.reasons.iter();
        let reasons = reasons.map(|reason| (reason.rule.clone(), reason.text.clone()));
        let apart = approver.apart();
        let key = (
            session.to_owned(),
            card.fingerprint.clone(),
            card.caller.clone(),
            reasons.collect(),
            // It is there for as long as it is asked, so nobody else has that place.
            apart.then(|| std::ptr::from_ref(approver).addr()),
        );
        // An answer that is for one call alone makes no other card superfluous.
        let waits = !apart && card.always.is_some();
        loop {
            let cell = Arc::clone(lock(&self.open).entry(key.clone()).or_default());
            let (mut asked, mut turn) = (false, None);
            let answer = cell
                .get_or_init(|| async {
                    asked = true;
                    if waits {
                        turn = Some(self.turn(session, &card.tool).await);
                        if is_covered() {
                            return None;
                        }
                    }
                    Some(approver.ask(card).await)
                })
                .await
                .clone();
            let mut open = lock(&self.open);
            if open.get(&key).is_some_and(|now| Arc::ptr_eq(now, &cell)) {
                open.remove(&key);
            }
            drop(open);
            // Other arguments are an answer to the one call that they were written for.
            if asked || !matches!(answer, Some(Answer::Edit(_))) {
                return answer.map(|answer| Answered {
                    answer,
                    _turn: turn,
                });
            }
        }
    }

    /// Waits until the other cards of the tool in this session are answered.
    async fn turn(&self, session: &str, tool: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = lock(&self.turns);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let turn = turns
                .entry((session.to_owned(), tool.to_owned()))
                .or_default();
            turn.upgrade().unwrap_or_else(|| {
                let new = Arc::default();
                *turn = Arc::downgrade(&new);
                new
            })
        };
        turn.lock_owned().await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
