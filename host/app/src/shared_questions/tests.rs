use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::approval::AlwaysCoverage;
use mimir_core::call::SessionSharing;
use mimir_core::tool::{RiskLevel, ToolSource};
use serde_json::json;
use tokio::sync::oneshot;

use super::*;
use crate::shared_state::FileSharedState;

fn card(tool: &str) -> Card {
    serde_json::from_value(json!({
        "fingerprint": mimir_core::approval::Fingerprint::new(tool, "00", &json!({})),
        "tool": tool,
        "source": ToolSource::BuiltIn,
        "location": "built-in",
        "digest": "00",
        "arguments": "{}",
        "summary": "runs",
        "risk": RiskLevel::High,
        "risks": [],
        "grants": [],
        "reasons": [],
        "always": AlwaysCoverage { text: "everything".to_owned(), grants: vec![], withheld: vec![], commands: vec![] },
        "editable": true
    }))
    .unwrap()
}

/// An approver with the given answer, which it never gives if there is none.
struct GivenApprover(tokio::sync::Mutex<Option<oneshot::Receiver<ApprovalAnswer>>>);

impl GivenApprover {
    fn new() -> (Self, oneshot::Sender<ApprovalAnswer>) {
        let (sender, receiver) = oneshot::channel();
        (Self(tokio::sync::Mutex::new(Some(receiver))), sender)
    }
}

impl Approver for GivenApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            let receiver = self.0.lock().await.take();
            receiver.unwrap().await.unwrap()
        })
    }
}

/// Answers at once that no person is there.
struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(unattended()))
    }
}

fn unattended() -> ApprovalAnswer {
    ApprovalAnswer::Unattended {
        remedy: "ask later".to_owned(),
    }
}

fn given(answer: ApprovalAnswer) -> GivenAnswer {
    GivenAnswer {
        answer,
        by: "ada".to_owned(),
        at: Timestamp::now(),
        reason: None,
    }
}

fn this_process() -> QuestionAsker {
    QuestionAsker::Process(std::process::id())
}

struct Questions {
    _folder: tempfile::TempDir,
    board: Arc<QuestionBoard>,
    store: QuestionStore,
}

fn questions(unattended: UnattendedQuestions, timeout: Duration) -> Questions {
    let folder = tempfile::tempdir().unwrap();
    let state = || Arc::new(FileSharedState::new(folder.path()));
    Questions {
        board: Arc::new(QuestionBoard::new(
            state(),
            "w",
            this_process,
            timeout,
            unattended,
        )),
        store: QuestionStore::new(state()),
        _folder: folder,
    }
}

const LONG: Duration = Duration::from_secs(600);

/// Asks about `tool` in a task.
fn ask(
    board: &Arc<QuestionBoard>,
    approver: impl Approver + 'static,
    tool: &'static str,
) -> tokio::task::JoinHandle<ApprovalAnswer> {
    ask_about(board, approver, card(tool))
}

/// Asks about a card in a task.
fn ask_about(
    board: &Arc<QuestionBoard>,
    approver: impl Approver + 'static,
    card: Card,
) -> tokio::task::JoinHandle<ApprovalAnswer> {
    let board = Arc::clone(board);
    tokio::spawn(async move { board.ask(&approver, "s", &card).await })
}

