//! Detects forbidden files that a command creates: files that do not exist before and so cannot be covered by a mount,
//! such as editor settings or a file that redirects git to other settings.
//!
//! Also detects when another program replaces a covered path. The new file would not be covered, so the command is
//! stopped.
//!
//! Twenty times a second, the guard checks the names in the root of the workspace and in its folders with rules for
//! single entries. It searches the whole workspace and every other writable folder after the command has ended, and
//! occasionally before (see [`tree_snapshot`]). A forbidden file is renamed, so that no program obeys it and no data is
//! lost.
//!
//! The creator of a file is unknown, so files created by other programs meanwhile are treated the same. If several
//! commands run in the workspace, a forbidden file stops none of them, and each reports it (see
//! [`concurrent_commands`]).

mod active_guards;
mod concurrent_commands;
mod obeyed_files;
mod open_folder;
mod repository;
mod tree_snapshot;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::paths::{PathRules, PathVerdict, ProtectionLevel};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{Receiver, channel};

use crate::sandbox::{
    CommandSpec, FileIdentity, RuledFolder, read_only_mounts, writable_outside_folders,
};
use active_guards::ActiveGuard;
pub use active_guards::wait_for_last_searches;
use concurrent_commands::ConcurrentCommand;
use open_folder::move_aside;
#[cfg(unix)]
pub(crate) use open_folder::read_regular_file;
pub(crate) use tree_snapshot::{HiddenKind, HiddenPath};
use tree_snapshot::{SearchFindings, TreeSnapshot};

/// Folders of a workspace that have rules for single entries.
const WATCHED_FOLDERS: [&str; 4] = ["", ".git", ".vscode", ".config"];

/// Paths that are covered even if they do not exist, so commands cannot create them.
const COVERED_PATHS: [&str; 2] = [".mimir", ".git/hooks"];

/// Suffix for the new name of a forbidden file.
const REFUSED_SUFFIX: &str = ".refused-by-mimir";

/// A forbidden path that a command created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForbiddenPath {
    /// The path, relative to the workspace.
    pub(crate) path: String,
    /// The reason why it is forbidden.
    pub(crate) rule: String,
    /// The new name.
    pub(crate) renamed_to: String,
    /// The number of further forbidden paths.
    pub(crate) more: usize,
}

impl ForbiddenPath {
    /// Describes the path without naming its creator.
    pub(crate) fn describe(&self) -> String {
        let Self {
            path,
            rule,
            renamed_to,
            more,
        } = self;
        let others = Self::others_note(*more);
        format!("`{path}`, which {rule}; what was created is now `{renamed_to}`{others}")
    }

    /// Returns an addition to the description about `others` further paths.
    pub(crate) fn others_note(others: usize) -> String {
        match others {
            0 => String::new(),
            others => format!(", and so are {others} more"),
        }
    }
}

/// Reason for ending a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GuardBreach {
    /// The command created a forbidden path.
    Created(ForbiddenPath),
    /// This command or a concurrent one created a forbidden path and many more.
    CreatedConcurrently(ForbiddenPath),
    /// Another program replaced a covered path, which is no longer covered.
    Uncovered(String),
}

/// Guard of one command: the previous state of the workspace, and the running search.
pub(crate) struct WorkspaceGuard {
    workspace: PathBuf,
    rules: PathRules,
    folders: Vec<WatchedFolder>,
    covered: Vec<FileIdentity>,
    /// Time of the last check of the covered paths.
    last_covered_check: Option<Instant>,
    /// Set once the command has started. Held until the last search has ended.
    active: Option<ActiveGuard>,
    /// The command's entry in the list of running commands. Set once the command has started.
    command: Option<ConcurrentCommand>,
    /// The whole workspace, and all other writable folders of the command.
    trees: Option<Arc<[TreeSnapshot]>>,
    search: SearchState,
    /// Paths renamed by searches while the command continued, such as those of a fetched repository.
    renamed: Vec<ForbiddenPath>,
    /// Created or changed instruction files of agents and tools. Known after the command has exited.
    obeyed: Vec<String>,
}

/// State of the searches.
enum SearchState {
    Idle { next: Instant },
    Running(Receiver<(SearchFindings, Duration)>),
}

/// Minimum pause between searches, and the minimum ratio of the pause to the duration of a search, which visits every
/// name in the workspace.
const SEARCH_INTERVAL: Duration = Duration::from_millis(500);
const SEARCH_SHARE: u32 = 30;

