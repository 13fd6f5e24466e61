//! Folders that are more than a folder to the rules about paths, by their names.
//!
//! Never here: what is done about them.

use std::path::{Path, PathBuf};

/// Folders of what was downloaded or built. What is in there is nobody's secret and nobody's setting, and there is
/// more of it than of all the rest.
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
