//! Path rules as mounts over existing files: a read-only path is mounted over itself read-only, a hidden path is
//! covered by an empty file or folder. The rules apply in the workspace, and in each mounted writable folder outside
//! it.
//!
//! A mount needs an existing path. Missing paths are blocked by an empty folder where that does no harm; the others are
//! monitored while the command runs (see `run/workspace_guard.rs`). A repository or a secret that the command itself
//! creates in a new place is not protected from it.
//!
//! A socket of a program outside would bypass the sandbox, so it is covered like a secret (see
//! [`sockets`](super::sockets)).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::paths::{PathRules, PathVerdict};

use super::ruled_folder::{RuledFolder, read_only_mounts, writable_outside_folders};
use super::sockets::{BoundSockets, is_socket};
use super::special_folders::{BUILD_FOLDERS, denied_below, has_entry_rules, read_dir_if_readable};
use super::{CommandSpec, SandboxError};

mod repositories;

use repositories::{HOOKS, MODULES, is_inner};

/// Mount over a protected path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MountMask {
    /// The path itself, unchanged, so that it cannot be moved.
    Pin,
    /// The path itself, read-only.
    ReadOnly,
    /// An unreadable file or an empty folder.
    Nothing {
        /// True for a folder.
        folder: bool,
    },
}

/// Repository folder that git discovers automatically. Each of its entries is checked separately, by name.
const REPOSITORY: &str = ".git";

/// Settings folder of mimir, created empty in the workspace if it is missing.
const MIMIR_FOLDER: &str = ".mimir";

/// Maximum number of covered files. A folder with more is a collection of test fixtures rather than a workspace.
const MAX_MASKS: usize = 4_000;

/// Finds the paths to cover, relative to the workspace and with parents before children. `writes` is true if the
/// command may change files at all.
pub(super) fn find_masks(
    sandbox: &'static str,
    workspace: &Path,
    rules: &PathRules,
    writes: bool,
) -> Result<Vec<(PathBuf, MountMask)>, SandboxError> {
    let ruled_folder = RuledFolder::workspace(workspace);
    let mut collector = MaskCollector::new(&ruled_folder, rules, writes);
    if !rules.rules().is_empty() {
        collector.make_empty_folder(MIMIR_FOLDER);
        collector.sockets = Some(BoundSockets::default());
    }
    collector.collect_masks(sandbox)
}

/// A path to cover in a mounted folder outside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutsideMask {
    /// The path on this machine.
    pub(super) from: PathBuf,
    /// The path in the sandbox.
    pub(super) at: PathBuf,
    pub(super) with: MountMask,
}

/// Finds the paths to cover in the mounted writable folders outside the workspace, without paths below a read-only
/// cover. The covers are mounted on top of those folders.
pub(super) fn find_outside_masks(
    sandbox: &'static str,
    spec: &CommandSpec,
) -> Result<Vec<OutsideMask>, SandboxError> {
    let mut masks_outside = Vec::new();
    for (mount, ruled_folder) in writable_outside_folders(spec) {
        // The workspace has its own covers.
        let mut skipped = read_only_mounts(spec);
        if mount.from == mount.at {
            skipped.extend(spec.parts().into_iter().map(|(part, _)| part));
        }
        let mut collector = MaskCollector::new(&ruled_folder, &spec.path_rules, true);
        collector.skipped = skipped;
        let masks = collector.collect_masks(sandbox)?;
        let mut read_only: Option<PathBuf> = None;
        for (path, with) in masks {
            let from = ruled_folder.base.join(path);
            let is_below_read_only = read_only
                .as_ref()
                .is_some_and(|above| from.starts_with(above));
            let Ok(below) = from.strip_prefix(&mount.from) else {
                continue;
            };
            if is_below_read_only && matches!(with, MountMask::Pin | MountMask::ReadOnly) {
                continue;
            }
            if with == MountMask::ReadOnly {
                read_only = Some(from.clone());
            }
            masks_outside.push(OutsideMask {
                at: mount.at.join(below),
                from,
                with,
            });
        }
    }
    Ok(masks_outside)
}

struct MaskCollector<'a> {
    ruled_folder: &'a RuledFolder,
    rules: &'a PathRules,
    /// True if the command may change files at all.
    writes: bool,
    /// Folders that are covered separately.
    skipped: Vec<PathBuf>,
    covers: BTreeMap<PathBuf, MountMask>,
    /// The sockets to cover in the workspace. `None` for mounted folders, which may be mounted precisely for a socket
    /// in them.
    sockets: Option<BoundSockets>,
}

