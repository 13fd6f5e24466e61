//! Detection of forbidden paths, anywhere in a workspace, that did not exist when a command began.
//!
//! A search of the whole workspace finds and renames them, similar to the search for paths to cover before a command
//! starts. Every rule that reserves a path for people applies at any depth, since a subfolder may be opened in an
//! editor, an agent, a shell or git like the workspace itself. Exceptions:
//!
//! - A repository that a command creates (`git init`, `git clone`) has settings and a hooks folder from the start.
//!   Settings that name no program, and sample hooks, are allowed (see [`repository`]).
//! - `.husky` and `.githooks` in such a repository are ordinary folders, unless its settings refer to them.
//! - Folders of downloads or build results, such as `node_modules`, are not searched: packages contain the editor
//!   settings of their authors, and people do not open those folders.
//! - A secret that a command writes is allowed, except `.envrc`, which shells run.
//!
//! Out of scope: paths in the root of the workspace, which the parent module checks far more often.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::ReadDir;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_core::paths::{
    PathRule, PathRuleLayer, PathRules, PathVerdict, ProtectionLevel, is_obeyed,
};

use super::obeyed_files::ObeyedStamp;
use super::open_folder::{move_aside, read_folder};
use super::repository;
use super::{ForbiddenPath, REFUSED_SUFFIX};
use crate::sandbox::{
    BUILD_FOLDERS, FileIdentity, INNER, OBEYED, RuledFolder, denied_below, has_entry_rules,
    inner_repositories,
};

/// A hidden file like other secrets, and also a script that shells run when they enter the folder.
const ENVRC: &str = ".envrc";

/// Folder of the submodules in a repository.
const MODULES: &str = "modules";

/// Files of a repository that git obeys and that every git client may have to write.
const OBEYED_OF_GIT: [&str; 2] = ["info/attributes", "objects/info/alternates"];

/// Settings folder of mimir, which is always covered.
const MIMIR_FOLDER: &str = ".mimir";

/// Number and length of the pauses of one search in which new `.git` files get their content.
const LINK_PAUSES: u32 = 10;
const LINK_PAUSE: Duration = Duration::from_millis(20);

/// Maximum length of a name in rules that apply only to files, in any spelling.
const MAX_LEAF_NAME: usize = 16;

/// A path with the rule that it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RuleMatch {
    /// Path relative to the workspace.
    path: String,
    rule: String,
    what: MatchKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchKind {
    /// A path that may not be created.
    Protected,
    /// A `.git` folder.
    Repository,
    /// A `.git` file, which leads to a repository elsewhere.
    GitLink,
    /// A `HEAD` file, which may make its folder a repository.
    Head,
    /// A folder from which a repository may run hooks.
    Hooks,
}

/// State of a workspace, or of another writable folder, when a command began.
pub(super) struct TreeSnapshot {
    /// The folder to which paths are relative.
    base: PathBuf,
    /// The folder to search, relative to `base`.
    start: String,
    /// The workspace, if this is another folder: the workspace is searched separately.
    excluded: Option<PathBuf>,
    rules: PathRules,
    /// Folders inside that the command cannot change.
    read_only_folders: Vec<PathBuf>,
    /// True if the folder is a repository with another name than `.git`.
    is_repository: bool,
    /// The existing paths, each with its parent folder. If another folder takes the place of the parent, the path
    /// counts as new: the old file, with its cover, has moved away.
    known: HashMap<String, Option<FileIdentity>>,
    /// Folders that could not be read.
    unreadable: HashSet<String>,
    /// True once the state before the command is recorded.
    is_recorded: bool,
    /// Instruction files of agents and tools.
    obeyed: BTreeMap<String, ObeyedStamp>,
    /// Paths that commands may not read.
    hidden: Vec<HiddenPath>,
    /// `.git` folders and files.
    repositories: Vec<String>,
}

/// Findings of a walk over the tree.
#[derive(Default)]
struct WalkFindings {
    unreadable: HashSet<String>,
    matches: Vec<RuleMatch>,
    obeyed: BTreeMap<String, ObeyedStamp>,
    hidden: Vec<HiddenPath>,
}

/// A path that commands may not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HiddenPath {
    /// Path relative to the workspace.
    pub(crate) path: String,
    pub(crate) kind: HiddenKind,
    /// The layer of the rule that hides the path.
    pub(crate) layer: PathRuleLayer,
}

/// Kind of a hidden path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenKind {
    File,
    Folder,
    /// A link, a socket or a pipe.
    Other,
}

impl HiddenKind {
    fn from_file_type(kind: std::fs::FileType) -> Self {
        if kind.is_dir() {
            Self::Folder
        } else if kind.is_file() {
            Self::File
        } else {
            Self::Other
        }
    }
}

