//! From what a caller wrote to a path inside the workspace.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use mimir_sdk::{Context, Error, Result, text};

use crate::backup;

/// How many symbolic links are followed to the file that is meant.
const LINKS_MAX: usize = 16;

/// Longest path in bytes: as long as one may be on Linux.
const PATH_MAX: usize = 4096;

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
        let said = text::brief(written);
        if written.len() > PATH_MAX {
            return Err(Error::invalid_path(format_args!(
                "`{said}` has {} bytes, and no path has more than {PATH_MAX}",
                written.len()
            )));
        }
        let windows_drive =
            written.as_bytes().get(1) == Some(&b':') && written.as_bytes()[0].is_ascii_alphabetic();
        if written.starts_with(['/', '\\']) || windows_drive {
            return Err(Error::invalid_path(format_args!(
                "`{said}` is absolute; paths are relative to the workspace root, such as `src/main.rs`"
            )));
        }
        Self::within(cx.workspace(), "", written)
            .ok_or_else(|| {
                Error::invalid_path(format_args!("`{said}` leads out of the workspace"))
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
                "`{self}` holds the backups, which only `mimir undo` touches"
            )));
        }
        Ok(self)
    }

    /// Whether this is the workspace root.
    pub fn is_root(&self) -> bool {
        self.name.is_empty()
    }

    /// The path as it is, for data; `.` for the root. In a text it can forge a line: see [`Place::shown`].
    pub fn exact(&self) -> &str {
        if self.is_root() { "." } else { &self.name }
    }

    /// The path as a part of a text. Messages show it by its `Display`, which is the same cut short.
    pub fn shown(&self) -> Cow<'_, str> {
        text::name(self.exact())
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

    /// The last part of the path; empty for the root.
    pub fn last(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
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
        self.look()?.ok_or_else(|| {
            // What a listing puts in the place of bytes that are no UTF-8.
            let odd = if self.name.contains(char::REPLACEMENT_CHARACTER) {
                "; a name that is not UTF-8 can't be given to a tool"
            } else {
                ""
            };
            Error::file_not_found(format_args!("`{self}` does not exist{odd}"))
        })
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
                    let said = text::brief(&target);
                    let inside = (!target.starts_with('/'))
                        .then(|| Self::within(&place.root, &place.parent().name, &target))
                        .flatten();
                    place = inside
                        .ok_or_else(|| {
                            Error::invalid_path(format_args!(
                                "`{place}` is a symbolic link to `{said}`, which leads out of the workspace"
                            ))
                        })?
                        .outside_backups()?;
                }
                _ => return Ok(place),
            }
        }
        Err(Error::invalid_path(format_args!(
            "`{self}` is a symbolic link that leads in a circle"
        )))
    }

    /// A failed operation on this path, in the words of the contract.
    pub fn failed(&self, error: &io::Error) -> Error {
        Error::io(error, self.exact())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::brief(self.exact()))
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
mod tests;
