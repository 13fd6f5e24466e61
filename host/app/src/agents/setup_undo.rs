//! Taking a setup back: files as they were, or without the entry of mimir if they have changed since.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use serde_json::Value;

use super::agent_file::AgentFile;
use super::agent_kind::AgentKind;
use super::config_text::EntryEdit;
use super::line_diff::unified_diff;
use super::setup_error::AgentSetupError;
use super::setup_record::{
    CreatedPath, FolderListing, RecordedFileChange, SetupRecord, SetupRecords, digest,
};

/// Maximum size in bytes of a created file that is compared.
const MAX_COMPARED_SIZE: u64 = 16 << 20;

/// The changes that take a setup back, before any of them is made.
#[derive(Debug)]
pub struct SetupUndo {
    root: PathBuf,
    /// The config files.
    pub files: Vec<UndoneFile>,
    /// Created files that still have the content that the setup wrote.
    pub removed: Vec<CreatedPath>,
    /// Created files that have changed since, or that other files of their folders use. They stay.
    pub kept: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    records: SetupRecords,
}

/// A config file that is taken back.
#[derive(Debug)]
pub struct UndoneFile {
    /// The agent.
    pub agent: AgentKind,
    /// The file.
    pub path: PathBuf,
    /// The change; `None` if the file has no entry of mimir any more, or if the entry or the file stays.
    pub change: Result<Option<UndoneChange>, AgentSetupError>,
    /// Other workspaces whose agents use the file of the user, which therefore stays.
    pub used_by: Vec<PathBuf>,
    /// True if the entry starts another program than the one that was written. It is the person's, and stays.
    pub keeps_entry: bool,
}

/// The plan for a config file.
enum PlannedUndo {
    /// The file has no entry of mimir any more, or other workspaces use it.
    Nothing,
    /// The entry is the person's own.
    KeepEntry,
    Change(UndoneChange),
}

/// The change of a config file that is taken back.
#[derive(Debug)]
pub struct UndoneChange {
    file: AgentFile,
    after: Option<String>,
    /// True if the file is exactly as the setup left it.
    pub is_restored: bool,
}

impl UndoneChange {
    /// True if the file is removed.
    pub fn removes_file(&self) -> bool {
        self.after.is_none()
    }

    /// The change as a unified diff, with this name for the file.
    pub fn diff(&self, name: &str) -> String {
        unified_diff(name, self.file.text.as_deref(), self.after.as_deref())
    }

    fn apply(&self) -> Result<(), AgentSetupError> {
        self.file.replace(self.after.as_deref())
    }
}

impl SetupUndo {
    /// Plans to take back everything that is recorded for the workspace at `root`. A file of the user stays until the
    /// last workspace that uses it is taken back.
    pub fn make(root: &Path, records: SetupRecords) -> Self {
        let mut undo = Self {
            root: root.to_owned(),
            files: Vec::new(),
            removed: Vec::new(),
            kept: Vec::new(),
            folders: Vec::new(),
            records,
        };
        let shared = undo.records.user.files.iter();
        let shared = shared.filter(|change| change.workspaces.iter().any(|it| it == root));
        for change in undo.records.workspace.files.iter().chain(shared) {
            // The name of an agent that only a later version knows: that version can take it back.
            let Some(agent) = change.agent_kind() else {
                continue;
            };
            let used_by = change.other_workspaces(root);
            let planned = if used_by.is_empty() {
                undo.folders.extend(change.new_folders.iter().cloned());
                plan_undo(agent, change, root)
            } else {
                Ok(PlannedUndo::Nothing)
            };
            undo.files.push(UndoneFile {
                agent,
                path: change.path.clone(),
                keeps_entry: matches!(planned, Ok(PlannedUndo::KeepEntry)),
                change: planned.map(|planned| match planned {
                    PlannedUndo::Change(change) => Some(change),
                    PlannedUndo::Nothing | PlannedUndo::KeepEntry => None,
                }),
                used_by,
            });
        }
        for created in &undo.records.workspace.created {
            match (&created.digest, created_state(root, created)) {
                (None, _) => undo.folders.push(created.path.clone()),
                (Some(_), CreatedState::Same) => undo.removed.push(created.clone()),
                (Some(_), CreatedState::Changed) => undo.kept.push(created.path.clone()),
                (Some(_), CreatedState::Gone) => {}
            }
        }
        undo.keep_companions();
        // Inner folders first.
        undo.folders
            .sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        undo
    }

    /// Keeps `.gitignore` files, schemas and types while other files of their folders stay: without the one, the audit
    /// log could be committed, and tools and settings refer to the others.
    fn keep_companions(&mut self) {
        let is_removed: BTreeSet<PathBuf> = self.removed.iter().map(|it| it.path.clone()).collect();
        let stays = |path: &PathBuf| {
            let is_file = path.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
            is_file && !is_companion(path) && !is_removed.contains(path)
        };
        let (kept, removed) = std::mem::take(&mut self.removed)
            .into_iter()
            .partition(|created| {
                let folder = created.path.parent().unwrap_or(&created.path);
                is_companion(&created.path) && FolderListing::read(folder).paths().any(stays)
            });
        let kept: Vec<CreatedPath> = kept;
        self.removed = removed;
        self.kept
            .extend(kept.into_iter().map(|created| created.path));
    }

