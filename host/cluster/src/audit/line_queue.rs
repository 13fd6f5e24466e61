//! The lines that wait for the writer, and the announced calls of this process.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use mimir_audit::LineDraft;
use mimir_core::audit::OutcomeTakenOver;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::log_message::AnnouncedAt;
use crate::node::{HeldCall, OutcomeRecord};

/// Maximum size of the waiting lines in bytes. Outcomes of announced calls may exceed it.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Pause before the next attempt after the stream has refused lines.
const RETRY_AFTER_REFUSAL: Duration = Duration::from_millis(500);

/// The effect of a line on the open calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuedLineKind {
    /// Opens a call.
    Announcement,
    /// Ends a call.
    Outcome,
    /// Anything else.
    Other,
}

/// Reason why a line was not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LineFailure {
    /// Another process has recorded the end of the call.
    TakenOver,
    /// The line cannot be stored now.
    NotStored(io::ErrorKind, String),
}

impl LineFailure {
    pub(crate) fn unreachable(text: impl Into<String>) -> Self {
        Self::NotStored(io::ErrorKind::NotConnected, text.into())
    }

    fn fenced() -> Self {
        Self::NotStored(
            io::ErrorKind::ConnectionAborted,
            "the lease of this process had ended, so the call did not run; call again".to_owned(),
        )
    }
}

impl From<LineFailure> for io::Error {
    fn from(failure: LineFailure) -> Self {
        match failure {
            LineFailure::TakenOver => Self::new(io::ErrorKind::ConnectionAborted, OutcomeTakenOver),
            LineFailure::NotStored(kind, text) => Self::new(kind, text),
        }
    }
}

/// The result of a line.
pub(crate) type LineResult = Result<(), LineFailure>;

/// The caller that waits for a line.
pub(crate) enum LineWaiter {
    /// A task.
    Task(oneshot::Sender<LineResult>),
    /// A thread.
    Thread(SyncSender<LineResult>),
    /// No caller: a line of the log itself.
    Log,
}

impl LineWaiter {
    fn answer(self, result: LineResult) {
        match self {
            Self::Task(sender) => drop(sender.send(result)),
            Self::Thread(sender) => drop(sender.try_send(result)),
            Self::Log => {}
        }
    }

    /// Returns true if the caller no longer waits.
    fn is_gone(&self) -> bool {
        match self {
            Self::Task(sender) => sender.is_closed(),
            Self::Thread(_) | Self::Log => false,
        }
    }
}

/// A line that waits to be stored.
pub(crate) struct QueuedLine {
    pub(crate) draft: LineDraft,
    pub(crate) kind: QueuedLineKind,
    /// The call, for announcements and outcomes.
    pub(crate) id: String,
    /// The call, if the process has accepted it from another node.
    pub(crate) held: Option<HeldCall>,
    pub(crate) waiter: LineWaiter,
}

impl QueuedLine {
    /// Tells the caller, and the holder of the call, what has become of the line.
    fn answer(self, result: LineResult) {
        if let Some(held) = self.held.filter(|_| self.kind == QueuedLineKind::Outcome) {
            held.set_record(match &result {
                Ok(()) => OutcomeRecord::Stored,
                Err(LineFailure::TakenOver) => OutcomeRecord::TakenOver,
                Err(LineFailure::NotStored(..)) => OutcomeRecord::Failed,
            });
        }
        self.waiter.answer(result);
    }
}

/// The lines that wait, shared by the sink and the writer's task.
#[derive(Default)]
pub(crate) struct LineQueue {
    state: Mutex<QueueState>,
    added: Notify,
    /// Notified when no line waits and none is in flight.
    drained: Notify,
    has_failed: AtomicBool,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<QueuedLine>,
    bytes: usize,
    /// Announced calls without outcome, and the position of the announcement once it is stored.
    announced: HashMap<String, Option<AnnouncedAt>>,
    /// Calls of this process that others have recorded as ended.
    lost: HashSet<String>,
    failure: Option<LineFailure>,
    is_writing: bool,
    is_closed: bool,
}

impl QueueState {
    fn push_back(&mut self, line: QueuedLine) {
        self.bytes += line.draft.max_len();
        self.lines.push_back(line);
    }

    fn pop_front(&mut self) -> Option<QueuedLine> {
        let line = self.lines.pop_front()?;
        self.bytes -= line.draft.max_len();
        Some(line)
    }

