//! Start of a search: the folder or file to which the search is limited.

use std::path::{Component, Path};

use mimir_sdk::{Error, Result, text};

use crate::tree::Folder;

/// Start of a search. Paths are relative to the workspace root, with `/`; the root itself is empty.
pub enum SearchStart {
    /// A folder.
    Folder {
        /// Its path.
        path: String,
    },
    /// A single file.
    File {
        /// Its folder.
        folder: Folder,
        /// Its name in the folder.
        name: String,
        /// Its path.
        path: String,
    },
}

impl SearchStart {
    /// Resolves a path as written by the caller.
    pub fn resolve(root: &Folder, written: Option<&str>) -> Result<Self> {
        let path = normalize(written.unwrap_or("."))?;
        let Some(name) = path.rsplit('/').next().filter(|name| !name.is_empty()) else {
            return Ok(Self::Folder { path });
        };
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::file_not_found(format!("`{}` does not exist", text::brief(&path)))
            }
            _ => Error::io(&error, &path),
        };
        match root.folder(&path) {
            Ok(_) => Ok(Self::Folder { path }),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                let parent = path
                    .strip_suffix(name)
                    .unwrap_or_default()
                    .trim_end_matches('/');
                let folder = root
                    .folder(if parent.is_empty() { "." } else { parent })
                    .map_err(failed)?;
                folder.file(name).map_err(failed)?;
                Ok(Self::File {
                    folder,
                    name: name.to_owned(),
                    path,
                })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Its path.
    pub fn path(&self) -> &str {
        match self {
            Self::Folder { path } | Self::File { path, .. } => path,
        }
    }

    /// The path relative to the start of the search.
    pub fn below<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(self.path())
            .map_or(path, |below| below.trim_start_matches('/'))
    }
}

/// Normalizes a path. Fails if the path leaves the workspace.
fn normalize(written: &str) -> Result<String> {
    let mut path = String::new();
    for part in Path::new(written).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => path = join(&path, &name.to_string_lossy()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::invalid_path(format!(
                    "`{}` leaves the workspace; paths are relative to its root, such as `src`",
                    text::brief(written)
                )));
            }
        }
    }
    Ok(path)
}

/// Joins a folder and a name.
pub fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
