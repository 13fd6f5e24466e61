//! Restoring of the state before a recorded call.

use std::fs::File;
use std::io::{self, Read};
use std::time::SystemTime;

use mimir_core::{ToolError, ToolErrorCode, text};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::file_error::write_atomically;

use super::record_check::refuse_protected;
use super::undo_path::{PathKind, UndoPath};
use super::{PathState, UndoChange, UndoRecord, UndoStore};

/// Result of an undo for one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreResult {
    /// The old state was restored.
    Restored,
    /// The item that the tool created was removed.
    Removed,
    /// A folder that the tool created was left, because it contains other files.
    LeftInPlace,
    /// The path was already in its old state.
    Unchanged,
}

/// The undo of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredPath {
    /// Path relative to the workspace root.
    pub path: String,
    /// State before the call.
    pub before: PathState,
    /// Result of the undo.
    pub result: RestoreResult,
    /// Path of the copy of the removed or replaced item, relative to the folder of the backups.
    pub copy: Option<String>,
}

/// The current state of a path.
enum CurrentPathState {
    /// A known state.
    State(PathState),
    /// No item can be at the path, because a parent is not a folder.
    Blocked,
}

/// Maximum number of paths in a message.
const MAX_NAMED_FILES: usize = 10;

impl UndoStore {
    /// Undoes the changes of a record in reverse order, and marks the record as undone. Returns the result for each
    /// path. If a path was changed since the call, nothing is restored unless `force` is true. `logged` must be true if
    /// the call of the record is in the audit log.
    pub fn restore(
        &self,
        mut record: UndoRecord,
        force: bool,
        logged: bool,
    ) -> Result<Vec<RestoredPath>, ToolError> {
        let mut done = Vec::new();
        let mut todo = Vec::new();
        let (mut changed, mut blocked) = (Vec::new(), Vec::new());
        for (number, change) in record.changes.iter().enumerate().rev() {
            refuse_protected(change, logged)?;
            let now = match self.current_state(change)? {
                CurrentPathState::State(now) => now,
                CurrentPathState::Blocked if change.before == PathState::Absent => {
                    PathState::Absent
                }
                CurrentPathState::Blocked => {
                    blocked.push(change.path.as_str());
                    continue;
                }
            };
            if is_same(&now, &change.before) {
                done.push(restored_path(change, RestoreResult::Unchanged, None));
                continue;
            }
            if !is_same(&now, &change.after) {
                changed.push(change.path.as_str());
                if is_blocking(&now, &change.before) {
                    blocked.push(change.path.as_str());
                }
            }
            self.check_copy(change)?;
            todo.push((number, change));
        }
        if !changed.is_empty() && !force {
            let message = format!(
                "changed since the call, not restored: {}; `mimir undo {} --force` restores it anyway",
                list_paths(&changed),
                record.id
            );
            return Err(ToolError::new(ToolErrorCode::AlreadyExists, message)
                .with_details(json!({ "changed": changed })));
        }
        if !blocked.is_empty() {
            let message = format!(
                "nothing is restored, because another item has replaced {}; move it away and undo again",
                list_paths(&blocked)
            );
            return Err(ToolError::new(ToolErrorCode::AlreadyExists, message)
                .with_details(json!({ "blocked": blocked })));
        }
        let modes = self.recorded_modes(&record);
        for (number, change) in &todo {
            let backup = self.back_up_current(&record, *number);
            match backup.and_then(|copy| Ok((self.put_back(change, modes[*number])?, copy))) {
                Ok((result, copy)) => done.push(restored_path(change, result, copy)),
                Err(error) => return Err(restore_error(change, &error, &done)),
            }
        }
        // Permissions of folders are restored last, inner folders first, because they may forbid access to the content.
        todo.sort_by_key(|(_, change)| std::cmp::Reverse(change.path.len()));
        for (number, change) in &todo {
            if let (PathState::Directory { .. }, Some(mode)) = (&change.before, modes[*number]) {
                UndoPath::resolve(&self.root, &change.path, false)
                    .and_then(|path| path.set_mode(mode))
                    .map_err(|error| restore_error(change, &error, &done))?;
            }
        }
        record.undone = Some(now());
        self.mark(&record)?;
        Ok(done)
    }

