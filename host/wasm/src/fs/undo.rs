//! The undo recorder: copies of files that a call changes in the workspace, and the record that `mimir undo` reads,
//! both in `.mimir/state/backups`. `plugins/files` writes records of the same form and documents them.
//!
//! A guest does not announce its changes. Each file is copied when it is first opened for writing, removed or moved,
//! and the record is written when the call is over, however it ends. A file that is too large to copy is not changed.
//!
//! Copies and comparisons run on threads for blocking work, not on those that run calls, and both stop when the call
//! is over. For a new file the record contains its size and time, not a digest, so the cost of a record does not
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
use std::time::{Duration, SystemTime};

use mimir_core::clock::Deadline;
use mimir_core::paths::is_obeyed;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::node::MountState;
use super::refusal::{FsFault, RefusalCause};
use super::resolve::descend;
use super::sys::{self, FileKind, OpenMode, OpenedObject};
use crate::backend::make_backups;

mod copy;
mod prune;

use copy::{BackupCopy, hash};

/// Maximum number of bytes copied for one call, the same as for the file tools.
const BYTES_MAX: u64 = 100 << 20;

/// Maximum number of paths recorded for one call, the same as for the file tools.
const PATHS_MAX: usize = 10_000;

/// Records changes in a mount. Clones share one recording.
#[derive(Debug, Clone, Default)]
pub struct UndoRecorder(Arc<Mutex<Option<UndoRecording>>>);

/// The scope in which changes are recorded: one call. The record is written by [`UndoScope::finish`], or in the
/// background if the scope is dropped because the call was cancelled.
#[derive(Debug)]
pub struct UndoScope(UndoRecorder);

/// The call whose changes are recorded, and the destination.
#[derive(Debug, Clone)]
pub struct UndoTarget {
    /// The root of the workspace.
    pub workspace: PathBuf,
    /// The folder of the backups in it. It need not exist yet.
    pub folder: PathBuf,
    /// The request id of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
}

/// The changes of one call so far. Dropping it writes the record, if that was not done before.
#[derive(Debug)]
struct UndoRecording {
    target: UndoTarget,
    time: String,
    changes: Vec<(Arc<MountState>, RecordedChange)>,
    known: HashSet<String>,
    copies: usize,
    bytes: u64,
    /// Set when the call is over: further copies are not needed.
    over: Arc<AtomicBool>,
    /// Set when the call has no time left: comparisons stop.
    stop: Arc<AtomicBool>,
    written: bool,
    /// The files made or changed that agents or build tools obey by themselves. Set by [`UndoRecording::write`].
    obeyed: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RecordDocument<'a> {
    id: &'a str,
    tool: &'a str,
    time: &'a str,
    changes: Vec<&'a RecordedChange>,
}

#[derive(Debug, Serialize)]
struct RecordedChange {
    path: String,
    before: RecordedState,
    after: RecordedState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum RecordedState {
    Absent,
    Directory,
    File {
        /// The digest of the content, if it was read.
        #[serde(skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        backup: Option<String>,
        size: u64,
        /// Modification time of the content, in nanoseconds since 1970.
        modified: i64,
    },
    Link {
        target: String,
    },
}

/// The state at a path.
enum StateLookup {
    /// An object that is recorded without reading it.
    State(RecordedState),
    /// A file, open for reading.
    File(fs::File, fs::Metadata),
}

/// Records to be pruned.
struct PruneJob {
    folder: PathBuf,
    added: u64,
}

impl UndoRecorder {
    /// Records all changes from now on, for this call.
    pub fn begin(&self, mut target: UndoTarget) -> UndoScope {
        let wanted = target.id.clone();
        let is_taken = |id: &str| {
            let name = target.folder.join(id);
            name.exists() || name.with_extension("json").exists()
        };
        let mut ids = (2..).map(|number| format!("{wanted}-{number}"));
        if is_taken(&wanted)
            && let Some(free) = ids.find(|id| !is_taken(id))
        {
            target.id = free;
        }
        *self.lock() = Some(UndoRecording {
            target,
            time: jiff::Timestamp::now().to_string(),
            changes: Vec::new(),
            known: HashSet::new(),
            copies: 0,
            bytes: 0,
            over: Arc::default(),
            stop: Arc::default(),
            written: false,
            obeyed: Vec::new(),
        });
        UndoScope(self.clone())
    }

