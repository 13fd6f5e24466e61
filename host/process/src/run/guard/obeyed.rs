//! Files that agents, editors and build tools obey by themselves, and that a command may write all the same: a project
//! has good reasons to change each of them. What a command made or changed of them is named in its outcome.
//!
//! Never here: files that no command may write (see `mimir_core::paths`), and such that run when a person asks for it, as
//! `Makefile` does.

use std::path::Path;

/// By name, in any folder. In order.
const BY_NAME: [&str; 54] = [
    ".augment-guidelines",
    ".bunfig.toml",
    ".clinerules",
    ".cursorrules",
    ".direnvrc",
    ".gitattributes",
    ".gitmodules",
    ".goosehints",
    ".lefthook.yaml",
    ".lefthook.yml",
    ".lintstagedrc",
    ".mise.local.toml",
    ".mise.toml",
    ".node-version",
    ".nvmrc",
    ".overcommit.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    ".python-version",
    ".roomodes",
    ".roorules",
    ".ruby-version",
    ".rules",
    ".sdkmanrc",
    ".simple-git-hooks.json",
    ".tool-versions",
    ".windsurfrules",
    ".yarnrc",
    ".yarnrc.yml",
    "AGENT.md",
    "AGENTS.local.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "CONVENTIONS.md",
    "CRUSH.md",
    "GEMINI.md",
    "QWEN.md",
    "SKILL.md",
    "WARP.md",
    "bunfig.toml",
    "lefthook-local.yml",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    "mise.local.toml",
    "mise.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "sitecustomize.py",
];

/// By folder and name.
const IN_FOLDER: [(&str, &str); 8] = [
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".config", "mise.toml"),
    (".github", "copilot-instructions.md"),
    (".junie", "guidelines.md"),
    (".mise", "config.toml"),
    ("mise", "config.toml"),
    (".mvn", "jvm.config"),
];

/// Folders of which all files are.
const FOLDERS: [&str; 4] = [
    ".clinerules",
    ".github/instructions",
    ".github/workflows",
    ".mvn/wrapper",
];

/// Returns true if a file of this name in this folder is one.
pub(super) fn is_obeyed(folder: &str, name: &str) -> bool {
    let is_in = |other: &str| {
        folder == other
            || folder
                .strip_suffix(other)
                .is_some_and(|rest| rest.ends_with('/'))
    };
    BY_NAME.binary_search(&name).is_ok()
        || IN_FOLDER
            .iter()
            .any(|(above, own)| *own == name && is_in(above))
        || folder.contains('.') && FOLDERS.iter().any(|above| is_in(above))
}

/// The state of a file, as far as it can be determined without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    modified: Option<std::time::SystemTime>,
    /// Its number, where there are such.
    number: u64,
}

impl Stamp {
    /// The stamp of a regular file.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&meta);
        #[cfg(not(unix))]
        let number = 0;
        meta.is_file().then(|| Self {
            size: meta.len(),
            modified: meta.modified().ok(),
            number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obeyed_names_are_in_order_and_found_at_any_depth() {
        assert!(BY_NAME.is_sorted());
        for (folder, name) in [
            ("", "AGENTS.md"),
            ("a/b", "CLAUDE.md"),
            (".github", "copilot-instructions.md"),
            ("a/.cargo", "config.toml"),
            (".github/workflows", "ci.yml"),
        ] {
            assert!(is_obeyed(folder, name), "{folder} {name}");
        }
        for (folder, name) in [
            ("", "README.md"),
            ("", "config.toml"),
            ("my.cargo", "config.toml"),
            ("docs", "copilot-instructions.md"),
        ] {
            assert!(!is_obeyed(folder, name), "{folder} {name}");
        }
    }
}
