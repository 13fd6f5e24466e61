//! Approval questions that a person can answer in another process: `mimir approvals answer`, or a console.
//!
//! The process that asks stores each question with the whole card, and waits for the answer of its own approver, such as
//! the form of a client, and for an answer in the store. The first one counts: an answer is stored by compare-and-set,
//! and an answer to a question that is not open any more counts for nothing.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mimir_core::approval::{ApprovalAnswer, Approver, Card, QuestionSharing, is_narrower_pattern};
use mimir_core::config::UnattendedQuestions;
use mimir_core::shared_state::{
    SharedStateError, SharedStateHandle, StateArea, StateChange, StateEntry, StateKey,
    StateRevision, StateWatch,
};
use mimir_core::{BoxFuture, ToolError, ToolErrorCode};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::process_identity::process_name;
use crate::shared_state::StateMirror;

#[cfg(test)]
mod tests;

/// Time for which the entry of a question is kept after its end, so that a late answer learns why it does not count.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// Interval at which a waiting question that cannot be asked here checks that a console is still open.
const CONSOLE_LOOK: Duration = Duration::from_secs(1);

/// Returns true if a person can answer questions at an open console. May read files.
pub type ConsoleLookup = Arc<dyn Fn() -> bool + Send + Sync>;

/// The state of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum QuestionState {
    /// The question waits for an answer.
    Open,
    /// The question was answered, and the answer counts.
    Answered(GivenAnswer),
    /// The question has ended without an answer.
    Expired,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenAnswer {
    /// The answer.
    pub answer: ApprovalAnswer,
    /// The user who gave it, or the way in which it was given.
    pub by: String,
    /// The time.
    pub at: Timestamp,
    /// The reason, for the record and, after "no", for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The process that waits for the answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QuestionAsker {
    /// A process of this machine, by its id.
    Process(u32),
    /// A node of a cluster, by its id.
    Node(String),
}

/// An approval question of any process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedQuestion {
    /// The id: random, so that an answer is for this question only.
    pub id: String,
    /// The name of the workspace.
    pub workspace: String,
    /// The machine and the process that ask, for people.
    pub process: String,
    /// The process that waits for the answer.
    pub asker: QuestionAsker,
    /// The time of the question.
    pub asked_at: Timestamp,
    /// The time until which an answer counts.
    pub expires_at: Timestamp,
    /// The card.
    pub card: Card,
    /// The state.
    #[serde(flatten)]
    pub state: QuestionState,
}

impl SharedQuestion {
    /// Returns true if an answer counts.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state == QuestionState::Open && now < self.expires_at
    }
}

/// The questions of a workspace, or of all workspaces of a cluster.
#[derive(Clone)]
pub struct QuestionStore {
    state: SharedStateHandle,
    /// The workspace whose questions can be read and answered, if not those of all.
    workspace: Option<String>,
}

impl QuestionStore {
    /// Creates access to the questions in this state.
    pub fn new(state: SharedStateHandle) -> Self {
        Self {
            state,
            workspace: None,
        }
    }

    /// Restricts the access to the questions of a workspace.
    #[must_use]
    pub fn of_workspace(mut self, name: &str) -> Self {
        self.workspace = Some(name.to_owned());
        self
    }

    /// Reads a question. `None` if it is not valid, or of another workspace.
    fn decode(&self, entry: &StateEntry) -> Option<SharedQuestion> {
        decode(entry)
            .ok()
            .filter(|question| self.includes(question))
    }

    fn includes(&self, question: &SharedQuestion) -> bool {
        let workspace = self.workspace.as_ref();
        workspace.is_none_or(|workspace| *workspace == question.workspace)
    }

    /// Returns the open questions, the oldest first.
    pub async fn open_questions(&self) -> Result<Vec<SharedQuestion>, SharedStateError> {
        let entries = self.state.list(StateArea::Questions, None).await?;
        let now = Timestamp::now();
        let questions = entries.iter().filter_map(|entry| self.decode(entry));
        let mut open = Vec::new();
        for question in questions.filter(|question| question.is_open(now)) {
            if self.is_awaited(&question).await? {
                open.push(question);
            }
        }
        open.sort_by(|one, other| (one.asked_at, &one.id).cmp(&(other.asked_at, &other.id)));
        Ok(open)
    }