    /// Returns true if this path of a mount is recorded already.
    pub(super) fn is_recorded(&self, path: &str) -> bool {
        let recording = self.lock();
        recording
            .as_ref()
            .is_some_and(|recording| recording.known.contains(path))
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
                return Err(no_call(path));
            };
            if recording.known.contains(path) {
                return Ok(());
            }
            let found = find(shared, path)?;
            if recording.changes.len() >= PATHS_MAX && !is_obeyed_path(path) {
                return match found {
                    // It needs no copy, and undo removes it.
                    StateLookup::State(RecordedState::Absent) => {
                        recording.known.insert(path.to_owned());
                        Ok(())
                    }
                    _ => Err(not_copied(
                        path,
                        &format!("the limit is {PATHS_MAX} recorded files for one call"),
                    )),
                };
            }
            match found {
                StateLookup::State(state) => {
                    recording.add(shared, path, state);
                    return Ok(());
                }
                StateLookup::File(file, meta) => recording.copy_of(file, meta, path)?,
            }
        };
        let id = copy.target.id.clone();
        let made = tokio::task::spawn_blocking(move || copy.copy()).await;
        let state = match made.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(state) => state,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(too_large(path));
            }
            Err(error) => {
                let why = format!("its copy in .mimir/state/backups cannot be written: {error}");
                return Err(not_copied(path, &why));
            }
        };
        let mut recording = self.lock();
        match &mut *recording {
            Some(recording) if recording.target.id == id => {
                if let RecordedState::File { size, .. } = &state {
                    recording.bytes += size;
                }
                recording.add(shared, path, state);
                Ok(())
            }
            // The call ended meanwhile.
            _ => Err(no_call(path)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UndoRecording>> {
        self.0.lock()
    }
}

impl UndoScope {
    /// Writes the record, on a thread for blocking work. Files are compared until the deadline, or for `left` if that
    /// ends sooner; the remaining ones then count as changed. Returns the files that were made or changed and that agents
    /// or build tools obey by themselves.
    pub async fn finish(self, deadline: &Deadline, left: Option<Duration>) -> Vec<String> {
        let Some(mut recording) = self.0.lock().take() else {
            return Vec::new();
        };
        let stop = Arc::clone(&recording.stop);
        let mut task = tokio::task::spawn_blocking(move || {
            let prune = recording.write();
            (prune, std::mem::take(&mut recording.obeyed))
        });
        let in_time = {
            let bounded = async {
                match left {
                    Some(left) => tokio::time::timeout(left, &mut task).await.ok(),
                    None => Some((&mut task).await),
                }
            };
            deadline.run_until(pin!(bounded)).await.ok().flatten()
        };
        let written = match in_time {
            Some(written) => written,
            None => {
                stop.store(true, Ordering::Relaxed);
                task.await
            }
        };
        // Pruning may take long, and the call does not wait for it.
        let (prune, obeyed) = written.unwrap_or_default();
        if let Some(prune) = prune {
            tokio::task::spawn_blocking(move || prune::prune(&prune.folder, prune.added));
        }
        obeyed
    }
}

impl Drop for UndoScope {
    fn drop(&mut self) {
        let Some(recording) = self.0.lock().take() else {
            return;
        };
        recording.stop.store(true, Ordering::Relaxed);
        // A runtime that shuts down drops the closure instead of running it, which writes the record, too.
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
    fn add(&mut self, shared: &Arc<MountState>, path: &str, before: RecordedState) {
        self.known.insert(path.to_owned());
        let change = RecordedChange {
            path: path.to_owned(),
            before,
            after: RecordedState::Absent,
        };
        self.changes.push((Arc::clone(shared), change));
    }

    /// Returns the copy to be made of a file.
    fn copy_of(
        &mut self,
        file: fs::File,
        meta: fs::Metadata,
        path: &str,
    ) -> Result<BackupCopy, FsFault> {
        let room = BYTES_MAX - self.bytes;
        if meta.len() > room {
            return Err(too_large(path));
        }
        let name = self.copies.to_string();
        self.copies += 1;
        Ok(BackupCopy {
            file,
            meta,
            target: self.target.clone(),
            name,
            room,
            over: Arc::clone(&self.over),
        })
    }

    /// Writes the record, once, if something has changed.
    fn write(&mut self) -> Option<PruneJob> {
        if std::mem::replace(&mut self.written, true) {
            return None;
        }
        self.over.store(true, Ordering::Relaxed);
        let mut changes = std::mem::take(&mut self.changes);
        changes.retain_mut(|(shared, change)| self.has_changed(shared, change));
        let made = changes.iter().map(|(_, change)| change);
        let made = made.filter(|change| {
            matches!(
                change.after,
                RecordedState::File { .. } | RecordedState::Link { .. }
            )
        });
        let obeyed = made.filter(|change| is_obeyed_path(&change.path));
        self.obeyed = obeyed.map(|change| change.path.clone()).collect();
        let copies = self.target.folder.join(&self.target.id);
        if changes.is_empty() {
            if self.copies > 0 {
                fs::remove_dir_all(copies).ok();
            }
            return None;
        }
        let record = RecordDocument {
            id: &self.target.id,
            tool: &self.target.tool,
            time: &self.time,
            changes: changes.iter().map(|(_, change)| change).collect(),
        };
        if let Err(error) = self.save(&record) {
            tracing::warn!(%error, "the record for `mimir undo` cannot be written");
        }
        Some(PruneJob {
            folder: self.target.folder.clone(),
            added: self.bytes,
        })
    }

    /// Adds the current state at the path of a change. Returns false if it equals the earlier one.
    fn has_changed(&self, shared: &MountState, change: &mut RecordedChange) -> bool {
        match find(shared, &change.path) {
            Ok(StateLookup::State(after)) if after == change.before => false,
            Ok(StateLookup::State(after)) => {
                change.after = after;
                true
            }
            Ok(StateLookup::File(mut file, meta)) => {
                let mut digest = None;
                // The content matters only for a file that may be unchanged.
                if let RecordedState::File { sha256, size, .. } = &change.before
                    && *size == meta.len()
                {
                    let hashed = hash(&mut file, &mut io::sink(), *size, &self.stop);
                    digest = hashed.ok().map(|(digest, _)| digest);
                    if digest.is_some() && digest == *sha256 {
                        return false;
                    }
                }
                change.after = RecordedState::File {
                    sha256: digest,
                    backup: None,
                    size: meta.len(),
                    modified: modified(&meta),
                };
                true
            }
            // `mimir undo` then reports that the file has changed since.
            Err(_) => true,
        }
    }

    fn save(&self, record: &RecordDocument<'_>) -> io::Result<()> {
        let folder = &self.target.folder;
        make_backups(&self.target.workspace, folder)?;
        let unfinished = folder.join(format!("{}.tmp", self.target.id));
        let finished = folder.join(format!("{}.json", self.target.id));
        let json = serde_json::to_vec(record)?;
        let written = fs::write(&unfinished, json).and_then(|()| fs::rename(&unfinished, finished));
        if written.is_err() {
            fs::remove_file(&unfinished).ok();
        }
        written
    }
}

/// Returns true if agents or build tools obey the file at this path by themselves.
fn is_obeyed_path(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    is_obeyed(folder, name)
}

/// Looks up the state at a path of a mount, without reading content.
fn find(shared: &MountState, path: &str) -> Result<StateLookup, FsFault> {
    let parts: Vec<&str> = path.split('/').skip(shared.depth).collect();
    let Some((name, above)) = parts.split_last() else {
        return Ok(StateLookup::State(RecordedState::Directory));
    };
    let found =
        descend(&shared.root, above).and_then(|dir| Ok((sys::stat_at(&dir, name)?.kind, dir)));
    let (kind, dir) = match found {
        Ok(found) => found,
        Err(_) => return Ok(StateLookup::State(RecordedState::Absent)),
    };
    match kind {
        FileKind::Directory => Ok(StateLookup::State(RecordedState::Directory)),
        FileKind::Link => match sys::read_link(&dir, name) {
            Ok(target) => Ok(StateLookup::State(RecordedState::Link { target })),
            Err(_) => Err(not_copied(path, "the target of the link is not text")),
        },
        FileKind::File => {
            let wanted = OpenMode {
                read: true,
                ..OpenMode::default()
            };
            let OpenedObject::File(file) = sys::open(&dir, name, wanted)? else {
                return Err(not_copied(path, "it is not a regular file"));
            };
            let meta = file.metadata()?;
            Ok(StateLookup::File(file, meta))
        }
        _ => Err(not_copied(path, "it is not a regular file")),
    }
}

/// Returns the modification time of a file, in nanoseconds since 1970.
fn modified(meta: &fs::Metadata) -> i64 {
    let since = |time: SystemTime| match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(error) => {
            let before = i64::try_from(error.duration().as_nanos());
            before.map_or(i64::MIN, |before| -before)
        }
    };
    meta.modified().map_or(0, since)
}

fn too_large(path: &str) -> FsFault {
    let why = format!(
        "the limit is {} MiB of copies for one call",
        BYTES_MAX >> 20
    );
    not_copied(path, &why)
}

fn no_call(path: &str) -> FsFault {
    not_copied(path, "no call is running whose changes are recorded")
}

fn not_copied(path: &str, why: &str) -> FsFault {
    FsFault::refused(path, RefusalCause::NotRecorded(why.to_owned()))
}
