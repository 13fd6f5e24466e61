//! State of the screen: the calls, the questions, the selection and the open page.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use mimir::live_calls::{AgentKey, LiveAgent, LiveCall, LiveCallHub, LiveCallStatus};
use mimir::shared_questions::SharedQuestion;
use mimir::undo::UndoRecord;
use mimir_core::RequestId;
use mimir_core::audit::OutcomeKind;
use mimir_core::call_switch::StopNotice;
use mimir_core::text::visible;
use serde_json::Value;

/// Number of ended calls in the list.
const MAX_ENDED: usize = 100;

/// Time for which a card must be shown before a key answers its question. A key that was meant for another question,
/// which has just ended, does not count for this one.
const MIN_READING_TIME: Duration = Duration::from_millis(700);

/// State of the screen.
#[derive(Default)]
pub struct CallScreen {
    /// The open questions, the oldest first.
    pub questions: Vec<SharedQuestion>,
    /// Running calls, the oldest first, then ended ones, the newest first.
    pub calls: Vec<CallRow>,
    /// The selected line. By identity, so that a key never applies to a line that has just appeared.
    selected: Option<RowKey>,
    /// First visible line.
    pub top: usize,
    /// Number of visible lines.
    pub height: usize,
    /// The open page.
    pub page: Option<RowPage>,
    /// Message on the last line.
    pub message: String,
    /// The changes that the calls of questions would make, by the id of the question.
    pub previews: HashMap<String, Value>,
    /// The files that ended calls have changed, by the id of their undo record. Empty if they are not known.
    changed_files: HashMap<String, String>,
    /// The order that the screen asks about.
    pub asks: Option<ScreenOrder>,
    /// The order to refuse all calls.
    pub stop: Option<StopNotice>,
    /// The agents whose calls are refused.
    pub stopped_agents: Vec<LiveAgent>,
    /// Number of calls and events that were dropped.
    pub dropped: u64,
}

/// An order that is carried out after a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenOrder {
    /// Refuse all calls of the user.
    StopAll,
    /// Allow all calls of the user again.
    StartAll,
    /// Refuse the calls of an agent, which has this name.
    StopAgent(AgentKey, String),
    /// Allow the calls of an agent again.
    StartAgent(AgentKey, String),
    /// Answer the question with this id with "always".
    AnswerAlways(String),
    /// Take the changes of a call back: the id of the record, and the tool.
    Undo(String, String),
}

/// The identity of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowKey {
    /// A question, by its id.
    Question(String),
    /// A call.
    Call(RequestId),
}

/// The open page about a call or a question.
pub struct RowPage {
    /// The call or question.
    pub key: RowKey,
    /// First visible line.
    pub top: usize,
    /// The call, as it was last known.
    pub call: Option<LiveCall>,
    /// The time at which the page was opened.
    pub opened: Instant,
}

/// A call in the list.
pub struct CallRow {
    /// The id.
    pub id: RequestId,
    /// The state.
    pub state: LiveCallStatus,
    /// The outcome, if the call has ended.
    pub outcome: Option<OutcomeKind>,
    /// The tool.
    pub tool: String,
    /// The user or the process.
    pub who: String,
    /// The run time, or for a call that waits for a person, the time for which it has been waiting.
    pub time: Duration,
    /// The agent.
    pub agent: AgentKey,
    /// The id with which the changes of the call can be undone.
    pub undo: Option<String>,
    /// The number of effects.
    pub effects: u64,
    /// The last line of output, the progress, or the error.
    pub last: String,
    /// True for a call that another one makes.
    pub is_nested: bool,
}