impl<'a> MaskCollector<'a> {
    fn new(ruled_folder: &'a RuledFolder, rules: &'a PathRules, writes: bool) -> Self {
        Self {
            ruled_folder,
            rules,
            writes,
            skipped: Vec::new(),
            covers: BTreeMap::new(),
            sockets: None,
        }
    }

    /// Returns all covers sorted by path, so that parents come first.
    fn collect_masks(
        mut self,
        sandbox: &'static str,
    ) -> Result<Vec<(PathBuf, MountMask)>, SandboxError> {
        if self.ruled_folder.is_repository && self.keeps_hooks() {
            self.mask_repository(&self.ruled_folder.start);
        } else if !self.rules.rules().is_empty() {
            self.mask_folder(&self.ruled_folder.start)
                .map_err(SandboxError::io_error(
                    "cannot search a folder of the command",
                ))?;
            let sockets = self.sockets.iter();
            for path in sockets.flat_map(|sockets| sockets.bound_below(&self.ruled_folder.base)) {
                let nothing = MountMask::Nothing { folder: false };
                self.covers.insert(path, nothing);
            }
        }
        if self.covers.len() > MAX_MASKS {
            let why = format!(
                "{} files of `{}` are read-only or hidden, but at most {MAX_MASKS} can be covered",
                self.covers.len(),
                self.ruled_folder.folder().display()
            );
            return Err(SandboxError::unsupported(sandbox, SandboxError::RULES, why));
        }
        Ok(self.covers.into_iter().collect())
    }

