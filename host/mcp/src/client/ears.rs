//! What a server says without being asked: progress, log lines, that what it has is other than it was, and requests of
//! its own, which the desk of the call deals with in the middle of which they come.

#![expect(
    deprecated,
    reason = "the newest protocol has no sampling, roots and logging; servers of the older ones still do"
)]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mimir_core::call::{LogLevel, LogLine, Progress};
use mimir_core::redact::{REACH, Redactor};
use mimir_core::text::{prefix, visible};
use mimir_core::wish::Want;
use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult,
    ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult,
    LoggingLevel, LoggingMessageNotificationParam, NumberOrString, ProgressNotificationParam,
    ProgressToken, ProtocolVersion, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};

use super::desk::{Desk, Gates};
use super::misfit::misfit;
use super::pace::{self, Pace};
use super::spec::ServerSpec;

/// Characters of a progress message: as many as of a tool of ours. How many are sent on is limited where they are sent.
const MESSAGE_MOST: usize = 500;

/// Characters of a log line that are kept.
const LINE_MOST: usize = 4_096;

/// Progress that is kept for calls that nobody watches yet.
const EARLY_MOST: usize = 64;

/// The calls under way, and what was said of those that nobody watches yet, the newest first.
#[derive(Default)]
struct Watching {
    calls: HashMap<ProgressToken, Arc<Desk>>,
    early: VecDeque<(ProgressToken, Progress)>,
}

/// A resource of a server that is another now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Updated {
    pub(crate) server: String,
    /// By the server's own URI.
    pub(crate) uri: String,
}

/// Tells of resources that are others now.
pub(super) type Updates = broadcast::Sender<Updated>;

/// Hears one server.
pub(super) struct Ears {
    server: String,
    gates: Gates,
    updates: Updates,
    redactor: Redactor,
    watching: Mutex<Watching>,
    logged: Mutex<Pace>,
    /// Whether its tools may be others than when it was asked last.
    stale: AtomicBool,
    /// Told when that is so.
    changed: Notify,
}

impl Ears {
    pub(super) fn new(spec: &ServerSpec, updates: &Updates, redactor: Redactor) -> Arc<Self> {
        Arc::new(Self {
            server: spec.name.clone(),
            gates: spec.gates.clone(),
            updates: updates.clone(),
            redactor,
            watching: Mutex::default(),
            logged: Mutex::new(pace::of_log()),
            stale: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Hands the progress of a call to its desk, and what the server asks for meanwhile.
    pub(super) fn watch(&self, token: ProgressToken, desk: Arc<Desk>) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that what comes now comes after.
        while let Some(at) = watching.early.iter().rposition(|(of, _)| *of == token) {
            if let Some((_, progress)) = watching.early.remove(at) {
                desk.observer().progress(progress);
            }
        }
        watching.calls.insert(token, desk);
    }

    /// The desk that what a server says without naming a call belongs to; none if it may be of one session or another.
    fn desk(&self) -> Option<Arc<Desk>> {
        let watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let mut desks = watching.calls.values();
        let first = desks.next()?;
        desks
            .all(|other| other.session() == first.session())
            .then(|| Arc::clone(first))
    }

    /// Deals with a request of the server's own.
    async fn wish(&self, want: Want, params: Value) -> Result<Value, ErrorData> {
        if !self.gates.lets(want) {
            return Err(unserved(want));
        }
        let Some(desk) = self.desk() else {
            let message = "mimir serves this in the middle of a call alone, and only where it is clear of which";
            return Err(ErrorData::invalid_request(message, None));
        };
        desk.one(want, params).await.map_err(|error| {
            ErrorData::invalid_request(error.to_string(), Some(json!({ "code": error.code })))
        })
    }

    /// The call has ended: what comes later is nobody's.
    pub(super) fn forget(&self, token: &ProgressToken) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        watching.calls.remove(token);
    }

    /// Whether it has to be asked again what its tools are. Asked once, it is taken as done.
    pub(super) fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }

