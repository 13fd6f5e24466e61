//! Messages that a server sends on its own: progress, log lines, change notifications, and requests, which the input
//! request broker of the current call handles.

#![expect(
    deprecated,
    reason = "the newest protocol has no sampling, roots and logging; servers of the older ones still do"
)]

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Maximum length of a progress message in characters, as for other tools. The rate is limited by the sender to the
/// client.
const MESSAGE_MOST: usize = 500;

/// Maximum length of a log line in characters.
const LINE_MOST: usize = 4_096;

/// Number of progress messages that are stored for calls without an observer yet.
const EARLY_MOST: usize = 64;

/// Calls in progress, and early progress of calls without an observer yet, newest first.
#[derive(Default)]
struct Watching {
    calls: HashMap<ProgressToken, Arc<Desk>>,
    early: VecDeque<(ProgressToken, Progress)>,
}

/// A changed resource of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Updated {
    pub(crate) server: String,
    /// The server's own URI.
    pub(crate) uri: String,
}

/// Channel for changed resources.
pub(super) type Updates = broadcast::Sender<Updated>;

/// Receives the messages of one server.
pub(super) struct Ears {
    server: String,
    gates: Gates,
    updates: Updates,
    redactor: Redactor,
    watching: Mutex<Watching>,
    logged: Mutex<Pace>,
    /// Set if the tools may have changed since they were last listed.
    stale: AtomicBool,
    /// Notified when `stale` is set.
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

    /// Registers a call: its progress and the server's requests go to its broker.
    pub(super) fn watch(&self, token: ProgressToken, desk: Arc<Desk>) {
        let mut watching = self.watching.lock();
        // Holding the lock ensures that progress received from now on is delivered after the early one.
        while let Some(at) = watching.early.iter().rposition(|(of, _)| *of == token) {
            if let Some((_, progress)) = watching.early.remove(at) {
                desk.observer().progress(progress);
            }
        }
        watching.calls.insert(token, desk);
    }

    /// Returns the broker for messages that name no call; none if they may belong to one session or another.
    fn desk(&self) -> Option<Arc<Desk>> {
        let watching = self.watching.lock();
        let mut desks = watching.calls.values();
        let first = desks.next()?;
        desks
            .all(|other| other.session() == first.session())
            .then(|| Arc::clone(first))
    }

    /// Handles a request of the server.
    async fn wish(&self, want: Want, params: Value) -> Result<Value, ErrorData> {
        if !self.gates.lets(want) {
            return Err(unserved(want));
        }
        let Some(desk) = self.desk() else {
            let message = "mimir only serves this request during a call, and only if it is clear which call it belongs to";
            return Err(ErrorData::invalid_request(message, None));
        };
        desk.one(want, params).await.map_err(|error| {
            ErrorData::invalid_request(error.to_string(), Some(json!({ "code": error.code })))
        })
    }

    /// Unregisters an ended call: later messages for it are dropped.
    pub(super) fn forget(&self, token: &ProgressToken) {
        let mut watching = self.watching.lock();
        watching.calls.remove(token);
    }

    /// Returns true if the tools have to be listed again, and clears the flag.
    pub(super) fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }

    /// Sets the flag again after a failed attempt to list the tools.
    pub(super) fn still_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Handles a progress notification.
    pub(super) fn progress(&self, said: &ProgressNotificationParam) {
        // NaN and negative numbers count as zero steps.
        let steps = |number: f64| number.max(0.0) as u64;
        let message = said.message.as_deref();
        let progress = Progress {
            done: steps(said.progress),
            total: said.total.map(steps),
            message: message.map(|words| visible(prefix(words, MESSAGE_MOST))),
        };
        let observer = {
            let mut watching = self.watching.lock();
            let token = &said.progress_token;
            match (watching.calls.get(token), &token.0) {
                (Some(desk), _) => Arc::clone(desk.observer()),
                // The call has been sent, but is not registered yet. Our tokens are numbers.
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

    /// Handles a log message.
    pub(super) fn log(&self, line: &LoggingMessageNotificationParam) {
        {
            let mut logged = self.logged.lock();
            if !logged.takes() {
                return;
            }
        }
        let words = match line.data.as_str() {
            Some(words) => words.to_owned(),
            None => line.data.to_string(),
        };
        // Masked before truncation, so that no partial secret remains.
        let mut words = visible(prefix(&words, LINE_MOST + REACH));
        self.redactor.text(&mut words);
        let words = prefix(&words, LINE_MOST).to_owned();
        tracing::info!(server = self.server, level = ?line.level, "{words}");
        // A client only gets logs that belong to its own call.
        if let Some(desk) = self.desk() {
            desk.observer().log(LogLine {
                level: level(line.level),
                text: words,
            });
        }
    }

    /// Handles a resource update.
    pub(super) fn updated(&self, uri: String) {
        let server = self.server.clone();
        // An error means that there are no subscribers.
        let _ = self.updates.send(Updated { server, uri });
    }

    /// Marks the lists as changed.
    pub(super) fn changes(&self) {
        self.stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits until the server's tools have changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Returns the error for a request that mimir did not declare to support.
fn unserved(want: Want) -> ErrorData {
    let what = want.method();
    ErrorData::new(
        ErrorCode::METHOD_NOT_FOUND,
        format!("mimir does not support {what} for this server, and has not declared it"),
        None,
    )
}

fn to_value(params: &impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}

fn of_value<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, ErrorData> {
    serde_json::from_value(answer).map_err(|error| {
        ErrorData::internal_error(format!("the answer is not valid: {error}"), None)
    })
}

/// rmcp's client handler for a server. Clones share their state. Progress and log messages are not handled here, but
/// earlier, in the order of arrival.
#[derive(Clone)]
pub(super) struct Hearing(pub(super) Arc<Ears>);

impl ClientHandler for Hearing {
    fn get_info(&self) -> ClientConfig {
        // Declares all requests that the settings allow. Support by the client of a call is known only when it calls.
        let implementation = Implementation::new("mimir", env!("CARGO_PKG_VERSION"));
        // The newest version has no handshake, so none is requested here.
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

    /// Handles every other request: an unknown method, or params that do not match the method.
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
