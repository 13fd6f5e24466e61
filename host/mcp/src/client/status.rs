//! State of the servers of this process, for a host that shows it to people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mimir_core::{ToolError, ToolErrorCode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Receives the states and the output of the servers of this process. `()` ignores both.
pub trait ServerObserver: Send + Sync {
    /// Called after the state of a server has changed, with the states of all servers by name.
    fn statuses_changed(&self, statuses: &BTreeMap<String, ServerStatus>) {
        let _ = statuses;
    }

    /// Called with a line of a server's stderr, or about the server. Secrets in it are masked.
    fn log_line(&self, server: &str, line: &str) {
        let _ = (server, line);
    }
}

impl ServerObserver for () {}

/// State of a server in one process. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// The state.
    pub state: ServerState,
    /// Time of the last change of `state`.
    pub since: u64,
    /// Number of starts or connections, including failed ones.
    pub starts: u32,
    /// Number of tools, if they were listed.
    pub tools: Option<usize>,
    /// Failed calls in a row.
    pub failed_calls: u32,
    /// Time until which calls fail at once, because too many in a row have failed.
    pub paused_until: Option<u64>,
    /// The last error of a start, of a call or of a running server.
    pub last_error: Option<ServerFault>,
}

/// State of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Not running; the next call starts it.
    Idle,
    /// Running, or connected.
    Running,
    /// The last start failed, or the server ended on its own.
    Failed,
}

/// An error of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFault {
    /// Time of the error, in seconds since 1970.
    pub at: u64,
    /// Code of the error.
    pub code: ToolErrorCode,
    /// Message, with masked secrets.
    pub message: String,
}

impl ServerFault {
    pub(super) fn new(error: &ToolError) -> Self {
        Self {
            at: unix_seconds(),
            code: error.code,
            message: error.message.clone(),
        }
    }
}

impl ServerStatus {
    fn new() -> Self {
        Self {
            state: ServerState::Idle,
            since: unix_seconds(),
            starts: 0,
            tools: None,
            failed_calls: 0,
            paused_until: None,
            last_error: None,
        }
    }

    pub(super) fn set_state(&mut self, state: ServerState) {
        if self.state != state {
            (self.state, self.since) = (state, unix_seconds());
        }
    }
}

/// The states of all servers of this process.
pub(super) struct StatusBoard {
    observer: Arc<dyn ServerObserver>,
    entries: Mutex<BTreeMap<String, (u64, ServerStatus)>>,
    next_owner: AtomicU64,
}

/// The entry of one server. Dropping it removes the entry.
pub(super) struct StatusEntry {
    board: Arc<StatusBoard>,
    server: String,
    /// Distinguishes this server from an earlier one of the same name.
    owner: u64,
}

impl StatusBoard {
    pub(super) fn new(observer: Arc<dyn ServerObserver>) -> Arc<Self> {
        Arc::new(Self {
            observer,
            entries: Mutex::default(),
            next_owner: AtomicU64::new(0),
        })
    }

    /// Returns the entry of a server. It has no state until the first update.
    pub(super) fn entry(self: &Arc<Self>, server: &str) -> StatusEntry {
        StatusEntry {
            board: Arc::clone(self),
            server: server.to_owned(),
            owner: self.next_owner.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, (u64, ServerStatus)>) -> bool) {
        // Held while the observer is called, so that it receives the states in order.
        let mut entries = self.entries.lock();
        if change(&mut entries) {
            let statuses = entries.iter();
            let statuses = statuses.map(|(name, (_, status))| (name.clone(), status.clone()));
            self.observer.statuses_changed(&statuses.collect());
        }
    }
}

impl StatusEntry {
    /// Changes the state. A server that was replaced by another of the same name changes nothing.
    pub(super) fn update(&self, update: impl FnOnce(&mut ServerStatus)) {
        self.board.change(|entries| {
            let entry = entries
                .entry(self.server.clone())
                .or_insert_with(|| (self.owner, ServerStatus::new()));
            if entry.0 > self.owner {
                return false;
            }
            if entry.0 < self.owner {
                *entry = (self.owner, ServerStatus::new());
            }
            let before = entry.1.clone();
            update(&mut entry.1);
            entry.1 != before
        });
    }

    /// Adds a line about the server to its log.
    pub(super) fn log(&self, line: &str) {
        self.board.observer.log_line(&self.server, line);
    }
}

impl Drop for StatusEntry {
    fn drop(&mut self) {
        self.board.change(|entries| {
            let is_own = entries
                .get(&self.server)
                .is_some_and(|(owner, _)| *owner == self.owner);
            is_own && entries.remove(&self.server).is_some()
        });
    }
}

/// Returns the current time in seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |since_epoch| since_epoch.as_secs())
}

/// Returns the time after a pause, in seconds since 1970, rounded up.
pub(super) fn unix_seconds_after(pause: Duration) -> u64 {
    unix_seconds().saturating_add(pause.as_secs_f64().ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<BTreeMap<String, ServerStatus>>>);

    impl ServerObserver for Recorder {
        fn statuses_changed(&self, statuses: &BTreeMap<String, ServerStatus>) {
            self.0.lock().push(statuses.clone());
        }
    }

    #[test]
    fn server_status_of_a_replaced_server_is_not_overwritten() {
        let recorder = Arc::new(Recorder::default());
        let board = StatusBoard::new(Arc::clone(&recorder) as Arc<dyn ServerObserver>);
        let old = board.entry("s");
        old.update(|status| status.set_state(ServerState::Running));
        let new = board.entry("s");
        new.update(|status| status.starts = 7);
        old.update(|status| status.starts = 1);
        drop(old);
        assert_eq!(recorder.0.lock().last().unwrap()["s"].starts, 7);
        // An update that changes nothing is not reported.
        let reported = recorder.0.lock().len();
        new.update(|status| status.starts = 7);
        assert_eq!(recorder.0.lock().len(), reported);
        drop(new);
        assert!(recorder.0.lock().last().unwrap().is_empty());
    }
}
