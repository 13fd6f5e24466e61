//! The rules about paths, as mounts over what is there: what is read-only is covered by itself, what is hidden by
//! nothing. They hold in the workspace, and in each folder beside it that a command may change.
//!
//! A mount needs something to be mounted on. What is not there yet is made impossible by an empty folder where one
//! does no harm; the rest is watched for while the command runs (see `run/guard.rs`). A repository or a secret that a
//! command makes itself, in a folder where none was, is its own.
//!
//! A socket on which a program outside listens is a way out, and covered like a secret (see [`sockets`](super::sockets)).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::paths::{PathRules, Verdict};

use super::folders::{NOT_OURS, denied_below, named_by_rules};
use super::ground::{Ground, beside, closed};
use super::sockets::{Sockets, is_socket};
use super::{Fault, Spec};

mod repositories;

use repositories::{HOOKS, MODULES, is_inner};

/// What comes over a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cover {
    /// Itself, so that it stays where it is.
    Pin,
    /// Itself, to be read only.
    ReadOnly,
    /// Nothing that could be read.
    Nothing {
        /// Whether it is a folder.
        folder: bool,
    },
}

/// Folders in which git looks for itself, and of which each entry is judged by its name alone.
const REPOSITORY: &str = ".git";

/// Made, empty, in the workspace if it is missing: it is ours.
const OURS: &str = ".mimir";

/// More than this is no workspace, but a collection of test fixtures.
const COVERS_MOST: usize = 4_000;

/// Finds what is to be covered: paths below the workspace, those above before those below. `writes` says whether the
/// command may change anything.
pub(super) fn covers(
    sandbox: &'static str,
    workspace: &Path,
    rules: &PathRules,
    writes: bool,
) -> Result<Vec<(PathBuf, Cover)>, Fault> {
    let ground = Ground::workspace(workspace);
    let mut found = Found::new(&ground, rules, writes);
    if !rules.rules().is_empty() {
        found.keep_empty(OURS);
        found.sockets = Some(Sockets::default());
    }
    found.all(sandbox)
}

/// Something to be covered in a folder beside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beside {
    /// What it is on this machine.
    pub(super) from: PathBuf,
    /// Where the command sees it.
    pub(super) at: PathBuf,
    pub(super) with: Cover,
}

/// Finds the same in the folders beside the workspace that the command may change, without what cannot be changed for
/// what is above it. It goes over the mounts of those folders.
pub(super) fn covers_beside(sandbox: &'static str, spec: &Spec) -> Result<Vec<Beside>, Fault> {
    let mut all = Vec::new();
    for (mount, ground) in beside(spec) {
        // What the workspace has is covered there.
        let mut seen = closed(spec);
        if mount.from == mount.at {
            seen.extend(spec.parts().into_iter().map(|(part, _)| part));
        }
        let mut found = Found::new(&ground, &spec.shield, true);
        found.seen = seen;
        let found = found.all(sandbox)?;
        let mut read_only: Option<PathBuf> = None;
        for (path, with) in found {
            let from = ground.base.join(path);
            let held = read_only
                .as_ref()
                .is_some_and(|above| from.starts_with(above));
            let Ok(below) = from.strip_prefix(&mount.from) else {
                continue;
            };
            if held && matches!(with, Cover::Pin | Cover::ReadOnly) {
                continue;
            }
            if with == Cover::ReadOnly {
                read_only = Some(from.clone());
            }
            all.push(Beside {
                at: mount.at.join(below),
                from,
                with,
            });
        }
    }
    Ok(all)
}

struct Found<'a> {
    ground: &'a Ground,
    rules: &'a PathRules,
    /// Whether the command may change anything.
    writes: bool,
    /// Folders that are covered otherwise.
    seen: Vec<PathBuf>,
    covers: BTreeMap<PathBuf, Cover>,
    /// Those that are covered: who shows a folder beside the workspace may mean the socket in it.
    sockets: Option<Sockets>,
}

impl<'a> Found<'a> {
    fn new(ground: &'a Ground, rules: &'a PathRules, writes: bool) -> Self {
        Self {
            ground,
            rules,
            writes,
            seen: Vec::new(),
            covers: BTreeMap::new(),
            sockets: None,
        }
    }

