//! Records of the changes that setups make, so that `mimir setup --undo` can revert them.
//!
//! There is one file for each workspace, and one for the changes of the user's own config files, which workspaces
//! share. All are in the user's own folder, because a record that came with a checkout could name any file of the user.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::agent_kind::AgentKind;
use super::config_text::EntryEdit;
use super::setup_error::{AgentSetupError, shown};
use super::setup_plan::{FileChange, SetupPlan};
use crate::approval_store;
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Version of the file format.
const VERSION: u32 = 1;

/// Maximum number of created files that are recorded.
const MAX_CREATED: usize = 1_000;

/// Maximum number of paths in a listing.
const MAX_LISTED: usize = 10_000;

/// Maximum size in bytes of a created file that is recorded.
const MAX_CREATED_SIZE: u64 = 16 << 20;

/// The records that matter for one workspace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetupRecords {
    /// Changes in the workspace.
    pub workspace: SetupRecord,
    /// Changes of the user's own files, by setups of all workspaces.
    pub user: SetupRecord,
}

/// Everything that setups have changed in a workspace, or in the user's own files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetupRecord {
    version: u32,
    pub(crate) files: Vec<RecordedFileChange>,
    pub(crate) created: Vec<CreatedPath>,
}

/// A changed config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedFileChange {
    /// Name of the agent.
    pub(crate) agent: String,
    /// The path that the agent reads.
    pub(crate) path: PathBuf,
    /// True if the file belongs to the project.
    pub(crate) in_project: bool,
    /// The text before; `None` if the file was created.
    pub(crate) before: Option<String>,
    /// Digest of the text that was written.
    pub(crate) written: String,
    /// The entry that was written; `None` in a record of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) written_entry: Option<Value>,
    /// The entry that was replaced.
    pub(crate) previous_entry: Option<Value>,
    /// Folders that were created for the file, outermost first.
    pub(crate) new_folders: Vec<PathBuf>,
    /// For a file of the user: the roots of the workspaces whose agents use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) workspaces: Vec<PathBuf>,
}

/// A file or folder of the workspace that a setup created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatedPath {
    /// The path.
    pub path: PathBuf,
    /// Digest of a file's content; `None` for a folder.
    pub(crate) digest: Option<String>,
}

impl Default for SetupRecord {
    fn default() -> Self {
        Self {
            version: VERSION,
            files: Vec::new(),
            created: Vec::new(),
        }
    }
}

impl SetupRecord {
    /// Returns true if there is nothing to undo.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.created.is_empty()
    }

    /// Adds a change that is about to be made. If an earlier setup changed the same file, the state before that setup
    /// is kept. If the user has edited the file since, an undo restores the edited text, without the entry of mimir.
    pub fn add_change(&mut self, change: &FileChange) {
        let written = digest(change.after.as_bytes());
        let written_entry = change.file.entry_in(&change.after).ok().flatten();
        let path = change.path();
        if let Some(old) = self.files.iter_mut().find(|old| old.path == path) {
            let text = change.file.text.as_deref();
            if text.map(|text| digest(text.as_bytes())).as_ref() != Some(&old.written) {
                // The user has edited the file since.
                let current = &change.previous_entry;
                let is_ours = current.is_some()
                    && (old.written_entry.is_none() || *current == old.written_entry);
                if is_ours {
                    // The edited text, with the entry from before the first setup.
                    let edit = match &old.previous_entry {
                        Some(entry) => EntryEdit::Set(entry),
                        None => EntryEdit::Remove { prune: false },
                    };
                    let text = change.file.edit(edit).ok();
                    old.before = text.or_else(|| change.file.text.clone());
                } else {
                    old.before.clone_from(&change.file.text);
                    old.previous_entry.clone_from(current);
                }
            }
            old.written = written;
            old.written_entry = written_entry;
            return;
        }
        self.files.push(RecordedFileChange {
            agent: change.agent().name().to_owned(),
            path: path.to_owned(),
            in_project: change.is_in_project(),
            before: change.file.text.clone(),
            written,
            written_entry,
            previous_entry: change.previous_entry.clone(),
            new_folders: change.new_folders.clone(),
            workspaces: Vec::new(),
        });
    }

    /// Adds the files and folders that were created since `before` was read, with digests of their current content.
    pub fn add_created_since(&mut self, before: &FolderListing) {
        for path in FolderListing::read(&before.folder).paths {
            if !before.paths.contains(&path) {
                self.add_created(path);
            }
        }
    }

    /// Adds a created file or folder, or updates its digest. Links and other special files are ignored.
    pub fn add_created(&mut self, path: PathBuf) {
        let Ok(meta) = path.symlink_metadata() else {
            return;
        };
        let digest = if meta.is_dir() {
            None
        } else {
            match files::read(&path, LinkPolicy::Refuse, MAX_CREATED_SIZE) {
                Ok(content) => Some(digest(&content)),
                Err(_) => return,
            }
        };
        self.created.retain(|old| old.path != path);
        if self.created.len() < MAX_CREATED {
            self.created.push(CreatedPath { path, digest });
        }
    }
}

