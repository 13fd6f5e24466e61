//! The open cards. Identical calls of one session share one card, unless the approver needs separate answers or nothing
//! tells the clients of the session apart. The cards of one tool are shown one after the other, so that an answer also
//! covers waiting cards. In a session of several clients, all cards are shown at once: the question of one client must
//! not hide that of another.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard, watch};

use super::fingerprint::Fingerprint;
use super::{ApprovalAnswer, Approver, Card, QuestionSharing};
use crate::call::SessionSharing;

/// The answer to one card. `None` if an earlier answer covers the card.
type PendingAnswer = Arc<OnceCell<Option<ApprovalAnswer>>>;

/// The identity of a card. Identical cards have one answer.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PendingCardKey {
    session: String,
    fingerprint: Fingerprint,
    caller: Option<String>,
    /// Rule and text of each reason.
    reasons: Vec<(String, String)>,
    /// The address of an approver that needs separate answers. It lives as long as the card is open, so its address is
    /// unique.
    approver: Option<usize>,
    /// The id of the call, if nothing tells the clients of the session apart.
    call: Option<String>,
}

/// The open cards by their identity.
type OpenCards = Mutex<HashMap<PendingCardKey, PendingAnswer>>;

/// A caller that waits for the answer to an open card. The card is closed when the answer is known, or when its last
/// caller is dropped.
struct CardCaller<'a> {
    cards: &'a OpenCards,
    key: &'a PendingCardKey,
    answer: PendingAnswer,
}

impl<'a> CardCaller<'a> {
    fn new(cards: &'a OpenCards, key: &'a PendingCardKey) -> Self {
        let answer = Arc::clone(cards.lock().entry(key.clone()).or_default());
        Self { cards, key, answer }
    }
}

impl Drop for CardCaller<'_> {
    fn drop(&mut self) {
        // Callers are counted while the cards are locked, so of two that are dropped at once, one is the last.
        let mut cards = self.cards.lock();
        let answer = std::mem::take(&mut self.answer);
        let is_current = cards
            .get(self.key)
            .is_some_and(|current| Arc::ptr_eq(current, &answer));
        // One is that of the map, and one is `answer`.
        if is_current && (answer.initialized() || Arc::strong_count(&answer) == 2) {
            cards.remove(self.key);
        }
        // Before the cards are unlocked.
        drop(answer);
    }
}

/// The session and the tool whose cards are shown one after the other.
type Queue = (String, String);

/// The open cards of all sessions.
#[derive(Default)]
pub(crate) struct ApprovalQueue {
    open: OpenCards,
    turns: Mutex<HashMap<Queue, Weak<AsyncMutex<()>>>>,
    /// Notified when an answer has been given and stored.
    answered: watch::Sender<()>,
    sharing: OnceLock<Arc<dyn QuestionSharing>>,
}

/// An answer to a card. The next card of the tool is shown, and open cards of shared sessions are compared with the
/// answer, only after this value is dropped, so that the answer can be stored first.
pub(crate) struct Answered {
    pub(crate) answer: ApprovalAnswer,
    _turn: Option<OwnedMutexGuard<()>>,
    _notice: AnswerNotice,
}

/// Reports a stored answer when it is dropped.
struct AnswerNotice(watch::Sender<()>);

impl Drop for AnswerNotice {
    fn drop(&mut self) {
        self.0.send_replace(());
    }
}

impl ApprovalQueue {
    /// Also asks all further questions in other processes. Only the first call has an effect.
    pub(crate) fn share(&self, sharing: Arc<dyn QuestionSharing>) {
        let _ = self.sharing.set(sharing);
    }

    /// Returns the answer to a card. If an identical card is open in this session, its answer is shared. If the caller
    /// that shows the card is dropped, a waiting caller shows it. A yes for this call only is not shared unless the call
    /// may run again. `is_covered` is called when it is the card's turn, or, in a session of several clients, after each
    /// answer; if an answer given in the meantime covers the card, the result is `None`.
    pub(crate) async fn ask(
        &self,
        approver: &dyn Approver,
        session: &str,
        card: &Card,
        may_run_again: bool,
        is_covered: impl Fn() -> bool,
    ) -> Option<Answered> {
        let reasons = card.reasons.iter();
        let reasons = reasons.map(|reason| (reason.rule.clone(), reason.text.clone()));
        let separate = approver.needs_separate_answers();
        let sharing = card.facts.sharing;
        let key = PendingCardKey {
            session: session.to_owned(),
            fingerprint: card.fingerprint.clone(),
            caller: card.caller.clone(),
            reasons: reasons.collect(),
            approver: separate.then(|| std::ptr::from_ref(approver).addr()),
            call: (sharing == SessionSharing::AnyClient).then(|| card.facts.call_id.clone()),
        };
        // An answer for a single call covers no other card.
        let can_be_covered = !separate && card.always.is_some();
        let show = async || match self.sharing.get() {
            Some(sharing) => sharing.ask(approver, session, card).await,
            None => approver.ask(card).await,
        };
        loop {
            let caller = CardCaller::new(&self.open, &key);
            let (mut is_asker, mut turn) = (false, None);
            let answer = caller
                .answer
                .get_or_init(|| async {
                    is_asker = true;
                    if can_be_covered && !sharing.is_one_client() {
                        return tokio::select! {
                            biased;
                            () = self.wait_until_covered(&is_covered) => None,
                            answer = show() => Some(answer),
                        };
                    }
                    if can_be_covered {
                        turn = Some(self.wait_for_turn(session, &card.tool).await);
                        if is_covered() {
                            return None;
                        }
                    }
                    Some(show().await)
                })
                .await
                .clone();
            drop(caller);
            // Edited arguments apply only to the call for which they were written. A yes to one call is a yes to equal
            // ones only if it does not matter how often they run.
            let is_for_asker = match answer {
                Some(ApprovalAnswer::Edit(_)) => true,
                Some(ApprovalAnswer::Once | ApprovalAnswer::InAdvance) => !may_run_again,
                _ => false,
            };
            if is_asker || !is_for_asker {
                return answer.map(|answer| Answered {
                    answer,
                    _turn: turn,
                    _notice: AnswerNotice(self.answered.clone()),
                });
            }
        }
    }

    /// Returns the number of open cards.
    #[cfg(test)]
    pub(crate) fn count_open_cards(&self) -> usize {
        self.open.lock().len()
    }

    /// Waits until a stored answer covers a card.
    async fn wait_until_covered(&self, is_covered: impl Fn() -> bool) {
        let mut answered = self.answered.subscribe();
        // The queue owns the sender, so waiting cannot fail.
        while !is_covered() && answered.changed().await.is_ok() {}
    }

    /// Waits until the other cards of the tool in this session are answered.
    async fn wait_for_turn(&self, session: &str, tool: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock();
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