    fn mark(&self, record: &UndoRecord) -> Result<(), ToolError> {
        let path = self.folder.join(format!("{}.json", record.id));
        // Records are pruned by modification time, which an undo must not renew.
        let modified = path.metadata().and_then(|meta| meta.modified());
        let written = serde_json::to_vec(record)
            .map_err(io::Error::from)
            .and_then(|json| write_atomically(&path, &json));
        if let (Ok(modified), Ok(file)) = (modified, File::options().write(true).open(&path)) {
            let _ = file.set_modified(modified);
        }
        written.map_err(|e| {
            ToolError::execution(format!(
                "all files are restored, but the record {} cannot be marked as undone: {e}",
                record.id
            ))
        })
    }

    /// Saves the file or link that is about to be replaced or removed. Returns the path of the copy; `None` if there is
    /// nothing to save.
    fn back_up_current(&self, record: &UndoRecord, number: usize) -> io::Result<Option<String>> {
        let location = match UndoPath::resolve(&self.root, &record.changes[number].path, false) {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            location => location?,
        };
        if matches!(location.kind()?, PathKind::Absent | PathKind::Directory) {
            return Ok(None);
        }
        // An interrupted undo may have saved copies already.
        for attempt in 0.. {
            let name = format!("{}/undone-{number}-{attempt}", record.id);
            let copy = UndoPath::resolve(&self.folder, &name, true)?;
            if copy.kind()? == PathKind::Absent {
                location.hard_link_to(&copy)?;
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Determines the current state of a path. The content is only read if the record has a digest to compare.
    fn current_state(&self, change: &UndoChange) -> Result<CurrentPathState, ToolError> {
        let path = &change.path;
        let digests = [&change.before, &change.after].map(|state| {
            matches!(
                state,
                PathState::File {
                    sha256: Some(_),
                    ..
                }
            )
        });
        let fault = |e: io::Error| {
            let message = format!("cannot access {}: {e}", text::visible(path));
            ToolError::new(ToolErrorCode::InvalidPath, message)
        };
        let location = match UndoPath::resolve(&self.root, path, false) {
            Ok(location) => location,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(CurrentPathState::State(PathState::Absent));
            }
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Ok(CurrentPathState::Blocked);
            }
            Err(e) => return Err(fault(e)),
        };
        Ok(CurrentPathState::State(
            match location.kind().map_err(fault)? {
                PathKind::Absent => PathState::Absent,
                PathKind::Directory => PathState::DIRECTORY,
                PathKind::Link(target) => PathState::Link { target },
                PathKind::File => {
                    let file = location.open().map_err(fault)?;
                    let meta = file.metadata().map_err(fault)?;
                    PathState::File {
                        size: Some(meta.len()),
                        modified: meta.modified().ok().map(nanoseconds),
                        sha256: if digests.contains(&true) {
                            Some(sha256(file).map_err(fault)?)
                        } else {
                            None
                        },
                        backup: None,
                        mode: None,
                    }
                }
            },
        ))
    }

    /// Checks that the backup copy still matches the digest in the record.
    fn check_copy(&self, change: &UndoChange) -> Result<(), ToolError> {
        let PathState::File {
            sha256: expected,
            backup,
            ..
        } = &change.before
        else {
            return Ok(());
        };
        let fault = |why: &str| {
            ToolError::unavailable(format!(
                "the copy of {} {why}; nothing is restored",
                text::visible(&change.path)
            ))
        };
        let Some(backup) = backup else {
            return Err(fault("was not kept"));
        };
        let current = UndoPath::resolve(&self.folder, backup, false)
            .and_then(|copy| copy.open())
            .and_then(sha256);
        match current {
            Ok(current) if Some(&current) == expected.as_ref() => Ok(()),
            Ok(_) => Err(fault("is damaged")),
            Err(e) => Err(fault(&format!("cannot be read: {e}"))),
        }
    }

    fn put_back(&self, change: &UndoChange, mode: Option<u32>) -> io::Result<RestoreResult> {
        let location = match &change.before {
            PathState::Absent => UndoPath::resolve(&self.root, &change.path, false)?,
            _ => UndoPath::resolve(&self.root, &change.path, true)?,
        };
        match &change.before {
            PathState::Absent => match location.remove() {
                // The folder contains files that the tool did not create.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    return Ok(RestoreResult::LeftInPlace);
                }
                removed => return removed.map(|()| RestoreResult::Removed),
            },
            // The folder may have been created as a parent of an earlier path.
            PathState::Directory { .. } if location.kind()? == PathKind::Directory => {}
            PathState::Directory { .. } => location.make_directory()?,
            PathState::Link { target } => {
                if location.kind()? != PathKind::Absent {
                    location.remove()?;
                }
                location.make_link(target)?;
            }
            PathState::File { backup, .. } => {
                let copy =
                    UndoPath::resolve(&self.folder, backup.as_deref().unwrap_or_default(), false)?;
                location.write_file(&mut copy.open()?, mode)?;
            }
        }
        Ok(RestoreResult::Restored)
    }
}