/// The paths in a folder at one time, including the folder itself. Links are not followed.
#[derive(Debug, Clone)]
pub struct FolderListing {
    folder: PathBuf,
    paths: BTreeSet<PathBuf>,
}

impl FolderListing {
    /// Reads a folder, which need not exist.
    pub fn read(folder: &Path) -> Self {
        let mut paths = BTreeSet::new();
        list(folder, &mut paths);
        Self {
            folder: folder.to_owned(),
            paths,
        }
    }

    /// Returns the folder and everything below it.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.paths.iter()
    }
}

impl RecordedFileChange {
    /// Returns the agent; `None` if this version does not know it.
    pub(crate) fn agent_kind(&self) -> Option<AgentKind> {
        AgentKind::from_name(&self.agent)
    }

    /// Returns the existing workspaces other than `root` whose agents use the file.
    pub(crate) fn other_workspaces(&self, root: &Path) -> Vec<PathBuf> {
        let others = self.workspaces.iter().filter(|other| *other != root);
        others.filter(|other| other.is_dir()).cloned().collect()
    }
}

impl SetupRecords {
    /// Returns true if no setup of the workspace at `root` is recorded.
    pub fn is_empty_for(&self, root: &Path) -> bool {
        let mut shared = self.user.files.iter();
        self.workspace.is_empty() && !shared.any(|file| file.workspaces.iter().any(|it| it == root))
    }

    /// Adds a change that is about to be made for the workspace at `root`.
    pub fn add_change(&mut self, root: &Path, change: &FileChange) {
        if change.is_in_project() {
            self.workspace.add_change(change);
        } else {
            self.user.add_change(change);
            self.add_use(root, change.path());
        }
    }

    /// Records that the workspace at `root` uses the files of the user that earlier setups of other workspaces have
    /// changed. Returns true if that was not recorded before.
    pub fn add_uses(&mut self, root: &Path, plan: &SetupPlan) -> bool {
        let before = self.user.clone();
        for change in plan.changes().filter(|change| change.is_done()) {
            self.add_use(root, change.path());
        }
        self.user != before
    }

    fn add_use(&mut self, root: &Path, path: &Path) {
        let files = self.user.files.iter_mut();
        for file in files.filter(|file| file.path == path) {
            if !file.workspaces.iter().any(|known| known == root) {
                file.workspaces.push(root.to_owned());
            }
        }
    }
}

/// Adds a path and everything below it, up to [`MAX_LISTED`] paths.
fn list(path: &Path, paths: &mut BTreeSet<PathBuf>) {
    let Ok(meta) = path.symlink_metadata() else {
        return;
    };
    if paths.len() >= MAX_LISTED {
        return;
    }
    paths.insert(path.to_owned());
    if meta.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| list(&entry.path(), paths));
    }
}

/// Name of the file with the changes of the user's own files, next to those of the workspaces.
const USER_FILE: &str = "user.setup";

/// The files with the records that matter for one workspace.
#[derive(Debug, Clone)]
pub struct SetupRecordStore {
    workspace: StoredSetupRecord,
    user: StoredSetupRecord,
}

