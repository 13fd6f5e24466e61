//! Watches for what may not be made and cannot be covered, since it is not there: a settings file that an editor
//! obeys, or the file that leads git to other settings.
//!
//! And watches what is covered: if another program puts something else in its place, that is not, and the command is
//! stopped.
//!
//! Looked for, twenty times in a second, are the names right in the workspace, and those in the folders there of which
//! rules name single entries. All below is searched when the command has ended, and from time to time before (see
//! [`tree`]), and so is each folder beside the workspace that the command may change. What a command made is given another
//! name, at which nobody obeys it, and nothing is lost.
//!
//! Who made something is not known: what a person makes meanwhile is treated alike.

mod file;
mod obeyed;
mod repository;
mod tree;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::paths::{PathRules, Shield, Verdict};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{Receiver, channel};

use crate::sandbox::{Ground, Seen, Spec, beside, closed};
use file::aside;
pub(crate) use tree::{Hidden, HiddenKind};
use tree::{Searched, Tree};

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
    /// How many more there were.
    pub(crate) others: usize,
}

impl Made {
    /// The others in words, behind what is said of this one.
    pub(crate) fn and_others(others: usize) -> String {
        match others {
            0 => String::new(),
            others => format!(", and so are {others} more"),
        }
    }
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
    /// Whether the command has begun.
    watches: bool,
    /// All below, and all of the folders beside the workspace that the command may change.
    trees: Option<Arc<[Tree]>>,
    search: Search,
    /// What a search has set aside of what a command may fetch as a whole.
    aside: Vec<Made>,
    /// Files that agents and tools obey and that were made or changed, when the command is gone.
    obeyed: Vec<String>,
}

/// A search that goes on, or when the next one begins.
enum Search {
    Idle { next: Instant },
    Running(Receiver<(Searched, Duration)>),
}

/// A search goes through all names of a workspace, and may take no more of the time than one part in thirty.
const SEARCH_EVERY: Duration = Duration::from_millis(500);
const SEARCH_SHARE: u32 = 30;

/// As many as a command may go on with: more than any repository has.
const ASIDE_MOST: usize = 200;

/// How long what a command began is still searched for when nobody waits for it any more: it has been killed.
const GONE: Duration = Duration::from_millis(300);

/// How often what is covered is looked at: there may be thousands, and each costs a microsecond.
const COVERED_EVERY: Duration = Duration::from_millis(150);

struct Folder {
    below: &'static str,
    changed: Option<Stamp>,
    known: HashSet<OsString>,
}

