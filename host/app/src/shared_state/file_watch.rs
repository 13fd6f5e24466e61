//! A watch of an area's files. Changes of this process are seen at once, those of others by polling the last revision.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mimir_core::BoxFuture;
use mimir_core::shared_state::{StateChange, StateKey, StateRevision, StateWatch};
use tokio::sync::watch;

use super::area_files::AreaFiles;
use super::stored_value::{FileValue, now_ms};

/// Time between two looks at the last revision, unless the store says otherwise.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A watch of one area.
pub(super) struct FileWatch {
    files: AreaFiles,
    changes: watch::Receiver<u64>,
    /// The revisions and the ends of the lifetimes that were reported.
    known: BTreeMap<StateKey, (StateRevision, Option<u64>)>,
    /// The last revision when the files were read.
    revision: StateRevision,
    pending: VecDeque<StateChange>,
    poll_interval: Duration,
}

impl FileWatch {
    /// Creates a watch that first reports `first`.
    pub(super) fn new(
        files: AreaFiles,
        changes: watch::Receiver<u64>,
        first: Vec<FileValue>,
        poll_interval: Duration,
    ) -> Self {
        let mut watch = Self {
            files,
            changes,
            known: BTreeMap::new(),
            // Changes between the first read and the next one are found by the next one.
            revision: 0,
            pending: VecDeque::new(),
            poll_interval,
        };
        watch.report(first);
        watch.pending.push_back(StateChange::Current);
        watch
    }

    /// Reports the differences between these values and the known ones.
    fn report(&mut self, values: Vec<FileValue>) {
        let now: BTreeMap<_, _> = values
            .iter()
            .map(|value| {
                let entry = &value.entry;
                (entry.key.clone(), (entry.revision, value.expires_ms))
            })
            .collect();
        let removed = self.known.keys().filter(|key| !now.contains_key(key));
        self.pending
            .extend(removed.cloned().map(StateChange::Removed));
        for value in values {
            let known = self.known.get(&value.entry.key);
            if known.is_none_or(|(revision, _)| *revision != value.entry.revision) {
                self.pending.push_back(StateChange::Set(value.entry));
            }
        }
        self.known = now;
    }

    /// Reads the files if they may have changed since the last time.
    async fn poll(&mut self) {
        let files = self.files.clone();
        let last = self.revision;
        let now = now_ms();
        let mut ends = self.known.values().filter_map(|(_, expires)| *expires);
        let has_ended = ends.any(|end| end <= now);
        let read = tokio::task::spawn_blocking(move || {
            // Read before the values: a later change is then found by the next look.
            let revision = files.last_revision();
            (revision != last || has_ended).then(|| (revision, files.read_all()))
        });
        match read.await {
            Ok(Some((revision, Ok(values)))) => {
                self.revision = revision;
                self.report(values);
            }
            // A failed read is repeated.
            Ok(Some((_, Err(error)))) => {
                tracing::debug!(%error, "shared state cannot be read");
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "shared state cannot be read"),
        }
    }
}

impl StateWatch for FileWatch {
    fn next(&mut self) -> BoxFuture<'_, Option<StateChange>> {
        Box::pin(async move {
            loop {
                if let Some(change) = self.pending.pop_front() {
                    return Some(change);
                }
                // Ends with an error once the store is dropped; files of other processes still change then.
                let changed = self.changes.changed();
                if let Ok(Err(_)) = tokio::time::timeout(self.poll_interval, changed).await {
                    return None;
                }
                self.poll().await;
            }
        })
    }
}
