//! The rules about paths, as mounts over what is there: what is read-only is covered by itself, what is hidden by
//! nothing.
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

use super::Fault;
use super::folders::{NOT_OURS, named_by_rules};
use super::sockets::{Sockets, is_socket};

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

/// Made, empty, in the workspace and in every repository of it where they are missing: git makes the one with every
/// repository, and the other is ours.
const OURS: &str = ".mimir";
const HOOKS: &str = "hooks";

/// What cannot be held if there are more covers than this, which no key of the settings asks for.
pub(super) const RULES: &str = "the rules about paths";

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
    let mut found = Found {
        workspace,
        rules,
        writes,
        covers: BTreeMap::new(),
        sockets: Sockets::default(),
    };
    if !rules.rules().is_empty() {
        found.keep_empty(OURS);
        found
            .folder("")
            .map_err(Fault::io("the workspace could not be looked through"))?;
        for path in found.sockets.bound_below(workspace) {
            let nothing = Cover::Nothing { folder: false };
            found.covers.insert(path, nothing);
        }
    }
    if found.covers.len() > COVERS_MOST {
        return Err(Fault::CannotHold {
            sandbox,
            what: RULES,
            why: format!(
                "{} files of the workspace are read-only or hidden, and more than {COVERS_MOST} cannot be covered",
                found.covers.len()
            ),
        });
    }
    // Sorted by path, so that what is above comes first.
    Ok(found.covers.into_iter().collect())
}

struct Found<'a> {
    workspace: &'a Path,
    rules: &'a PathRules,
    /// Whether the command may change anything.
    writes: bool,
    covers: BTreeMap<PathBuf, Cover>,
    sockets: Sockets,
}

impl Found<'_> {
    /// What is there cannot be made.
    fn keep_empty(&self, path: &str) {
        if self.writes && self.rules.check(path).against_writing().is_some() {
            // It is there in nearly every case. Where it cannot be made, the command cannot make it either.
            let _ = make(&self.workspace.join(path));
        }
    }

    /// Looks through a folder, `at` below the workspace.
    fn folder(&mut self, at: &str) -> io::Result<()> {
        let folder = self.workspace.join(at);
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
                _ if is_socket(kind) && self.sockets.lead_out(&self.workspace.join(&path)) => {
                    self.cover(&path, kind, Cover::Nothing { folder: false });
                }
                Verdict::ReadOnly { .. } => self.cover(&path, kind, Cover::ReadOnly),
                Verdict::Free => {}
            }
            if kind.is_dir() && !repository && !NOT_OURS.contains(&name.as_str()) {
                self.folder(&path)?;
            }
        }
        Ok(())
    }

    fn cover(&mut self, path: &str, kind: fs::FileType, with: Cover) {
        let path = Path::new(path);
        if kind.is_symlink() {
            return self.link(path, with);
        }
        // A folder that a rule names along with what is in it stays where it is: else it could be moved away with what
        // covers it, and another one put in its place.
        if let Some(above) = path
            .parent()
            .filter(|above| above.file_name().is_some_and(named_by_rules))
        {
            self.covers.entry(above.to_owned()).or_insert(Cover::Pin);
        }
        let strictest = self
            .covers
            .get(path)
            .map_or(with, |other| (*other).max(with));
        self.covers.insert(path.to_owned(), strictest);
    }

    /// A link is not covered itself, but what it leads to is, if that is in the workspace. What is outside of it is
    /// not there for the command.
    fn link(&mut self, path: &Path, with: Cover) {
        let Ok(real) = self.workspace.join(path).canonicalize() else {
            return;
        };
        let Ok(below) = real.strip_prefix(self.workspace) else {
            return;
        };
        if below.as_os_str().is_empty() {
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

/// Makes a folder in one that no link leads to: a command that runs already can have put one in the way by now.
#[cfg(target_os = "linux")]
fn make(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2};

    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = openat2(CWD, above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    Ok(mkdirat(above, name, Mode::from_raw_mode(0o777))?)
}

#[cfg(not(target_os = "linux"))]
fn make(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
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

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_is_made_where_a_link_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("home")).unwrap();
        std::os::unix::fs::symlink("home", real.join("link")).unwrap();
        assert!(make(&real.join("link/hooks")).is_err());
        assert!(!real.join("home/hooks").exists());
        make(&real.join("home/hooks")).unwrap();
        assert!(real.join("home/hooks").is_dir());
    }
}
