//! Resolution of a caller's path to a path inside the workspace.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use mimir_sdk::{Context, Error, Result, text};

/// Maximum number of symbolic links that are followed to a file.
const MAX_LINKS: usize = 16;

/// Maximum length of a path in bytes, as on Linux.
const MAX_PATH: usize = 4096;

/// A path inside the workspace. [`WorkspacePath::new`] is the only way to get one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacePath {
    root: PathBuf,
    /// Relative to the workspace root, with `/`; empty for the root itself.
    name: String,
}

impl WorkspacePath {
    /// Resolves a path as written by a caller: relative to the workspace root, with `/`.
    pub fn new(cx: &Context, written: &str) -> Result<Self> {
        if written.is_empty() {
            return Err(Error::invalid_path(
                "the path is empty; `.` is the workspace root",
            ));
        }
        if written.contains('\0') {
            return Err(Error::invalid_path("the path contains a NUL character"));
        }
        let quoted = text::brief(written);
        if written.len() > MAX_PATH {
            return Err(Error::invalid_path(format_args!(
                "`{quoted}` has {} bytes, but a path may have at most {MAX_PATH}",
                written.len()
            )));
        }
        let has_windows_drive =
            written.as_bytes().get(1) == Some(&b':') && written.as_bytes()[0].is_ascii_alphabetic();
        if written.starts_with(['/', '\\']) || has_windows_drive {
            return Err(Error::invalid_path(format_args!(
                "`{quoted}` is outside of the workspace: expected a path relative to its root, such as `src/main.rs`, or an absolute path inside of it"
            )));
        }
        Self::within(cx.workspace(), "", written).ok_or_else(|| {
            Error::invalid_path(format_args!("`{quoted}` leads out of the workspace"))
        })
    }

    /// Resolves `written` from the folder `from`. `None` if the path leaves the root.
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

    /// Returns the unescaped path for structured content; `.` for the root. In a text it could forge a line: use
    /// [`WorkspacePath::escaped`] there.
    pub fn exact(&self) -> &str {
        if self.is_root() { "." } else { &self.name }
    }

    /// Returns the path escaped for use in a text. For error messages, use `Display`, which also shortens it.
    pub fn escaped(&self) -> Cow<'_, str> {
        text::name(self.exact())
    }

    /// Returns the absolute path, for the file system.
    pub fn absolute(&self) -> PathBuf {
        if self.is_root() {
            self.root.clone()
        } else {
            self.root.join(&self.name)
        }
    }

    /// Returns the path of an entry in this folder.
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

    /// Returns the last component of the path; empty for the root.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the parent folder. The root is its own parent.
    pub fn parent(&self) -> Self {
        let name = self.name.rsplit_once('/').map_or("", |(parent, _)| parent);
        Self {
            root: self.root.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns true if `other` is this path or is inside it.
    pub fn contains_path(&self, other: &Self) -> bool {
        self.is_root()
            || self == other
            || other
                .name
                .strip_prefix(&self.name)
                .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the metadata of the path, without following a link. `None` if the path does not exist.
    pub fn metadata(&self) -> Result<Option<Metadata>> {
        allow_not_found(fs::symlink_metadata(self.absolute()))
            .map_err(|error| self.io_error(&error))
    }

    /// Returns the metadata of the path, without following a link. Fails if the path does not exist.
    pub fn existing_metadata(&self) -> Result<Metadata> {
        self.metadata()?.ok_or_else(|| {
            // A directory listing replaces bytes that are not UTF-8 with this character.
            let hint = if self.name.contains(char::REPLACEMENT_CHARACTER) {
                "; tools cannot use names that are not UTF-8"
            } else {
                ""
            };
            Error::file_not_found(format_args!("`{self}` does not exist{hint}"))
        })
    }

    /// Follows symbolic links to the real path of the file. Fails if a link leaves the workspace.
    pub fn resolve_links(&self) -> Result<Self> {
        let mut location = self.clone();
        for _ in 0..MAX_LINKS {
            match location.metadata()? {
                Some(metadata) if metadata.is_symlink() => {
                    let target = fs::read_link(location.absolute())
                        .map_err(|error| location.io_error(&error))?;
                    let target = target.to_string_lossy();
                    let quoted = text::brief(&target);
                    let inside = (!target.starts_with('/'))
                        .then(|| Self::within(&location.root, &location.parent().name, &target))
                        .flatten();
                    location = inside.ok_or_else(|| {
                        Error::invalid_path(format_args!(
                            "`{location}` is a symbolic link to `{quoted}`, which leads out of the workspace"
                        ))
                    })?;
                }
                _ => return Ok(location),
            }
        }
        Err(Error::invalid_path(format_args!(
            "`{self}` leads through more than {MAX_LINKS} symbolic links"
        )))
    }

    /// Converts an I/O error of this path to an error of the contract.
    pub fn io_error(&self, error: &io::Error) -> Error {
        Error::io(error, self.exact())
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::brief(self.exact()))
    }
}

/// Maps "not found" to `None`.
fn allow_not_found(metadata: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match metadata {
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