    /// Makes the changes. Returns those that failed, and the records of what is left to take back.
    pub fn apply(self) -> (Vec<(PathBuf, AgentSetupError)>, SetupRecords) {
        let mut records = self.records;
        let left = &mut records.workspace;
        let mut failed = Vec::new();
        for file in self.files {
            let result = match file.change {
                Ok(Some(change)) => change.apply(),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match result {
                Ok(()) if file.used_by.is_empty() => {
                    left.files.retain(|change| change.path != file.path);
                    let shared = &mut records.user.files;
                    shared.retain(|change| change.path != file.path);
                }
                Ok(()) => leave(&mut records.user, &file.path, &self.root),
                Err(error) => failed.push((file.path, error)),
            }
        }
        left.created.clear();
        for created in self.removed {
            // Compared again, because time has passed while the person was asked.
            if created_state(&self.root, &created) != CreatedState::Same {
                continue;
            }
            if let Err(error) = std::fs::remove_file(&created.path) {
                let error = AgentSetupError::file("remove", &created.path, error);
                failed.push((created.path.clone(), error));
                left.created.push(created);
            }
        }
        for folder in self.folders {
            // Only an empty one is removed, and never a link to one.
            let _ = std::fs::remove_dir(folder);
        }
        (failed, records)
    }
}

/// Removes a workspace from those that use a file of the user.
fn leave(shared: &mut SetupRecord, path: &Path, root: &Path) {
    let changes = shared.files.iter_mut();
    for change in changes.filter(|change| change.path == path) {
        change.workspaces.retain(|workspace| workspace != root);
    }
}

/// Returns true for a file that only serves other files of its folder.
fn is_companion(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        name == ".gitignore" || name.ends_with(".schema.json") || name.ends_with(".d.ts")
    })
}

/// The way back of a config file.
fn plan_undo(
    agent: AgentKind,
    change: &RecordedFileChange,
    root: &Path,
) -> Result<PlannedUndo, AgentSetupError> {
    let project = change.in_project.then_some(root);
    let file = AgentFile::read_path(agent, change.path.clone(), project)?;
    let Some(text) = &file.text else {
        return Ok(PlannedUndo::Nothing);
    };
    if digest(text.as_bytes()) == change.written {
        let after = change.before.clone();
        return Ok(PlannedUndo::Change(UndoneChange {
            file,
            after,
            is_restored: true,
        }));
    }
    let Some(entry) = file.entry()? else {
        return Ok(PlannedUndo::Nothing);
    };
    if let Some(written) = &change.written_entry
        && !starts_same_program(&entry, written)
    {
        return Ok(PlannedUndo::KeepEntry);
    }
    let edit = match &change.previous_entry {
        Some(entry) => EntryEdit::Set(entry),
        None => EntryEdit::Remove {
            prune: !had_servers(agent, change),
        },
    };
    let after = file.edit(edit)?;
    let is_blank = || {
        matches!(
            after.split_whitespace().collect::<String>().as_str(),
            "" | "{}"
        )
    };
    let after = if change.before.is_none() && is_blank() {
        None
    } else {
        Some(after)
    };
    Ok(PlannedUndo::Change(UndoneChange {
        file,
        after,
        is_restored: false,
    }))
}

/// Returns true if two entries start the same program, however they start it.
fn starts_same_program(one: &Value, other: &Value) -> bool {
    let program = |entry: &Value| {
        let mut entry = entry.clone();
        AgentKind::entry_program(&mut entry).map(std::mem::take)
    };
    program(one) == program(other)
}

/// Returns true if the file had the key of the servers before the setup.
fn had_servers(agent: AgentKind, change: &RecordedFileChange) -> bool {
    change.before.as_ref().is_some_and(|before| {
        let value = agent.format().parse(before);
        value.is_ok_and(|value| value.get(agent.servers_key()).is_some())
    })
}

/// State of a created file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CreatedState {
    Same,
    Changed,
    Gone,
}

fn created_state(root: &Path, created: &CreatedPath) -> CreatedState {
    if created.path.symlink_metadata().is_err() {
        return CreatedState::Gone;
    }
    let is_same = files::reject_links(root, &created.path).is_ok()
        && files::read(&created.path, LinkPolicy::Refuse, MAX_COMPARED_SIZE)
            .is_ok_and(|content| Some(digest(&content)) == created.digest);
    if is_same {
        CreatedState::Same
    } else {
        CreatedState::Changed
    }
}

#[cfg(test)]
mod tests;
