//! A copy of an area of shared state that follows all changes, so that values can be read without waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::shared_state::{
    SharedStateError, SharedStateHandle, StateArea, StateChange, StateEntry, StateKey,
    StateRevision, StateWatch,
};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A copy of one area, up to date within the time of a message.
pub struct StateMirror {
    values: Arc<MirroredValues>,
    follow: AbortHandle,
}

#[derive(Default)]
struct MirroredValues {
    entries: RwLock<BTreeMap<StateKey, StateEntry>>,
    /// Number of changes so far.
    changes: watch::Sender<u64>,
    is_closed: AtomicBool,
}

impl StateMirror {
    /// Copies the area and follows its changes on the current runtime. Returns once all existing values are copied.
    pub async fn start(
        state: &SharedStateHandle,
        area: StateArea,
    ) -> Result<Self, SharedStateError> {
        let mut watch = state.watch(area).await?;
        let values = Arc::<MirroredValues>::default();
        loop {
            match watch.next().await {
                Some(StateChange::Current) => break,
                Some(change) => values.apply(change),
                None => {
                    return Err(SharedStateError::Unreachable {
                        location: state.location(),
                        text: "the connection was closed".to_owned(),
                    });
                }
            }
        }
        let follow = tokio::spawn(follow(watch, Arc::clone(&values)));
        Ok(Self {
            values,
            follow: follow.abort_handle(),
        })
    }

    /// Returns a value.
    pub fn get(&self, key: &StateKey) -> Option<StateEntry> {
        self.values.entries.read().get(key).cloned()
    }

    /// Returns the values whose key begins with `prefix`, sorted by key.
    pub fn list(&self, prefix: &StateKey) -> Vec<StateEntry> {
        let entries = self.values.entries.read();
        let from_prefix = entries.range(prefix.clone()..);
        // Keys that only begin with the same text are in between.
        let in_range = from_prefix.take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()));
        let matching = in_range.filter(|(key, _)| key.starts_with(prefix));
        matching.map(|(_, entry)| entry.clone()).collect()
    }

    /// Returns a receiver of the number of changes so far.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.values.changes.subscribe()
    }

    /// Applies a change that this process has made, so that it is seen before the store reports it.
    pub fn set(&self, entry: StateEntry) {
        self.values.apply(StateChange::Set(entry));
    }

    /// Applies a removal by this process.
    pub fn remove(&self, key: &StateKey) {
        self.values.apply(StateChange::Removed(key.clone()));
    }

    /// Applies a removal by this process of the value with this revision. A newer value stays.
    pub fn remove_version(&self, key: &StateKey, revision: StateRevision) {
        let mut entries = self.values.entries.write();
        if entries
            .get(key)
            .is_some_and(|known| known.revision <= revision)
        {
            entries.remove(key);
            drop(entries);
            self.values.changes.send_modify(|count| *count += 1);
        }
    }

    /// Returns true if the store was closed, so that changes are not seen any more.
    pub fn is_closed(&self) -> bool {
        self.values.is_closed.load(Ordering::Acquire)
    }
}

impl Drop for StateMirror {
    fn drop(&mut self) {
        self.follow.abort();
    }
}

impl MirroredValues {
    fn apply(&self, change: StateChange) {
        let mut entries = self.entries.write();
        match change {
            StateChange::Set(entry) => {
                let known = entries.get(&entry.key);
                if known.is_some_and(|known| known.revision >= entry.revision) {
                    return;
                }
                entries.insert(entry.key.clone(), entry);
            }
            StateChange::Removed(key) => {
                if entries.remove(&key).is_none() {
                    return;
                }
            }
            StateChange::Current => return,
        }
        drop(entries);
        self.changes.send_modify(|count| *count += 1);
    }
}

async fn follow(mut watch: Box<dyn StateWatch>, values: Arc<MirroredValues>) {
    while let Some(change) = watch.next().await {
        values.apply(change);
    }
    values.is_closed.store(true, Ordering::Release);
    values.changes.send_modify(|count| *count += 1);
}
