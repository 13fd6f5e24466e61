//! Walks the source files of a workspace, and reports those whose state has changed.
//!
//! Hidden files, ignored files and those that a rule hides are left out, as in `file_search`; links are not followed.
//! Lists of directories are remembered until a directory changes, so that a walk mostly compares the states of files.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use mimir_core::paths::PathRules;

use crate::ignore_rules::{IgnoreLevel, IgnoreRules, RulesStamp, rules_stamp};
use crate::source_file::{SourceStamp, is_out_of_handles};

/// Maximum depth of folders.
const MAX_DEPTH: usize = 128;

/// Maximum number of folders, and of files in one folder. Further ones are left out, and the result says so.
const MAX_FOLDERS: usize = if cfg!(test) { 300 } else { 100_000 };
const MAX_FOLDER_FILES: usize = if cfg!(test) { 300 } else { 100_000 };

/// A file whose state is known.
pub(crate) struct SeenFile<'w> {
    pub(crate) folder: &'w Arc<Dir>,
    /// The path below the root.
    pub(crate) path: &'w str,
    pub(crate) name: &'w str,
    pub(crate) stamp: SourceStamp,
}

/// The remembered directories of a workspace.
#[derive(Debug, Default)]
pub(crate) struct SourceTree {
    folders: HashMap<Box<str>, ListedFolder>,
    rules: Option<PathRules>,
    walks: u64,
}

/// The remembered list of a directory.
#[derive(Debug)]
struct ListedFolder {
    stamp: SourceStamp,
    is_settled: bool,
    has_rules: bool,
    is_repository: bool,
    rules_stamp: RulesStamp,
    /// The rules of the directory above, for which this list holds.
    outer: IgnoreRules,
    rules: IgnoreRules,
    /// The paths of its files.
    files: Vec<Box<str>>,
    /// The names of its directories.
    folders: Vec<Box<str>>,
    /// True if it has more.
    is_cut: bool,
    walk: u64,
}

/// A directory to visit.
struct PendingFolder {
    parent: Arc<Dir>,
    path: String,
    name: Box<str>,
    depth: usize,
    rules: IgnoreRules,
}

/// The extent of a walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalkSummary {
    /// True if all files within the maximum numbers were visited.
    pub(crate) is_complete: bool,
    /// True if further files or directories were left out.
    pub(crate) is_cut: bool,
    /// Number of directories that could not be read.
    pub(crate) unreadable: usize,
}