    /// Fails a line that will not be stored.
    fn fail(&mut self, line: QueuedLine, failure: LineFailure) {
        if line.kind == QueuedLineKind::Announcement {
            self.announced.remove(&line.id);
        }
        line.answer(Err(failure));
    }

    fn check(&mut self, line: &QueuedLine) -> LineResult {
        if self.is_closed {
            return Err(LineFailure::unreachable(
                "this process is leaving the cluster",
            ));
        }
        let is_open = self.announced.contains_key(&line.id);
        match (line.kind, &self.failure) {
            (QueuedLineKind::Outcome, _) if self.lost.remove(&line.id) => {
                return Err(LineFailure::TakenOver);
            }
            (QueuedLineKind::Outcome, _) if is_open => return Ok(()),
            (QueuedLineKind::Announcement, _) if is_open || self.lost.contains(&line.id) => {
                let text = format!("the call {} is announced already", line.id);
                return Err(LineFailure::NotStored(io::ErrorKind::AlreadyExists, text));
            }
            (QueuedLineKind::Announcement | QueuedLineKind::Other, Some(failure)) => {
                return Err(failure.clone());
            }
            _ => {}
        }
        if self.bytes + line.draft.max_len() > QUEUE_BYTES_MAX {
            let text = format!("{} lines wait to be recorded", self.lines.len());
            return Err(LineFailure::NotStored(io::ErrorKind::WouldBlock, text));
        }
        Ok(())
    }
}

impl LineQueue {
    /// Adds a line, and answers its caller when it is stored or has failed.
    pub(crate) fn submit(&self, line: QueuedLine) {
        let mut state = self.state.lock();
        if let Err(failure) = state.check(&line) {
            drop(state);
            return line.answer(Err(failure));
        }
        if line.kind == QueuedLineKind::Announcement {
            state.announced.insert(line.id.clone(), None);
        }
        state.push_back(line);
        drop(state);
        self.added.notify_one();
    }

    /// Returns true if the announcement of this call is stored, so that the call may have run.
    pub(crate) fn is_announced(&self, id: &str) -> bool {
        matches!(self.state.lock().announced.get(id), Some(Some(_)))
    }

    /// Adds a line of the log itself, unless other lines wait. It is stored even if lines are refused.
    pub(crate) fn add_probe(&self, line: QueuedLine) {
        let mut state = self.state.lock();
        if state.lines.is_empty() && !state.is_closed {
            state.push_back(line);
        }
    }

    /// Returns the reason why lines cannot be stored now.
    pub(crate) fn failure(&self) -> Option<LineFailure> {
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().failure.clone()
    }

    /// Sets or removes the reason why lines cannot be stored.
    pub(crate) fn set_failure(&self, failure: Option<LineFailure>) {
        if failure.is_none() && !self.has_failed.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        match (&state.failure, &failure) {
            (None, Some(LineFailure::NotStored(_, text))) => {
                tracing::error!("the audit log cannot be written, so calls are refused: {text}");
            }
            (Some(_), None) => tracing::warn!("the audit log can be written again"),
            _ => {}
        }
        self.has_failed.store(failure.is_some(), Ordering::Release);
        state.failure = failure;
    }

    /// Waits until there are lines to be stored. After a refusal, also returns when the next attempt is due.
    pub(crate) async fn wait(&self) {
        if self.has_failed.load(Ordering::Acquire) {
            tokio::time::sleep(RETRY_AFTER_REFUSAL).await;
            return;
        }
        while self.state.lock().lines.is_empty() {
            self.added.notified().await;
        }
    }

    /// Takes lines of at most this size for a message of this writer. They count as in flight until they are returned
    /// to [`Self::stored`], [`Self::refuse`] or [`Self::fence`].
    pub(crate) fn take(&self, writer: &str, max_bytes: usize) -> Vec<QueuedLine> {
        let mut state = self.state.lock();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(line) = state.lines.front() {
            let length = line.draft.max_len();
            if bytes + length > max_bytes && !taken.is_empty() {
                break;
            }
            let Some(line) = state.pop_front() else {
                break;
            };
            let is_foreign = line.held.as_ref().is_some_and(|held| held.node != writer);
            if is_foreign {
                state.fail(line, LineFailure::TakenOver);
            } else if line.kind == QueuedLineKind::Announcement && line.waiter.is_gone() {
                state.fail(line, LineFailure::fenced());
            } else if length > max_bytes {
                let text = format!("a line has {length} bytes, more than the servers accept");
                state.fail(
                    line,
                    LineFailure::NotStored(io::ErrorKind::InvalidInput, text),
                );
            } else {
                bytes += length;
                taken.push(line);
            }
        }
        state.is_writing = !taken.is_empty();
        if taken.is_empty() && state.lines.is_empty() {
            self.drained.notify_waiters();
        }
        taken
    }

