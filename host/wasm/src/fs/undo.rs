//! The undo recorder: copies the files that a call changes in the workspace, and writes the record that `mimir undo`
//! reads. Both are in `.mimir/state/backups`, which no guest can reach.
//!
//! A call with the request id `R` has a record `R.json`, and a folder `R` with the copies `0`, `1`, …, which the record
//! names `R/0`, `R/1`, …. Before a path changes for the first time, its state is copied and appended to the record, so
//! that a call can be undone even if the process is killed. When the call ends, the states after the call are added,
//! unchanged paths are left out, and a record without changes is removed.
//!
//! All attempts of a call have one record. It contains the states before the first attempt and after the last one.
//!
//! Copies and comparisons run on threads for blocking work, not on those that run calls, and both stop when the call
//! ends. The record contains digests of the contents after the call, so that a file counts as unchanged whatever its
//! time is. Beyond [`MAX_HASHED_BYTES`], it contains the size and time instead, so that the cost of a record does not
//! depend on the amount of data that the call has written.
//!
//! Out of scope: permission to change a file, which was checked before.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::clock::Deadline;
use mimir_core::paths::is_obeyed;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::node::MountState;
use super::refusal::{FsFault, RefusalCause};

mod copy;
mod moved;
mod prune;
mod record_file;
mod state;

use copy::{BackupCopy, hash};
use record_file::{RecordFile, record_path};
use state::{
    RecordedState, StateLookup, Unrecordable, find_state, not_written, too_large, too_many,
    unsuitable,
};

/// Maximum number of bytes copied for one call.
const MAX_BYTES: u64 = 100 << 20;

/// Maximum number of paths recorded for one call.
const MAX_PATHS: usize = 10_000;

/// Maximum number of bytes of new and resized files that are hashed when a call ends.
const MAX_HASHED_BYTES: u64 = 32 << 20;

/// Reason recorded for the changes of a call that declined copies.
const DECLINED: &str = "the call declined backups (`backup: false`)";

/// Reason recorded for a move that takes along more than is copied.
const MOVED_TOO_MUCH: &str = "the move is too large, or contains an object that cannot be recorded; moving it back undoes it";

/// Hint on how to make a change that cannot be recorded, for code that a model wrote.
pub const CODE_WITHOUT_UNDO: &str = "write to another file, or run it with `backend: process`";

/// Hint on how to make a change that cannot be recorded, for tools with the argument `backup`.
pub const TOOL_WITHOUT_UNDO: &str = "pass `backup: false` to make the change without a backup";

/// Recorder of changes in a mount. Clones share one recording.
#[derive(Debug, Clone, Default)]
pub struct UndoRecorder(Arc<Mutex<Option<UndoRecording>>>);

/// The scope in which changes are recorded: one attempt of a call. The record is written by [`UndoScope::finish`], or in
/// the background if the scope is dropped because the call was cancelled.
#[derive(Debug)]
pub struct UndoScope {
    recorder: UndoRecorder,
    earlier: Arc<EarlierAttempts>,
}

/// The changes that a call has made.
#[derive(Debug, Default)]
pub struct RecordedChanges {
    /// Created or changed files that agents or build tools load by themselves.
    pub auto_run_files: Vec<String>,
    /// All changed paths, below the workspace.
    pub paths: Vec<String>,
    /// True if the changes can be undone with the id of the call.
    pub has_record: bool,
}

/// The recording of the finished attempts of a call, which the next attempt continues.
#[derive(Debug, Default)]
pub struct EarlierAttempts(Mutex<Option<UndoRecording>>);

/// The call whose changes are recorded, and the destination.
#[derive(Debug, Clone)]
pub struct UndoTarget {
    /// The root of the workspace.
    pub workspace: PathBuf,
    /// The backups folder in the workspace, which need not exist yet.
    pub folder: PathBuf,
    /// The request id of the call.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The copies that the changes of the call need.
    pub copies: UndoCopies,
}