impl SourceTree {
    /// Visits the files that `rules` allow to read, until `visit` returns false.
    pub(crate) fn walk(
        &mut self,
        root: &Arc<Dir>,
        rules: &PathRules,
        mut visit: impl FnMut(SeenFile<'_>) -> bool,
    ) -> WalkSummary {
        let is_same = self
            .rules
            .as_ref()
            .is_some_and(|known| known.ptr_eq(rules) || known.rules() == rules.rules());
        if !is_same {
            self.folders.clear();
            self.rules = Some(rules.clone());
        }
        self.walks += 1;
        let mut summary = WalkSummary::default();
        let mut pending = vec![PendingFolder {
            parent: Arc::clone(root),
            path: String::new(),
            name: Box::default(),
            depth: 0,
            rules: None,
        }];
        let mut visited = 0;
        while let Some(next) = pending.pop() {
            visited += 1;
            if visited > MAX_FOLDERS {
                summary.is_cut = true;
                break;
            }
            let opened = open(&next).and_then(|folder| {
                let listed = self.list(&folder, &next, rules)?;
                Ok((folder, listed))
            });
            let (folder, listed) = match opened {
                Ok(opened) => opened,
                Err(error) if is_out_of_handles(&error) => return summary,
                Err(_) => {
                    summary.unreadable += 1;
                    continue;
                }
            };
            summary.is_cut |= listed.is_cut;
            for path in &listed.files {
                let name = path.rsplit('/').next().unwrap_or(path);
                let metadata = match folder.symlink_metadata(name) {
                    Ok(metadata) => metadata,
                    Err(error) if is_out_of_handles(&error) => return summary,
                    Err(_) => continue,
                };
                if !metadata.is_file() {
                    continue;
                }
                let file = SeenFile {
                    folder: &folder,
                    path,
                    name,
                    stamp: SourceStamp::of(&metadata),
                };
                if !visit(file) {
                    return summary;
                }
            }
            if next.depth < MAX_DEPTH {
                // The last one is visited next.
                for name in listed.folders.iter().rev() {
                    pending.push(PendingFolder {
                        parent: Arc::clone(&folder),
                        path: join(&next.path, name),
                        name: name.clone(),
                        depth: next.depth + 1,
                        rules: listed.rules.clone(),
                    });
                }
            } else {
                summary.is_cut |= !listed.folders.is_empty();
            }
        }
        let walk = self.walks;
        self.folders.retain(|_, folder| folder.walk == walk);
        summary.is_complete = true;
        summary
    }

    /// Returns what a directory contains, which is read if it may have changed.
    fn list(
        &mut self,
        folder: &Dir,
        pending: &PendingFolder,
        rules: &PathRules,
    ) -> io::Result<&ListedFolder> {
        let stamp = SourceStamp::of(&folder.dir_metadata()?);
        let now = SystemTime::now();
        let is_current = self
            .folders
            .get(pending.path.as_str())
            .is_some_and(|known| {
                known.is_settled
                    && known.stamp == stamp
                    && is_same_level(&known.outer, &pending.rules)
                    && (!known.has_rules
                        || known.rules_stamp == rules_stamp(folder, known.is_repository))
            });
        if !is_current {
            let mut listed = read_folder(folder, pending, rules)?;
            listed.stamp = stamp;
            let rules = listed.rules_stamp.iter().flatten();
            listed.is_settled =
                stamp.is_settled(now) && rules.copied().all(|stamp| stamp.is_settled(now));
            self.folders.insert(pending.path.as_str().into(), listed);
        }
        let listed = self.folders.get_mut(pending.path.as_str());
        let listed = listed.ok_or(io::ErrorKind::NotFound)?;
        listed.walk = self.walks;
        Ok(listed)
    }
}

fn open(pending: &PendingFolder) -> io::Result<Arc<Dir>> {
    if pending.name.is_empty() {
        return Ok(Arc::clone(&pending.parent));
    }
    let folder = pending.parent.open_dir_nofollow(&*pending.name)?;
    Ok(Arc::new(folder))
}

fn is_same_level(a: &IgnoreRules, b: &IgnoreRules) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

fn read_folder(
    folder: &Dir,
    pending: &PendingFolder,
    rules: &PathRules,
) -> io::Result<ListedFolder> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    let (mut has_rules, mut is_repository, mut is_cut) = (false, false, false);
    for entry in folder.entries()? {
        let entry = entry?;
        // Other names cannot be arguments of tools.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let kind = entry.file_type()?;
        match name.as_str() {
            ".ignore" | ".gitignore" => has_rules = true,
            ".git" if kind.is_dir() => (has_rules, is_repository) = (true, true),
            _ => {}
        }
        if name.starts_with('.') {
            continue;
        }
        let (names, max) = if kind.is_dir() {
            (&mut folders, MAX_FOLDERS)
        } else if kind.is_file() {
            (&mut files, MAX_FOLDER_FILES)
        } else {
            continue;
        };
        if names.len() < max {
            names.push(name);
        } else {
            is_cut = true;
        }
    }
    let own = has_rules
        .then(|| IgnoreLevel::read(folder, &pending.path, is_repository, pending.rules.clone()));
    let level = own.transpose()?.or_else(|| pending.rules.clone());
    let scope = rules.scope(&pending.path);
    let is_visible = |name: &str, is_dir: bool| {
        let is_ignored = || {
            let path = join(&pending.path, name);
            level
                .as_ref()
                .is_some_and(|level| level.ignores(&path, is_dir))
        };
        rules.check_in(&scope, name).against_reading().is_none() && !is_ignored()
    };
    files.retain(|name| is_visible(name, false));
    folders.retain(|name| is_visible(name, true));
    files.sort_unstable();
    folders.sort_unstable();
    Ok(ListedFolder {
        stamp: SourceStamp::default(),
        is_settled: false,
        has_rules,
        is_repository,
        rules_stamp: if has_rules {
            rules_stamp(folder, is_repository)
        } else {
            RulesStamp::default()
        },
        outer: pending.rules.clone(),
        files: files
            .iter()
            .map(|name| join(&pending.path, name).into())
            .collect(),
        folders: folders.into_iter().map(String::into_boxed_str).collect(),
        is_cut,
        rules: level,
        walk: 0,
    })
}

/// Joins a folder and a name.
pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