/// Result of a search.
#[derive(Debug, Default)]
pub(super) struct SearchFindings {
    pub(super) created: Vec<ForbiddenPath>,
    /// New or changed instruction files of agents and tools.
    pub(super) obeyed: Vec<String>,
    /// True if the command must end. Paths in a fetched repository do not count: it may contain any file, and is
    /// fetched as a whole.
    pub(super) ends: bool,
}

impl TreeSnapshot {
    pub(super) fn new(folder: RuledFolder, workspace: &Path, rules: &PathRules) -> Self {
        Self {
            base: folder.base,
            start: folder.start,
            excluded: (!folder.is_workspace).then(|| workspace.to_owned()),
            rules: rules.clone(),
            read_only_folders: Vec::new(),
            is_repository: folder.is_repository,
            known: HashMap::new(),
            unreadable: HashSet::new(),
            is_recorded: false,
            obeyed: BTreeMap::new(),
            hidden: Vec::new(),
            repositories: Vec::new(),
        }
    }

    /// Records the current state as the state before the command.
    pub(super) fn with_current_state(mut self, read_only_folders: Vec<PathBuf>) -> Self {
        self.read_only_folders = read_only_folders;
        let walked = self.walk();
        let is_repository =
            |one: &&RuleMatch| matches!(one.what, MatchKind::Repository | MatchKind::GitLink);
        let repositories = walked.matches.iter().filter(is_repository);
        self.repositories = repositories.map(|one| one.path.clone()).collect();
        (self.obeyed, self.hidden) = (walked.obeyed, walked.hidden);
        // A walk does not enter read-only folders.
        let covered = walked
            .matches
            .iter()
            .filter(|one| one.what != MatchKind::Repository);
        let folders: Vec<&str> = covered
            .map(|one| one.path.as_str())
            .chain([MIMIR_FOLDER])
            .collect();
        for folder in folders {
            self.collect_hidden_below(folder.to_owned());
        }
        self.known = walked
            .matches
            .into_iter()
            .map(|one| {
                let parent = self.parent_identity(&one.path);
                (one.path, parent)
            })
            .collect();
        self.unreadable = walked.unreadable;
        self.is_recorded = true;
        self
    }

