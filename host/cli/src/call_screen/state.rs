//! State of the screen: the calls, the questions, the selection and the open page.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use mimir::live_calls::{LiveCall, LiveCallHub, LiveCallStatus};
use mimir::shared_questions::SharedQuestion;
use mimir_core::RequestId;
use mimir_core::call_switch::StopNotice;
use mimir_core::text::visible;

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
    /// True while the screen asks whether to stop all calls.
    pub asks_to_stop: bool,
    /// The order to refuse all calls.
    pub stop: Option<StopNotice>,
    /// Number of calls and events that were dropped.
    pub dropped: u64,
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
    /// True if the call has ended with an error.
    pub has_failed: bool,
    /// The tool.
    pub tool: String,
    /// The user or the process.
    pub who: String,
    /// The time since the start, or the run time.
    pub time: Duration,
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
        let since = now.duration_since(started.at).unsigned_abs();
        let run_time = finished
            .map(|it| Duration::from_secs_f64(it.receipt.duration_ms.clamp(0.0, 1e12) / 1e3));
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
            has_failed: finished.is_some_and(|it| !it.ok),
            tool: visible(&started.tool),
            who: visible(caller.unwrap_or(&started.process.name)),
            time: run_time.unwrap_or(since),
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
        if let Some(page) = &mut self.page
            && let RowKey::Call(id) = &page.key
            && let Some(call) = hub.call(id)
        {
            page.call = Some(call);
        }
        self.select_existing();
    }

    /// Takes the open questions. The page of a question that has ended is closed.
    pub fn set_questions(&mut self, questions: Vec<SharedQuestion>) {
        self.questions = questions;
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

    /// Returns the identities of all lines.
    pub fn keys(&self) -> Vec<RowKey> {
        let questions = self.questions.iter();
        let questions = questions.map(|question| RowKey::Question(question.id.clone()));
        let calls = self.calls.iter().map(|call| RowKey::Call(call.id.clone()));
        questions.chain(calls).collect()
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

    /// Returns the open or the selected call, unless it has ended.
    pub fn current_call(&self) -> Option<&RequestId> {
        let key = match &self.page {
            Some(page) => &page.key,
            None => self.selected.as_ref()?,
        };
        let RowKey::Call(id) = key else {
            return None;
        };
        let row = self.calls.iter().find(|row| row.id == *id)?;
        (!row.is_over()).then_some(id)
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

    /// Returns true if a question is selected in the list.
    pub fn is_question_selected(&self) -> bool {
        self.page.is_none() && matches!(self.selected, Some(RowKey::Question(_)))
    }

    fn question(&self, id: &str) -> Option<&SharedQuestion> {
        self.questions.iter().find(|question| question.id == id)
    }

    /// Shows a message on the last line.
    pub fn set_message(&mut self, message: &str) {
        self.message = visible(message);
    }
}