async fn wait_for_question(store: &QuestionStore) -> SharedQuestion {
    loop {
        if let Some(question) = store.open_questions().await.unwrap().pop() {
            return question;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn wait_for_end(store: &QuestionStore) {
    while !store.open_questions().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn question_takes_the_first_of_two_answers() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Refuse, LONG);
    let (approver, sender) = GivenApprover::new();
    let asking = ask(&board, approver, "one");
    let question = wait_for_question(&store).await;
    assert_eq!(question.card, card("one"));
    store
        .answer(&question.id, given(ApprovalAnswer::Once))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::Once);
    assert!(sender.send(ApprovalAnswer::Always).is_err(), "withdrawn");
    let late = store
        .answer(&question.id, given(ApprovalAnswer::Always))
        .await;
    let error = late.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::AlreadyExists);
    assert!(
        error.message.contains("answered with `once` by ada")
            && error.message.contains("does not count"),
        "{error}"
    );

    let (approver, sender) = GivenApprover::new();
    let asking = ask(&board, approver, "two");
    let question = wait_for_question(&store).await;
    sender.send(ApprovalAnswer::No).unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::No);
    let late = store
        .answer(&question.id, given(ApprovalAnswer::Once))
        .await;
    assert!(late.unwrap_err().message.contains("answered with `no`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn question_answered_by_many_at_once_has_one_answer() {
    for _ in 0..10 {
        let Questions {
            board,
            store,
            _folder,
        } = questions(UnattendedQuestions::Refuse, LONG);
        let (approver, sender) = GivenApprover::new();
        let asking = ask(&board, approver, "one");
        let question = wait_for_question(&store).await;
        let answers = [
            ApprovalAnswer::Once,
            ApprovalAnswer::Session,
            ApprovalAnswer::No,
        ];
        let racers = answers.map(|answer| {
            let (store, id) = (store.clone(), question.id.clone());
            tokio::spawn(async move {
                store
                    .answer(&id, given(answer.clone()))
                    .await
                    .map(|_| answer)
            })
        });
        let _ = sender.send(ApprovalAnswer::Always);
        let mut counted = Vec::new();
        for racer in racers {
            counted.extend(racer.await.unwrap().ok());
        }
        let answer = asking.await.unwrap();
        match counted.as_slice() {
            [] => assert_eq!(answer, ApprovalAnswer::Always),
            [one] => assert_eq!(answer, *one),
            several => panic!("{several:?}"),
        }
    }
}

#[tokio::test]
async fn question_that_cannot_be_asked_waits_only_if_the_settings_say_so() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Refuse, LONG);
    assert_eq!(board.ask(&Nobody, "s", &card("one")).await, unattended());
    assert_eq!(store.open_questions().await.unwrap(), []);

    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Wait, LONG);
    let asking = ask(&board, Nobody, "one");
    let question = wait_for_question(&store).await;
    store
        .answer(&question.id, given(ApprovalAnswer::Session))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::Session);
}

/// A board whose questions wait while the flag is set, although the settings refuse them.
fn questions_with_console(is_open: &Arc<AtomicBool>, timeout: Duration) -> Questions {
    let folder = tempfile::tempdir().unwrap();
    let state = || Arc::new(FileSharedState::new(folder.path()));
    let is_open = Arc::clone(is_open);
    let refuse = UnattendedQuestions::Refuse;
    let board = QuestionBoard::new(state(), "w", this_process, timeout, refuse);
    let board = board.with_consoles(Some(Arc::new(move || is_open.load(Ordering::SeqCst))));
    Questions {
        board: Arc::new(board),
        store: QuestionStore::new(state()),
        _folder: folder,
    }
}

#[tokio::test]
async fn question_that_cannot_be_asked_waits_while_a_console_is_open() {
    let is_open = Arc::new(AtomicBool::new(false));
    let Questions {
        board,
        store,
        _folder,
    } = questions_with_console(&is_open, LONG);
    assert_eq!(board.ask(&Nobody, "s", &card("one")).await, unattended());
    is_open.store(true, Ordering::SeqCst);
    let asking = ask(&board, Nobody, "one");
    let question = wait_for_question(&store).await;
    store
        .answer(&question.id, given(ApprovalAnswer::Once))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::Once);
    // A form that is closed without an answer.
    let (approver, sender) = GivenApprover::new();
    let asking = ask(&board, approver, "two");
    let question = wait_for_question(&store).await;
    sender.send(unattended()).unwrap();
    store
        .answer(&question.id, given(ApprovalAnswer::No))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::No);
    // The last console is closed.
    let asking = ask(&board, Nobody, "three");
    let question = wait_for_question(&store).await;
    is_open.store(false, Ordering::SeqCst);
    assert_eq!(asking.await.unwrap(), unattended());
    let late = store
        .answer(&question.id, given(ApprovalAnswer::Once))
        .await;
    assert!(late.unwrap_err().message.contains("the question has ended"));
}

