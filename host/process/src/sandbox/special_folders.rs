//! Names of folders with a special meaning for the path rules.
//!
//! Out of scope: the enforcement of the rules.

use std::fs::{FileType, ReadDir};
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::paths::{PathRules, PathVerdict};

/// Folders of downloaded or built files. The built-in rules for secrets and settings do not apply in them, and they
/// contain more files than the rest of a workspace. The user's own rules apply (see [`denied_below`]).
pub(crate) const BUILD_FOLDERS: &[&str] = &[
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".cache",
    "bower_components",
];

/// Folders that a sandbox replaces, or that describe or control the whole machine. A workspace cannot be inside.
#[cfg(unix)]
pub(super) const SYSTEM_FOLDERS: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/etc", "/boot"];

/// Lists the paths below the folder `at` that the user's `rules` hide, with their file types. Skips paths below hidden
/// ones, and folders in which no rule can match.
pub(crate) fn denied_below(
    base: &Path,
    rules: &PathRules,
    at: &str,
) -> io::Result<Vec<(String, FileType)>> {
    let mut denied = Vec::new();
    let mut pending = vec![at.to_owned()];
    while let Some(at) = pending.pop() {
        let Some(entries) = read_dir_if_readable(&base.join(&at))? else {
            continue;
        };
        let scope = rules.scope(&at);
        for entry in entries {
            let entry = entry?;
            // Rules match only UTF-8 names.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let kind = entry.file_type()?;
            let path = format!("{at}/{name}");
            if rules.check_in(&scope, &name) != PathVerdict::Free {
                denied.push((path, kind));
            } else if kind.is_dir() && rules.may_deny_below(&path) {
                pending.push(path);
            }
        }
    }
    Ok(denied)
}

/// Lists a folder. Returns `None` if it has been removed, or if this process, and so any command, cannot read it.
pub(super) fn read_dir_if_readable(folder: &Path) -> io::Result<Option<ReadDir>> {
    match folder.read_dir() {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        entries => entries.map(Some),
    }
}

/// Returns true for folders that have rules for single entries.
pub(crate) fn has_entry_rules(folder: &std::ffi::OsStr) -> bool {
    [".git", ".vscode", ".config", ".docker", ".kube", ".mimir"]
        .iter()
        .any(|name| folder == *name)
}

/// Folders of a repository that contain the repositories of its submodules and worktrees.
pub(crate) const INNER: [&str; 2] = ["modules", "worktrees"];

/// Entries of these repositories that git runs or obeys.
pub(crate) const OBEYED: [&str; 5] = ["commondir", "config", "config.worktree", "gitdir", "hooks"];

/// Folder of a repository's data, which is not searched for other repositories.
pub(crate) const OBJECTS: &str = "objects";

/// Lists the repositories in a folder from [`INNER`], at any depth: each folder with an entry `HEAD`, even a dangling
/// link, since git accepts that. Links to folders are not followed.
pub(crate) fn inner_repositories(
    folder: &Path,
    read: impl Fn(&Path) -> Option<ReadDir>,
) -> Vec<PathBuf> {
    let mut repositories = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(at) = pending.pop() {
        for entry in read(&at).into_iter().flatten().flatten() {
            if entry.file_name() == OBJECTS || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            pending.push(entry.path());
            if entry.path().join("HEAD").symlink_metadata().is_ok() {
                repositories.push(entry.path());
            }
        }
    }
    repositories
}
