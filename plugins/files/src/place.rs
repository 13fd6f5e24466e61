//! From what a caller wrote to a path inside the workspace.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use mimir_sdk::{Context, Error, Result};

use crate::backup;

/// How many symbolic links are followed to the file that is meant.
const LINKS_MAX: usize = 16;

/// A path inside the workspace. There is no other way to get one than [`Place::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    /// Relative to the workspace root, with `/`; empty for the root itself.
    name: String,
}

impl Place {
    /// Takes a path as a caller writes it: relative to the workspace root, with `/`.
    pub fn new(cx: &Context, written: &str) -> Result<Self> {
        if written.is_empty() {
            return Err(Error::invalid_path(
                "the path is empty; `.` is the workspace root",
            ));
        }
        if written.contains('\0') {
            return Err(Error::invalid_path("the path has a NUL character in it"));
        }
        let windows_drive =
            written.as_bytes().get(1) == Some(&b':') && written.as_bytes()[0].is_ascii_alphabetic();
        if written.starts_with(['/', '\\']) || windows_drive {
            return Err(Error::invalid_path(format_args!(
                "`{written}` is absolute; paths are relative to the workspace root, such as `src/main.rs`"
            )));
        }
        Self::within(cx.workspace(), "", written)
            .ok_or_else(|| {
                Error::invalid_path(format_args!("`{written}` leads out of the workspace"))
            })?
            .outside_backups()
    }

    /// Resolves `written` from the folder `from`; nothing if it climbs out of the root.
    fn within(root: &Path, from: &str, written: &str) -> Option<Self> {
        let mut parts: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
        for part in written.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                name => parts.push(name),
            }
        }
        Some(Self {
            root: root.to_owned(),
            name: parts.join("/"),
        })
    }

    /// The backups are a door that the host opens for this plugin's own records, not for its callers.
    fn outside_backups(self) -> Result<Self> {
        let mut parts = self.name.split('/');
        let inside = backup::FOLDER.split('/').all(|folder| {
            parts
                .next()
                .is_some_and(|part| part.eq_ignore_ascii_case(folder))
        });
        if inside {
            return Err(Error::permission_denied(format_args!(
                "`{}` holds the backups, which only `mimir undo` touches",
                self.name
            )));
        }
        Ok(self)
    }

    /// Whether this is the workspace root.
    pub fn is_root(&self) -> bool {
        self.name.is_empty()
    }

    /// The path as the caller knows it; `.` for the root.
    pub fn shown(&self) -> &str {
        if self.is_root() { "." } else { &self.name }
    }

    /// The path for the file system.
    pub fn path(&self) -> PathBuf {
        if self.is_root() {
            self.root.clone()
        } else {
            self.root.join(&self.name)
        }
    }

    /// Something in this folder.
    pub fn join(&self, name: &str) -> Self {
        let name = if self.is_root() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.name)
        };
        Self {
            root: self.root.clone(),
            name,
        }
    }

    /// The folder that this is in; the root is in itself.
    pub fn parent(&self) -> Self {
        let name = self.name.rsplit_once('/').map_or("", |(parent, _)| parent);
        Self {
            root: self.root.clone(),
            name: name.to_owned(),
        }
    }

    /// Whether `other` is this or lies below it.
    pub fn holds(&self, other: &Self) -> bool {
        self.is_root()
            || self == other
            || other
                .name
                .strip_prefix(&self.name)
                .is_some_and(|rest| rest.starts_with('/'))
    }

    /// What is there, a link as a link; nothing if there is nothing.
    pub fn look(&self) -> Result<Option<Metadata>> {
        present(fs::symlink_metadata(self.path())).map_err(|error| self.failed(&error))
    }

    /// What is there or why it can't be told.
    pub fn must_exist(&self) -> Result<Metadata> {
        self.look()?
            .ok_or_else(|| Error::file_not_found(format_args!("`{}` does not exist", self.shown())))
    }

    /// Where the file really is: symbolic links followed, as long as they stay inside.
    pub fn follow(&self) -> Result<Self> {
        let mut place = self.clone();
        for _ in 0..LINKS_MAX {
            match place.look()? {
                Some(metadata) if metadata.is_symlink() => {
                    let target =
                        fs::read_link(place.path()).map_err(|error| place.failed(&error))?;
                    let target = target.to_string_lossy();
                    let inside = (!target.starts_with('/'))
                        .then(|| Self::within(&place.root, &place.parent().name, &target))
                        .flatten();
                    place = inside
                        .ok_or_else(|| {
                            Error::invalid_path(format_args!(
                                "`{}` is a symbolic link to `{target}`, which leads out of the workspace",
                                place.shown()
                            ))
                        })?
                        .outside_backups()?;
                }
                _ => return Ok(place),
            }
        }
        Err(Error::invalid_path(format_args!(
            "`{}` is a symbolic link that leads in a circle",
            self.shown()
        )))
    }

    /// A failed operation on this path, in the words of the contract.
    pub fn failed(&self, error: &io::Error) -> Error {
        Error::io(error, self.shown())
    }
}

/// What is there, where nothing is no failure.
fn present(found: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match found {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use mimir_sdk::Code;

    use super::*;

    fn place(written: &str) -> Result<String> {
        Place::new(&Context::at("/ws"), written).map(|place| place.shown().to_owned())
    }

    #[test]
    fn paths_are_relative_and_stay_inside() {
        assert_eq!(place("a/./b//c/").unwrap(), "a/b/c");
        assert_eq!(place("a/../b").unwrap(), "b");
        assert_eq!(place(".").unwrap(), ".");
        assert_eq!(place("a b/ü.txt").unwrap(), "a b/ü.txt");
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "a/../../b",
            "\\\\host\\x",
            "C:/x",
            "a\0b",
        ] {
            assert_eq!(
                *place(bad).unwrap_err().code(),
                Code::InvalidPath,
                "{bad:?}"
            );
        }
    }

    #[test]
    fn backups_are_no_callers_business() {
        for bad in [
            ".mimir/state/backups",
            ".mimir/./state/x/../backups/1.json",
            ".MIMIR/State/backups/x",
        ] {
            assert_eq!(
                *place(bad).unwrap_err().code(),
                Code::PermissionDenied,
                "{bad}"
            );
        }
        assert!(place(".mimir/state/backups2").is_ok());
    }

    #[test]
    fn a_folder_holds_what_is_below_it() {
        let cx = Context::at("/ws");
        let at = |path| Place::new(&cx, path).unwrap();
        assert!(at("a").holds(&at("a/b")) && at("a").holds(&at("a")) && at(".").holds(&at("x")));
        assert!(!at("a").holds(&at("ab")) && !at("a/b").holds(&at("a")));
        assert_eq!(at("a/b").parent(), at("a"));
        assert_eq!(at("a").parent(), at("."));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_only_inside() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("real"), "x").unwrap();
        symlink("../real", dir.path().join("sub/good")).unwrap();
        symlink("../../out", dir.path().join("sub/bad")).unwrap();
        symlink("/etc/passwd", dir.path().join("sub/worse")).unwrap();
        symlink("round", dir.path().join("sub/round")).unwrap();
        let cx = Context::at(dir.path());
        let follow = |path| Place::new(&cx, path).unwrap().follow();
        assert_eq!(follow("sub/good").unwrap().shown(), "real");
        for bad in ["sub/bad", "sub/worse", "sub/round"] {
            assert_eq!(*follow(bad).unwrap_err().code(), Code::InvalidPath, "{bad}");
        }
    }
}
