//! What a server says without being asked: progress, log lines, that its tools have changed, and requests of its own,
//! of which none is served that was not declared.

#![expect(
    deprecated,
    reason = "the newest protocol has no sampling, roots and logging; servers of the older ones still do"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mimir_core::call::{Observer, Progress};
use mimir_core::text::{prefix, visible};
use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorData, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::Notify;

/// Progress of one call that is passed on, and characters of each message: as much as of a tool of ours.
const PROGRESS_MOST: u32 = 1_000;
const MESSAGE_MOST: usize = 500;

/// Log lines of a server that are kept, and characters of each: who wants more reads the server's own log.
const LOG_MOST: u32 = 1_000;
const LINE_MOST: usize = 4_096;

/// Who watches a call, and how much was told already.
struct Watcher {
    observer: Arc<dyn Observer>,
    told: u32,
}

/// Hears one server.
pub(super) struct Ears {
    server: String,
    watching: Mutex<HashMap<ProgressToken, Watcher>>,
    logged: Mutex<u32>,
    /// Whether its tools may be others than when it was asked last.
    stale: AtomicBool,
    /// Told when that is so.
    changed: Notify,
}

impl Ears {
    pub(super) fn new(server: &str) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            watching: Mutex::default(),
            logged: Mutex::default(),
            stale: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Hands the progress of a call to whoever watches it.
    pub(super) fn watch(&self, token: ProgressToken, observer: Arc<dyn Observer>) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        watching.insert(token, Watcher { observer, told: 0 });
    }

    /// The call has ended: what comes later is nobody's.
    pub(super) fn forget(&self, token: &ProgressToken) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        watching.remove(token);
    }

    /// Whether it has to be asked again what its tools are. Asked once, it is taken as done.
    pub(super) fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }

    /// It was asked, and did not say.
    pub(super) fn still_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Waits until the server says that its tools have changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// An answer to a request that was not asked for: nothing of the kind was declared.
fn unserved(what: &str) -> ErrorData {
    ErrorData::new(
        rmcp::model::ErrorCode::METHOD_NOT_FOUND,
        format!("mimir does not serve {what} to the servers behind it, and has not declared it"),
        None,
    )
}

/// Hears a server for rmcp; what it hears is shared.
#[derive(Clone)]
pub(super) struct Hearing(pub(super) Arc<Ears>);

impl ClientHandler for Hearing {
    fn get_info(&self) -> ClientConfig {
        // Nothing is declared, because nothing of a server's own requests is served.
        let implementation = Implementation::new("mimir", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(rmcp::model::ClientCapabilities::default(), implementation)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(unserved("sampling"))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(unserved("roots"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(unserved("elicitation"))
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let observer = {
            let mut watching = self
                .0
                .watching
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let Some(watcher) = watching.get_mut(&progress.progress_token) else {
                return;
            };
            watcher.told += 1;
            if watcher.told > PROGRESS_MOST {
                return;
            }
            Arc::clone(&watcher.observer)
        };
        // What is no number of steps is none at all.
        let steps = |number: f64| number.max(0.0) as u64;
        let message = progress.message.as_deref();
        observer.progress(Progress {
            done: steps(progress.progress),
            total: progress.total.map(steps),
            message: message.map(|words| visible(prefix(words, MESSAGE_MOST))),
        });
    }

    async fn on_logging_message(
        &self,
        line: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        {
            let mut logged = self.0.logged.lock().unwrap_or_else(PoisonError::into_inner);
            if *logged >= LOG_MOST {
                return;
            }
            *logged += 1;
        }
        let words = match line.data.as_str() {
            Some(words) => words.to_owned(),
            None => line.data.to_string(),
        };
        let words = visible(prefix(&words, LINE_MOST));
        tracing::info!(server = self.0.server, level = ?line.level, "{words}");
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.stale.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }
}