    /// Returns the question whose id begins with `prefix`.
    pub async fn find(&self, prefix: &str) -> Result<SharedQuestion, ToolError> {
        let entries = self.state.list(StateArea::Questions, None).await;
        let entries = entries.map_err(ToolError::unavailable)?;
        let questions = entries.iter().filter_map(|entry| self.decode(entry));
        let mut matching: Vec<SharedQuestion> = questions
            .filter(|question| !prefix.is_empty() && question.id.starts_with(prefix))
            .collect();
        let fault = match matching.len() {
            1 => return Ok(matching.remove(0)),
            0 => "no question",
            _ => "several questions",
        };
        let shown = mimir_core::text::visible(mimir_core::text::prefix(prefix, 64));
        Err(ToolError::not_found(format!(
            "{fault} with an id that begins with `{shown}`: it may have ended; `mimir approvals pending` shows the open ones"
        )))
    }

    /// Answers a question. Fails if it is not open any more, or if the card does not offer the answer.
    pub async fn answer(&self, id: &str, given: GivenAnswer) -> Result<SharedQuestion, ToolError> {
        let key = key(id);
        let entry = self.state.get(StateArea::Questions, &key).await;
        let entry = entry.map_err(ToolError::unavailable)?;
        let entry = entry.ok_or_else(|| ToolError::not_found(ENDED))?;
        let mut question = decode(&entry).map_err(ToolError::unavailable)?;
        if !self.includes(&question) {
            return Err(ToolError::not_found(ENDED));
        }
        check_open(&question)?;
        if !self
            .is_awaited(&question)
            .await
            .map_err(ToolError::unavailable)?
        {
            return Err(ToolError::not_found(CALL_ENDED));
        }
        check_offered(&question.card, &given.answer)?;
        question.state = QuestionState::Answered(given);
        match self.replace(&key, &question, entry.revision).await {
            Ok(_) => Ok(question),
            Err(SharedStateError::Conflict) => {
                // Somebody else was faster.
                let question = self.find(id).await?;
                check_open(&question)?;
                Err(ToolError::unavailable(
                    "the question has changed at the same time; try again",
                ))
            }
            Err(error) => Err(ToolError::unavailable(error)),
        }
    }

    /// Returns true if the process that has asked may still wait for the answer.
    async fn is_awaited(&self, question: &SharedQuestion) -> Result<bool, SharedStateError> {
        match &question.asker {
            QuestionAsker::Process(id) => Ok(mimir_core::platform::process_may_run(*id)),
            QuestionAsker::Node(id) => {
                let key = mimir_cluster::NodeEntry::key(id);
                Ok(self.state.get(StateArea::Nodes, &key).await?.is_some())
            }
        }
    }

    async fn replace(
        &self,
        key: &StateKey,
        question: &SharedQuestion,
        revision: StateRevision,
    ) -> Result<StateRevision, SharedStateError> {
        let value = serde_json::to_vec(question).unwrap_or_default();
        let area = StateArea::Questions;
        let update = self.state.update(area, key, value, revision, Some(KEPT));
        update.await
    }
}

impl QuestionStore {
    /// Follows the questions, those that exist already first.
    pub async fn watch(&self) -> Result<QuestionWatch, SharedStateError> {
        let watch = self.state.watch(StateArea::Questions).await?;
        let store = self.clone();
        Ok(QuestionWatch { watch, store })
    }

    /// Returns true if an answer to the question would count: it is open, and its process may still wait.
    pub async fn takes_answer(&self, question: &SharedQuestion) -> bool {
        question.is_open(Timestamp::now()) && self.is_awaited(question).await.unwrap_or(true)
    }
}

/// Follows the questions of a workspace or a cluster.
pub struct QuestionWatch {
    watch: Box<dyn StateWatch>,
    store: QuestionStore,
}

impl QuestionWatch {
    /// Waits for the next question that is new or has changed. `None` if the store was closed.
    pub async fn next(&mut self) -> Option<SharedQuestion> {
        loop {
            if let StateChange::Set(entry) = self.watch.next().await?
                && let Some(question) = self.store.decode(&entry)
            {
                return Some(question);
            }
        }
    }
}

/// Explains an answer to a question that has ended, and whose entry was removed.
const ENDED: &str = "the question has ended, so the answer does not count; `mimir approvals pending` shows the open ones";