/// Maximum number of renamed paths before a command is ended: more than any repository needs.
const MAX_RENAMED: usize = 200;

/// Delay before the last search if the caller of a command is gone. The killed command exits within this time.
const KILL_DELAY: Duration = Duration::from_millis(300);

/// Interval of the checks of covered paths. There may be thousands, at a microsecond each.
const COVERED_INTERVAL: Duration = Duration::from_millis(150);

struct WatchedFolder {
    below: &'static str,
    stamp: Option<FolderStamp>,
    known: HashSet<OsString>,
}

impl WorkspaceGuard {
    /// Records the state of the workspace before a command starts.
    pub(crate) fn new(spec: &CommandSpec) -> Self {
        let (workspace, rules) = (&spec.workspace, &spec.path_rules);
        let outside_folders = writable_outside_folders(spec)
            .into_iter()
            .map(|(_, folder)| folder);
        let outside_folders =
            outside_folders.filter(|folder| !folder.folder().starts_with(workspace));
        let ruled_folders =
            std::iter::once(RuledFolder::workspace(workspace)).chain(outside_folders);
        let read_only_folders = read_only_mounts(spec);
        let trees = ruled_folders.map(|folder| {
            TreeSnapshot::new(folder, workspace, rules)
                .with_current_state(read_only_folders.clone())
        });
        let may_exist =
            |below: &&str| below.is_empty() || workspace.join(below).is_dir() || *below != ".git";
        let folders = WATCHED_FOLDERS
            .iter()
            .copied()
            .filter(may_exist)
            .map(|below| {
                let mut folder = WatchedFolder {
                    below,
                    stamp: None,
                    known: HashSet::new(),
                };
                let at = workspace.join(below);
                folder.stamp = folder_stamp(&at);
                folder.known = entry_names(&at).collect();
                folder
            });
        Self {
            workspace: workspace.to_owned(),
            rules: rules.clone(),
            folders: folders.collect(),
            covered: Vec::new(),
            last_covered_check: None,
            active: None,
            command: None,
            trees: Some(trees.collect()),
            search: SearchState::Idle {
                next: Instant::now() + SEARCH_INTERVAL,
            },
            renamed: Vec::new(),
            obeyed: Vec::new(),
        }
    }

    /// Returns the paths of the workspace that commands may not read.
    pub(crate) fn hidden(&self) -> &[HiddenPath] {
        self.workspace_tree().map_or(&[], TreeSnapshot::hidden)
    }

