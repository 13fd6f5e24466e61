//! The index of a workspace that its calls share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use mimir_core::{ToolError, ToolErrorCode};
use parking_lot::Mutex;

use crate::index::CodeIndex;
use crate::index_key::IndexKey;
use crate::meaning::PassageVectors;
use crate::refresh::{RefreshLimits, RefreshSummary, RefreshTask, refresh};
use crate::search::SearchSource;
use crate::search_task::{REFRESH_PART, SEARCH_PART, SearchTask};
use crate::source_tree::SourceTree;
use crate::store::IndexStore;

/// Number of changed files, or time to read them, from which on the index is stored again. Otherwise, the next process
/// reads them again.
const SAVED_CHANGES: usize = 100;
const SAVED_TIME: Duration = Duration::from_millis(250);

/// Interval at which a call that waits for the index notices that it was cancelled.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The index of a workspace, which one call at a time uses.
pub(crate) struct SharedIndex {
    workspace: PathBuf,
    /// The file with the user's key.
    key_file: Option<PathBuf>,
    state: Mutex<CodeSearchState>,
}

/// The index, and what is remembered to update it.
#[derive(Default)]
struct CodeSearchState {
    store: Option<Arc<IndexStore>>,
    index: Option<CodeIndex>,
    tree: SourceTree,
    refreshes: u64,
    /// The vectors of the endpoint that was used last.
    vectors: Option<PassageVectors>,
}

impl CodeSearchState {
    /// Updates the index, and stores it if that took long.
    fn refresh(
        &mut self,
        store: &IndexStore,
        root: &Arc<Dir>,
        task: &SearchTask,
    ) -> RefreshSummary {
        self.refreshes += 1;
        let index = self
            .index
            .get_or_insert_with(|| store.load().unwrap_or_default());
        let start = Instant::now();
        let limits = task.limits(REFRESH_PART);
        let refresh_task = RefreshTask {
            rules: &task.rules,
            limits: &limits,
            key: &store.key,
            number: self.refreshes,
        };
        let summary = refresh(index, &mut self.tree, root, refresh_task);
        let is_slow = summary.read > 0 && start.elapsed() >= SAVED_TIME;
        let is_worth = is_slow || index.unsaved >= SAVED_CHANGES;
        if is_worth && !task.cancelled.load(Ordering::Relaxed) {
            store.save(index);
        }
        summary
    }
}

/// An updated index, with what a search of it needs.
pub(crate) struct OpenIndex<'s> {
    state: &'s mut CodeSearchState,
    store: &'s IndexStore,
    root: &'s Arc<Dir>,
    pub(crate) summary: RefreshSummary,
}

impl SharedIndex {
    /// Creates the index of a workspace, without I/O. The user's key in `key_file` is created when it is needed.
    pub(crate) fn new(workspace: &Path, key_file: Option<PathBuf>) -> Self {
        Self {
            workspace: workspace.to_owned(),
            key_file,
            state: Mutex::default(),
        }
    }

    /// Updates the index and calls `work` with it. `refreshed` is the summary of an earlier update by the same call, which
    /// is not repeated. Blocks.
    pub(crate) fn open<T>(
        &self,
        task: &SearchTask,
        refreshed: Option<RefreshSummary>,
        work: impl FnOnce(&mut OpenIndex<'_>) -> T,
    ) -> Result<T, ToolError> {
        let root = Dir::open_ambient_dir(&self.workspace, cap_std::ambient_authority());
        let root = Arc::new(root.map_err(|error| {
            ToolError::new(
                ToolErrorCode::ExecutionError,
                format!("cannot open the workspace: {error}"),
            )
        })?);
        task.query()?.filter.check_exists(&root)?;
        let mut state = loop {
            match self.state.try_lock_for(LOCK_INTERVAL) {
                Some(state) => break state,
                None if task.limits(SEARCH_PART).is_over() => {
                    return Err(ToolError::new(
                        ToolErrorCode::Timeout,
                        "another search is still building the index; try again",
                    ));
                }
                None => {}
            }
        };
        let store = match &state.store {
            Some(store) => Arc::clone(store),
            None => {
                let key = IndexKey::load(self.key_file.as_deref(), &self.workspace)
                    .map_err(|error| ToolError::internal(error.to_string()))?;
                let store = Arc::new(IndexStore::new(&self.workspace, key));
                Arc::clone(state.store.insert(store))
            }
        };
        let summary = refreshed.unwrap_or_else(|| state.refresh(&store, &root, task));
        Ok(work(&mut OpenIndex {
            state: &mut state,
            store: &store,
            root: &root,
            summary,
        }))
    }
}

impl OpenIndex<'_> {
    /// Returns the source of a search, and the vectors.
    pub(crate) fn source<'a>(
        &'a mut self,
        limits: &'a RefreshLimits,
    ) -> (SearchSource<'a>, &'a mut PassageVectors) {
        let index = self.state.index.get_or_insert_default();
        let source = SearchSource {
            index,
            root: self.root,
            limits,
        };
        (source, self.state.vectors.get_or_insert_default())
    }

    /// Returns the number of files.
    pub(crate) fn files(&self) -> usize {
        self.state.index.as_ref().map_or(0, CodeIndex::len)
    }

    /// Loads the vectors of an endpoint, unless they are loaded.
    pub(crate) fn load_vectors(&mut self, identity: &str) {
        let vectors = &mut self.state.vectors;
        if !vectors
            .as_ref()
            .is_some_and(|vectors| vectors.is_of(identity))
        {
            *vectors = Some(PassageVectors::load(self.store, identity));
        }
    }

    /// Stores the vectors if there are new ones.
    pub(crate) fn save_vectors(&mut self) {
        if let (Some(vectors), Some(index)) = (&mut self.state.vectors, &self.state.index) {
            vectors.save(self.store, index);
        }
    }
}