    fn canonical_path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.ruled_folder.base.join(path)
    }

    /// Scans a folder in which only the user's own rules apply, as deep as a rule may match.
    fn mask_denied(&mut self, at: &str) -> io::Result<()> {
        let rules = self.rules;
        if !rules.may_deny_below(at) {
            return Ok(());
        }
        let user_rules = rules.person_rules();
        for (path, kind) in denied_below(&self.ruled_folder.base, &user_rules, at)? {
            let folder = kind.is_dir();
            self.cover(&path, kind, MountMask::Nothing { folder });
        }
        Ok(())
    }

    /// Scans a folder, given relative to the base.
    fn mask_folder(&mut self, at: &str) -> io::Result<()> {
        let folder = self.canonical_path(at);
        if self.skipped.contains(&folder) {
            return Ok(());
        }
        let is_repository = folder.file_name().is_some_and(|name| name == REPOSITORY);
        if is_repository {
            self.make_empty_folder(&format!("{at}/{HOOKS}"));
        }
        let Some(entries) = read_dir_if_readable(&folder)? else {
            return Ok(());
        };
        let scope = self.rules.scope(at);
        let mut has_head_file = false;
        for entry in entries {
            let entry = entry?;
            // Rules match only UTF-8 names.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if at.is_empty() {
                name.clone()
            } else {
                format!("{at}/{name}")
            };
            let kind = entry.file_type()?;
            has_head_file |= name == "HEAD" && kind.is_file();
            let verdict = if kind.is_dir() {
                self.rules.check_in(&scope, &name)
            } else {
                self.rules.check_file(&path)
            };
            match verdict {
                PathVerdict::Hidden { .. } => {
                    self.cover(
                        &path,
                        kind,
                        MountMask::Nothing {
                            folder: kind.is_dir(),
                        },
                    );
                    continue;
                }
                _ if is_socket(kind) && self.has_outside_listener(&path) => {
                    self.cover(&path, kind, MountMask::Nothing { folder: false });
                }
                // Git may write its data of submodules, and of the worktree that is the workspace, except for the files
                // that it obeys. Worktrees of the workspace's own repository are other checkouts and stay read-only.
                PathVerdict::ReadOnly { .. }
                    if is_repository
                        && kind.is_dir()
                        && is_inner(&name)
                        && (!self.ruled_folder.is_workspace || name == MODULES) =>
                {
                    self.mask_inner_repositories(&path);
                }
                PathVerdict::ReadOnly { .. } => self.cover(&path, kind, MountMask::ReadOnly),
                PathVerdict::Free => {}
            }
            if !kind.is_dir() || is_repository {
                continue;
            }
            if BUILD_FOLDERS.contains(&name.as_str()) {
                self.mask_denied(&path)?;
            } else {
                self.mask_folder(&path)?;
            }
        }
        // A bare repository in the workspace is a test fixture; git does not run in it.
        if has_head_file && !is_repository && !self.ruled_folder.is_workspace {
            self.mask_bare_repository(at, &folder);
        }
        Ok(())
    }

    fn has_outside_listener(&self, path: &str) -> bool {
        let sockets = self.sockets.as_ref();
        sockets.is_some_and(|sockets| sockets.has_outside_listener(&self.canonical_path(path)))
    }

    fn cover(&mut self, path: &str, kind: fs::FileType, with: MountMask) {
        let path = Path::new(path);
        if kind.is_symlink() {
            return self.mask_link_target(path, with);
        }
        self.pin_parents(path);
        self.cover_at_least(path, with);
    }

    /// Covers a path, unless its current cover is stricter.
    fn cover_at_least(&mut self, path: &Path, with: MountMask) {
        let cover = self.covers.entry(path.to_owned()).or_insert(with);
        *cover = with.max(*cover);
    }

    /// Pins the parent folders of a covered path that are part of a rule, such as `a` and `a/keys` for `a/keys/**`.
    /// Otherwise, renaming such a folder would move the covered files to a path that no rule matches, or let another
    /// folder take its place. Renaming a mount point fails with EBUSY.
    fn pin_parents(&mut self, path: &Path) {
        let start = Path::new(&self.ruled_folder.start);
        // A mounted folder cannot be renamed anyway.
        let above = path.ancestors().skip(1);
        for folder in above.take_while(|folder| *folder != start && folder.starts_with(start)) {
            if self.covers.contains_key(folder) {
                continue;
            }
            let has_rule_below = |folder: &str| self.rules.may_cover_below(folder).is_some();
            if folder.file_name().is_some_and(has_entry_rules)
                || folder.to_str().is_some_and(has_rule_below)
            {
                self.covers.insert(folder.to_owned(), MountMask::Pin);
            }
        }
    }

    /// Covers the target of a symbolic link instead of the link, if the target is in the same folder. Other targets are
    /// invisible to the command.
    fn mask_link_target(&mut self, path: &Path, with: MountMask) {
        let Ok(real) = self.canonical_path(path).canonicalize() else {
            return;
        };
        let folder = self.ruled_folder.folder();
        let Ok(below) = real.strip_prefix(&self.ruled_folder.base) else {
            return;
        };
        if real == folder || !real.starts_with(&folder) {
            return;
        }
        let with = match with {
            MountMask::Nothing { .. } => MountMask::Nothing {
                folder: real.is_dir(),
            },
            with => with,
        };
        self.cover_at_least(below, with);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(files: &[&str]) -> Vec<(String, MountMask)> {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        for file in files {
            let path = workspace.join(file);
            match file.strip_suffix('/') {
                Some(_) => fs::create_dir_all(&path).unwrap(),
                None => {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, "x").unwrap();
                }
            }
        }
        let covers = find_masks("process", &workspace, &PathRules::protected(), true).unwrap();
        covers
            .into_iter()
            .map(|(path, cover)| (path.to_str().unwrap().to_owned(), cover))
            .collect()
    }

    #[test]
    fn masks_cover_protected_paths_at_any_depth() {
        let found = covered(&[
            "src/main.rs",
            "a/b/c/d/e/.env",
            "a/keys/x.pem",
            "sub/.git/config",
            "a/.bashrc",
            "node_modules/x/.env",
            ".env.example",
        ]);
        let file = MountMask::Nothing { folder: false };
        let expected = [
            (".mimir", MountMask::ReadOnly),
            ("a/.bashrc", MountMask::ReadOnly),
            ("a/b/c/d/e/.env", file),
            ("a/keys/x.pem", file),
            ("sub/.git", MountMask::Pin),
            ("sub/.git/config", MountMask::ReadOnly),
            ("sub/.git/hooks", MountMask::ReadOnly),
        ];
        assert_eq!(
            found,
            expected.map(|(path, cover)| (path.to_owned(), cover))
        );
    }

    #[test]
    fn masks_cover_a_missing_hooks_folder() {
        let found = covered(&[".git/config", ".git/HEAD", ".mimir/state/"]);
        let expected = [
            (".git", MountMask::Pin),
            (".git/config", MountMask::ReadOnly),
            (".git/hooks", MountMask::ReadOnly),
            (".mimir", MountMask::ReadOnly),
            (".mimir/state", MountMask::Nothing { folder: true }),
        ];
        assert_eq!(
            found,
            expected.map(|(path, cover)| (path.to_owned(), cover))
        );
    }

    #[test]
    fn masks_of_a_symlink_cover_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        fs::write(workspace.join("secrets.txt"), "x").unwrap();
        std::os::unix::fs::symlink("secrets.txt", workspace.join(".env")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", workspace.join(".npmrc")).unwrap();
        std::os::unix::fs::symlink(".", workspace.join(".ssh")).unwrap();
        let covers = find_masks("process", &workspace, &PathRules::protected(), true).unwrap();
        assert_eq!(
            covers[1],
            ("secrets.txt".into(), MountMask::Nothing { folder: false })
        );
        assert_eq!(covers.len(), 2, "{covers:?}");
    }
}
