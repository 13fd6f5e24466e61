//! Where cards lie while a person thinks: identical calls of one session share one card, unless each has to be answered
//! by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use super::fingerprint::Fingerprint;
use super::{Answer, Approver, Card};

type Open = Arc<OnceCell<Answer>>;

/// What makes two cards the same: the session, the call, who made it, why it is asked about, and whoever is asked for
/// one call alone.
type Key = (
    String,
    Fingerprint,
    Option<String>,
    Vec<(String, String)>,
    Option<usize>,
);

/// The cards that are open now.
#[derive(Default)]
pub(crate) struct Desk {
    open: Mutex<HashMap<Key, Open>>,
}

impl Desk {
    /// The answer to a card. If the same is being asked in this session, it is the answer to that. Whoever asks
    /// may go away: then the next one asks.
    pub(crate) async fn ask(&self, approver: &dyn Approver, session: &str, card: &Card) -> Answer {
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
        loop {
            let cell = Arc::clone(self.lock().entry(key.clone()).or_default());
            let mut asked = false;
            let answer = cell
                .get_or_init(|| {
                    asked = true;
                    approver.ask(card)
                })
                .await
                .clone();
            let mut open = self.lock();
            if open.get(&key).is_some_and(|now| Arc::ptr_eq(now, &cell)) {
                open.remove(&key);
            }
            drop(open);
            // Other arguments are an answer to the one call that they were written for.
            if asked || !matches!(answer, Answer::Edit(_)) {
                return answer;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
