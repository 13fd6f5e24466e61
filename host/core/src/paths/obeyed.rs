//! Files that agents, editors and build tools execute or follow automatically, but that a call may change, because a
//! project has good reasons to change them. The outcome and the audit record of a call name those that it changed.
//!
//! Out of scope: files that no tool may change (see [`super::PathRules`]), and files that only take effect at a
//! person's request, such as `Makefile`.

use crate::text::visible;

/// Names of such files in any folder, in lower case, sorted.
const BY_NAME: [&str; 58] = [
    ".augment-guidelines",
    ".bunfig.toml",
    ".clinerules",
    ".cursorrules",
    ".direnvrc",
    ".gitattributes",
    ".gitmodules",
    ".goosehints",
    ".lefthook.json",
    ".lefthook.toml",
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
    "agent.md",
    "agents.local.md",
    "agents.md",
    "agents.override.md",
    "bunfig.toml",
    "claude.local.md",
    "claude.md",
    "conventions.md",
    "crush.md",
    "gemini.md",
    "lefthook-local.yml",
    "lefthook.json",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    "mise.local.toml",
    "mise.toml",
    "pnpm-workspace.yaml",
    "qwen.md",
    "rust-toolchain",
    "rust-toolchain.toml",
    "sitecustomize.py",
    "skill.md",
    "warp.md",
];

/// Folders and names of such files, in lower case.
const IN_FOLDER: [(&str, &str); 10] = [
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".config", "mise.toml"),
    (".github", "copilot-instructions.md"),
    (".junie", "guidelines.md"),
    (".mise", "config.toml"),
    ("mise", "config.toml"),
    (".mvn", "extensions.xml"),
    (".mvn", "jvm.config"),
    (".mvn", "maven.config"),
];

/// Folders in which all files are such files, in lower case.
const FOLDERS: [&str; 9] = [
    ".clinerules",
    ".github/agents",
    ".github/instructions",
    ".github/prompts",
    ".github/workflows",
    ".mvn/wrapper",
    ".trae/rules",
    ".yarn/plugins",
    ".yarn/releases",
];

/// Returns true if agents or build tools execute or follow a file of this name in this folder automatically.
pub fn is_obeyed(folder: &str, name: &str) -> bool {
    // Some file systems and some agents ignore case.
    let (folder, name) = (folder.to_lowercase(), name.to_lowercase());
    let is_in = |other: &str| {
        folder == other
            || folder
                .strip_suffix(other)
                .is_some_and(|rest| rest.ends_with('/'))
    };
    BY_NAME.binary_search(&name.as_str()).is_ok()
        || IN_FOLDER
            .iter()
            .any(|(above, file)| *file == name && is_in(above))
        || folder.contains('.') && FOLDERS.iter().any(|above| is_in(above))
}

/// Maximum number of paths in a note.
const NAMED_MAX: usize = 8;

/// Returns the note for the outcome of a call that created or changed these files.
pub fn obeyed_note(paths: &[String]) -> String {
    let named = paths.iter().take(NAMED_MAX);
    let named: Vec<_> = named.map(|path| format!("`{}`", visible(path))).collect();
    let more = match paths.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "created or changed, and obeyed by agents or tools from now on: {}{more}; review before you continue",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_files_are_sorted_and_found_at_any_depth() {
        assert!(BY_NAME.is_sorted());
        for (folder, name) in [
            ("", "AGENTS.md"),
            ("a/b", "CLAUDE.md"),
            (".github", "copilot-instructions.md"),
            ("a/.cargo", "config.toml"),
            (".github/workflows", "ci.yml"),
            ("", "claude.md"),
            ("", "Agents.md"),
            ("", "qwen.md"),
            ("a/.GitHub/Workflows", "ci.yml"),
            (".github", "Copilot-Instructions.md"),
            (".github/prompts", "x.prompt.md"),
            (".github/agents", "x.md"),
            (".trae/rules", "project_rules.md"),
            (".yarn/plugins", "x.cjs"),
            ("a/.yarn/releases", "yarn-4.cjs"),
            ("", "pnpm-workspace.yaml"),
            ("", "lefthook.json"),
            ("", ".lefthook.toml"),
            (".mvn", "extensions.xml"),
            (".mvn", "maven.config"),
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
