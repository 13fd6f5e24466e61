//! The live nodes, as this process knows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::shared_state::{
    SharedState, SharedStateHandle, StateArea, StateChange, StateEntry, StateKey, StateRevision,
};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::NodeEntry;

/// First part of the keys of node entries.
const NODE_KEYS: &str = "node";

/// First part of the keys of writers that are not closed.
const WRITER_KEYS: &str = "writer";

/// Time until a failed watch is started again.
const WATCH_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Interval at which nodes are checked whose entry was not renewed in time, and the time after which they are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const STALE_AFTER: Duration = Duration::from_secs(4);

/// Returns the key of a node's entry.
pub(crate) fn node_key(node: &str) -> StateKey {
    StateKey::new([NODE_KEYS, node])
}

/// Returns the prefix of the keys of node entries.
pub(crate) fn node_keys() -> StateKey {
    StateKey::new([NODE_KEYS])
}

/// Returns the key that exists while a node's writer is not closed.
pub(crate) fn writer_key(node: &str) -> StateKey {
    StateKey::new([WRITER_KEYS, node])
}

/// Returns the prefix of the keys of writers that are not closed.
pub(crate) fn writer_keys() -> StateKey {
    StateKey::new([WRITER_KEYS])
}

/// Returns the id in a key with this first part.
pub(crate) fn id_of<'a>(key: &'a StateKey, first: &StateKey) -> Option<&'a str> {
    key.as_str()
        .strip_prefix(first.as_str())
        .and_then(|rest| rest.strip_prefix('.'))
}

/// The live nodes. Clones share the view, which follows the shared state.
#[derive(Clone)]
pub struct NodeView(Arc<ViewParts>);

struct ViewParts {
    nodes: RwLock<BTreeMap<String, ViewedNode>>,
    version: watch::Sender<u64>,
}

struct ViewedNode {
    entry: Arc<NodeEntry>,
    revision: StateRevision,
    /// Time at which this revision was first seen.
    seen: Instant,
}

impl NodeView {
    pub(crate) fn empty() -> Self {
        Self(Arc::new(ViewParts {
            nodes: RwLock::default(),
            version: watch::Sender::new(0),
        }))
    }

    /// Returns a node, or `None` if its lease has ended.
    pub fn get(&self, node: &str) -> Option<Arc<NodeEntry>> {
        let nodes = self.0.nodes.read();
        nodes.get(node).map(|node| Arc::clone(&node.entry))
    }

    /// Returns all nodes, sorted by id.
    pub fn list(&self) -> Vec<Arc<NodeEntry>> {
        let nodes = self.0.nodes.read();
        nodes.values().map(|node| Arc::clone(&node.entry)).collect()
    }

    /// Returns a receiver that is notified of each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    /// Waits until a node's lease has ended.
    pub async fn ended(&self, node: &str) {
        let mut changes = self.changes();
        while self.get(node).is_some() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn notify(&self) {
        self.0.version.send_modify(|version| *version += 1);
    }

    /// Follows the shared state. `on_ended` is called with the id of each node whose lease has ended.
    pub(crate) async fn follow(self, state: SharedStateHandle, on_ended: impl Fn(&str)) {
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let Ok(mut changes) = state.watch(StateArea::Nodes).await else {
                tokio::time::sleep(WATCH_RETRY_INTERVAL).await;
                continue;
            };
            loop {
                tokio::select! {
                    change = changes.next() => match change {
                        Some(change) => self.apply(change, &on_ended),
                        None => break,
                    },
                    _ = sweep.tick() => self.check_stale_nodes(&*state, &on_ended).await,
                }
            }
            tokio::time::sleep(WATCH_RETRY_INTERVAL).await;
        }
    }

    fn apply(&self, change: StateChange, on_ended: &impl Fn(&str)) {
        let first = node_keys();
        match change {
            StateChange::Set(entry) => {
                if let Some(id) = id_of(&entry.key, &first) {
                    self.set(id, &entry);
                }
            }
            StateChange::Removed(key) => {
                if let Some(id) = id_of(&key, &first) {
                    self.remove(id, on_ended);
                }
            }
            // Nodes that ended while the watch was interrupted are found by `check_stale_nodes`.
            StateChange::Current => {}
        }
        self.notify();
    }

    fn set(&self, id: &str, entry: &StateEntry) {
        let nodes = self.0.nodes.read();
        let is_known = nodes
            .get(id)
            .is_some_and(|node| node.revision == entry.revision);
        drop(nodes);
        if is_known {
            return;
        }
        match serde_json::from_slice::<NodeEntry>(&entry.value) {
            Ok(node) if node.id == id => {
                let node = ViewedNode {
                    entry: Arc::new(node),
                    revision: entry.revision,
                    seen: Instant::now(),
                };
                self.0.nodes.write().insert(id.to_owned(), node);
            }
            _ => tracing::warn!(
                key = entry.key.as_str(),
                "the entry of a node is not valid; it is ignored"
            ),
        }
    }

    fn remove(&self, id: &str, on_ended: &impl Fn(&str)) {
        if self.0.nodes.write().remove(id).is_some() {
            on_ended(id);
        }
    }

    /// Checks the nodes that were not renewed in time: a watch may miss removals. A read also removes an entry that the
    /// servers have kept though it is not renewed.
    async fn check_stale_nodes(&self, state: &dyn SharedState, on_ended: &impl Fn(&str)) {
        let stale: Vec<String> = {
            let nodes = self.0.nodes.read();
            let stale = nodes
                .iter()
                .filter(|(_, node)| node.seen.elapsed() > STALE_AFTER);
            stale.map(|(id, _)| id.clone()).collect()
        };
        for id in stale {
            match state.get(StateArea::Nodes, &node_key(&id)).await {
                Ok(Some(entry)) => self.set(&id, &entry),
                Ok(None) => {
                    self.remove(&id, on_ended);
                    self.notify();
                }
                // The lease may still be renewed.
                Err(_) => return,
            }
        }
    }
}
