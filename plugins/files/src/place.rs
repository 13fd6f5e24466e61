//! Resolution of a caller's path to a path inside the workspace.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use mimir_sdk::{Context, Error, Result, text};

/// Maximum number of symbolic links that are followed to a file.
const MAX_LINKS: usize = 16;

/// Longest path in bytes: the limit of Linux.
const MAX_PATH: usize = 4096;

/// A path inside the workspace. [`Place::new`] is the only way to get one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    /// Relative to the workspace root, with `/`; empty for the root itself.
    name: String,
}

impl Place {
    /// Resolves a path as a caller writes it: relative to the workspace root, with `/`.
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
        if written.len() > MAX_PATH {
            return Err(Error::invalid_path(format_args!(
                "`{said}` has {} bytes, and no path has more than {MAX_PATH}",
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
            .ok_or_else(|| Error::invalid_path(format_args!("`{said}` leads out of the workspace")))
    }

    /// Resolves `written` from the folder `from`. `None` if it leaves the root.
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

    /// Returns true for the workspace root.
    pub fn is_root(&self) -> bool {
        self.name.is_empty()
    }

    /// The path as it is, for data; `.` for the root. In a text it can forge a line: use [`Place::shown`] there.
    pub fn exact(&self) -> &str {
        if self.is_root() { "." } else { &self.name }
    }

    /// The path escaped for use in a text. Error messages use its `Display`, which is also shortened.
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

    /// The path of an entry in this folder.
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

    /// The parent folder; the root is its own parent.
    pub fn parent(&self) -> Self {
        let name = self.name.rsplit_once('/').map_or("", |(parent, _)| parent);
        Self {
            root: self.root.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns true if `other` is this path or is inside it.
    pub fn holds(&self, other: &Self) -> bool {
        self.is_root()
            || self == other
            || other
                .name
                .strip_prefix(&self.name)
                .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Metadata of the path, of a link itself. `None` if it does not exist.
    pub fn look(&self) -> Result<Option<Metadata>> {
        present(fs::symlink_metadata(self.path())).map_err(|error| self.failed(&error))
    }

    /// Metadata of the path, or an error if it does not exist.
    pub fn must_exist(&self) -> Result<Metadata> {
        self.look()?.ok_or_else(|| {
            // A directory listing replaces bytes that are not UTF-8 with this character.
            let odd = if self.name.contains(char::REPLACEMENT_CHARACTER) {
                "; a name that is not UTF-8 can't be given to a tool"
            } else {
                ""
            };
            Error::file_not_found(format_args!("`{self}` does not exist{odd}"))
        })
    }

    /// The real path of the file: symbolic links are followed as long as they stay inside the workspace.
    pub fn follow(&self) -> Result<Self> {
        let mut place = self.clone();
        for _ in 0..MAX_LINKS {
            match place.look()? {
                Some(metadata) if metadata.is_symlink() => {
                    let target =
                        fs::read_link(place.path()).map_err(|error| place.failed(&error))?;
                    let target = target.to_string_lossy();
                    let said = text::brief(&target);
                    let inside = (!target.starts_with('/'))
                        .then(|| Self::within(&place.root, &place.parent().name, &target))
                        .flatten();
                    place = inside.ok_or_else(|| {
                        Error::invalid_path(format_args!(
                            "`{place}` is a symbolic link to `{said}`, which leads out of the workspace"
                        ))
                    })?;
                }
                _ => return Ok(place),
            }
        }
        Err(Error::invalid_path(format_args!(
            "`{self}` is a symbolic link that leads in a circle"
        )))
    }

    /// Converts a failed operation on this path to an error of the contract.
    pub fn failed(&self, error: &io::Error) -> Error {
        Error::io(error, self.exact())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::brief(self.exact()))
    }
}

/// Maps "not found" to `None`.
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
