//! Undo of file changes: reads the records that were made before a change, and restores the old state.
//!
//! All paths are checked before any file is changed: each path must still be as the tool left it, and each backup copy
//! must be intact. Files that an undo removes or replaces are saved with the backups. Each file is restored atomically.
//! Files that are already restored are skipped, so that an interrupted undo can be repeated.

mod call_diff;
mod call_preview;
mod file_modes;
mod record;
mod record_check;
mod restore;
mod undo_path;

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use mimir_core::{ToolError, ToolErrorCode, files, text};

use crate::file_error::file_error;
use crate::workspace::WorkspaceFolder;

pub use call_diff::{CHANGED_SINCE, CallDiff, CallDiffKind, CallDiffLine};
pub use call_preview::{CallPreview, PreviewedCall};
pub use record::{PathState, UndoChange, UndoRecord};
pub use record_check::is_logged;
pub use restore::{RestoreResult, RestoredPath};

/// The backups of a workspace.
pub struct UndoStore {
    root: PathBuf,
    folder: PathBuf,
}

/// The undo records of a workspace.
#[derive(Debug, Default)]
pub struct UndoHistory {
    /// The readable records, newest first.
    pub records: Vec<UndoRecord>,
    /// File names of unreadable records, each with the error.
    pub unreadable: Vec<String>,
}

/// Folder of the backups, relative to the workspace root.
pub const FOLDER: &str = ".mimir/state/backups";

/// Maximum size of a record in bytes. Deleting 100,000 files makes about 30 MB.
const MAX_RECORD_SIZE: u64 = 64 << 20;

impl UndoStore {
    /// Creates a handle to the backups of a workspace. Reads nothing.
    pub fn for_workspace(workspace: &WorkspaceFolder) -> Self {
        Self {
            root: workspace.root().to_owned(),
            folder: workspace.state().join("backups"),
        }
    }

    /// Reads the record of a call. `None` if it has none, or it cannot be read.
    pub fn record_of(&self, request_id: &str) -> Option<UndoRecord> {
        self.call_record(request_id)
    }

    /// Reads all records, newest first. An unreadable record is not an error.
    pub fn read_history(&self) -> Result<UndoHistory, ToolError> {
        let mut history = UndoHistory::default();
        let links = files::reject_links(&self.root, &self.folder);
        links.map_err(|e| file_error("read", &self.folder, &e))?;
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(history),
            Err(e) => return Err(file_error("read", &self.folder, &e)),
        };
        for entry in entries {
            let path = entry
                .map_err(|e| file_error("read", &self.folder, &e))?
                .path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            match self.read(&path) {
                Ok(record) => history.records.push(record),
                Err(problem) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    history
                        .unreadable
                        .push(format!("{}: {problem}", text::visible(&name)));
                }
            }
        }
        // Ids begin with the time in hex digits of fixed width.
        history.records.sort_by(|a, b| b.id.cmp(&a.id));
        Ok(history)
    }

    fn read(&self, path: &std::path::Path) -> Result<UndoRecord, String> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or("its name is not Unicode")?;
        let location =
            undo_path::UndoPath::resolve(&self.folder, name, false).map_err(|e| e.to_string())?;
        let mut content = Vec::new();
        let file = location.open().map_err(|e| e.to_string())?;
        file.take(MAX_RECORD_SIZE + 1)
            .read_to_end(&mut content)
            .map_err(|e| e.to_string())?;
        if content.len() as u64 > MAX_RECORD_SIZE {
            return Err("it is larger than 64 MB, the maximum for a record".to_owned());
        }
        let record: UndoRecord = serde_json::from_slice(&content).map_err(|e| e.to_string())?;
        // The id is used as a file name, so it must match the name of this file.
        if name.strip_suffix(".json") != Some(record.id.as_str()) {
            return Err("it is the record of another call".to_owned());
        }
        Ok(record)
    }
}

impl UndoHistory {
    /// Returns the record with this id, else with this unique id prefix, or the newest record that was not undone if
    /// `id` is `None`. Fails if the record was already undone.
    pub fn choose(&self, id: Option<&str>) -> Result<&UndoRecord, ToolError> {
        let Some(id) = id else {
            let mut not_undone = self.records.iter().filter(|record| record.undone.is_none());
            let none = || {
                ToolError::not_found(
                    "nothing to undo: no change is recorded that was not undone yet",
                )
            };
            return not_undone.next().ok_or_else(none);
        };
        // The last part of an id has no fixed width, so a full id may be the prefix of another one.
        let exact = self.records.iter().find(|record| record.id == id);
        let records = match exact {
            Some(record) => vec![record],
            None => {
                let matching = self
                    .records
                    .iter()
                    .filter(|record| record.id.starts_with(id));
                matching.collect()
            }
        };
        match *records.as_slice() {
            [record] => match &record.undone {
                None => Ok(record),
                Some(time) => Err(ToolError::new(
                    ToolErrorCode::AlreadyExists,
                    format!("the change {} was already undone, at {time}", record.id),
                )),
            },
            [] => Err(ToolError::not_found(format!(
                "unknown change `{}`; `mimir undo --list` lists all changes",
                text::visible(id)
            ))),
            ref many => {
                let ids: Vec<&str> = many.iter().map(|record| record.id.as_str()).collect();
                Err(ToolError::invalid_input(format!(
                    "`{}` is ambiguous: it matches {}",
                    text::visible(id),
                    ids.join(", ")
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests;
