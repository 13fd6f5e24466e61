//! The decisions of this user about a workspace: approvals, grants, and accepted project settings.
//!
//! They are stored in the user's own folder and not in the workspace, because files that come with a checkout must not
//! decide for the user who checked it out. The grants themselves are in `.mimir/tools.lock`, which teams review like
//! code; this store only records which of the grants this user has given.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use mimir_core::Tool;
use mimir_core::approval::{ApprovalStore, ApprovalStoreError, Fingerprint, StoredApproval};
use mimir_core::grants::Grant;
use mimir_core::needs::NeedKind;
use sha2::{Digest, Sha256};

use crate::private_files::{self, FileReaders};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

mod approval_file;
mod lock_file;
mod session_approval;

pub use approval_file::{ApprovalFile, WorkspaceApprovals};
pub use lock_file::ToolsLockFile;
pub use session_approval::SessionApproval;

/// The stored decisions of this user about one workspace.
pub struct UserApprovalStore {
    store: ApprovalFile,
    lock: ToolsLockFile,
    max_age: Option<SignedDuration>,
}

/// Number of hex digits of a workspace's hash in the name of its file.
const FILE_NAME_LENGTH: usize = 32;

/// Returns the path of a workspace's file in the user's own folder, which no checkout can write to. `kind` is the file
/// name extension. `None` on platforms without a folder for the user's settings.
pub fn user_state_path(
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
    kind: &str,
) -> Option<PathBuf> {
    let folder = user_dirs.config.as_ref()?.join("workspaces");
    Some(folder.join(format!("{}.{kind}", workspace_key(workspace))))
}

/// Returns the name of a workspace's files and folders in the user's own folders.
pub fn workspace_key(workspace: &WorkspaceFolder) -> String {
    let root = workspace.root().as_os_str().as_encoded_bytes();
    let mut hash = format!("{:x}", Sha256::digest(root));
    hash.truncate(FILE_NAME_LENGTH);
    hash
}

impl UserApprovalStore {
    /// Creates the approval store of a workspace. Its files are read and created on first use. `None` on platforms
    /// without a folder for the user's settings.
    pub fn new(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Option<Self> {
        // The decisions about a deployment come with it, and are none about the workspace's own files.
        let kind = match workspace.deployment() {
            Some(_) => "deployed.json",
            None => "json",
        };
        Some(Self {
            store: ApprovalFile::new(
                user_state_path(user_dirs, workspace, kind)?,
                workspace.root(),
            ),
            lock: ToolsLockFile::new(workspace.lock()),
            max_age: None,
        })
    }

    /// Limits the lifetime of all approvals to `max_age`, even of those that were given for longer.
    #[must_use]
    pub fn with_max_age(mut self, max_age: SignedDuration) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// Returns the path of the file with the decisions.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// Reads all decisions.
    pub fn read(&self) -> Result<WorkspaceApprovals, ApprovalStoreError> {
        self.store.read()
    }

    /// Applies a change to the file under an inter-process lock.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut WorkspaceApprovals) -> T,
    ) -> Result<T, ApprovalStoreError> {
        self.store.change(change)
    }

    /// Returns the lock file of the workspace, which contains the grants.
    pub fn lock(&self) -> &ToolsLockFile {
        &self.lock
    }

    /// Writes a plugin's grant to the lock file, and records that this user has given it. Replaces an earlier grant of
    /// the plugin at `location`.
    pub fn grant(&self, location: &str, grant: Grant) -> Result<(), ApprovalStoreError> {
        let id = grant.id(location);
        self.lock
            .change(|grants| grants.plugins.insert(location.to_owned(), grant))?;
        self.store
            .change(|approvals| approvals.grants.insert(location.to_owned(), id))?;
        Ok(())
    }

    /// Returns true if the lock file has a grant of the plugin at `location` that this user has given in this workspace.
    pub fn has_given_grant(&self, location: &str) -> Result<bool, ApprovalStoreError> {
        let given = self.store.read()?.grants.remove(location);
        let lock = self.lock.read()?;
        let grant = lock.plugins.get(location);
        Ok(given.is_some_and(|id| grant.is_some_and(|grant| grant.id(location) == id)))
    }