#[tokio::test]
async fn question_waits_for_a_console_no_longer_than_its_timeout() {
    let is_open = Arc::new(AtomicBool::new(true));
    let Questions {
        board,
        store,
        _folder,
    } = questions_with_console(&is_open, Duration::from_millis(50));
    let timeout = Duration::from_millis(50);
    let answer = board.ask(&Nobody, "s", &card("one")).await;
    assert_eq!(answer, ApprovalAnswer::Expired { timeout });
    assert_eq!(store.open_questions().await.unwrap(), []);
}

#[tokio::test]
async fn question_accepts_an_answer_that_was_stored_with_other_facts() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Wait, LONG);
    let mut named = card("one");
    named.facts.client = Some("story-agent 1.0".to_owned());
    let asking = ask_about(&board, Nobody, named);
    let mut question = wait_for_question(&store).await;
    assert_eq!(
        question.card.facts.client.as_deref(),
        Some("story-agent 1.0")
    );
    // An older version of mimir does not know the client.
    question.card.facts.client = None;
    question.state = QuestionState::Answered(given(ApprovalAnswer::Once));
    let entry = store
        .state
        .get(StateArea::Questions, &key(&question.id))
        .await;
    let revision = entry.unwrap().unwrap().revision;
    store
        .replace(&key(&question.id), &question, revision)
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::Once);
}

#[tokio::test]
async fn question_without_an_answer_ends_and_takes_none_later() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Wait, Duration::from_millis(50));
    let asking = ask(&board, Nobody, "one");
    let timeout = Duration::from_millis(50);
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::Expired { timeout });
    assert_eq!(store.open_questions().await.unwrap(), []);
    let all = store.state.list(StateArea::Questions, None).await.unwrap();
    let question = decode(&all[0]).unwrap();
    let late = store
        .answer(&question.id, given(ApprovalAnswer::Once))
        .await;
    assert!(late.unwrap_err().message.contains("does not count"));
}

#[tokio::test]
async fn question_of_a_cancelled_call_is_withdrawn() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Wait, LONG);
    let asking = ask(&board, Nobody, "one");
    let question = wait_for_question(&store).await;
    asking.abort();
    wait_for_end(&store).await;
    let late = store
        .answer(&question.id, given(ApprovalAnswer::Once))
        .await;
    assert!(late.unwrap_err().message.contains("the question has ended"));
}