    /// It was asked, and did not say.
    pub(super) fn still_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// A server has said how far a call is.
    pub(super) fn progress(&self, said: &ProgressNotificationParam) {
        // What is no number of steps is none at all.
        let steps = |number: f64| number.max(0.0) as u64;
        let message = said.message.as_deref();
        let progress = Progress {
            done: steps(said.progress),
            total: said.total.map(steps),
            message: message.map(|words| visible(prefix(words, MESSAGE_MOST))),
        };
        let observer = {
            let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
            let token = &said.progress_token;
            match (watching.calls.get(token), &token.0) {
                (Some(desk), _) => Arc::clone(desk.observer()),
                // Its call has been sent, and whoever sent it has not come to watching yet. Our tokens are numbers.
                (None, NumberOrString::Number(_)) => {
                    watching.early.truncate(EARLY_MOST - 1);
                    watching.early.push_front((token.clone(), progress));
                    return;
                }
                (None, NumberOrString::String(_)) => return,
            }
        };
        observer.progress(progress);
    }

    /// A server has written a line of its log.
    pub(super) fn log(&self, line: &LoggingMessageNotificationParam) {
        {
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            if !logged.takes() {
                return;
            }
        }
        let words = match line.data.as_str() {
            Some(words) => words.to_owned(),
            None => line.data.to_string(),
        };
        // Masked before it is cut.
        let mut words = visible(prefix(&words, LINE_MOST + REACH));
        self.redactor.text(&mut words);
        let words = prefix(&words, LINE_MOST).to_owned();
        tracing::info!(server = self.server, level = ?line.level, "{words}");
        // The client hears what its own call has to do with.
        if let Some(desk) = self.desk() {
            desk.observer().log(LogLine {
                level: level(line.level),
                text: words,
            });
        }
    }

    /// A resource is another.
    pub(super) fn updated(&self, uri: String) {
        let server = self.server.clone();
        // Whoever listens to nothing is told nothing.
        let _ = self.updates.send(Updated { server, uri });
    }

    /// What it has is other than it was.
    pub(super) fn changes(&self) {
        self.stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits until the server says that its tools have changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// An answer to a request that was not asked for: nothing of the kind was declared.
fn unserved(want: Want) -> ErrorData {
    let what = want.method();
    ErrorData::new(
        ErrorCode::METHOD_NOT_FOUND,
        format!("mimir does not serve {what} to this server, and has not declared it"),
        None,
    )
}

fn to_value(params: &impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}

fn of_value<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, ErrorData> {
    serde_json::from_value(answer)
        .map_err(|error| ErrorData::internal_error(format!("the answer is none: {error}"), None))
}

/// Hears a server for rmcp; what it hears is shared. Progress and log lines are heard before, in the order in which they
/// come.
#[derive(Clone)]
pub(super) struct Hearing(pub(super) Arc<Ears>);

impl ClientHandler for Hearing {
    fn get_info(&self) -> ClientConfig {
        // What the settings let. Whether the client of a call has it is known when it calls.
        let implementation = Implementation::new("mimir", env!("CARGO_PKG_VERSION"));
        // The newest version has no handshake, and none is asked for by one.
        ClientConfig::new(self.0.gates.declared(|_| true), implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        of_value(self.0.wish(Want::Model, to_value(&params)).await?)
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        of_value(self.0.wish(Want::Roots, json!({})).await?)
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        of_value(self.0.wish(Want::Form, to_value(&params)).await?)
    }

    /// What is none of the requests above: another method, or params that are not those of its own.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let all = [Want::Form, Want::Model, Want::Roots];
        let want = all.into_iter().find(|want| want.method() == request.method);
        Err(match want {
            Some(want) if self.0.gates.lets(want) => misfit(want, request.params),
            Some(want) => unserved(want),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    async fn on_resource_updated(
        &self,
        updated: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.updated(updated.uri);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changes();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changes();
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changes();
    }
}

fn level(theirs: LoggingLevel) -> LogLevel {
    match theirs {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info | LoggingLevel::Notice => LogLevel::Info,
        LoggingLevel::Warning => LogLevel::Warn,
        _ => LogLevel::Error,
    }
}