impl CallRow {
    fn new(call: &LiveCall, now: Timestamp) -> Self {
        let started = &call.started;
        let finished = call.finished.as_ref();
        let failure = finished.and_then(|it| it.message.as_deref());
        let progress = call.progress.as_ref().and_then(|it| it.message.as_deref());
        let output = call
            .output
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty());
        let last = failure.or(output).or(progress).unwrap_or_default();
        let caller = started.client.as_deref().or(started.user.as_deref());
        Self {
            id: started.id.clone(),
            state: call.state,
            outcome: finished
                .map(|it| (it.outcome).unwrap_or(OutcomeKind::derive(it.ok, it.code, None))),
            tool: visible(&started.tool),
            who: visible(caller.unwrap_or(&started.process.name)),
            time: call.waiting_time(now).unwrap_or_else(|| call.run_time(now)),
            agent: AgentKey {
                pid: started.process.pid,
                session: started.session.clone(),
            },
            undo: finished.and_then(|it| it.undo.clone()),
            effects: call.effect_count,
            last: visible(mimir_core::text::prefix(last.trim(), 300)),
            is_nested: started.parent.is_some(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, LiveCallStatus::Finished | LiveCallStatus::Lost)
    }
}

impl CallScreen {
    /// Takes the calls of the hub.
    pub fn set_calls(&mut self, hub: &LiveCallHub) {
        let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
        let rows = hub.map_calls(|call| CallRow::new(call, now));
        let (mut ended, running): (Vec<_>, Vec<_>) = rows.into_iter().partition(CallRow::is_over);
        ended.reverse();
        ended.truncate(MAX_ENDED);
        self.calls = running;
        self.calls.append(&mut ended);
        self.dropped = hub.dropped();
        let agents = hub.agents().into_iter();
        self.stopped_agents = agents.filter(|agent| agent.stop.is_some()).collect();
        if let Some(page) = &mut self.page
            && let RowKey::Call(id) = &page.key
            && let Some(call) = hub.call(id)
        {
            page.call = Some(call);
        }
        self.select_existing();
    }

    /// Finds the files that the listed calls have changed. `read` reads an undo record, once for each call.
    pub fn name_changed_files(&mut self, read: impl Fn(&str) -> Option<UndoRecord>) {
        let ids: Vec<&String> = self
            .calls
            .iter()
            .filter_map(|call| call.undo.as_ref())
            .collect();
        self.changed_files.retain(|id, _| ids.contains(&id));
        for id in ids {
            if self.changed_files.contains_key(id) {
                continue;
            }
            let record = read(id);
            let mut paths = record.iter().flat_map(UndoRecord::paths);
            let text = match (paths.next(), paths.count()) {
                (None, _) => String::new(),
                (Some(first), 0) => visible(first),
                (Some(first), more) => format!("{} and {more} more", visible(first)),
            };
            self.changed_files.insert(id.clone(), text);
        }
    }

    /// Returns the files of an undo record, if they are known.
    pub fn changed_files(&self, undo: &str) -> Option<&str> {
        let files = self.changed_files.get(undo)?;
        (!files.is_empty()).then_some(files)
    }

    /// Takes the open questions. The page of a question that has ended is closed.
    pub fn set_questions(&mut self, questions: Vec<SharedQuestion>) {
        self.questions = questions;
        let open = &self.questions;
        self.previews
            .retain(|id, _| open.iter().any(|question| question.id == *id));
        if let Some(page) = &self.page
            && let RowKey::Question(id) = &page.key
            && self.question(id).is_none()
        {
            self.page = None;
            self.set_message(
                "the question has ended: it was answered elsewhere, or its time is over",
            );
        }
        self.select_existing();
    }

    /// Takes the preview of a question. If its card is open, a key answers it only after the time for reading it.
    pub fn set_preview(&mut self, id: String, preview: Value) {
        if let Some(page) = &mut self.page
            && page.key == RowKey::Question(id.clone())
        {
            page.opened = Instant::now();
        }
        self.previews.insert(id, preview);
    }

    /// Returns the identities of all lines.
    pub fn keys(&self) -> Vec<RowKey> {
        let questions = self.questions.iter();
        let questions = questions.map(|question| RowKey::Question(question.id.clone()));
        let calls = self.listed_calls();
        questions
            .chain(calls.map(|call| RowKey::Call(call.id.clone())))
            .collect()
    }

