//! Shared state in files, for the processes of one machine.
//!
//! Each area is a folder with one file per key and a lock file, which also contains the last revision. A change is
//! written to a temporary file and renamed under the lock, so that a process that is killed leaves the old or the new
//! value. Readers take no lock. All files are private to the user.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::BoxFuture;
use mimir_core::shared_state::{
    SharedState, SharedStateError, StateArea, StateEntry, StateKey, StateRevision, StateWatch,
};
use tokio::sync::watch;

mod area_files;
mod event_counts;
mod file_watch;
mod mirror;
mod stored_value;

use area_files::AreaFiles;
use file_watch::FileWatch;
pub use mirror::StateMirror;

/// Maximum size of a value in bytes, the same as the default of NATS.
pub const VALUE_MAX: usize = 1 << 20;

/// Shared state in the files of a folder. Clones share the folder.
#[derive(Clone)]
pub struct FileSharedState {
    root: Arc<Path>,
    /// Number of changes by this process, which its own watches wait for.
    changes: Arc<watch::Sender<u64>>,
    poll_interval: Duration,
}

impl FileSharedState {
    /// Creates the shared state in this folder, which is created at the first change.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into().into(),
            changes: Arc::default(),
            poll_interval: file_watch::POLL_INTERVAL,
        }
    }

    /// Sets the time between two looks of a watch at the changes of other processes. Consoles look more often.
    #[must_use]
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    fn area(&self, area: StateArea) -> AreaFiles {
        AreaFiles::new(&self.root, area)
    }

    /// Runs an access on a thread on which it may block.
    async fn run<T: Send + 'static>(
        &self,
        access: impl FnOnce() -> Result<T, SharedStateError> + Send + 'static,
    ) -> Result<T, SharedStateError> {
        let result = tokio::task::spawn_blocking(access).await;
        result.unwrap_or_else(|error| {
            Err(SharedStateError::Unreachable {
                location: self.location(),
                text: error.to_string(),
            })
        })
    }

    /// Runs a change, and wakes the watches of this process.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce() -> Result<T, SharedStateError> + Send + 'static,
    ) -> Result<T, SharedStateError> {
        let result = self.run(change).await;
        if result.is_ok() {
            self.changes.send_modify(|count| *count += 1);
        }
        result
    }
}

impl SharedState for FileSharedState {
    fn get<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
    ) -> BoxFuture<'a, Result<Option<StateEntry>, SharedStateError>> {
        let (files, key) = (self.area(area), key.clone());
        Box::pin(self.run(move || files.read(&key)))
    }

    fn create<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>> {
        let (files, key) = (self.area(area), key.clone());
        Box::pin(self.change(move || files.write(&key, &value, None, lifetime)))
    }

    fn update<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        revision: StateRevision,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>> {
        let (files, key) = (self.area(area), key.clone());
        Box::pin(self.change(move || files.write(&key, &value, Some(revision), lifetime)))
    }

    fn remove<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        revision: Option<StateRevision>,
    ) -> BoxFuture<'a, Result<(), SharedStateError>> {
        let (files, key) = (self.area(area), key.clone());
        Box::pin(self.change(move || files.remove(&key, revision)))
    }

    fn list<'a>(
        &'a self,
        area: StateArea,
        prefix: Option<&'a StateKey>,
    ) -> BoxFuture<'a, Result<Vec<StateEntry>, SharedStateError>> {
        let (files, prefix) = (self.area(area), prefix.cloned());
        Box::pin(self.run(move || files.list(prefix.as_ref())))
    }

    fn watch(
        &self,
        area: StateArea,
    ) -> BoxFuture<'_, Result<Box<dyn StateWatch>, SharedStateError>> {
        Box::pin(async move {
            // Subscribed before the first read, so that no change in between is missed.
            let changes = self.changes.subscribe();
            let files = self.area(area);
            let first = self.run(move || files.read_all()).await?;
            let watch = FileWatch::new(self.area(area), changes, first, self.poll_interval);
            Ok(Box::new(watch) as Box<dyn StateWatch>)
        })
    }

    fn count_within<'a>(
        &'a self,
        key: &'a StateKey,
        max: u32,
        window: Duration,
    ) -> BoxFuture<'a, Result<bool, SharedStateError>> {
        let (root, key) = (Arc::clone(&self.root), key.clone());
        Box::pin(self.run(move || event_counts::count_within(&root, &key, max, window)))
    }

    fn location(&self) -> String {
        mimir_core::text::visible(&self.root.display().to_string())
    }
}
