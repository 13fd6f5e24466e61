//! The stream of events: running calls, questions, new lines of the log, the order to stop, and changed lists.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::stream::{self, StreamExt as _};
use mimir_audit::{AuditEntry, AuditLog, LogFollower};
use mimir_console::{ConsoleEvent, ConsoleEventKind, ConsoleEvents};
use mimir_core::ToolError;
use mimir_core::approval::ApprovalAnswer;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use mimir::live_calls::{LiveCallUpdates, LiveUpdate};
use mimir::shared_questions::{QuestionState, SharedQuestion};

use super::ConsoleState;
use super::live::stop_value;
use super::previews;
use super::questions::question_value;
use super::record_source::ClusterSource;
use super::stored_approvals::approvals_stamp;
use super::visible_text::make_visible;
use super::workspace::blocking;

/// Number of events that a slow reader may be behind. After that, events of calls are dropped by the hub.
const EVENTS: usize = 1_024;

/// Interval at which the log is read.
const RECORD_INTERVAL: Duration = Duration::from_millis(200);

/// Interval at which the order to stop is read.
const STOP_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which files are compared, and open questions are checked.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);

/// Time before a source of events that has failed is used again.
const RETRY_TIME: Duration = Duration::from_secs(1);

/// Returns the events from now on. The sources end with the stream.
pub fn follow(state: Arc<ConsoleState>) -> ConsoleEvents {
    let (send, receive) = mpsc::channel(EVENTS);
    let send = EventSender(send);
    // Before the page takes its snapshot.
    let calls = state.hub.subscribe();
    tokio::spawn(follow_calls(calls, send.clone()));
    tokio::spawn(follow_agents(state.hub.stop_changes(), send.clone()));
    tokio::spawn(follow_questions(Arc::clone(&state), send.clone()));
    tokio::spawn(follow_record(Arc::clone(&state), send.clone()));
    tokio::spawn(follow_stops(Arc::clone(&state), send.clone()));
    tokio::spawn(follow_changes(state, send));
    stream::unfold(receive, |mut receive| async move {
        let event = receive.recv().await?;
        Some((event, receive))
    })
    .boxed()
}

/// The reader is gone.
struct ReaderGone;

#[derive(Clone)]
struct EventSender(mpsc::Sender<ConsoleEvent>);

impl EventSender {
    async fn send(&self, kind: ConsoleEventKind, data: &impl Serialize) -> Result<(), ReaderGone> {
        match ConsoleEvent::new(kind, data) {
            Ok(event) => self.0.send(event).await.map_err(|_| ReaderGone),
            Err(error) => {
                tracing::error!(%error, "an event of the console cannot be encoded");
                Ok(())
            }
        }
    }

    async fn changed(&self, what: &str) -> Result<(), ReaderGone> {
        self.send(ConsoleEventKind::Changed, &json!({ "what": what }))
            .await
    }
}

