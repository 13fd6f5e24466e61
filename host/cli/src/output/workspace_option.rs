//! The option `-C DIR` in the commands that messages suggest, if they are about another workspace than that of the
//! current folder. Without it, `mimir tools trust` and others would change the wrong workspace.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mimir::workspace::WorkspaceFolder;
use mimir_core::text::visible;

use crate::arguments::quote_for_shell;

/// The workspace that the command line names.
static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// The folder for `-C`, quoted for a shell; `None` if suggestions need none.
static OPTION: OnceLock<Option<String>> = OnceLock::new();

/// Beginning of a command in a message.
const COMMAND: &str = "`mimir ";

/// Commands that have nothing to do with a workspace.
const WITHOUT_WORKSPACE: [&str; 3] = ["help", "completions", "setup"];

/// Sets the workspace that the command line names. It is looked up when a message suggests a command.
pub fn set_named_workspace(named: &Path) {
    let _ = NAMED.set(named.to_owned());
}

/// Makes all suggestions name this workspace, because the person who reads them may be anywhere, such as for a server
/// that a client has started.
pub fn always_name_workspace(root: &Path) {
    let _ = OPTION.set(Some(quoted(root)));
}

/// Adds the option to the commands that a text suggests.
pub fn with_workspace(text: &str) -> Cow<'_, str> {
    if !text.contains(COMMAND) {
        return Cow::Borrowed(text);
    }
    match OPTION.get_or_init(named_option) {
        Some(folder) => Cow::Owned(add_option(text, folder)),
        None => Cow::Borrowed(text),
    }
}

/// Adds the option to the commands in each line.
pub fn all_with_workspace(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().map(|line| with_workspace(line));
    lines.map(Cow::into_owned).collect()
}

fn quoted(root: &Path) -> String {
    quote_for_shell(&visible(&root.display().to_string()))
}

/// Returns the folder for `-C` if the named workspace is not that of the current folder.
fn named_option() -> Option<String> {
    let named = WorkspaceFolder::find(Some(NAMED.get()?)).ok()?;
    let current = WorkspaceFolder::find(None).ok()?;
    let real = |workspace: &WorkspaceFolder| workspace.root().canonicalize().ok();
    (real(&named) != real(&current)).then(|| quoted(named.root()))
}

fn add_option(text: &str, folder: &str) -> String {
    let mut parts = text.split(COMMAND);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let command = part.split('`').next().unwrap_or_default();
        let word = command.split_whitespace().next().unwrap_or_default();
        let mut words = command.split_whitespace();
        let has_option = words.any(|word| word == "-C" || word == "--workspace");
        result.push_str(COMMAND);
        if !has_option && !word.starts_with('-') && !WITHOUT_WORKSPACE.contains(&word) {
            result.push_str(&format!("-C {folder} "));
        }
        result.push_str(part);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_commands_name_the_workspace_once() {
        for (text, expected) in [
            (
                "run `mimir tools trust x` or `mimir policy accept`",
                "run `mimir -C /w tools trust x` or `mimir -C /w policy accept`",
            ),
            (
                "`mimir tools trust x -C /v --digest a`",
                "`mimir tools trust x -C /v --digest a`",
            ),
            ("see `mimir help trust`", "see `mimir help trust`"),
            ("`mimir --version` of mimir", "`mimir --version` of mimir"),
            ("mimir is `mimir`", "mimir is `mimir`"),
        ] {
            let changed = add_option(text, "/w");
            assert_eq!(changed, expected);
            assert_eq!(add_option(&changed, "/w"), expected, "twice");
        }
    }
}