impl Guard {
    /// Looks at what is there before a command starts.
    pub(crate) fn new(spec: &Spec) -> Self {
        let (workspace, rules) = (&spec.workspace, &spec.shield);
        let beside = beside(spec).into_iter().map(|(_, ground)| ground);
        let beside = beside.filter(|ground| !ground.folder().starts_with(workspace));
        let grounds = std::iter::once(Ground::workspace(workspace)).chain(beside);
        let closed = closed(spec);
        let trees = grounds.map(|ground| Tree::new(ground, workspace, rules).begun(closed.clone()));
        let there =
            |below: &&str| below.is_empty() || workspace.join(below).is_dir() || *below != ".git";
        let folders = FOLDERS.iter().copied().filter(there).map(|below| {
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
            folders: folders.collect(),
            covered: Vec::new(),
            looked: None,
            watches: false,
            trees: Some(trees.collect()),
            search: Search::Idle {
                next: Instant::now() + SEARCH_EVERY,
            },
            aside: Vec::new(),
            obeyed: Vec::new(),
        }
    }

    /// The paths of the workspace that commands may not read.
    pub(crate) fn hidden(&self) -> &[Hidden] {
        self.workspace_tree().map_or(&[], Tree::hidden)
    }

    /// Folders and files `.git` of the workspace.
    pub(crate) fn repositories(&self) -> &[String] {
        self.workspace_tree().map_or(&[], Tree::repositories)
    }

    fn workspace_tree(&self) -> Option<&Tree> {
        self.trees.as_ref()?.first()
    }

    /// The files that agents and tools obey and that were made or changed, once the command is gone.
    pub(crate) fn take_obeyed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.obeyed)
    }

    /// Watches what is covered for the command, too.
    pub(crate) fn watch(&mut self, covered: Vec<Seen>) {
        self.covered = covered;
        self.watches = true;
    }

    /// One that looks at nothing.
    pub(crate) fn idle() -> Self {
        Self {
            workspace: PathBuf::new(),
            rules: PathRules::none(),
            folders: Vec::new(),
            covered: Vec::new(),
            looked: None,
            watches: false,
            trees: None,
            search: Search::Idle {
                next: Instant::now(),
            },
            aside: Vec::new(),
            obeyed: Vec::new(),
        }
    }

    /// What the command cannot go on with, if there is something by now.
    pub(crate) fn look(&mut self) -> Option<Breach> {
        if let Some(made) = self.made() {
            return Some(Breach::Made(made));
        }
        let uncovered = self.uncovered().map(Breach::Uncovered);
        uncovered.or_else(|| self.searched())
    }

    /// The same when the command is gone: all that it has made is found.
    pub(crate) async fn last_look(&mut self) -> Option<Breach> {
        let first = self.look();
        if let Some(trees) = self.trees.take() {
            // One that goes on still may set aside the same, and one of both finds it.
            let searched = tokio::task::spawn_blocking(move || search(&trees)).await;
            let running = std::mem::replace(
                &mut self.search,
                Search::Idle {
                    next: Instant::now(),
                },
            );
            if let Search::Running(results) = running
                && let Ok((searched, _)) = results.await
            {
                self.aside.extend(searched.made);
            }
            let searched = searched.unwrap_or_default();
            self.aside.extend(searched.made);
            self.obeyed = searched.obeyed;
        }
        first.or_else(|| self.all_aside())
    }

    /// What the searches have found that a command does not go on with; and begins the next one in its time.
    fn searched(&mut self) -> Option<Breach> {
        let trees = self.trees.as_ref()?;
        match &mut self.search {
            Search::Idle { next } if Instant::now() < *next => None,
            Search::Idle { .. } => {
                let (tell, results) = channel();
                let trees = Arc::clone(trees);
                tokio::task::spawn_blocking(move || {
                    let begun = Instant::now();
                    let searched = search(&trees);
                    // Nobody may wait for it any more.
                    let _ = tell.send((searched, begun.elapsed()));
                });
                self.search = Search::Running(results);
                None
            }
            Search::Running(results) => {
                let (searched, took) = match results.try_recv() {
                    Ok(result) => result,
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Closed) => Default::default(),
                };
                let pause = SEARCH_EVERY.max(took * SEARCH_SHARE);
                self.search = Search::Idle {
                    next: Instant::now() + pause,
                };
                self.aside.extend(searched.made);
                let ends = searched.ends || self.aside.len() > ASIDE_MOST;
                ends.then(|| self.all_aside()).flatten()
            }
        }
    }

    fn all_aside(&mut self) -> Option<Breach> {
        let all = std::mem::take(&mut self.aside);
        let others = all.len().saturating_sub(1);
        let first = all.into_iter().next()?;
        Some(Breach::Made(Made { others, ..first }))
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
                let path = Path::new(folder.below).join(&name).display().to_string();
                let kept = aside(&self.workspace, &path)?;
                return Some(Made {
                    path,
                    rule: format!("the rule `{rule}` keeps for people"),
                    kept,
                    others: 0,
                });
            }
        }
        None
    }
}

/// Looks through them all.
fn search(trees: &[Tree]) -> Searched {
    let mut all = Searched::default();
    for searched in trees.iter().map(Tree::search) {
        all.made.extend(searched.made);
        all.obeyed.extend(searched.obeyed);
        all.ends |= searched.ends;
    }
    all
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

impl Drop for Guard {
    /// A command that nobody waits for any more has been killed; what it made is set aside all the same.
    fn drop(&mut self) {
        if !self.watches {
            return;
        }
        if let Some(trees) = self.trees.take() {
            std::thread::spawn(move || {
                std::thread::sleep(GONE);
                search(&trees);
            });
        }
    }
}

/// When something was last changed in a folder, by what nobody can set.
#[cfg(unix)]
type Stamp = (u64, i64, i64);
#[cfg(not(unix))]
type Stamp = std::time::SystemTime;

/// When something was last made or removed in a folder. A link is none that is watched.
#[cfg(unix)]
fn changed(at: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = at.symlink_metadata().ok()?;
    let stamp = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
    metadata.is_dir().then_some(stamp)
}

#[cfg(not(unix))]
fn changed(at: &Path) -> Option<Stamp> {
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
    use std::fs;

    #[test]
    fn what_nobody_may_make_is_set_aside_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        fs::create_dir(workspace.join(".git")).unwrap();
        fs::write(workspace.join(".bashrc"), "old").unwrap();
        let program = mimir_core::command::Program::Vector(Vec::new());
        let mut guard = Guard::new(&Spec::new(program, workspace));
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
