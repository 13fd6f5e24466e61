//! Folders that are more than a folder to the rules about paths, by their names.
//!
//! Never here: what is done about them.

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
