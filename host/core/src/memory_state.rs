//! Shared state in the memory of one process, for tests and for several pipelines in one process.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backend::BoxFuture;
use crate::shared_state::{
    SharedState, SharedStateError, StateArea, StateChange, StateEntry, StateKey, StateRevision,
    StateWatch,
};

/// Shared state in the memory of one process.
#[derive(Default)]
pub struct MemoryState {
    inner: Arc<MemoryStateInner>,
}

#[derive(Default)]
struct MemoryStateInner {
    values: Mutex<MemoryValues>,
    changed: Notify,
}

#[derive(Default)]
struct MemoryValues {
    entries: BTreeMap<(StateArea, StateKey), MemoryEntry>,
    counts: HashMap<StateKey, VecDeque<Instant>>,
    revision: StateRevision,
    /// True if accesses fail.
    is_unreachable: bool,
    accesses: u64,
}

struct MemoryEntry {
    value: Vec<u8>,
    revision: StateRevision,
    ends_at: Option<Instant>,
}

impl MemoryValues {
    /// Counts an access, and removes the values whose lifetime has ended.
    fn begin(&mut self) -> Result<(), SharedStateError> {
        self.accesses += 1;
        if self.is_unreachable {
            return Err(SharedStateError::Unreachable {
                location: "memory".to_owned(),
                text: "set to unreachable".to_owned(),
            });
        }
        let now = Instant::now();
        self.entries
            .retain(|_, entry| entry.ends_at.is_none_or(|ends_at| now < ends_at));
        Ok(())
    }

    fn set(
        &mut self,
        area: StateArea,
        key: &StateKey,
        value: Vec<u8>,
        lifetime: Option<Duration>,
    ) -> StateRevision {
        self.revision += 1;
        let entry = MemoryEntry {
            value,
            revision: self.revision,
            ends_at: lifetime.map(|lifetime| Instant::now() + lifetime),
        };
        self.entries.insert((area, key.clone()), entry);
        self.revision
    }

    fn revision(&self, area: StateArea, key: &StateKey) -> Option<StateRevision> {
        let entry = self.entries.get(&(area, key.clone()));
        entry.map(|entry| entry.revision)
    }

    fn list(&self, area: StateArea, prefix: Option<&StateKey>) -> Vec<StateEntry> {
        let entries = self.entries.iter().filter(|((of, key), _)| {
            *of == area && prefix.is_none_or(|prefix| key.starts_with(prefix))
        });
        entries
            .map(|((_, key), entry)| StateEntry {
                key: key.clone(),
                value: entry.value.clone(),
                revision: entry.revision,
            })
            .collect()
    }
}

impl MemoryState {
    /// Makes all accesses fail, or work again.
    pub fn set_unreachable(&self, is_unreachable: bool) {
        self.inner.values.lock().is_unreachable = is_unreachable;
    }

    /// Returns the number of accesses so far.
    pub fn accesses(&self) -> u64 {
        self.inner.values.lock().accesses
    }

    fn access<T>(
        &self,
        access: impl FnOnce(&mut MemoryValues) -> Result<T, SharedStateError>,
    ) -> Result<T, SharedStateError> {
        let mut values = self.inner.values.lock();
        values.begin()?;
        let result = access(&mut values);
        drop(values);
        self.inner.changed.notify_waiters();
        result
    }
}

/// Completes an access at once.
fn done<'a, T: Send + 'a>(
    result: Result<T, SharedStateError>,
) -> BoxFuture<'a, Result<T, SharedStateError>> {
    Box::pin(std::future::ready(result))
}