    /// Returns the calls in the list: those without an open question, which has a line of its own.
    pub fn listed_calls(&self) -> impl Iterator<Item = &CallRow> {
        self.calls.iter().filter(|call| !self.is_asked_about(call))
    }

    fn is_asked_about(&self, call: &CallRow) -> bool {
        let mut questions = self.questions.iter();
        call.state == LiveCallStatus::Waiting
            && questions.any(|question| question.card.facts.call_id == call.id.as_str())
    }

    /// Returns true if a call waits until another question is answered: a session asks about one call of a tool at a time.
    pub fn waits_behind_another(&self, call: &CallRow) -> bool {
        let mut questions = self.questions.iter().map(|question| &question.card);
        call.state == LiveCallStatus::Waiting
            && !self.is_asked_about(call)
            && questions.any(|card| {
                card.facts.session == call.agent.session && visible(&card.tool) == call.tool
            })
    }

    fn select_existing(&mut self) {
        let keys = self.keys();
        if !self
            .selected
            .as_ref()
            .is_some_and(|selected| keys.contains(selected))
        {
            self.selected = keys.into_iter().next();
        }
    }

    /// Returns the number of the selected line.
    pub fn selected_line(&self) -> usize {
        let keys = self.keys();
        let position = keys
            .iter()
            .position(|key| Some(key) == self.selected.as_ref());
        position.unwrap_or_default()
    }

    /// Moves the selection by this many lines.
    pub fn move_selection(&mut self, by: isize) {
        let keys = self.keys();
        let last = keys.len().saturating_sub(1);
        let line = self.selected_line().saturating_add_signed(by).min(last);
        self.selected = keys.into_iter().nth(line);
    }

    /// Opens the page of the selected line.
    pub fn open_page(&mut self) {
        self.page = self.selected.clone().map(|key| RowPage {
            key,
            top: 0,
            call: None,
            opened: Instant::now(),
        });
    }

    /// Closes the page.
    pub fn close_page(&mut self) {
        self.page = None;
    }

    /// Returns the open or the selected call, unless it has ended. That of a question is the call that it is about.
    pub fn current_call(&self) -> Option<&RequestId> {
        let row = self.current_row()?;
        (!row.is_over()).then_some(&row.id)
    }

    /// Returns the open or the selected call, or that of the question.
    pub fn current_row(&self) -> Option<&CallRow> {
        let key = match &self.page {
            Some(page) => &page.key,
            None => self.selected.as_ref()?,
        };
        let id = match key {
            RowKey::Call(id) => id.as_str(),
            RowKey::Question(id) => &self.question(id)?.card.facts.call_id,
        };
        self.calls.iter().find(|row| row.id.as_str() == id)
    }

    /// Returns true if the calls of an agent are refused.
    pub fn is_agent_stopped(&self, key: &AgentKey) -> bool {
        self.stopped_agents.iter().any(|agent| agent.key() == *key)
    }

    /// Returns the question whose card is open.
    pub fn open_question(&self) -> Option<&SharedQuestion> {
        match &self.page.as_ref()?.key {
            RowKey::Question(id) => self.question(id),
            RowKey::Call(_) => None,
        }
    }

    /// Returns true if the page was opened a moment ago, before a person can have read it.
    pub fn is_page_unread(&self) -> bool {
        let opened = self.page.as_ref().map(|page| page.opened);
        opened.is_some_and(|opened| opened.elapsed() < MIN_READING_TIME)
    }

    /// Returns the question that is selected in the list.
    pub fn selected_question(&self) -> Option<&SharedQuestion> {
        match &self.selected {
            Some(RowKey::Question(id)) if self.page.is_none() => self.question(id),
            _ => None,
        }
    }

    /// Returns the open question with this id.
    pub fn question(&self, id: &str) -> Option<&SharedQuestion> {
        self.questions.iter().find(|question| question.id == id)
    }

    /// Shows a message on the last line.
    pub fn set_message(&mut self, message: &str) {
        self.message = visible(message);
    }
}