async fn follow_calls(mut updates: LiveCallUpdates, send: EventSender) {
    loop {
        let update = tokio::select! {
            update = updates.next() => update,
            () = send.0.closed() => return,
        };
        let sent = match update {
            Some(LiveUpdate::Events(events)) => send_calls(&send, &events).await,
            // The page takes a snapshot again.
            Some(LiveUpdate::Missed) => send.changed("calls").await,
            None => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Reports that agents were stopped or may work again.
async fn follow_agents(mut stops: watch::Receiver<()>, send: EventSender) {
    loop {
        tokio::select! {
            changed = stops.changed() => if changed.is_err() { return },
            () = send.0.closed() => return,
        }
        if send.changed("agents").await.is_err() {
            return;
        }
    }
}

async fn send_calls<T: Serialize>(send: &EventSender, events: &[T]) -> Result<(), ReaderGone> {
    for event in events {
        send.send(ConsoleEventKind::Call, event).await?;
    }
    Ok(())
}

async fn follow_questions(state: Arc<ConsoleState>, send: EventSender) {
    while !send.0.is_closed() {
        // So that the first question does not wait for it.
        if let Err(error) = state.workspace.load().await {
            tracing::warn!(%error, "questions are not shown, because the settings cannot be read");
        } else if watch_questions(&state, &send).await.is_err() {
            return;
        }
        tokio::time::sleep(RETRY_TIME).await;
    }
}

/// Follows the questions until the store was closed.
async fn watch_questions(state: &Arc<ConsoleState>, send: &EventSender) -> Result<(), ReaderGone> {
    let mut watch = match state.questions.watch().await {
        Ok(watch) => watch,
        Err(error) => {
            tracing::warn!(%error, "questions are not shown");
            return Ok(());
        }
    };
    let (previewed, mut with_preview) = mpsc::channel(EVENTS);
    let mut open: HashMap<String, ShownQuestion> = HashMap::new();
    // Those that were asked between the snapshot of the page and the start of the watch.
    match state.questions.open_questions().await {
        Ok(questions) => {
            for question in questions {
                show_question(state, send, &previewed, &mut open, question).await?;
            }
        }
        Err(error) => tracing::warn!(%error, "questions that are open already are not shown"),
    }
    let mut check = tokio::time::interval(CHANGE_INTERVAL);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            question = watch.next() => match question {
                Some(question) => show_question(state, send, &previewed, &mut open, question).await?,
                None => return Ok(()),
            },
            // Here, so that a question is never shown again after its end.
            Some(id) = with_preview.recv() => {
                if let Some(shown) = open.get_mut(&id) {
                    shown.update_preview(state, send).await?;
                }
            }
            _ = check.tick() => {
                let mut ended = Vec::new();
                for shown in open.values_mut() {
                    if state.questions.takes_answer(&shown.question).await {
                        shown.update_preview(state, send).await?;
                    } else {
                        ended.push(shown.question.id.clone());
                    }
                }
                for id in ended {
                    open.remove(&id);
                    send_end(send, &id, "expired", None).await?;
                }
            }
            () = send.0.closed() => return Err(ReaderGone),
        }
    }
}

/// An open question, and what the page of a stream shows of it.
struct ShownQuestion {
    question: SharedQuestion,
    /// Digest of the preview that was sent. `None` before it is computed, and for calls that change nothing.
    preview: Option<String>,
}

impl ShownQuestion {
    /// Sends the question with this preview.
    async fn send(
        &mut self,
        state: &ConsoleState,
        send: &EventSender,
        preview: Option<Value>,
    ) -> Result<(), ReaderGone> {
        let digest = preview.as_ref().and_then(previews::digest);
        self.preview = digest.map(str::to_owned);
        send_question(state, send, &self.question, preview).await
    }

    /// Sends the question again if its preview was computed, or replaced because of an answer on any page.
    async fn update_preview(
        &mut self,
        state: &ConsoleState,
        send: &EventSender,
    ) -> Result<(), ReaderGone> {
        // `None` if it was dropped for those of later questions: the page keeps what it shows.
        let Some(preview) = state.previews.get(&self.question.id) else {
            return Ok(());
        };
        if preview.as_ref().and_then(previews::digest) != self.preview.as_deref() {
            self.send(state, send, preview).await?;
        }
        Ok(())
    }
}

/// Sends a question that is new or has changed.
async fn show_question(
    state: &Arc<ConsoleState>,
    send: &EventSender,
    previewed: &mpsc::Sender<String>,
    open: &mut HashMap<String, ShownQuestion>,
    question: SharedQuestion,
) -> Result<(), ReaderGone> {
    match &question.state {
        QuestionState::Open => {
            if !state.questions.takes_answer(&question).await {
                return Ok(());
            }
            let mut shown = ShownQuestion {
                question: question.clone(),
                preview: None,
            };
            let preview = state.previews.get(&question.id).flatten();
            shown.send(state, send, preview).await?;
            open.insert(question.id.clone(), shown);
            tokio::spawn(add_preview(Arc::clone(state), previewed.clone(), question));
            Ok(())
        }
        QuestionState::Answered(given) => {
            open.remove(&question.id);
            let answer = Some((&given.answer, given.by.as_str()));
            send_end(send, &question.id, "answered", answer).await
        }
        QuestionState::Expired => {
            open.remove(&question.id);
            send_end(send, &question.id, "expired", None).await
        }
    }
}

async fn send_end(
    send: &EventSender,
    id: &str,
    state: &str,
    answer: Option<(&ApprovalAnswer, &str)>,
) -> Result<(), ReaderGone> {
    let mut value = json!({ "id": id, "state": state });
    if let Some((answer, by)) = answer {
        value["answer"] = json!(answer.as_str());
        value["by"] = json!(by);
    }
    make_visible(&mut value);
    send.send(ConsoleEventKind::QuestionEnded, &value).await
}

async fn send_question(
    state: &ConsoleState,
    send: &EventSender,
    question: &SharedQuestion,
    preview: Option<Value>,
) -> Result<(), ReaderGone> {
    match question_event(state, question, preview).await {
        Ok(value) => send.send(ConsoleEventKind::Question, &value).await,
        Err(error) => {
            tracing::warn!(%error, "a question cannot be shown");
            Ok(())
        }
    }
}

async fn question_event(
    state: &ConsoleState,
    question: &SharedQuestion,
    preview: Option<Value>,
) -> Result<Value, ToolError> {
    let workspace = state.workspace.recent().await?;
    let snapshot = workspace.snapshot();
    let tool = snapshot.registry.get(&question.card.tool);
    let redactor = workspace.redactor()?;
    let mut value = question_value(question, tool.map(Arc::as_ref), preview, &redactor);
    make_visible(&mut value);
    Ok(value)
}

/// Computes the preview of a question unless it is known, and passes the id of the question on.
async fn add_preview(
    state: Arc<ConsoleState>,
    previewed: mpsc::Sender<String>,
    question: SharedQuestion,
) {
    if let Ok(workspace) = state.workspace.load().await {
        state.previews.fill(&workspace, &question).await;
        // Fails if the watch has ended.
        let _ = previewed.send(question.id).await;
    }
}

async fn follow_record(state: Arc<ConsoleState>, send: EventSender) {
    if let Some(cluster) = &state.cluster {
        let source = ClusterSource::new(cluster);
        return follow_cluster(source, send).await;
    }
    let log = AuditLog::at(state.workspace.folder().audit());
    while !send.0.is_closed() {
        let log = log.clone();
        let opened = blocking(move || {
            let snapshot = log.snapshot().map_err(ToolError::execution)?;
            LogFollower::after(&log, snapshot).map_err(ToolError::execution)
        });
        match opened.await {
            Ok(follower) => {
                if read_record(&send, follower).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%error, "new lines of the audit log are not shown"),
        }
        tokio::time::sleep(RETRY_TIME).await;
    }
}

/// Sends new lines of the log of a cluster.
async fn follow_cluster(source: ClusterSource, send: EventSender) {
    let mut last = None;
    loop {
        let reader = source.clone();
        let read = blocking(move || {
            let Some(last) = last else {
                return Ok((reader.last_message()?, Vec::new()));
            };
            let mut lines = Vec::new();
            let last = reader.visit_from(last + 1, |line| {
                lines.extend(AuditEntry::read(&line).map(|entry| line.shown(&entry)));
                ControlFlow::Continue(())
            })?;
            Ok((last, lines))
        });
        let interval = match read.await {
            Ok((sequence, lines)) => {
                last = Some(sequence);
                for mut value in lines {
                    make_visible(&mut value);
                    if send.send(ConsoleEventKind::Record, &value).await.is_err() {
                        return;
                    }
                }
                RECORD_INTERVAL
            }
            Err(error) => {
                tracing::warn!(%error, "the audit log of the cluster cannot be read");
                RETRY_TIME
            }
        };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = send.0.closed() => return,
        }
    }
}