    /// Revokes the grant of the plugin at `location`. Returns true if there was one. The user's record is removed
    /// first, so that the grant stays revoked even if the lock file is restored or cannot be read.
    pub fn revoke(&self, location: &str) -> Result<bool, ApprovalStoreError> {
        let record = self
            .store
            .change(|approvals| approvals.grants.remove(location))?;
        let was_removed = self.lock.remove_grant(location)?;
        Ok(record.is_some() || was_removed)
    }
}

impl ApprovalStore for UserApprovalStore {
    fn approvals(&self) -> Result<Vec<StoredApproval>, ApprovalStoreError> {
        let mut approvals = self.store.read()?.leases;
        if let Some(max_age) = self.max_age {
            limit_lifetime(&mut approvals, max_age);
        }
        Ok(approvals)
    }

    fn store(&self, approval: StoredApproval) -> Result<(), ApprovalStoreError> {
        self.store.change(|approvals| {
            approvals.leases.retain(|stored| stored.id != approval.id);
            approvals.leases.push(approval);
        })
    }

    fn record_use(&self, id: &Fingerprint, at: Timestamp) {
        let result = self.store.change(|approvals| {
            let mut stored = approvals.leases.iter_mut();
            if let Some(approval) = stored.find(|approval| approval.id == *id) {
                approval.last_used = Some(at);
            }
        });
        if let Err(error) = result {
            tracing::debug!(%error, "cannot record the use of an approval");
        }
    }

    fn list_for_session(
        &self,
        session: &str,
        approval: &StoredApproval,
    ) -> Result<(), ApprovalStoreError> {
        let listed = SessionApproval::in_this_process(session, approval);
        self.store.change(|approvals| {
            approvals.sessions.retain(SessionApproval::process_may_run);
            approvals.sessions.retain(|other| !other.is_same(&listed));
            approvals.sessions.push(listed);
        })
    }

    fn listed_in_session(&self, session: &str) -> Result<Vec<Fingerprint>, ApprovalStoreError> {
        let sessions = self.store.read()?.sessions.into_iter();
        let approvals = sessions.filter(|listed| listed.is_for_session(session));
        Ok(approvals.map(|listed| listed.lease.id).collect())
    }

    fn end_session(&self, session: &str) {
        let result = self.store.change(|approvals| {
            approvals
                .sessions
                .retain(|listed| listed.process_may_run() && !listed.is_for_session(session));
        });
        if let Err(error) = result {
            tracing::debug!(%error, "cannot remove the approvals of an ended session from the list");
        }
    }

    fn grant(&self, plugin: &[Arc<Tool>], withheld: &[NeedKind]) -> Result<(), ApprovalStoreError> {
        match (plugin.first(), Grant::new(plugin, withheld.to_vec())) {
            (Some(tool), Some(grant)) => self.grant(&tool.origin.location, grant),
            _ => Ok(()),
        }
    }
}

/// Limits the lifetime of approvals to `max_age`, even of those that were given for longer.
pub(crate) fn limit_lifetime(approvals: &mut [StoredApproval], max_age: SignedDuration) {
    for approval in approvals {
        let latest = approval.added_at.checked_add(max_age).ok();
        approval.expires_at = match (approval.expires_at, latest) {
            (Some(own), Some(latest)) => Some(own.min(latest)),
            (own, latest) => own.or(latest),
        };
    }
}

/// Acquires the inter-process lock that is needed to change a file.
fn lock_for_change(path: &Path) -> Result<File, ApprovalStoreError> {
    private_files::lock_for_change(path)
        .map_err(|error| file_error(path, format_args!("cannot be changed: {error}")))
}

/// Writes a whole file atomically.
fn replace_file(path: &Path, text: &str, readers: FileReaders) -> Result<(), ApprovalStoreError> {
    private_files::replace(path, text.as_bytes(), readers)
        .map_err(|error| file_error(path, format_args!("cannot be written: {error}")))
}

/// Creates an error that names the file.
fn file_error(path: &Path, text: impl std::fmt::Display) -> ApprovalStoreError {
    ApprovalStoreError {
        location: mimir_core::text::visible(&path.display().to_string()),
        text: text.to_string(),
    }
}

#[cfg(test)]
mod tests;