/// The copies that the changes of a call need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UndoCopies {
    /// A change whose original cannot be copied is refused. The text is a hint on how to make the change anyway.
    Required(&'static str),
    /// A change whose original cannot be copied is recorded as irreversible.
    #[default]
    Optional,
    /// Nothing is copied, and all changes are recorded as irreversible.
    Declined,
}

/// The changes of one call so far. The record is written on drop, if it was not written before.
#[derive(Debug)]
struct UndoRecording {
    target: UndoTarget,
    time: String,
    changes: Vec<(Arc<MountState>, RecordedChange)>,
    recorded_paths: HashSet<String>,
    copies: usize,
    bytes: u64,
    /// Set when the call is over: further copies are not needed.
    is_over: Arc<AtomicBool>,
    /// Set when the call has no time left: comparisons stop.
    stop: Arc<AtomicBool>,
    written: bool,
    /// The open record, once this attempt has changed something.
    file: Option<RecordFile>,
    /// True if the record exists.
    is_on_disk: bool,
    /// Created or changed files that agents or build tools load by themselves. Set by [`UndoRecording::write`].
    obeyed: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RecordDocument<'a> {
    id: &'a str,
    tool: &'a str,
    time: &'a str,
    #[serde(rename = "unkept", skip_serializing_if = "Option::is_none")]
    unrecorded: Option<UnrecordedPaths<'a>>,
    /// The last field, because [`RecordFile`] appends to it.
    changes: Vec<&'a RecordedChange>,
}

/// Changes that cannot be undone.
#[derive(Debug, Serialize)]
struct UnrecordedPaths<'a> {
    /// The reason, as the end of a sentence that begins with "it can't be taken back, because".
    why: &'a str,
    paths: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
struct RecordedChange {
    path: String,
    before: RecordedState,
    after: RecordedState,
    /// Reason why the change cannot be undone, if so.
    #[serde(skip)]
    obstacle: Option<String>,
}

/// A folder in which old records have to be pruned.
struct PruneJob {
    folder: PathBuf,
    added: u64,
}

impl UndoRecorder {
    /// Records all changes from now on, for this call, in addition to those of its earlier attempts.
    pub fn begin(&self, target: UndoTarget, earlier: Arc<EarlierAttempts>) -> UndoScope {
        let continued = earlier.0.lock().take();
        let recording = match continued {
            Some(mut recording) if recording.target.id == target.id => {
                recording.begin_attempt(target);
                recording
            }
            _ => UndoRecording::new(target),
        };
        *self.lock() = Some(recording);
        UndoScope {
            recorder: self.clone(),
            earlier,
        }
    }

    /// Returns true if this path of a mount is recorded already.
    pub(super) fn is_recorded(&self, path: &str) -> bool {
        let recording = self.lock();
        recording
            .as_ref()
            .is_some_and(|recording| recording.recorded_paths.contains(path))
    }

