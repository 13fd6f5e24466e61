//! Tests of questions in sessions that several clients share.

use tokio::sync::{Notify, oneshot};

use super::*;
use crate::call::SessionSharing;

/// Keeps questions open until the test answers them.
#[derive(Default)]
struct Desk {
    open: Mutex<Vec<(String, oneshot::Sender<ApprovalAnswer>)>>,
    offers_session: Mutex<Vec<bool>>,
    changed: Notify,
}

impl crate::approval::Approver for Desk {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.open.lock().push((card.arguments.clone(), answer));
            self.offers_session.lock().push(card.offers_session());
            self.changed.notify_one();
            answered.await.unwrap()
        })
    }
}

impl Desk {
    /// Waits until this number of questions was asked.
    async fn wait_for(&self, count: usize) {
        let wait = async {
            while self.offers_session.lock().len() < count {
                self.changed.notified().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
        assert!(waited.is_ok(), "only {:?}", self.offers_session.lock());
    }

    /// Answers the oldest open question whose arguments contain this text.
    fn answer(&self, text: &str, answer: ApprovalAnswer) {
        let mut open = self.open.lock();
        let at = open.iter().position(|(shown, _)| shown.contains(text));
        open.remove(at.unwrap()).1.send(answer).unwrap();
    }
}

struct SharedRoom {
    pipeline: Pipeline,
    desk: Arc<Desk>,
}

fn shared_room() -> SharedRoom {
    let base = room(vec![asking()], json!({}), Vec::new());
    let desk = Arc::new(Desk::default());
    let ports = PipelinePorts {
        approver: Arc::clone(&desk) as Arc<_>,
        ..base.pipeline.0.ports.clone()
    };
    let snapshot = PipelineSnapshot {
        registry: Registry::new(vec![asking()], vec![]),
        policy: Policy::new(&Config::default(), "config.yml").unwrap(),
    };
    let pipeline = Pipeline::new(snapshot, ports);
    SharedRoom { pipeline, desk }
}

impl SharedRoom {
    /// Starts a call in the session, which these clients share.
    fn start(&self, n: u32, sharing: SessionSharing) -> tokio::task::JoinHandle<Outcome> {
        let mut call = call("sample", json!({ "n": n }));
        call.sharing = sharing;
        let pipeline = self.pipeline.clone();
        tokio::spawn(async move { pipeline.call(call).await })
    }
}

#[tokio::test]
async fn approval_for_the_session_of_any_client_counts_once() {
    let room = shared_room();
    for asked in 1..=2 {
        let call = room.start(1, SessionSharing::AnyClient);
        room.desk.wait_for(asked).await;
        room.desk.answer("1", ApprovalAnswer::Session);
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(*room.desk.offers_session.lock(), [false, false]);
    // Sharing never ends: a call that claims to be the only client's is asked about, too.
    let call = room.start(1, SessionSharing::OneClient);
    room.desk.wait_for(3).await;
    room.desk.answer("1", ApprovalAnswer::No);
    assert!(!call.await.unwrap().is_ok());
}

#[tokio::test]
async fn approval_for_the_session_of_one_user_lasts() {
    let room = shared_room();
    let call = room.start(1, SessionSharing::OneUser);
    room.desk.wait_for(1).await;
    room.desk.answer("1", ApprovalAnswer::Session);
    assert!(call.await.unwrap().is_ok());
    let again = room.start(1, SessionSharing::OneUser);
    assert!(again.await.unwrap().is_ok());
    assert_eq!(*room.desk.offers_session.lock(), [true]);
}

#[tokio::test]
async fn approval_given_before_the_session_was_shared_covers_no_other_client() {
    let room = shared_room();
    let call = room.start(1, SessionSharing::OneClient);
    room.desk.wait_for(1).await;
    room.desk.answer("1", ApprovalAnswer::Session);
    assert!(call.await.unwrap().is_ok());
    let other = room.start(1, SessionSharing::AnyClient);
    room.desk.wait_for(2).await;
    room.desk.answer("1", ApprovalAnswer::No);
    assert!(!other.await.unwrap().is_ok());
}

#[tokio::test]
async fn approval_questions_of_a_shared_session_do_not_hide_each_other() {
    for sharing in [SessionSharing::AnyClient, SessionSharing::OneUser] {
        let room = shared_room();
        let alice = room.start(1, sharing);
        room.desk.wait_for(1).await;
        let bob = room.start(2, sharing);
        room.desk.wait_for(2).await;
        room.desk.answer("2", ApprovalAnswer::Once);
        assert!(bob.await.unwrap().is_ok());
        assert!(!alice.is_finished());
        room.desk.answer("1", ApprovalAnswer::No);
        assert!(!alice.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn approval_once_covers_no_equal_call_of_another_client() {
    let room = shared_room();
    let alice = room.start(1, SessionSharing::AnyClient);
    room.desk.wait_for(1).await;
    let bob = room.start(1, SessionSharing::AnyClient);
    room.desk.wait_for(2).await;
    room.desk.answer("1", ApprovalAnswer::Once);
    room.desk.answer("1", ApprovalAnswer::No);
    assert!(alice.await.unwrap().is_ok());
    assert!(!bob.await.unwrap().is_ok());
}

#[tokio::test]
async fn approval_always_ends_the_open_questions_that_it_covers() {
    let room = shared_room();
    let alice = room.start(1, SessionSharing::AnyClient);
    room.desk.wait_for(1).await;
    let bob = room.start(1, SessionSharing::AnyClient);
    let other = room.start(2, SessionSharing::AnyClient);
    room.desk.wait_for(3).await;
    room.desk.answer("1", ApprovalAnswer::Always);
    assert!(alice.await.unwrap().is_ok());
    assert!(bob.await.unwrap().is_ok());
    assert!(!other.is_finished());
    room.desk.answer("2", ApprovalAnswer::No);
    assert!(!other.await.unwrap().is_ok());
}

#[tokio::test]
async fn approval_questions_of_cancelled_calls_are_forgotten() {
    for sharing in [SessionSharing::AnyClient, SessionSharing::OneClient] {
        let room = shared_room();
        let queue = &room.pipeline.0.approval_queue;
        // The second call has the card of the first one if they are of one client.
        let (first, second) = (room.start(1, sharing), room.start(1, sharing));
        room.desk.wait_for(1).await;
        assert!(queue.count_open_cards() > 0);
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        // The question of the call that goes on.
        room.desk.wait_for(2).await;
        assert_eq!(queue.count_open_cards(), 1);
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        assert_eq!(queue.count_open_cards(), 0);
    }
}