impl SetupRecordStore {
    /// Locates the records of a workspace.
    pub fn for_workspace(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
    ) -> Result<Self, AgentSetupError> {
        let path = approval_store::user_state_path(user_dirs, workspace, "setup");
        let path = path.ok_or(AgentSetupError::NoRecordFolder)?;
        Ok(Self {
            user: StoredSetupRecord {
                path: path.with_file_name(USER_FILE),
            },
            workspace: StoredSetupRecord { path },
        })
    }

    /// Reads the records; they are empty if there was no setup.
    pub fn read(&self) -> Result<SetupRecords, AgentSetupError> {
        Ok(SetupRecords {
            workspace: self.workspace.read()?,
            user: self.user.read()?,
        })
    }

    /// Locks the records against other processes and reads them. Waits until the lock is free. Setups of all workspaces
    /// use the same lock, because they share the user's record.
    pub fn lock(&self) -> Result<LockedSetupRecords<'_>, AgentSetupError> {
        let path = &self.user.path;
        let lock = private_files::lock_for_change(path)
            .map_err(|error| AgentSetupError::file("lock", path, error))?;
        Ok(LockedSetupRecords {
            store: self,
            records: self.read()?,
            _lock: lock,
        })
    }

    /// Applies a change to the stored records under the lock.
    pub fn update(&self, change: impl FnOnce(&mut SetupRecords)) -> Result<(), AgentSetupError> {
        let mut locked = self.lock()?;
        change(&mut locked.records);
        locked.write()
    }
}

/// The records that matter for one workspace, locked against changes by other processes. Never hold it while waiting
/// for an answer of the user.
#[derive(Debug)]
pub struct LockedSetupRecords<'s> {
    store: &'s SetupRecordStore,
    /// The records.
    pub records: SetupRecords,
    _lock: File,
}

impl LockedSetupRecords<'_> {
    /// Fails if the records differ from `planned`, the records that a plan is based on.
    pub fn check_unchanged(&self, planned: &SetupRecords) -> Result<(), AgentSetupError> {
        let path = if self.records.workspace == planned.workspace {
            &self.store.user.path
        } else {
            &self.store.workspace.path
        };
        if self.records == *planned {
            Ok(())
        } else {
            Err(AgentSetupError::Changed { path: shown(path) })
        }
    }

    /// Stores the records, readable by their owner only: config files may contain secrets. Removes the files of empty
    /// records.
    pub fn write(&self) -> Result<(), AgentSetupError> {
        self.store.user.write(&self.records.user)?;
        self.store.workspace.write(&self.records.workspace)
    }
}

/// The file of a record.
#[derive(Debug, Clone)]
struct StoredSetupRecord {
    path: PathBuf,
}

impl StoredSetupRecord {
    /// Reads the record; it is empty if the file does not exist.
    fn read(&self) -> Result<SetupRecord, AgentSetupError> {
        let text = private_files::read(&self.path, OwnerOnly::Writing)
            .map_err(|error| AgentSetupError::file("read", &self.path, error))?;
        let Some(text) = text else {
            return Ok(SetupRecord::default());
        };
        let invalid = |message: String| AgentSetupError::Record {
            path: shown(&self.path),
            message,
        };
        let record: SetupRecord =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if record.version != VERSION {
            return Err(invalid(format!(
                "version {} is not supported, expected {VERSION}",
                record.version
            )));
        }
        Ok(record)
    }

    fn write(&self, record: &SetupRecord) -> Result<(), AgentSetupError> {
        let write = || {
            if record.is_empty() {
                return match std::fs::remove_file(&self.path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
            }
            let folder = self.path.parent().unwrap_or(&self.path);
            private_files::private_folder(folder)?;
            let text = serde_json::to_vec_pretty(record)?;
            private_files::replace(&self.path, &text, FileReaders::Owner)
        };
        write().map_err(|error| AgentSetupError::file("write", &self.path, error))
    }
}

/// SHA-256 in hexadecimal.
pub(crate) fn digest(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}
