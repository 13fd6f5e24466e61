//! Writes the planned changes. New content is first written to temporary files, so that most failures happen before
//! any file is changed; a failure after that takes the earlier changes back.

use std::fs;

use mimir_sdk::prelude::*;

use super::plan::{PatchAction, PlannedChange};
use crate::atomic::{self, StagedFile};
use crate::workspace_path::WorkspacePath;
use crate::write::missing_parents;

/// Writes all changes, or none of them.
pub fn commit(changes: &[PlannedChange]) -> Result<()> {
    let mut progress = CommitProgress::default();
    match progress.write(changes) {
        Ok(()) => Ok(()),
        Err(error) => {
            let remaining = progress.take_back();
            let note = if remaining.is_empty() {
                "nothing was changed".to_owned()
            } else {
                let paths: Vec<String> = remaining.iter().map(ToString::to_string).collect();
                format!(
                    "these changes could not be taken back: {}; `mimir undo` restores them",
                    paths.join(", ")
                )
            };
            Err(
                Error::new(error.code().clone(), format_args!("{error}; {note}"))
                    .with_details(serde_json::json!({ "path": progress.failed })),
            )
        }
    }
}

/// The steps so far.
#[derive(Default)]
struct CommitProgress<'a> {
    folders: Vec<WorkspacePath>,
    done: Vec<DoneStep<'a>>,
    /// The path whose change failed.
    failed: String,
}

/// A step that can be taken back.
enum DoneStep<'a> {
    Created(&'a WorkspacePath),
    Replaced(&'a WorkspacePath, &'a PlannedChange),
    Deleted(&'a PlannedChange),
    Moved(&'a WorkspacePath, &'a WorkspacePath),
}

impl<'a> CommitProgress<'a> {
    fn write(&mut self, changes: &'a [PlannedChange]) -> Result<()> {
        let mut staged = Vec::new();
        for change in changes {
            self.failed = change.target().exact().to_owned();
            if matches!(change.action, PatchAction::Added | PatchAction::Moved) {
                self.create_folders(change.target())?;
            }
            let file = match &change.content {
                Some(content) => Some(StagedFile::write(
                    change.target(),
                    content.as_bytes(),
                    change.old.as_ref().map(|(_, metadata)| metadata),
                )?),
                None => None,
            };
            staged.push((change, file));
        }
        for (change, file) in staged {
            self.failed = change.target().exact().to_owned();
            self.change_file(change, file)?;
        }
        Ok(())
    }

    fn create_folders(&mut self, location: &WorkspacePath) -> Result<()> {
        for folder in missing_parents(location, true)? {
            fs::create_dir(folder.absolute()).map_err(|error| folder.io_error(&error))?;
            self.folders.push(folder);
        }
        Ok(())
    }

    fn change_file(&mut self, change: &'a PlannedChange, staged: Option<StagedFile>) -> Result<()> {
        let location = &change.location;
        // Moved first, so that the new content takes over the permissions of the file.
        if let Some(to) = &change.to {
            fs::rename(location.absolute(), to.absolute())
                .map_err(|error| location.io_error(&error))?;
            self.done.push(DoneStep::Moved(location, to));
        }
        if change.action == PatchAction::Deleted {
            fs::remove_file(location.absolute()).map_err(|error| location.io_error(&error))?;
            self.done.push(DoneStep::Deleted(change));
        }
        if let Some(staged) = staged {
            staged.replace_target()?;
            let target = change.target();
            self.done.push(match change.action {
                PatchAction::Added => DoneStep::Created(target),
                _ => DoneStep::Replaced(target, change),
            });
        }
        Ok(())
    }

    /// Takes back the steps, the last one first. Returns the paths for which this failed.
    fn take_back(&mut self) -> Vec<WorkspacePath> {
        let mut remaining = Vec::new();
        for step in self.done.drain(..).rev() {
            let (path, taken_back) = match step {
                DoneStep::Created(path) => (path, fs::remove_file(path.absolute()).is_ok()),
                DoneStep::Replaced(path, change) => (path, restore(path, change)),
                DoneStep::Deleted(change) => (&change.location, restore(&change.location, change)),
                DoneStep::Moved(from, to) => {
                    (from, fs::rename(to.absolute(), from.absolute()).is_ok())
                }
            };
            if !taken_back {
                remaining.push(path.clone());
            }
        }
        for folder in self.folders.drain(..).rev() {
            // A folder in which another process has created a file is not removed.
            let _ = fs::remove_dir(folder.absolute());
        }
        remaining
    }
}

/// Writes the old content of a file.
fn restore(path: &WorkspacePath, change: &PlannedChange) -> bool {
    change
        .old
        .as_ref()
        .is_some_and(|(old, metadata)| atomic::write(path, old.as_bytes(), Some(metadata)).is_ok())
}

impl PlannedChange {
    /// Returns the path of the file after the change.
    pub fn target(&self) -> &WorkspacePath {
        self.to.as_ref().unwrap_or(&self.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Workspace;

    fn update(workspace: &Workspace, path: &str, content: &str) -> PlannedChange {
        let location = WorkspacePath::new(&workspace.cx(), path).unwrap();
        let metadata = location.existing_metadata().unwrap();
        PlannedChange {
            action: PatchAction::Updated,
            old: Some((workspace.text(path), metadata)),
            location,
            to: None,
            content: Some(content.to_owned()),
            hunks: Vec::new(),
        }
    }

    #[test]
    fn patch_commit_takes_back_all_changes_after_a_failure() {
        let workspace = Workspace::with(&[
            ("a.txt", "a"),
            ("b.txt", "b"),
            ("c.txt", "c"),
            ("d.txt", "d"),
        ]);
        let at = |path: &str| WorkspacePath::new(&workspace.cx(), path).unwrap();
        let added = PlannedChange {
            action: PatchAction::Added,
            location: at("new/deep/e.txt"),
            old: None,
            ..update(&workspace, "a.txt", "e")
        };
        let moved = PlannedChange {
            action: PatchAction::Moved,
            to: Some(at("moved/b.txt")),
            ..update(&workspace, "b.txt", "B")
        };
        let deleted = PlannedChange {
            action: PatchAction::Deleted,
            content: None,
            ..update(&workspace, "c.txt", "")
        };
        let last = update(&workspace, "d.txt", "D");
        let changes = [
            update(&workspace, "a.txt", "A"),
            added,
            moved,
            deleted,
            last,
        ];
        // The file becomes a folder after the plan was made, so its replacement fails at the very end.
        fs::remove_file(workspace.root().join("d.txt")).unwrap();
        workspace.put("d.txt/x", b"");
        let error = commit(&changes).unwrap_err();
        assert!(error.message().contains("nothing was changed"), "{error}");
        for (path, content) in [("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")] {
            assert_eq!(workspace.text(path), content);
        }
        assert!(!workspace.has("new") && !workspace.has("moved"));
        assert_eq!(fs::read_dir(workspace.root()).unwrap().count(), 4);
    }
}
