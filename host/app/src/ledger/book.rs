//! The file of what a user has said about a workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mimir_core::approval::{Lease, LedgerError};
use serde::{Deserialize, Deserializer, Serialize};

use crate::private::{self, Closed, Readers};

use super::{Listed, failed, turn, write};

/// What a user has said about a workspace.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Book {
    /// Its root, for whoever reads the file.
    pub workspace: String,
    /// sha256 of each state of the project's settings that counts in full.
    pub settings: BTreeSet<String>,
    /// sha256 of each worker's file whose words count, with its name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub workers: BTreeSet<String>,
    /// By the place of a plugin, the name of the one grant in the project's lock that this user gave it.
    #[serde(deserialize_with = "grants")]
    pub grants: BTreeMap<String, String>,
    /// Approvals for good.
    pub leases: Vec<Lease>,
    /// Answers that count in sessions that run: a process that has one in memory looks here for whether it stands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<Listed>,
}

/// The grants of a book. Earlier ones had a list without the places, on which grants stayed that were taken back
/// or replaced: none of it counts, and whoever uses such a plugin is told to grant it again.
fn grants<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::Array(_) => Ok(BTreeMap::new()),
        grants => serde_json::from_value(grants).map_err(serde::de::Error::custom),
    }
}

/// Returns true if a file has valid JSON with a field or value that this version does not know.
fn is_newer(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    error.is_data() && (text.starts_with("unknown field") || text.starts_with("unknown variant"))
}

/// The file, and the lock that processes take turns with.
pub struct Store {
    path: PathBuf,
    workspace: String,
}

impl Store {
    /// The file at `path`, about `workspace`.
    pub fn new(path: PathBuf, workspace: &Path) -> Self {
        Self {
            path,
            workspace: workspace.display().to_string(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says; of a workspace that nobody has spoken about, nothing.
    pub fn read(&self) -> Result<Book, LedgerError> {
        let text = private::read(&self.path, Closed::Writing);
        let Some(text) = text.map_err(|error| self.unreadable(error))? else {
            return Ok(Book::default());
        };
        serde_json::from_str(&text).map_err(|error| {
            if is_newer(&error) {
                self.unreadable(format_args!(
                    "it was written by a newer version of mimir ({error}); update mimir, or set MIMIR_CONFIG_DIR \
                     for this version; the file is unchanged"
                ))
            } else {
                self.unreadable(format_args!(
                    "{error}; restore it from a backup, or move it away: approvals, grants and accepted settings of \
                     this workspace are then asked for again"
                ))
            }
        })
    }

    /// Reads, changes and writes it while no other process does.
    pub fn change<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, LedgerError> {
        let _turn = turn(&self.path)?;
        let mut book = self.read()?;
        book.workspace.clone_from(&self.workspace);
        let result = change(&mut book);
        let text =
            serde_json::to_string_pretty(&book).map_err(|error| failed(&self.path, error))?;
        write(&self.path, &text, Readers::Owner)?;
        Ok(result)
    }

    fn unreadable(&self, why: impl std::fmt::Display) -> LedgerError {
        failed(&self.path, format_args!("cannot be used: {why}"))
    }
}
