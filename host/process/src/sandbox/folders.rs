//! Folders that are more than a folder to the rules about paths, by their names.
//!
//! Never here: what is done about them.

use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::paths::{PathRules, Verdict};

/// Folders of what was downloaded or built. Names that look like a secret or a setting are neither in there, and they
/// have more files than all the rest. What a person denies in them is denied (see [`denied_below`]).
pub(crate) const NOT_OURS: &[&str] = &[
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".cache",
    "bower_components",
];

/// The paths below the folder `at` that `rules`, those of a person, hide: with their kind, and without what is below them.
/// Folders below which no rule can match are not read.
pub(crate) fn denied_below(
    base: &Path,
    rules: &PathRules,
    at: &str,
) -> io::Result<Vec<(String, FileType)>> {
    let mut found = Vec::new();
    let mut open = vec![at.to_owned()];
    while let Some(at) = open.pop() {
        let entries = match base.join(&at).read_dir() {
            Ok(entries) => entries,
            // It has gone meanwhile, or is closed to us and so to the command.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        let scope = rules.scope(&at);
        for entry in entries {
            let entry = entry?;
            // No rule matches a name that is no text.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let kind = entry.file_type()?;
            let path = format!("{at}/{name}");
            if rules.check_in(&scope, &name) != Verdict::Free {
                found.push((path, kind));
            } else if kind.is_dir() && rules.may_deny_below(&path) {
                open.push(path);
            }
        }
    }
    Ok(found)
}

/// Folders of which rules name single entries.
pub(crate) fn named_by_rules(folder: &std::ffi::OsStr) -> bool {
    [".git", ".vscode", ".config", ".docker", ".kube", ".mimir"]
        .iter()
        .any(|name| folder == *name)
}

/// Folders of a repository with others in them, of its submodules and its worktrees.
pub(crate) const INNER: [&str; 2] = ["modules", "worktrees"];

/// What such a one has git run or obey.
pub(crate) const OBEYED: [&str; 5] = ["commondir", "config", "config.worktree", "gitdir", "hooks"];

/// The repositories in such a folder, at any depth: each folder with a `HEAD`. A link is none.
pub(crate) fn inner(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in at.read_dir().into_iter().flatten().flatten() {
            let name = entry.file_name();
            let content = ["objects", "refs", "hooks", "logs"];
            if content.iter().any(|other| name == *other)
                || !entry.file_type().is_ok_and(|kind| kind.is_dir())
            {
                continue;
            }
            open.push(entry.path());
            if entry.path().join("HEAD").is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}
