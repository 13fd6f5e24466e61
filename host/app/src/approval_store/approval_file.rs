//! The JSON file with a user's decisions about a workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mimir_core::approval::{ApprovalStoreError, StoredApproval};
use serde::{Deserialize, Deserializer, Serialize};

use crate::private_files::{self, FileReaders, OwnerOnly};

use super::{SessionApproval, file_error, lock_for_change, replace_file};

/// The decisions of a user about a workspace.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspaceApprovals {
    /// Root of the workspace, for people who read the file.
    pub workspace: String,
    /// sha256 of each accepted version of the project's settings.
    pub settings: BTreeSet<String>,
    /// sha256 of each accepted worker file, including its name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub workers: BTreeSet<String>,
    /// Id of the grant that this user has given, by the location of the plugin. The grant is in the project's lock
    /// file.
    #[serde(deserialize_with = "deserialize_grants")]
    pub grants: BTreeMap<String, String>,
    /// The folder or archive of this machine that each skill was added from. The lock file does not name it, because it
    /// is shared with people who do not have it.
    #[serde(rename = "skillSources", skip_serializing_if = "BTreeMap::is_empty")]
    pub skill_sources: BTreeMap<String, PathBuf>,
    /// Approvals that outlive a session (answer "always").
    pub leases: Vec<StoredApproval>,
    /// Approvals of running sessions. A process checks this list to detect that an approval was revoked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionApproval>,
}

/// Reads the grants. Earlier versions stored a list without locations, which also contained revoked and replaced
/// grants. Such a list is discarded, so that the plugins must be granted again.
fn deserialize_grants<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Array(_) => Ok(BTreeMap::new()),
        grants => serde_json::from_value(grants).map_err(serde::de::Error::custom),
    }
}

/// Returns true if the error is an unknown field or variant in valid JSON, as a newer version may have written it.
fn is_newer(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    error.is_data() && (text.starts_with("unknown field") || text.starts_with("unknown variant"))
}

/// The file with the decisions, which one process at a time changes.
pub struct ApprovalFile {
    path: PathBuf,
    workspace: String,
}

impl ApprovalFile {
    /// Creates a handle to the file at `path`, with the decisions about `workspace`. Reads nothing.
    pub fn new(path: PathBuf, workspace: &Path) -> Self {
        Self {
            path,
            workspace: workspace.display().to_string(),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. Without a file, there are no decisions.
    pub fn read(&self) -> Result<WorkspaceApprovals, ApprovalStoreError> {
        let text = private_files::read(&self.path, OwnerOnly::Writing);
        let Some(text) = text.map_err(|error| self.unreadable(error))? else {
            return Ok(WorkspaceApprovals::default());
        };
        serde_json::from_str(&text).map_err(|error| {
            if is_newer(&error) {
                self.unreadable(format_args!(
                    "it was written by a newer version of mimir ({error}); update mimir, or set MIMIR_CONFIG_DIR \
                     for this version; the file is unchanged"
                ))
            } else {
                self.unreadable(format_args!(
                    "{error}; restore it from a backup, or move it away: mimir then asks again for the approvals, \
                     grants and accepted settings of this workspace"
                ))
            }
        })
    }

    /// Applies a change to the file under an inter-process lock.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut WorkspaceApprovals) -> T,
    ) -> Result<T, ApprovalStoreError> {
        let _guard = lock_for_change(&self.path)?;
        let mut approvals = self.read()?;
        approvals.workspace.clone_from(&self.workspace);
        let result = change(&mut approvals);
        let text = serde_json::to_string_pretty(&approvals)
            .map_err(|error| file_error(&self.path, error))?;
        replace_file(&self.path, &text, FileReaders::Owner)?;
        Ok(result)
    }

    /// Returns the error about a file that cannot be used.
    fn unreadable(&self, why: impl std::fmt::Display) -> ApprovalStoreError {
        file_error(&self.path, format_args!("cannot be used: {why}"))
    }
}