impl SharedState for MemoryState {
    fn get<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
    ) -> BoxFuture<'a, Result<Option<StateEntry>, SharedStateError>> {
        done(self.access(|values| {
            let entry = values.entries.get(&(area, key.clone()));
            Ok(entry.map(|entry| StateEntry {
                key: key.clone(),
                value: entry.value.clone(),
                revision: entry.revision,
            }))
        }))
    }

    fn create<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>> {
        done(self.access(|values| match values.revision(area, key) {
            Some(_) => Err(SharedStateError::Conflict),
            None => Ok(values.set(area, key, value, lifetime)),
        }))
    }

    fn update<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        revision: StateRevision,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>> {
        done(self.access(
            |values| match values.revision(area, key) == Some(revision) {
                true => Ok(values.set(area, key, value, lifetime)),
                false => Err(SharedStateError::Conflict),
            },
        ))
    }

    fn remove<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        revision: Option<StateRevision>,
    ) -> BoxFuture<'a, Result<(), SharedStateError>> {
        done(self.access(|values| {
            if revision.is_some() && values.revision(area, key) != revision {
                return Err(SharedStateError::Conflict);
            }
            values.entries.remove(&(area, key.clone()));
            Ok(())
        }))
    }

    fn list<'a>(
        &'a self,
        area: StateArea,
        prefix: Option<&'a StateKey>,
    ) -> BoxFuture<'a, Result<Vec<StateEntry>, SharedStateError>> {
        done(self.access(|values| Ok(values.list(area, prefix))))
    }

    fn watch(
        &self,
        area: StateArea,
    ) -> BoxFuture<'_, Result<Box<dyn StateWatch>, SharedStateError>> {
        done(self.access(|_| {
            let watch = MemoryWatch {
                inner: Arc::clone(&self.inner),
                area,
                known: BTreeMap::new(),
                pending: VecDeque::new(),
                is_current: false,
            };
            Ok(Box::new(watch) as Box<dyn StateWatch>)
        }))
    }

    fn count_within<'a>(
        &'a self,
        key: &'a StateKey,
        max: u32,
        window: Duration,
    ) -> BoxFuture<'a, Result<bool, SharedStateError>> {
        done(self.access(|values| {
            let now = Instant::now();
            let times = values.counts.entry(key.clone()).or_default();
            while times.front().is_some_and(|at| now - *at >= window) {
                times.pop_front();
            }
            let fits = times.len() < max as usize;
            if fits {
                times.push_back(now);
            }
            Ok(fits)
        }))
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

/// Interval at which a watch looks for values whose lifetime has ended.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A watch of one area, which compares the values with those that it has reported.
struct MemoryWatch {
    inner: Arc<MemoryStateInner>,
    area: StateArea,
    known: BTreeMap<StateKey, StateRevision>,
    pending: VecDeque<StateChange>,
    is_current: bool,
}

impl MemoryWatch {
    /// Collects the changes since the last call.
    fn collect(&mut self) {
        let entries = {
            let mut values = self.inner.values.lock();
            // Values whose lifetime has ended are also removed while the state is unreachable.
            let _ = values.begin();
            values.list(self.area, None)
        };
        let removed = self
            .known
            .keys()
            .filter(|key| entries.iter().all(|entry| entry.key != **key));
        let removed: Vec<StateKey> = removed.cloned().collect();
        for key in removed {
            self.known.remove(&key);
            self.pending.push_back(StateChange::Removed(key));
        }
        for entry in entries {
            let known = self.known.insert(entry.key.clone(), entry.revision);
            if known != Some(entry.revision) {
                self.pending.push_back(StateChange::Set(entry));
            }
        }
        if !self.is_current {
            self.is_current = true;
            self.pending.push_back(StateChange::Current);
        }
    }
}

impl StateWatch for MemoryWatch {
    fn next(&mut self) -> BoxFuture<'_, Option<StateChange>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.inner);
            loop {
                let changed = inner.changed.notified();
                if self.pending.is_empty() {
                    self.collect();
                }
                if let Some(change) = self.pending.pop_front() {
                    return Some(change);
                }
                let _ = tokio::time::timeout(WATCH_INTERVAL, changed).await;
            }
        })
    }
}