/// Locks the questions of a store, as a process does that changes them.
#[cfg(unix)]
fn lock_questions(folder: &std::path::Path) -> std::fs::File {
    let path = folder.join(StateArea::Questions.as_str());
    let lock = std::fs::File::options()
        .write(true)
        .open(path.join("revision.lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    lock
}

#[cfg(unix)]
#[tokio::test]
async fn question_of_a_call_cancelled_while_it_is_stored_is_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let state: SharedStateHandle = Arc::new(FileSharedState::new(folder.path()));
    let store = QuestionStore::new(Arc::clone(&state));
    let storing = Arc::new(tokio::sync::Notify::new());
    let asker = {
        let storing = Arc::clone(&storing);
        // Called right before the question is stored.
        move || {
            storing.notify_one();
            this_process()
        }
    };
    let wait = UnattendedQuestions::Wait;
    let board = Arc::new(QuestionBoard::new(state, "w", asker, LONG, wait));
    // The first question, after which there is a lock.
    let asking = ask(&board, Nobody, "one");
    storing.notified().await;
    let first = wait_for_question(&store).await;
    store
        .answer(&first.id, given(ApprovalAnswer::Once))
        .await
        .unwrap();
    asking.await.unwrap();

    let lock = lock_questions(folder.path());
    let asking = ask(&board, Nobody, "two");
    storing.notified().await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    drop(lock);
    let ended = async {
        loop {
            let entries = store.state.list(StateArea::Questions, None).await.unwrap();
            let questions = entries.iter().map(|entry| decode(entry).unwrap());
            let mut of_call = questions.filter(|question| question.card.tool == "two");
            if let Some(question) = of_call.find(|question| question.state != QuestionState::Open) {
                return question;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    let question = ended.expect("the question ends with its call");
    let late = store
        .answer(&question.id, given(ApprovalAnswer::Once))
        .await;
    let message = late.unwrap_err().message;
    assert!(
        message.contains("its call does not wait for an answer any more")
            && message.contains("runs nothing"),
        "{message}"
    );
}

#[tokio::test]
async fn question_accepts_only_answers_that_its_card_offers() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Wait, LONG);
    let board_task = Arc::clone(&board);
    let asking = tokio::spawn(async move {
        let mut each_time = card("delete_file");
        each_time.always = None;
        each_time.editable = false;
        board_task.ask(&Nobody, "s", &each_time).await
    });
    let question = wait_for_question(&store).await;
    for answer in [
        ApprovalAnswer::Always,
        ApprovalAnswer::AlwaysCommands(vec!["rm *".to_owned()]),
        ApprovalAnswer::Session,
        ApprovalAnswer::Edit(json!({})),
    ] {
        let refused = store.answer(&question.id, given(answer)).await;
        assert_eq!(refused.unwrap_err().code, ToolErrorCode::InvalidInput);
    }
    store
        .answer(&question.id, given(ApprovalAnswer::No))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::No);
}

#[tokio::test]
async fn question_of_a_session_of_any_client_takes_no_answer_for_the_session() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Wait, LONG);
    let mut shared = card("exec");
    assert!(shared.offers_session());
    shared.facts.sharing = SessionSharing::AnyClient;
    let asking = ask_about(&board, Nobody, shared);
    let question = wait_for_question(&store).await;
    let refused = store.answer(&question.id, given(ApprovalAnswer::Session));
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::InvalidInput);
    assert!(refused.message.contains("apart"), "{}", refused.message);
    let always = store.answer(&question.id, given(ApprovalAnswer::Always));
    always.await.unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::Always);
}

#[tokio::test]
async fn question_ignores_an_entry_with_another_card() {
    let Questions {
        board,
        store,
        _folder,
    } = questions(UnattendedQuestions::Wait, LONG);
    let asking = ask(&board, Nobody, "one");
    let mut question = wait_for_question(&store).await;
    question.card = card("two");
    question.state = QuestionState::Answered(given(ApprovalAnswer::Once));
    let entry = store
        .state
        .get(StateArea::Questions, &key(&question.id))
        .await;
    let revision = entry.unwrap().unwrap().revision;
    store
        .replace(&key(&question.id), &question, revision)
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), unattended());
}

#[tokio::test]
async fn question_is_asked_here_if_the_store_is_not_usable() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("file");
    std::fs::write(&root, "").unwrap();
    let state = Arc::new(FileSharedState::new(root));
    let wait = UnattendedQuestions::Wait;
    let board = Arc::new(QuestionBoard::new(state, "w", this_process, LONG, wait));
    let (approver, sender) = GivenApprover::new();
    let asking = ask(&board, approver, "one");
    sender.send(ApprovalAnswer::Once).unwrap();
    assert_eq!(asking.await.unwrap(), ApprovalAnswer::Once);
    assert_eq!(board.ask(&Nobody, "s", &card("two")).await, unattended());
}

#[tokio::test]
async fn question_of_an_ended_process_takes_no_answer() {
    for asker in [
        QuestionAsker::Process(u32::MAX - 1),
        QuestionAsker::Node("gone".to_owned()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let state: SharedStateHandle = Arc::new(FileSharedState::new(folder.path()));
        let store = QuestionStore::new(Arc::clone(&state));
        let wait = UnattendedQuestions::Wait;
        let board = QuestionBoard::new(state, "w", move || asker.clone(), LONG, wait);
        let open = board.open(&card("one")).await.unwrap();
        assert_eq!(store.open_questions().await.unwrap(), []);
        let late = store
            .answer(&open.question.id, given(ApprovalAnswer::Once))
            .await;
        assert!(late.unwrap_err().message.contains("the question has ended"));
    }
}
