//! Watches for what may not be made and cannot be covered, since it is not there: a settings file that an editor
//! obeys, or the file that leads git to other settings.
//!
//! And watches what is covered: if another program puts something else in its place, that is not, and the command is
//! stopped.
//!
//! Looked for are the names right in the workspace, and those in the folders there of which rules name single entries.
//! What a command made is given another name, at which nobody obeys it, and nothing is lost.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use mimir_core::paths::{PathRules, Shield, Verdict};

use crate::sandbox::Seen;

/// Folders of a workspace of which rules name single entries.
const FOLDERS: [&str; 4] = ["", ".git", ".vscode", ".config"];

/// What is covered even where it was not there before, and so is not made by a command.
const COVERED: [&str; 2] = [".mimir", ".git/hooks"];

/// What is put behind the name of something that may not be there.
const SUFFIX: &str = ".refused-by-mimir";

/// Something that a command made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// What, below the workspace.
    pub(crate) path: String,
    /// Why it may not.
    pub(crate) rule: String,
    /// What it is called now.
    pub(crate) kept: String,
}

/// What a command cannot go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Breach {
    /// It made something.
    Made(Made),
    /// What was covered at this path, below the workspace, is not any more.
    Uncovered(String),
}

/// What was there at the beginning.
pub(crate) struct Guard {
    workspace: PathBuf,
    rules: PathRules,
    folders: Vec<Folder>,
    covered: Vec<Seen>,
    /// When what is covered was last looked at.
    looked: Option<Instant>,
}

/// How often what is covered is looked at: there may be thousands, and each costs a microsecond.
const COVERED_EVERY: Duration = Duration::from_millis(150);

struct Folder {
    below: &'static str,
    changed: Option<SystemTime>,
    known: HashSet<OsString>,
}

impl Guard {
    pub(crate) fn new(workspace: &Path, rules: &PathRules) -> Self {
        let folders = FOLDERS.map(|below| {
            let mut folder = Folder {
                below,
                changed: None,
                known: HashSet::new(),
            };
            let at = workspace.join(below);
            folder.changed = changed(&at);
            folder.known = names(&at).collect();
            folder
        });
        Self {
            workspace: workspace.to_owned(),
            rules: rules.clone(),
            folders: folders.into(),
            covered: Vec::new(),
            looked: None,
        }
    }

    /// Watches what is covered for the command, too.
    pub(crate) fn watch(&mut self, covered: Vec<Seen>) {
        self.covered = covered;
    }

    /// One that looks at nothing.
    pub(crate) fn idle() -> Self {
        Self {
            workspace: PathBuf::new(),
            rules: PathRules::none(),
            folders: Vec::new(),
            covered: Vec::new(),
            looked: None,
        }
    }

    /// What the command cannot go on with, if there is something by now.
    pub(crate) fn look(&mut self) -> Option<Breach> {
        match self.made() {
            Some(made) => Some(Breach::Made(made)),
            None => self.uncovered().map(Breach::Uncovered),
        }
    }

    fn uncovered(&mut self) -> Option<String> {
        let soon = |last: Instant| last.elapsed() < COVERED_EVERY;
        if self.covered.is_empty() || self.looked.is_some_and(soon) {
            return None;
        }
        self.looked = Some(Instant::now());
        let gone = self.covered.iter().find(|seen| !seen.stays())?;
        let below = gone.path().strip_prefix(&self.workspace);
        Some(below.unwrap_or(gone.path()).display().to_string())
    }

    /// The first thing that has come since and may not be there. It is not there under its name any more.
    fn made(&mut self) -> Option<Made> {
        for folder in &mut self.folders {
            let at = self.workspace.join(folder.below);
            let now = changed(&at);
            if now == folder.changed {
                continue;
            }
            folder.changed = now;
            for name in names(&at) {
                if folder.known.contains(&name) {
                    continue;
                }
                let Some(rule) = against(&self.rules, &at, folder.below, &name) else {
                    continue;
                };
                let kept = set_aside(&at, &name)?;
                let path =
                    |name: &OsString| Path::new(folder.below).join(name).display().to_string();
                return Some(Made {
                    path: path(&name),
                    rule: format!("the rule `{rule}` keeps for people"),
                    kept: path(&kept),
                });
            }
        }
        None
    }
}

/// The rule that keeps a name for people. A secret that a command writes itself is its own.
fn against(rules: &PathRules, at: &Path, below: &str, name: &OsString) -> Option<String> {
    let name_text = name.to_str()?;
    let path = if below.is_empty() {
        name_text.to_owned()
    } else {
        format!("{below}/{name_text}")
    };
    if COVERED.contains(&path.as_str()) {
        return None;
    }
    let folder = at.join(name).symlink_metadata().ok()?.is_dir();
    let verdict = if folder {
        rules.check(&path)
    } else {
        rules.check_file(&path)
    };
    match verdict {
        Verdict::ReadOnly { rule } if rule.shield() == Shield::ReadOnly => {
            Some(rule.text().to_owned())
        }
        _ => None,
    }
}

/// Gives it a name at which nobody obeys it.
fn set_aside(at: &Path, name: &OsString) -> Option<OsString> {
    (0..1_000).find_map(|number| {
        let mut aside = name.clone();
        aside.push(SUFFIX);
        if number > 0 {
            aside.push(format!("-{number}"));
        }
        if at.join(&aside).symlink_metadata().is_ok() {
            return None;
        }
        fs::rename(at.join(name), at.join(&aside)).ok()?;
        Some(aside)
    })
}

/// When something was last made or removed in a folder. A link is none that is watched.
fn changed(at: &Path) -> Option<SystemTime> {
    let metadata = at
        .symlink_metadata()
        .ok()
        .filter(|metadata| metadata.is_dir());
    metadata.and_then(|metadata| metadata.modified().ok())
}

fn names(at: &Path) -> impl Iterator<Item = OsString> {
    at.read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_may_make_is_set_aside_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        fs::create_dir(workspace.join(".git")).unwrap();
        fs::write(workspace.join(".bashrc"), "old").unwrap();
        let mut guard = Guard::new(workspace, &PathRules::protected());
        assert_eq!(guard.look(), None);
        fs::write(workspace.join(".bashrc"), "new").unwrap();
        fs::write(workspace.join("main.rs"), "x").unwrap();
        fs::write(workspace.join(".env"), "x").unwrap();
        fs::write(workspace.join(".git/index"), "x").unwrap();
        assert_eq!(guard.look(), None);
        fs::write(workspace.join(".git/commondir"), "../evil").unwrap();
        let Some(Breach::Made(made)) = guard.look() else {
            panic!("it is there");
        };
        assert_eq!(made.path, ".git/commondir");
        assert_eq!(made.kept, ".git/commondir.refused-by-mimir");
        assert!(!workspace.join(".git/commondir").exists());
        assert_eq!(fs::read(workspace.join(&made.kept)).unwrap(), b"../evil");
    }
}