    /// Records the object at a path of a mount before it changes.
    pub(super) async fn record_before_change(
        &self,
        shared: &Arc<MountState>,
        path: &str,
    ) -> Result<(), FsFault> {
        let copy = {
            let mut recording = self.lock();
            let Some(recording) = &mut *recording else {
                return Err(no_running_call(path));
            };
            if recording.recorded_paths.contains(path) {
                return Ok(());
            }
            let unknown_state = RecordedState::of_file(None, None);
            match find_state(shared, path) {
                Ok(StateLookup::State(state)) => return recording.add(shared, path, state),
                Ok(StateLookup::File(file, meta)) => {
                    match recording.reserve_copy(file, &meta, path) {
                        Ok(copy) => copy,
                        Err(why) => {
                            let state = RecordedState::of_file(Some(&meta), None);
                            return recording.add_unrecordable(shared, path, state, why);
                        }
                    }
                }
                Err(why) => return recording.add_unrecordable(shared, path, unknown_state, why),
            }
        };
        let id = copy.target.id.clone();
        let copied = tokio::task::spawn_blocking(move || copy.copy()).await;
        let copied = copied.unwrap_or_else(|error| Err(io::Error::other(error)));
        let mut recording = self.lock();
        let recording = match &mut *recording {
            Some(recording) if recording.target.id == id => recording,
            // The call ended meanwhile.
            _ => return Err(no_running_call(path)),
        };
        match copied {
            Ok(state) => {
                if let RecordedState::File { size, .. } = &state {
                    recording.bytes += size;
                }
                recording.add(shared, path, state)
            }
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::FileTooLarge => too_large(),
                    _ => not_written(&error),
                };
                let state = RecordedState::of_file(None, None);
                recording.add_unrecordable(shared, path, state, why)
            }
        }
    }

    /// Records a folder that was created because a mount needs it.
    pub(super) fn record_created_folder(&self, shared: &Arc<MountState>, path: &str) {
        let mut recording = self.lock();
        let Some(recording) = &mut *recording else {
            return;
        };
        if !recording.recorded_paths.contains(path) {
            // If the record cannot be written, the call cannot change files there either.
            let _ = recording.add(shared, path, RecordedState::Absent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UndoRecording>> {
        self.0.lock()
    }
}

impl UndoScope {
    /// Writes the record, on a thread for blocking work. Files are compared until the deadline; files not compared by
    /// then count as changed.
    pub async fn finish(self, deadline: &Deadline) -> RecordedChanges {
        let Some(mut recording) = self.recorder.lock().take() else {
            return RecordedChanges::default();
        };
        if recording.is_unused() {
            return RecordedChanges::default();
        }
        let stop = Arc::clone(&recording.stop);
        let earlier = Arc::clone(&self.earlier);
        let mut task = tokio::task::spawn_blocking(move || {
            let prune = recording.write();
            let mut paths: Vec<_> = recording.recorded_paths.iter().cloned().collect();
            paths.sort();
            let changes = RecordedChanges {
                auto_run_files: std::mem::take(&mut recording.obeyed),
                paths,
                has_record: recording.is_on_disk,
            };
            *earlier.0.lock() = Some(recording);
            (prune, changes)
        });
        let finished = {
            let work = pin!(&mut task);
            deadline.run_until(work).await
        };
        let result = match finished {
            Ok(result) => result,
            Err(_) => {
                stop.store(true, Ordering::Relaxed);
                task.await
            }
        };
        // Pruning may take long, and the call does not wait for it.
        let (prune, changes) = result.unwrap_or_default();
        if let Some(prune) = prune {
            tokio::task::spawn_blocking(move || prune::prune(&prune.folder, prune.added));
        }
        changes
    }
}

impl Drop for UndoScope {
    fn drop(&mut self) {
        let Some(recording) = self.recorder.lock().take() else {
            return;
        };
        if recording.is_unused() {
            return;
        }
        recording.stop.store(true, Ordering::Relaxed);
        // A runtime that shuts down drops the closure instead of running it. Both write the record.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(recording))),
            Err(_) => drop(recording),
        }
    }
}

impl Drop for UndoRecording {
    fn drop(&mut self) {
        if let Some(prune) = self.write() {
            prune::prune(&prune.folder, prune.added);
        }
    }
}

impl UndoRecording {
    fn new(target: UndoTarget) -> Self {
        Self {
            target,
            time: jiff::Timestamp::now().to_string(),
            changes: Vec::new(),
            recorded_paths: HashSet::new(),
            copies: 0,
            bytes: 0,
            is_over: Arc::default(),
            stop: Arc::default(),
            written: false,
            file: None,
            is_on_disk: false,
            obeyed: Vec::new(),
        }
    }

    /// Prepares for the changes of another attempt. Work of the last attempt in the background stays stopped.
    fn begin_attempt(&mut self, target: UndoTarget) {
        self.target = target;
        self.is_over = Arc::default();
        self.stop = Arc::default();
        self.written = false;
    }

    /// Returns true if nothing has to be written.
    fn is_unused(&self) -> bool {
        self.changes.is_empty() && self.copies == 0 && self.file.is_none()
    }

    /// Returns true if the path cannot be recorded because of the limit. Files that agents load by themselves are
    /// exempt, because they have to be reported in any case.
    fn is_full(&self, path: &str) -> bool {
        self.changes.len() >= MAX_PATHS && !is_obeyed_path(path)
    }

    /// Adds a change that can be undone, unless the call declined copies.
    fn add(
        &mut self,
        shared: &Arc<MountState>,
        path: &str,
        before: RecordedState,
    ) -> Result<(), FsFault> {
        if self.is_full(path) {
            // A new file needs no copy.
            if before == RecordedState::Absent {
                self.recorded_paths.insert(path.to_owned());
                return Ok(());
            }
            return self.add_unrecordable(shared, path, before, too_many());
        }
        let declined = self.target.copies == UndoCopies::Declined;
        self.push(shared, path, before, declined.then(|| DECLINED.to_owned()))
    }

    /// Adds a change whose original cannot be copied, or refuses it if the call needs a copy.
    fn add_unrecordable(
        &mut self,
        shared: &Arc<MountState>,
        path: &str,
        before: RecordedState,
        why: Unrecordable,
    ) -> Result<(), FsFault> {
        match self.target.copies {
            UndoCopies::Required(remedy) => Err(not_recorded(path, why, remedy)),
            // Only the first path over the limit is recorded.
            _ if self.changes.len() > MAX_PATHS => {
                self.recorded_paths.insert(path.to_owned());
                Ok(())
            }
            UndoCopies::Optional => self.push(shared, path, before, Some(why.why)),
            UndoCopies::Declined => self.push(shared, path, before, Some(DECLINED.to_owned())),
        }
    }

    /// Adds a change, and appends it to the record on disk.
    fn push(
        &mut self,
        shared: &Arc<MountState>,
        path: &str,
        before: RecordedState,
        obstacle: Option<String>,
    ) -> Result<(), FsFault> {
        let change = RecordedChange {
            path: path.to_owned(),
            before,
            after: RecordedState::Absent,
            obstacle,
        };
        if let Err(error) = self.append(&change) {
            if let UndoCopies::Required(remedy) = self.target.copies {
                return Err(not_recorded(path, not_written(&error), remedy));
            }
            tracing::debug!(%error, "the record for `mimir undo` cannot be written");
        }
        self.recorded_paths.insert(path.to_owned());
        self.changes.push((Arc::clone(shared), change));
        Ok(())
    }

    fn append(&mut self, change: &RecordedChange) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None if self.is_on_disk => RecordFile::replace(&self.target, &self.document())?,
            None => RecordFile::create(&self.target, &self.document())?,
        };
        self.is_on_disk = true;
        let appended = file.append(change);
        self.file = Some(file);
        appended
    }

    fn document(&self) -> RecordDocument<'_> {
        let changes = self.changes.iter().map(|(_, change)| change);
        let (unrecorded, recorded): (Vec<_>, Vec<_>) =
            changes.partition(|change| change.obstacle.is_some());
        let unrecorded = unrecorded.first().map(|first| UnrecordedPaths {
            why: first.obstacle.as_deref().unwrap_or_default(),
            paths: unrecorded
                .iter()
                .map(|change| change.path.as_str())
                .collect(),
        });
        RecordDocument {
            id: &self.target.id,
            tool: &self.target.tool,
            time: &self.time,
            unrecorded,
            changes: recorded,
        }
    }

    /// Returns the copy to make of a file, or the reason why it cannot be made.
    fn reserve_copy(
        &mut self,
        file: fs::File,
        meta: &fs::Metadata,
        path: &str,
    ) -> Result<BackupCopy, Unrecordable> {
        let bytes_left = MAX_BYTES.saturating_sub(self.bytes);
        if self.target.copies == UndoCopies::Declined || meta.len() > bytes_left {
            return Err(too_large());
        }
        if self.is_full(path) {
            return Err(too_many());
        }
        let name = self.copies.to_string();
        self.copies += 1;
        Ok(BackupCopy {
            file,
            meta: meta.clone(),
            target: self.target.clone(),
            name,
            max_bytes: bytes_left,
            is_over: Arc::clone(&self.is_over),
        })
    }

    /// Writes the record, once for each attempt, if something has changed.
    fn write(&mut self) -> Option<PruneJob> {
        if std::mem::replace(&mut self.written, true) {
            return None;
        }
        self.is_over.store(true, Ordering::Relaxed);
        let mut changes = std::mem::take(&mut self.changes);
        let mut bytes_to_hash = MAX_HASHED_BYTES;
        changes.retain_mut(|(shared, change)| self.has_changed(shared, change, &mut bytes_to_hash));
        let created = changes.iter().map(|(_, change)| change);
        let created = created.filter(|change| {
            matches!(
                change.after,
                RecordedState::File { .. } | RecordedState::Link { .. }
            )
        });
        let obeyed = created.filter(|change| is_obeyed_path(&change.path));
        self.obeyed = obeyed.map(|change| change.path.clone()).collect();
        let paths = changes.iter().map(|(_, change)| change.path.clone());
        self.recorded_paths = paths.collect();
        self.changes = changes;
        // Closed before it is replaced.
        self.file = None;
        let folder = &self.target.folder;
        if self.changes.is_empty() {
            if std::mem::take(&mut self.is_on_disk) {
                fs::remove_file(record_path(&self.target)).ok();
            }
            if self.copies > 0 {
                fs::remove_dir_all(folder.join(&self.target.id)).ok();
            }
            return None;
        }
        match RecordFile::replace(&self.target, &self.document()) {
            Ok(_) => self.is_on_disk = true,
            Err(error) => {
                tracing::warn!(%error, "the record for `mimir undo` cannot be written");
            }
        }
        Some(PruneJob {
            folder: self.target.folder.clone(),
            added: self.bytes,
        })
    }

    /// Adds the current state at the path of a change. Returns false if it equals the earlier one. `bytes_to_hash` is the
    /// size of the new and resized files that can still be hashed.
    fn has_changed(
        &self,
        shared: &MountState,
        change: &mut RecordedChange,
        bytes_to_hash: &mut u64,
    ) -> bool {
        match find_state(shared, &change.path) {
            Ok(StateLookup::State(after)) if after == change.before => false,
            Ok(StateLookup::State(after)) => {
                change.after = after;
                true
            }
            Ok(StateLookup::File(mut file, meta)) => {
                let is_hashed = match &change.before {
                    // Without a digest, only size and time can show that the file is unchanged.
                    RecordedState::File { sha256: None, .. } => false,
                    // The file may be unchanged.
                    RecordedState::File { size, .. } if *size == meta.len() => true,
                    _ => match bytes_to_hash.checked_sub(meta.len()) {
                        Some(left) => {
                            *bytes_to_hash = left;
                            true
                        }
                        None => false,
                    },
                };
                let digest = is_hashed.then(|| {
                    let hashed = hash(&mut file, &mut io::sink(), meta.len(), &self.stop);
                    hashed.ok().map(|(digest, _)| digest)
                });
                let digest = digest.flatten();
                if let RecordedState::File { sha256, .. } = &change.before
                    && digest.is_some()
                    && digest == *sha256
                {
                    return false;
                }
                change.after = RecordedState::of_file(Some(&meta), digest);
                change.after != change.before
            }
            // `mimir undo` then reports that the file has changed since.
            Err(_) => true,
        }
    }
}

/// Returns true if agents or build tools obey the file at this path by themselves.
fn is_obeyed_path(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    is_obeyed(folder, name)
}

fn no_running_call(path: &str) -> FsFault {
    let why = unsuitable("no call is running whose changes are recorded");
    not_recorded(path, why, CODE_WITHOUT_UNDO)
}

fn not_recorded(path: &str, why: Unrecordable, remedy: &'static str) -> FsFault {
    let Unrecordable { why, code } = why;
    let cause = RefusalCause::NotRecorded { why, remedy, code };
    FsFault::refused(path, cause)
}