    /// Returns the `.git` folders and files of the workspace.
    #[cfg_attr(
        not(unix),
        expect(
            dead_code,
            reason = "only git needs them, whose files are protected on Unix alone"
        )
    )]
    pub(crate) fn repositories(&self) -> &[String] {
        self.workspace_tree()
            .map_or(&[], TreeSnapshot::repositories)
    }

    fn workspace_tree(&self) -> Option<&TreeSnapshot> {
        self.trees.as_ref()?.first()
    }

    /// Returns the created or changed instruction files of agents and tools, once the command has exited.
    pub(crate) fn take_obeyed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.obeyed)
    }

    /// Starts the guard once the command runs, with its covered paths.
    pub(crate) fn watch(&mut self, covered: Vec<FileIdentity>) {
        self.covered = covered;
        self.active = self.trees.as_ref().map(|_| ActiveGuard::new());
        self.command = self
            .trees
            .as_ref()
            .map(|_| ConcurrentCommand::new(&self.workspace));
    }

    /// Creates a guard that checks nothing.
    pub(crate) fn disabled() -> Self {
        Self {
            workspace: PathBuf::new(),
            rules: PathRules::none(),
            folders: Vec::new(),
            covered: Vec::new(),
            last_covered_check: None,
            active: None,
            command: None,
            trees: None,
            search: SearchState::Idle {
                next: Instant::now(),
            },
            renamed: Vec::new(),
            obeyed: Vec::new(),
        }
    }

    /// Checks the watched paths. Returns the reason for ending the command, if there is one.
    pub(crate) fn check(&mut self) -> Option<GuardBreach> {
        if let Some(created) = self.find_forbidden()
            && let Some(created) = self.attribute(vec![created]).pop()
        {
            return Some(GuardBreach::Created(created));
        }
        if self
            .command
            .as_ref()
            .is_some_and(ConcurrentCommand::must_end)
        {
            let unattributed = self.take_unattributed();
            return first_of(unattributed).map(GuardBreach::CreatedConcurrently);
        }
        let uncovered = self.find_uncovered().map(GuardBreach::Uncovered);
        uncovered.or_else(|| self.poll_search())
    }

    /// Runs the final check after the command has exited, which finds every forbidden path that the command created.
    pub(crate) async fn final_check(&mut self) -> Option<GuardBreach> {
        let first = self.check();
        if let Some(trees) = self.trees.take() {
            // A search that is still running may rename the same paths; each path is found by only one of the two.
            let searched = tokio::task::spawn_blocking(move || search_all(&trees)).await;
            let running = std::mem::replace(
                &mut self.search,
                SearchState::Idle {
                    next: Instant::now(),
                },
            );
            if let SearchState::Running(results) = running
                && let Ok((searched, _)) = results.await
            {
                let own = self.attribute(searched.created);
                self.renamed.extend(own);
            }
            let searched = searched.unwrap_or_default();
            let own = self.attribute(searched.created);
            self.renamed.extend(own);
            self.obeyed = searched.obeyed;
        }
        first.or_else(|| self.take_renamed())
    }

    /// Collects the result of a finished search, and starts the next search when it is due. Returns a breach if the
    /// command must end.
    fn poll_search(&mut self) -> Option<GuardBreach> {
        let trees = self.trees.as_ref()?;
        match &mut self.search {
            SearchState::Idle { next } if Instant::now() < *next => None,
            SearchState::Idle { .. } => {
                let (sender, results) = channel();
                let trees = Arc::clone(trees);
                tokio::task::spawn_blocking(move || {
                    let begun = Instant::now();
                    let searched = search_all(&trees);
                    // Fails if the guard is gone.
                    let _ = sender.send((searched, begun.elapsed()));
                });
                self.search = SearchState::Running(results);
                None
            }
            SearchState::Running(results) => {
                let (searched, took) = match results.try_recv() {
                    Ok(result) => result,
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Closed) => Default::default(),
                };
                let pause = SEARCH_INTERVAL.max(took * SEARCH_SHARE);
                self.search = SearchState::Idle {
                    next: Instant::now() + pause,
                };
                let own = self.attribute(searched.created);
                let ends = searched.ends && !own.is_empty();
                self.renamed.extend(own);
                let ends = ends || self.renamed.len() > MAX_RENAMED;
                ends.then(|| self.take_renamed()).flatten()
            }
        }
    }

    fn take_renamed(&mut self) -> Option<GuardBreach> {
        first_of(std::mem::take(&mut self.renamed)).map(GuardBreach::Created)
    }

    /// Returns the paths that this command must have created. With concurrent commands, reports the paths to all of
    /// them and returns an empty list.
    fn attribute(&self, created: Vec<ForbiddenPath>) -> Vec<ForbiddenPath> {
        let command = self.command.as_ref();
        if command.is_some_and(|command| !created.is_empty() && command.report(&created)) {
            Vec::new()
        } else {
            created
        }
    }

    /// Removes and returns the paths created by this command or a concurrent one.
    pub(crate) fn take_unattributed(&self) -> Vec<ForbiddenPath> {
        let command = self.command.as_ref();
        command.map(ConcurrentCommand::take).unwrap_or_default()
    }

    fn find_uncovered(&mut self) -> Option<String> {
        let is_recent = |last: Instant| last.elapsed() < COVERED_INTERVAL;
        if self.covered.is_empty() || self.last_covered_check.is_some_and(is_recent) {
            return None;
        }
        self.last_covered_check = Some(Instant::now());
        let replaced = self.covered.iter().find(|file| !file.is_unchanged())?;
        let below = replaced.path().strip_prefix(&self.workspace);
        Some(below.unwrap_or(replaced.path()).display().to_string())
    }

    /// Finds a new forbidden path, renames it and returns it.
    fn find_forbidden(&mut self) -> Option<ForbiddenPath> {
        for folder in &mut self.folders {
            let at = self.workspace.join(folder.below);
            let stamp = folder_stamp(&at);
            if stamp == folder.stamp {
                continue;
            }
            folder.stamp = stamp;
            for name in entry_names(&at) {
                if folder.known.contains(&name) {
                    continue;
                }
                let Some(rule) = matching_rule(&self.rules, &at, folder.below, &name) else {
                    continue;
                };
                let path = Path::new(folder.below).join(&name).display().to_string();
                let Some(renamed_to) = move_aside(&self.workspace, &path) else {
                    continue;
                };
                return Some(ForbiddenPath {
                    path,
                    rule: format!("the rule `{rule}` reserves for people"),
                    renamed_to,
                    more: 0,
                });
            }
        }
        None
    }
}