fn restored_path(change: &UndoChange, result: RestoreResult, copy: Option<String>) -> RestoredPath {
    RestoredPath {
        path: change.path.clone(),
        before: change.before.clone(),
        result,
        copy,
    }
}

/// Returns true if restoring would replace a folder by another item, or another item by a folder.
fn is_blocking(now: &PathState, before: &PathState) -> bool {
    match (now, before) {
        (PathState::Absent, _) | (_, PathState::Absent) => false,
        (now, before) => {
            matches!(now, PathState::Directory { .. })
                != matches!(before, PathState::Directory { .. })
        }
    }
}

fn list_paths(paths: &[&str]) -> String {
    let shown = paths.iter().take(MAX_NAMED_FILES);
    let shown: Vec<String> = shown.map(|path| text::visible(path)).collect();
    match paths.len().saturating_sub(MAX_NAMED_FILES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Creates the error of an undo that has stopped halfway. Such an undo can be repeated.
fn restore_error(change: &UndoChange, error: &io::Error, done: &[RestoredPath]) -> ToolError {
    use io::ErrorKind as K;
    let code = match error.kind() {
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => ToolErrorCode::LimitExceeded,
        K::PermissionDenied | K::ReadOnlyFilesystem => ToolErrorCode::PermissionDenied,
        K::NotADirectory | K::IsADirectory | K::AlreadyExists => ToolErrorCode::AlreadyExists,
        _ => ToolErrorCode::ExecutionError,
    };
    let restored: Vec<&str> = done.iter().map(|done| done.path.as_str()).collect();
    let message = format!(
        "cannot restore {}: {error}; done so far: {}",
        text::visible(&change.path),
        restored.len()
    );
    ToolError::new(code, message).with_details(json!({ "restored": restored }))
}

/// Returns true if the current state (`a`) matches the recorded state (`b`).
fn is_same(a: &PathState, b: &PathState) -> bool {
    match (a, b) {
        (
            PathState::File {
                sha256: Some(a), ..
            },
            PathState::File {
                sha256: Some(b), ..
            },
        ) => a == b,
        (
            PathState::File {
                size: Some(size),
                modified: Some(modified),
                ..
            },
            PathState::File {
                sha256: None,
                size: recorded_size,
                modified: recorded,
                ..
            },
        ) => Some(*size) == *recorded_size && Some(*modified) == *recorded,
        (PathState::File { .. }, PathState::File { .. }) => false,
        (PathState::Directory { .. }, PathState::Directory { .. }) => true,
        (a, b) => a == b,
    }
}

/// Converts a time to nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(error) => {
            let before = i64::try_from(error.duration().as_nanos());
            before.map_or(i64::MIN, |before| -before)
        }
    }
}

fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut from, &mut hash)?;
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
