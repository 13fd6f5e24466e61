//! What a file tool wrote down before it changed something. The other side is in `plugins/files`.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One call's changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The call's request id; also the name of the file.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// In the order in which they were made.
    pub changes: Vec<Change>,
    /// What stands here instead of changes that can't be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<Unkept>,
    /// When they were taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<String>,
}

impl Record {
    /// How long ago the change was made; nothing if its time can't be read or is still to come.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let made: Timestamp = self.time.parse().ok()?;
        Duration::try_from(now.duration_since(made)).ok()
    }

    /// The paths that were changed.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let changed = self.changes.iter().map(|change| change.path.as_str());
        let unkept = self.unkept.iter().flat_map(|unkept| &unkept.paths);
        changed.chain(unkept.map(String::as_str))
    }
}

/// Changes of which nothing was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unkept {
    /// Why, as the end of a sentence that begins with "it can't be taken back, because".
    pub why: String,
    /// What was changed.
    pub paths: Vec<String>,
}

/// One path before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the workspace root, with `/`.
    pub path: String,
    /// What was there.
    pub before: State,
    /// What the tool put there.
    pub after: State,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum State {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A file.
    File {
        /// sha256 of its content in lower-case hex. Of what code has written there may be none: then size and time say
        /// whether it is still the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        /// Its copy, relative to the folder of the backups; only what was there before has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backup: Option<String>,
        /// Its size in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// When its content last changed, in nanoseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modified: Option<i64>,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        target: String,
    },
}