    /// Returns the announced calls that will have no outcome after these lines, with `None` as the message of those
    /// that are announced by them. `first` is the number of the first line.
    pub(crate) fn open_after(&self, lines: &[QueuedLine], first: u64) -> Vec<AnnouncedAt> {
        let state = self.state.lock();
        let mut open: HashMap<&str, AnnouncedAt> = state
            .announced
            .iter()
            .filter_map(|(id, at)| Some((id.as_str(), (*at)?)))
            .collect();
        for (line, number) in lines.iter().zip(first..) {
            match line.kind {
                QueuedLineKind::Announcement => {
                    let at = AnnouncedAt {
                        message: None,
                        line: number,
                    };
                    open.insert(&line.id, at);
                }
                QueuedLineKind::Outcome => {
                    open.remove(line.id.as_str());
                }
                QueuedLineKind::Other => {}
            }
        }
        open.into_values().collect()
    }

    /// Answers the callers of lines that were stored as lines `first` and following in this message.
    pub(crate) fn stored(&self, lines: Vec<QueuedLine>, first: u64, message: u64) {
        let mut state = self.state.lock();
        for (line, number) in lines.iter().zip(first..) {
            match line.kind {
                QueuedLineKind::Announcement => {
                    let at = AnnouncedAt {
                        message: Some(message),
                        line: number,
                    };
                    state.announced.insert(line.id.clone(), Some(at));
                }
                QueuedLineKind::Outcome => {
                    state.announced.remove(&line.id);
                }
                QueuedLineKind::Other => {}
            }
        }
        self.end_write(&mut state);
        drop(state);
        for line in lines {
            line.answer(Ok(()));
        }
    }

    /// Returns lines that were not stored: outcomes of announced calls wait for the next attempt, others fail.
    pub(crate) fn refuse(&self, lines: Vec<QueuedLine>, failure: &LineFailure) {
        // First, so that callers who learn of the refusal find that the log is not ready.
        self.set_failure(Some(failure.clone()));
        let mut state = self.state.lock();
        for line in lines.into_iter().rev() {
            let is_open = matches!(state.announced.get(&line.id), Some(Some(_)));
            if line.kind == QueuedLineKind::Outcome && is_open {
                state.bytes += line.draft.max_len();
                state.lines.push_front(line);
            } else {
                state.fail(line, failure.clone());
            }
        }
        self.end_write(&mut state);
    }

    /// Ends the announced calls of a writer that others have closed: their outcomes are on record. `lines` were in
    /// flight. Lines that are not about a call of that writer wait for the next one.
    pub(crate) fn fence(&self, writer: &str, lines: Vec<QueuedLine>) {
        let mut state = self.state.lock();
        let waiting = std::mem::take(&mut state.lines);
        state.bytes = 0;
        let announced = std::mem::take(&mut state.announced);
        state.lost.extend(
            announced
                .iter()
                .filter(|(_, at)| at.is_some())
                .map(|(id, _)| id.clone()),
        );
        for line in lines.into_iter().chain(waiting) {
            let is_held = line.held.as_ref().is_some_and(|held| held.node == writer);
            match line.kind {
                _ if is_held => {
                    state.lost.remove(&line.id);
                    line.answer(Err(LineFailure::TakenOver));
                }
                QueuedLineKind::Announcement => line.answer(Err(LineFailure::fenced())),
                QueuedLineKind::Outcome if state.lost.remove(&line.id) => {
                    line.answer(Err(LineFailure::TakenOver));
                }
                QueuedLineKind::Outcome | QueuedLineKind::Other => state.push_back(line),
            }
        }
        self.end_write(&mut state);
        drop(state);
        self.added.notify_one();
    }

    fn end_write(&self, state: &mut QueueState) {
        state.is_writing = false;
        if state.lines.is_empty() {
            self.drained.notify_waiters();
        }
    }

    /// Refuses further lines, and waits until those that were submitted are stored or have failed.
    pub(crate) async fn close(&self) {
        loop {
            let drained = self.drained.notified();
            {
                let mut state = self.state.lock();
                state.is_closed = true;
                if state.lines.is_empty() && !state.is_writing {
                    return;
                }
            }
            drained.await;
        }
    }
}