/// Explains an answer to a question for which no call waits any more: it was cancelled, its time was over, its process
/// has ended, or another answer covers it.
const CALL_ENDED: &str = "the question has ended: its call does not wait for an answer any more, so this answer does not count and \
                          runs nothing; `mimir approvals pending` shows the open ones";

fn key(id: &str) -> StateKey {
    StateKey::new([id])
}

fn decode(entry: &StateEntry) -> Result<SharedQuestion, String> {
    serde_json::from_slice(&entry.value)
        .map_err(|error| format!("the question cannot be read: {error}"))
}

/// Fails if an answer to the question would not count.
fn check_open(question: &SharedQuestion) -> Result<(), ToolError> {
    match &question.state {
        QuestionState::Answered(given) => Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!(
                "the question was answered with `{}` by {} at {:.0}, so this answer does not count",
                given.answer.as_str(),
                mimir_core::text::visible(&given.by),
                given.at
            ),
        )),
        QuestionState::Open if question.is_open(Timestamp::now()) => Ok(()),
        QuestionState::Open | QuestionState::Expired => Err(ToolError::not_found(CALL_ENDED)),
    }
}

fn check_offered(card: &Card, answer: &ApprovalAnswer) -> Result<(), ToolError> {
    match answer {
        ApprovalAnswer::Session | ApprovalAnswer::Always | ApprovalAnswer::AlwaysCommands(_)
            if card.always.is_none() =>
        {
            Err(ToolError::invalid_input(format!(
                "each call of `{}` needs its own approval: expected `once` or `no`",
                card.tool
            )))
        }
        ApprovalAnswer::Session if !card.offers_session() => Err(ToolError::invalid_input(
            "nothing tells the clients of this session apart, so that the answer `session` would count for all of them: expected `once`, `always` or `no`; `mimir help mcp` shows how each person gets a session",
        )),
        ApprovalAnswer::Edit(_) if !card.editable => Err(ToolError::invalid_input(
            "this question cannot be edited: expected `once` or `no`",
        )),
        ApprovalAnswer::AlwaysCommands(commands) => check_patterns(card, commands),
        _ => Ok(()),
    }
}

