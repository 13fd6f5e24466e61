//! The undo record of a call that changed files. The undo recorder of `mimir_wasm::fs` writes it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The changes of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UndoRecord {
    /// Request id of the call, which is also the file name of the record.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Time of the call, RFC 3339 in UTC.
    pub time: String,
    /// The changes that can be undone, in the order in which they were made.
    pub changes: Vec<UndoChange>,
    /// The changes that cannot be undone.
    #[serde(default, rename = "unkept", skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedChanges>,
    /// Time of the undo, if the change was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<String>,
}

impl UndoRecord {
    /// Returns the time since the change; `None` if the recorded time is not valid or in the future.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let time: Timestamp = self.time.parse().ok()?;
        Duration::try_from(now.duration_since(time)).ok()
    }

    /// Returns the changed paths, including those that cannot be undone.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let changed = self.changes.iter().map(|change| change.path.as_str());
        let unrecorded = self
            .unrecorded
            .iter()
            .flat_map(|unrecorded| &unrecorded.paths);
        changed.chain(unrecorded.map(String::as_str))
    }
}

/// Changes without a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedChanges {
    /// The reason, as the end of a sentence that begins with "it can't be taken back, because".
    pub why: String,
    /// The changed paths.
    pub paths: Vec<String>,
}

impl PathState {
    /// A directory.
    pub const DIRECTORY: Self = Self::Directory { mode: None };

    /// Returns the recorded permission bits, if there are any.
    pub fn mode(&self) -> Option<u32> {
        match self {
            Self::Directory { mode } | Self::File { mode, .. } => *mode,
            Self::Absent | Self::Link { .. } => None,
        }
    }
}

/// The states of one path before and after the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoChange {
    /// Relative to the workspace root, with `/`.
    pub path: String,
    /// State before the call.
    pub before: PathState,
    /// State after the call.
    pub after: PathState,
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum PathState {
    /// No item.
    Absent,
    /// A directory.
    Directory {
        /// Permission bits, if they are recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    /// A file.
    File {
        /// SHA-256 of the content in lower-case hex. Large files, and files of a call that was stopped, may have none, and
        /// are compared by size and modification time instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        /// Path of the copy, relative to the folder of the backups. Only the state before a call has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backup: Option<String>,
        /// Size in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// Modification time in nanoseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modified: Option<i64>,
        /// Permission bits, if they are recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    /// A symbolic link.
    Link {
        /// Target of the link.
        target: String,
    },
}