/// Returns the first path with the number of further ones.
fn first_of(paths: Vec<ForbiddenPath>) -> Option<ForbiddenPath> {
    let more = paths.len().saturating_sub(1);
    let first = paths.into_iter().next()?;
    Some(ForbiddenPath { more, ..first })
}

/// Searches all trees.
fn search_all(trees: &[TreeSnapshot]) -> SearchFindings {
    let mut findings = SearchFindings::default();
    for searched in trees.iter().map(TreeSnapshot::search) {
        findings.created.extend(searched.created);
        findings.obeyed.extend(searched.obeyed);
        findings.ends |= searched.ends;
    }
    findings
}

/// Returns the rule that forbids commands to create this name. Secrets that a command writes are allowed.
fn matching_rule(rules: &PathRules, at: &Path, below: &str, name: &OsString) -> Option<String> {
    let name_text = name.to_str()?;
    let path = if below.is_empty() {
        name_text.to_owned()
    } else {
        format!("{below}/{name_text}")
    };
    if COVERED_PATHS.contains(&path.as_str()) {
        return None;
    }
    let folder = at.join(name).symlink_metadata().ok()?.is_dir();
    let verdict = if folder {
        rules.check(&path)
    } else {
        rules.check_file(&path)
    };
    match verdict {
        PathVerdict::ReadOnly { rule } if rule.protection() == ProtectionLevel::ReadOnly => {
            Some(rule.text().to_owned())
        }
        _ => None,
    }
}

impl Drop for WorkspaceGuard {
    /// Runs a last search if the caller of the command is gone, so that forbidden paths are renamed even then.
    fn drop(&mut self) {
        let Some(active) = self.active.take() else {
            return;
        };
        if let Some(trees) = self.trees.take() {
            std::thread::spawn(move || {
                std::thread::sleep(KILL_DELAY);
                search_all(&trees);
                drop(active);
            });
        }
    }
}

/// Inode and last change of a folder (`ctime`), which programs cannot set.
#[cfg(unix)]
type FolderStamp = (u64, i64, i64);
#[cfg(not(unix))]
type FolderStamp = std::time::SystemTime;

/// Returns the stamp of a folder, which changes when an entry is created or removed. Links have no stamp.
#[cfg(unix)]
fn folder_stamp(at: &Path) -> Option<FolderStamp> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = at.symlink_metadata().ok()?;
    let stamp = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
    metadata.is_dir().then_some(stamp)
}

#[cfg(not(unix))]
fn folder_stamp(at: &Path) -> Option<FolderStamp> {
    let metadata = at
        .symlink_metadata()
        .ok()
        .filter(|metadata| metadata.is_dir());
    metadata.and_then(|metadata| metadata.modified().ok())
}

fn entry_names(at: &Path) -> impl Iterator<Item = OsString> {
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
    fn guard_renames_forbidden_new_files_and_ignores_others() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        fs::create_dir(workspace.join(".git")).unwrap();
        fs::write(workspace.join(".bashrc"), "old").unwrap();
        let program = mimir_core::command::CommandProgram::Vector(Vec::new());
        let mut guard = WorkspaceGuard::new(&CommandSpec::new(program, workspace));
        assert_eq!(guard.check(), None);
        fs::write(workspace.join(".bashrc"), "new").unwrap();
        fs::write(workspace.join("main.rs"), "x").unwrap();
        fs::write(workspace.join(".env"), "x").unwrap();
        fs::write(workspace.join(".git/index"), "x").unwrap();
        assert_eq!(guard.check(), None);
        fs::write(workspace.join(".git/commondir"), "../evil").unwrap();
        let Some(GuardBreach::Created(created)) = guard.check() else {
            panic!("the forbidden path was not reported as a breach");
        };
        assert_eq!(created.path, ".git/commondir");
        assert_eq!(created.renamed_to, ".git/commondir.refused-by-mimir");
        assert!(!workspace.join(".git/commondir").exists());
        assert_eq!(
            fs::read(workspace.join(&created.renamed_to)).unwrap(),
            b"../evil"
        );
    }
}