    /// All of it, sorted by path, so that what is above comes first.
    fn all(mut self, sandbox: &'static str) -> Result<Vec<(PathBuf, Cover)>, Fault> {
        if self.ground.repository && self.keeps_hooks() {
            self.repository(&self.ground.start);
        } else if !self.rules.rules().is_empty() {
            self.folder(&self.ground.start).map_err(Fault::io(
                "a folder of commands could not be looked through",
            ))?;
            let sockets = self.sockets.iter();
            for path in sockets.flat_map(|sockets| sockets.bound_below(&self.ground.base)) {
                let nothing = Cover::Nothing { folder: false };
                self.covers.insert(path, nothing);
            }
        }
        if self.covers.len() > COVERS_MOST {
            return Err(Fault::CannotHold {
                sandbox,
                what: Fault::RULES,
                why: format!(
                    "{} files of `{}` are read-only or hidden, and more than {COVERS_MOST} cannot be covered",
                    self.covers.len(),
                    self.ground.folder().display()
                ),
            });
        }
        Ok(self.covers.into_iter().collect())
    }

    fn real(&self, path: impl AsRef<Path>) -> PathBuf {
        self.ground.base.join(path)
    }

    /// Looks through a folder in which only the rules of a person count, as far as one may match below it.
    fn denied(&mut self, at: &str) -> io::Result<()> {
        let rules = self.rules;
        if !rules.may_deny_below(at) {
            return Ok(());
        }
        let person = rules.of_person();
        for (path, kind) in denied_below(&self.ground.base, &person, at)? {
            let folder = kind.is_dir();
            self.cover(&path, kind, Cover::Nothing { folder });
        }
        Ok(())
    }

    /// Looks through a folder, `at` below where paths begin.
    fn folder(&mut self, at: &str) -> io::Result<()> {
        let folder = self.real(at);
        if self.seen.contains(&folder) {
            return Ok(());
        }
        let repository = folder.file_name().is_some_and(|name| name == REPOSITORY);
        if repository {
            self.keep_empty(&format!("{at}/{HOOKS}"));
        }
        let entries = match folder.read_dir() {
            Ok(entries) => entries,
            // It has gone meanwhile, or is closed to us and so to the command.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let scope = self.rules.scope(at);
        let mut head = false;
        for entry in entries {
            let entry = entry?;
            // No rule matches a name that is no text.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if at.is_empty() {
                name.clone()
            } else {
                format!("{at}/{name}")
            };
            let kind = entry.file_type()?;
            head |= name == "HEAD" && kind.is_file();
            let verdict = match kind.is_dir() {
                true => self.rules.check_in(&scope, &name),
                false => self.rules.check_file(&path),
            };
            match verdict {
                Verdict::Hidden { .. } => {
                    self.cover(
                        &path,
                        kind,
                        Cover::Nothing {
                            folder: kind.is_dir(),
                        },
                    );
                    continue;
                }
                _ if is_socket(kind) && self.lead_out(&path) => {
                    self.cover(&path, kind, Cover::Nothing { folder: false });
                }
                // What git writes of submodules, and of the worktree that the workspace is, is let, but for what it
                // obeys. The worktrees of a repository in the workspace are others.
                Verdict::ReadOnly { .. }
                    if repository && is_inner(&name) && (!self.ground.own || name == MODULES) =>
                {
                    self.inner(&path);
                }
                Verdict::ReadOnly { .. } => self.cover(&path, kind, Cover::ReadOnly),
                Verdict::Free => {}
            }
            if !kind.is_dir() || repository {
                continue;
            }
            if NOT_OURS.contains(&name.as_str()) {
                self.denied(&path)?;
            } else {
                self.folder(&path)?;
            }
        }
        // One in the workspace is a fixture of its tests, and nobody works in it.
        if head && !repository && !self.ground.own {
            self.bare(at, &folder);
        }
        Ok(())
    }

    fn lead_out(&self, path: &str) -> bool {
        let sockets = self.sockets.as_ref();
        sockets.is_some_and(|sockets| sockets.lead_out(&self.real(path)))
    }