/// Sends new lines of the log until it cannot be read.
async fn read_record(send: &EventSender, mut follower: LogFollower) -> Result<(), ReaderGone> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(RECORD_INTERVAL) => {}
            () = send.0.closed() => return Err(ReaderGone),
        }
        let read = blocking(move || {
            let lines = follower.poll().map_err(ToolError::execution)?;
            Ok((follower, lines))
        });
        let lines = match read.await {
            Ok((used, lines)) => {
                follower = used;
                lines
            }
            Err(error) => {
                tracing::warn!(%error, "the audit log cannot be read");
                return Ok(());
            }
        };
        for entry in lines.iter().filter_map(|line| AuditEntry::read(line)) {
            let mut value = entry.value().clone();
            make_visible(&mut value);
            send.send(ConsoleEventKind::Record, &value).await?;
        }
    }
}

async fn follow_stops(state: Arc<ConsoleState>, send: EventSender) {
    let Ok(order) = state.stop_order() else {
        return;
    };
    let mut known = None;
    loop {
        if let Ok(notice) = order.read().await {
            let mut value = stop_value(notice.as_ref());
            make_visible(&mut value);
            // The first value, too: the page may have loaded its state just before the order.
            if known.as_ref() != Some(&value)
                && send.send(ConsoleEventKind::Stop, &value).await.is_err()
            {
                return;
            }
            known = Some(value);
        }
        tokio::select! {
            () = tokio::time::sleep(STOP_INTERVAL) => {}
            () = send.0.closed() => return,
        }
    }
}

/// The state of the files behind each list.
async fn list_stamps(state: &ConsoleState) -> Result<Vec<(&'static str, String)>, ToolError> {
    let stamps = state.read(|setup| {
        let workspace = &setup.workspace;
        let stamp = |paths: &[std::path::PathBuf]| {
            let stamps: Vec<Option<(SystemTime, u64)>> = paths
                .iter()
                .map(|path| {
                    let metadata = std::fs::metadata(path).ok()?;
                    Some((metadata.modified().ok()?, metadata.len()))
                })
                .collect();
            format!("{stamps:?}")
        };
        let mut files = vec![workspace.lock(), workspace.tools()];
        files.extend(setup.approvals().map(|store| store.path().to_owned()));
        let settings = format!("{:?}", setup.settings.digests());
        Ok(vec![
            ("policy", format!("{settings} {}", approvals_stamp(setup))),
            ("tools", format!("{settings} {}", stamp(&files))),
            ("undo", stamp(&[workspace.state().join("backups")])),
            ("servers", super::servers::states(setup)),
        ])
    });
    stamps.await
}

async fn follow_changes(state: Arc<ConsoleState>, send: EventSender) {
    let mut known: HashMap<&'static str, String> = HashMap::new();
    loop {
        // Settings that cannot be read now have not changed for the page.
        for (list, stamp) in list_stamps(&state).await.unwrap_or_default() {
            let before = known.insert(list, stamp.clone());
            let has_changed = before.is_some_and(|before| before != stamp);
            if has_changed && send.changed(list).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(CHANGE_INTERVAL) => {}
            () = send.0.closed() => return,
        }
    }
}