    /// Collects hidden paths in a read-only folder.
    fn collect_hidden_below(&mut self, folder: String) {
        let mut pending = vec![folder];
        while let Some(at) = pending.pop() {
            let folder = self.base.join(&at);
            if !folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                continue;
            }
            let scope = self.rules.scope(&at);
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type())
                else {
                    continue;
                };
                let path = format!("{at}/{name}");
                match self.rules.check_in(&scope, &name) {
                    PathVerdict::Hidden { rule } => self.hidden.push(HiddenPath {
                        path,
                        kind: HiddenKind::from_file_type(kind),
                        layer: rule.layer(),
                    }),
                    _ if !kind.is_dir() => {}
                    _ if BUILD_FOLDERS.contains(&name.as_str()) => {
                        let denied = self.find_denied_below(&path);
                        self.hidden.extend(denied);
                    }
                    _ => pending.push(path),
                }
            }
        }
    }

    /// Finds paths denied by a person's rules in a folder where no other rules apply.
    fn find_denied_below(&self, at: &str) -> Vec<HiddenPath> {
        if !self.rules.may_deny_below(at) {
            return Vec::new();
        }
        // With an unreadable folder, the earlier search for paths to cover has failed, and the command has not started.
        let denied = denied_below(&self.base, &self.rules.person_rules(), at).unwrap_or_default();
        denied
            .into_iter()
            .map(|(path, kind)| HiddenPath {
                path,
                kind: HiddenKind::from_file_type(kind),
                layer: PathRuleLayer::Denied,
            })
            .collect()
    }

    pub(super) fn hidden(&self) -> &[HiddenPath] {
        &self.hidden
    }

    pub(super) fn repositories(&self) -> &[String] {
        &self.repositories
    }

    /// Searches the whole tree, and renames new forbidden paths.
    pub(super) fn search(&self) -> SearchFindings {
        let walked = self.walk();
        let all_repositories: Vec<String> = walked
            .matches
            .iter()
            .filter(|one| one.what == MatchKind::Repository)
            .map(|one| one.path.clone())
            .collect();
        let new: Vec<RuleMatch> = walked
            .matches
            .into_iter()
            .filter(|one| !self.is_known(&one.path))
            .collect();
        self.wait_for_links(&new);
        let new_repositories: Vec<&str> = new
            .iter()
            .filter(|one| one.what == MatchKind::Repository)
            .map(|one| one.path.as_str())
            .collect();
        let is_fetched = |path: &str| {
            // A repository in the root of the workspace does not make other paths part of a fetch.
            let mut fetched = new_repositories.iter().filter(|one| **one != ".git");
            fetched.any(|one| path.starts_with(one.strip_suffix(".git").unwrap_or_default()))
        };
        let is_in_new_repository = |path: &str| {
            let mut folders = new_repositories.iter();
            folders.any(|one| path.starts_with(&format!("{one}/")))
        };
        let links_to_repository = |path: &str| {
            let repositories = all_repositories.iter().map(String::as_str);
            repository::links_to_repository(&self.base, path, repositories)
        };
        let mut searched = SearchFindings::default();
        let changed = walked
            .obeyed
            .into_iter()
            .filter(|(path, stamp)| self.obeyed.get(path) != Some(stamp));
        searched.obeyed = changed.map(|(path, _)| self.display_path(path)).collect();
        for one in &new {
            let forbidden = match one.what {
                // Checked as a part of its repository.
                _ if is_in_new_repository(&one.path) => Vec::new(),
                MatchKind::Repository => repository::find_forbidden_parts(&self.base, &one.path),
                MatchKind::GitLink if links_to_repository(&one.path) => Vec::new(),
                MatchKind::Head => {
                    if repository::is_repository_head(&self.base, &one.path) {
                        vec![(one.path.clone(), one.describe_protected())]
                    } else {
                        Vec::new()
                    }
                }
                MatchKind::Hooks if is_fetched(&one.path) => Vec::new(),
                MatchKind::Protected | MatchKind::GitLink | MatchKind::Hooks => {
                    vec![(one.path.clone(), one.describe_protected())]
                }
            };
            for (path, rule) in forbidden {
                let Some(renamed_to) = move_aside(&self.base, &path) else {
                    continue;
                };
                searched.ends |= !is_fetched(&path);
                searched.created.push(ForbiddenPath {
                    path: self.display_path(path),
                    rule,
                    renamed_to: self.display_path(renamed_to),
                    more: 0,
                });
            }
        }
        searched
    }

    /// Waits until the new `.git` files have content, for a bounded time: git creates such a file before it writes to it.
    fn wait_for_links(&self, new: &[RuleMatch]) {
        let is_empty = |one: &RuleMatch| {
            let metadata = self.base.join(&one.path).symlink_metadata();
            one.what == MatchKind::GitLink && metadata.is_ok_and(|file| file.len() == 0)
        };
        for _ in 0..LINK_PAUSES {
            if !new.iter().any(is_empty) {
                return;
            }
            std::thread::sleep(LINK_PAUSE);
        }
    }

    /// Returns true if a path existed when the command began.
    fn is_known(&self, path: &str) -> bool {
        let parent = self.known.get(path);
        parent.is_some_and(|parent| *parent == self.parent_identity(path))
    }

    fn parent_identity(&self, path: &str) -> Option<FileIdentity> {
        FileIdentity::of_path(self.base.join(path).parent()?)
    }

    /// Reads a folder. If it was readable before the command, restores its permissions: git and other programs can
    /// still open known files in a folder that the command made unreadable.
    fn read_folder(&self, folder: &Path) -> Option<ReadDir> {
        let path = folder.strip_prefix(&self.base).ok().and_then(Path::to_str);
        if self.is_recorded && path.is_none_or(|path| !self.unreadable.contains(path)) {
            read_folder(folder)
        } else {
            folder.read_dir().ok()
        }
    }

    /// Returns a path for messages: relative to the workspace, absolute elsewhere.
    fn display_path(&self, path: String) -> String {
        match &self.excluded {
            None => path,
            Some(_) => self.base.join(path).display().to_string(),
        }
    }

    /// Finds all paths that a rule matches.
    fn walk(&self) -> WalkFindings {
        let mut found = WalkFindings::default();
        if self.rules.rules().is_empty() {
            return found;
        }
        let mut pending = vec![self.start.clone()];
        if self.is_repository {
            self.walk_repository_mount(&mut found.matches);
            pending.clear();
        } else if is_repository(&self.start) {
            self.walk_repository(&self.start, &mut found);
            pending.clear();
        }
        while let Some(at) = pending.pop() {
            let folder = self.base.join(&at);
            if self.excluded.as_ref() == Some(&folder) {
                continue;
            }
            let entries = self.read_folder(&folder);
            if entries.is_none() {
                found.unreadable.insert(at.clone());
            }
            let scope = self.rules.scope(&at);
            for entry in entries.into_iter().flatten().flatten() {
                // Rules match only UTF-8 names.
                let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type())
                else {
                    continue;
                };
                let path = match at.as_str() {
                    "" => name.clone(),
                    at => format!("{at}/{name}"),
                };
                if kind.is_dir() && is_repository(&name) {
                    self.walk_repository(&path, &mut found);
                    continue;
                }
                if kind.is_file()
                    && is_obeyed(&at, &name)
                    && let Some(stamp) = ObeyedStamp::of_file(&self.base.join(&path))
                {
                    found.obeyed.insert(path.clone(), stamp);
                }
                let verdict = if kind.is_dir() || name.len() > MAX_LEAF_NAME {
                    self.rules.check_in(&scope, &name)
                } else {
                    self.rules.check_file(&path)
                };
                if let PathVerdict::Hidden { rule } = verdict {
                    found.hidden.push(HiddenPath {
                        path: path.clone(),
                        kind: HiddenKind::from_file_type(kind),
                        layer: rule.layer(),
                    });
                }
                let rule = match verdict {
                    _ if self.excluded.is_none() && path == MIMIR_FOLDER => continue,
                    PathVerdict::ReadOnly { rule } => Some(rule),
                    PathVerdict::Hidden { rule } if rule.text() == ENVRC => Some(rule),
                    PathVerdict::Hidden { .. } => continue,
                    PathVerdict::Free if kind.is_symlink() && has_entry_rules(name.as_ref()) => {
                        // Programs would obey the target of the link under this name.
                        let below = self.rules.may_cover_below(&path);
                        below.filter(|rule| rule.protection() == ProtectionLevel::ReadOnly)
                    }
                    PathVerdict::Free => None,
                };
                match rule {
                    Some(rule) => found.matches.push(RuleMatch::new(path, rule)),
                    None if !kind.is_dir() => {}
                    None if BUILD_FOLDERS.contains(&name.as_str()) => {
                        found.hidden.extend(self.find_denied_below(&path));
                    }
                    None => pending.push(path),
                }
            }
        }
        found
    }

    /// Finds rule matches in a repository. An existing hooks folder is covered, so it is not included.
    fn walk_repository(&self, at: &str, found: &mut WalkFindings) {
        for name in OBEYED_OF_GIT {
            let path = format!("{at}/{name}");
            if let Some(stamp) = ObeyedStamp::of_file(&self.base.join(&path)) {
                found.obeyed.insert(path, stamp);
            }
        }
        let found = &mut found.matches;
        found.push(RuleMatch {
            path: at.to_owned(),
            rule: String::new(),
            what: MatchKind::Repository,
        });
        let entries = self.read_folder(&self.base.join(at));
        for entry in entries.into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = format!("{at}/{name}");
            if let PathVerdict::ReadOnly { rule } = self.rules.check(&path)
                && !name.eq_ignore_ascii_case("hooks")
                && !name.contains(REFUSED_SUFFIX)
            {
                if INNER.contains(&name.as_str()) && (self.excluded.is_some() || name == MODULES) {
                    self.walk_inner_repositories(&path, rule, found);
                }
                found.push(RuleMatch::new(path, rule));
            }
        }
    }

    /// Finds the files that git obeys in a repository with another name than `.git`.
    fn walk_repository_mount(&self, found: &mut Vec<RuleMatch>) {
        let Some(rule) = self.rules.check(".git/config").against_writing() else {
            return;
        };
        for name in OBEYED.iter().filter(|name| **name != "hooks") {
            let path = format!("{}/{name}", self.start);
            if self.base.join(&path).symlink_metadata().is_ok() {
                found.push(RuleMatch::new(path, rule));
            }
        }
        for name in INNER {
            self.walk_inner_repositories(&format!("{}/{name}", self.start), rule, found);
        }
    }

    /// Finds the files that git obeys in the repositories below a folder, unless the folder is read-only.
    fn walk_inner_repositories(&self, at: &str, rule: &PathRule, found: &mut Vec<RuleMatch>) {
        if self.read_only_folders.contains(&self.base.join(at)) {
            return;
        }
        let read = |folder: &Path| self.read_folder(folder);
        for folder in inner_repositories(&self.base.join(at), read) {
            let Some(below) = folder.strip_prefix(&self.base).ok().and_then(Path::to_str) else {
                continue;
            };
            let exists = |name: &&str| folder.join(name).symlink_metadata().is_ok();
            let obeyed = OBEYED.into_iter().filter(exists);
            found.extend(obeyed.map(|name| RuleMatch::new(format!("{below}/{name}"), rule)));
        }
    }
}

fn is_repository(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.eq_ignore_ascii_case(".git")
}

impl RuleMatch {
    fn new(path: String, rule: &PathRule) -> Self {
        let what = match rule.text() {
            ".git" => MatchKind::GitLink,
            "HEAD" => MatchKind::Head,
            ".husky" | ".githooks" => MatchKind::Hooks,
            _ => MatchKind::Protected,
        };
        Self {
            path,
            rule: rule.text().to_owned(),
            what,
        }
    }

    fn describe_protected(&self) -> String {
        format!("the rule `{}` reserves for people", self.rule)
    }
}