    fn cover(&mut self, path: &str, kind: fs::FileType, with: Cover) {
        let path = Path::new(path);
        if kind.is_symlink() {
            return self.link(path, with);
        }
        self.pin_above(path);
        let strictest = self
            .covers
            .get(path)
            .map_or(with, |other| (*other).max(with));
        self.covers.insert(path.to_owned(), strictest);
    }

    /// Pins the folders above a covered path whose place the rules depend on: `a` and `a/keys` for the rule
    /// `a/keys/**`. Renaming such a folder would take the covered files to a path that no rule names, or let another
    /// folder take its place. A rename of a mount point fails with EBUSY.
    fn pin_above(&mut self, path: &Path) {
        let start = Path::new(&self.ground.start);
        // The folder that was mounted cannot be renamed anyway.
        let above = path.ancestors().skip(1);
        for folder in above.take_while(|folder| *folder != start && folder.starts_with(start)) {
            if self.covers.contains_key(folder) {
                continue;
            }
            let by_place = |folder: &str| self.rules.may_cover_below(folder).is_some();
            if folder.file_name().is_some_and(named_by_rules)
                || folder.to_str().is_some_and(by_place)
            {
                self.covers.insert(folder.to_owned(), Cover::Pin);
            }
        }
    }

    /// A link is not covered itself, but what it leads to is, if that is in the same folder. What is outside of it is
    /// not there for the command.
    fn link(&mut self, path: &Path, with: Cover) {
        let Ok(real) = self.real(path).canonicalize() else {
            return;
        };
        let folder = self.ground.folder();
        let Ok(below) = real.strip_prefix(&self.ground.base) else {
            return;
        };
        if real == folder || !real.starts_with(&folder) {
            return;
        }
        let with = match with {
            Cover::Nothing { .. } => Cover::Nothing {
                folder: real.is_dir(),
            },
            with => with,
        };
        let strictest = self
            .covers
            .get(below)
            .map_or(with, |other| (*other).max(with));
        self.covers.insert(below.to_owned(), strictest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(files: &[&str]) -> Vec<(String, Cover)> {
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
        let covers = covers("process", &workspace, &PathRules::protected(), true).unwrap();
        covers
            .into_iter()
            .map(|(path, cover)| (path.to_str().unwrap().to_owned(), cover))
            .collect()
    }

    #[test]
    fn what_is_read_only_and_what_is_hidden_is_found_at_any_depth() {
        let found = covered(&[
            "src/main.rs",
            "a/b/c/d/e/.env",
            "a/keys/x.pem",
            "sub/.git/config",
            "a/.bashrc",
            "node_modules/x/.env",
            ".env.example",
        ]);
        let file = Cover::Nothing { folder: false };
        let expected = [
            (".mimir", Cover::ReadOnly),
            ("a/.bashrc", Cover::ReadOnly),
            ("a/b/c/d/e/.env", file),
            ("a/keys/x.pem", file),
            ("sub/.git", Cover::Pin),
            ("sub/.git/config", Cover::ReadOnly),
            ("sub/.git/hooks", Cover::ReadOnly),
        ];
        assert_eq!(
            found,
            expected.map(|(path, cover)| (path.to_owned(), cover))
        );
    }

    #[test]
    fn hooks_are_made_impossible_where_there_are_none() {
        let found = covered(&[".git/config", ".git/HEAD", ".mimir/state/"]);
        let expected = [
            (".git", Cover::Pin),
            (".git/config", Cover::ReadOnly),
            (".git/hooks", Cover::ReadOnly),
            (".mimir", Cover::ReadOnly),
            (".mimir/state", Cover::Nothing { folder: true }),
        ];
        assert_eq!(
            found,
            expected.map(|(path, cover)| (path.to_owned(), cover))
        );
    }

    #[test]
    fn a_link_covers_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        fs::write(workspace.join("secrets.txt"), "x").unwrap();
        std::os::unix::fs::symlink("secrets.txt", workspace.join(".env")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", workspace.join(".npmrc")).unwrap();
        std::os::unix::fs::symlink(".", workspace.join(".ssh")).unwrap();
        let covers = covers("process", &workspace, &PathRules::protected(), true).unwrap();
        assert_eq!(
            covers[1],
            ("secrets.txt".into(), Cover::Nothing { folder: false })
        );
        assert_eq!(covers.len(), 2, "{covers:?}");
    }
}