/// Fails if a pattern covers more commands than those of the card.
fn check_patterns(card: &Card, commands: &[String]) -> Result<(), ToolError> {
    let offered = card.always.iter().flat_map(|always| &always.commands);
    let offered: Vec<String> = offered.cloned().collect();
    if offered.is_empty() {
        return Err(ToolError::invalid_input(
            "this question offers no patterns of commands: expected `once`, `session`, `always` or `no`",
        ));
    }
    if commands.is_empty() {
        return Err(ToolError::invalid_input(
            "a pattern is missing: give at least one pattern of commands",
        ));
    }
    match commands
        .iter()
        .find(|pattern| !is_narrower_pattern(pattern, &offered))
    {
        None => Ok(()),
        Some(wider) => Err(ToolError::invalid_input(format!(
            "`{}` is not one of the offered patterns or a narrower one: expected {} or the same words with more after them",
            mimir_core::text::visible(mimir_core::text::prefix(wider, 200)),
            offered
                .iter()
                .map(|pattern| format!("`{pattern}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

/// Asks the questions of one pipeline in the store, too.
pub struct QuestionBoard {
    store: QuestionStore,
    workspace: String,
    process: String,
    asker: Box<dyn Fn() -> QuestionAsker + Send + Sync>,
    timeout: Duration,
    unattended: UnattendedQuestions,
    consoles: Option<ConsoleLookup>,
    /// The copy of the questions, while there are open ones.
    mirror: tokio::sync::Mutex<Weak<StateMirror>>,
}

impl QuestionBoard {
    /// Creates the board of a pipeline. `asker` returns this process; a node gets a new id after it was cut off.
    /// `timeout` is the time that a person has to answer.
    pub fn new(
        state: SharedStateHandle,
        workspace: &str,
        asker: impl Fn() -> QuestionAsker + Send + Sync + 'static,
        timeout: Duration,
        unattended: UnattendedQuestions,
    ) -> Self {
        Self {
            store: QuestionStore::new(state),
            workspace: workspace.to_owned(),
            process: process_name(),
            asker: Box::new(asker),
            timeout,
            unattended,
            consoles: None,
            mirror: tokio::sync::Mutex::default(),
        }
    }

    /// Makes questions that cannot be asked here wait while a console is open.
    #[must_use]
    pub fn with_consoles(mut self, consoles: Option<ConsoleLookup>) -> Self {
        self.consoles = consoles;
        self
    }

    /// Returns true if a question that cannot be asked here waits for an answer from elsewhere.
    async fn waits(&self) -> bool {
        if self.unattended == UnattendedQuestions::Wait {
            return true;
        }
        let Some(consoles) = self.consoles.clone() else {
            return false;
        };
        let looked = tokio::task::spawn_blocking(move || consoles());
        looked.await.unwrap_or(false)
    }

    /// Returns the copy of the questions.
    async fn mirror(&self) -> Result<Arc<StateMirror>, SharedStateError> {
        let mut mirror = self.mirror.lock().await;
        if let Some(mirror) = mirror.upgrade().filter(|mirror| !mirror.is_closed()) {
            return Ok(mirror);
        }
        let new = StateMirror::start(&self.store.state, StateArea::Questions).await?;
        let new = Arc::new(new);
        *mirror = Arc::downgrade(&new);
        Ok(new)
    }

    /// Stores a question. It is withdrawn if the caller is dropped meanwhile, even if a store finishes what it has begun.
    async fn open(&self, card: &Card) -> Result<OpenQuestion, SharedStateError> {
        let mirror = self.mirror().await?;
        let asked_at = Timestamp::now();
        let time = SignedDuration::try_from(self.timeout).unwrap_or(SignedDuration::MAX);
        let question = SharedQuestion {
            id: new_id().ok_or_else(|| SharedStateError::Unreachable {
                location: self.store.state.location(),
                text: "the random number generator of the system has failed".to_owned(),
            })?,
            workspace: self.workspace.clone(),
            process: self.process.clone(),
            asker: (self.asker)(),
            asked_at,
            expires_at: asked_at.checked_add(time).unwrap_or(Timestamp::MAX),
            card: card.clone(),
            state: QuestionState::Open,
        };
        let key = key(&question.id);
        let value = serde_json::to_vec(&question).unwrap_or_default();
        let lifetime = self.timeout.saturating_add(KEPT);
        let area = StateArea::Questions;
        let store = self.store.clone();
        let (sender, stored) = oneshot::channel();
        tokio::spawn(async move {
            let created = store.state.create(area, &key, value, Some(lifetime)).await;
            let open = created.map(|revision| OpenQuestion {
                store,
                question,
                key,
                revision,
                mirror,
                is_ended: false,
            });
            // A question that its caller does not receive any more is withdrawn by this drop.
            drop(sender.send(open));
        });
        stored.await.unwrap_or_else(|_| {
            Err(SharedStateError::Unreachable {
                location: self.store.state.location(),
                text: "the process ends".to_owned(),
            })
        })
    }

    async fn ask_everywhere(&self, approver: &dyn Approver, card: &Card) -> ApprovalAnswer {
        let mut own = pin!(approver.ask(card));
        // An approver that cannot ask answers at once.
        let first = poll_fn(|cx| Poll::Ready(own.as_mut().poll(cx))).await;
        let mut unattended = match first {
            Poll::Ready(answer) if !answer.is_missing() || !self.waits().await => return answer,
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        };
        let mut open = match self.open(card).await {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(%error, "the question can only be answered here");
                return match unattended {
                    Some(answer) => answer,
                    None => own.await,
                };
            }
        };
        let mut ended = pin!(tokio::time::sleep(self.timeout));
        let first_look = tokio::time::Instant::now() + CONSOLE_LOOK;
        let mut looks = tokio::time::interval_at(first_look, CONSOLE_LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                answered = open.wait_for_answer() => match answered {
                    Some(answer) => return answer,
                    None => return self.ask_here(unattended, own).await,
                },
                answer = &mut own, if unattended.is_none() => {
                    if !answer.is_missing() || !self.waits().await {
                        return open.end(answer).await;
                    }
                    unattended = Some(answer);
                }
                () = &mut ended => {
                    let timeout = self.timeout;
                    return open.end(ApprovalAnswer::Expired { timeout }).await;
                }
                _ = looks.tick(), if unattended.is_some() => {
                    // The last console may have been closed.
                    if !self.waits().await && let Some(answer) = unattended.take() {
                        return open.end(answer).await;
                    }
                }
            }
        }
    }

    /// Waits for the approver of this process alone, because the store was closed.
    async fn ask_here(
        &self,
        unattended: Option<ApprovalAnswer>,
        own: impl Future<Output = ApprovalAnswer>,
    ) -> ApprovalAnswer {
        match unattended {
            Some(answer) => answer,
            None => own.await,
        }
    }
}

impl QuestionSharing for QuestionBoard {
    fn ask<'a>(
        &'a self,
        approver: &'a dyn Approver,
        _: &'a str,
        card: &'a Card,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(self.ask_everywhere(approver, card))
    }
}

/// A stored question of this process. If it is dropped without an end, the question is withdrawn.
struct OpenQuestion {
    store: QuestionStore,
    question: SharedQuestion,
    key: StateKey,
    /// The revision of the open question.
    revision: StateRevision,
    mirror: Arc<StateMirror>,
    is_ended: bool,
}

impl OpenQuestion {
    /// Waits for an answer in the store. `None` if the question cannot be answered there any more.
    async fn wait_for_answer(&mut self) -> Option<ApprovalAnswer> {
        let mut changes = self.mirror.changes();
        loop {
            changes.mark_unchanged();
            if self.mirror.is_closed() {
                return None;
            }
            if let Some(entry) = self.mirror.get(&self.key)
                && entry.revision > self.revision
            {
                return self.take_answer(&entry);
            }
            if changes.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Returns the answer in a changed entry.
    fn take_answer(&mut self, entry: &StateEntry) -> Option<ApprovalAnswer> {
        self.is_ended = true;
        let question = decode(entry).ok()?;
        // The answer is for this card, and for no other that may be stored under the key. The version of mimir that has
        // stored the answer may know other facts.
        let asked = Card {
            facts: question.card.facts.clone(),
            ..self.question.card.clone()
        };
        if question.card != asked {
            return None;
        }
        match question.state {
            QuestionState::Answered(given) => {
                check_offered(&self.question.card, &given.answer).ok()?;
                Some(match (given.answer, given.reason) {
                    (ApprovalAnswer::No, Some(reason)) => ApprovalAnswer::NoBecause(reason),
                    (answer, _) => answer,
                })
            }
            QuestionState::Open | QuestionState::Expired => None,
        }
    }

    /// Ends the question with the answer of this process, or with an answer in the store that was faster.
    async fn end(mut self, answer: ApprovalAnswer) -> ApprovalAnswer {
        self.question.state = self.end_state(&answer);
        let replaced = self.store.replace(&self.key, &self.question, self.revision);
        match replaced.await {
            Ok(_) => {
                self.is_ended = true;
                answer
            }
            Err(SharedStateError::Conflict) => {
                let entry = self.store.state.get(StateArea::Questions, &self.key).await;
                match entry {
                    Ok(Some(entry)) => self.take_answer(&entry).unwrap_or(answer),
                    // It was removed, so no other answer is on record.
                    Ok(None) => answer,
                    Err(error) => unknown_answer(&error),
                }
            }
            // Another answer may be on record.
            Err(error) => unknown_answer(&error),
        }
    }

    fn end_state(&self, answer: &ApprovalAnswer) -> QuestionState {
        match answer {
            missing if missing.is_missing() => QuestionState::Expired,
            answer => QuestionState::Answered(GivenAnswer {
                answer: answer.clone(),
                by: self.question.process.clone(),
                at: Timestamp::now(),
                reason: None,
            }),
        }
    }
}

/// Returns the answer of a question whose answer cannot be determined.
fn unknown_answer(error: &SharedStateError) -> ApprovalAnswer {
    ApprovalAnswer::Unattended {
        remedy: format!(
            "The answer cannot be stored ({error}): repeat the call to be asked again."
        ),
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (store, key) = (self.store.clone(), self.key.clone());
        let (mut question, revision) = (self.question.clone(), self.revision);
        question.state = QuestionState::Expired;
        runtime.spawn(async move {
            // A conflict: it was answered at the same time, which does not matter any more.
            if let Err(error) = store.replace(&key, &question, revision).await {
                tracing::debug!(%error, "a question is not withdrawn");
            }
        });
    }
}

/// Returns a random id.
fn new_id() -> Option<String> {
    mimir_mcp::random_token().map(|mut token| {
        token.truncate(16);
        token
    })
}
