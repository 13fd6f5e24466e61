//! Files that an installation replaces, for restoring them if it fails.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};

use super::fetched::MAX_COMPONENT_SIZE;
use crate::output::warn;
use mimir::file_error::file_error;
use mimir::private_files::{self, FileReaders};

/// Replaced files with their previous content. Dropping it restores them, unless [`Self::keep`] is called.
#[derive(Default)]
pub struct ReplacedFiles {
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl ReplacedFiles {
    /// Reads a file; `None` if it does not exist. Refuses a link, which a checkout could lead to a private file: restoring
    /// would copy the content of that into the workspace.
    pub fn read(path: &Path) -> Result<Option<Vec<u8>>, ToolError> {
        match files::read(path, LinkPolicy::Refuse, MAX_COMPONENT_SIZE) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(file_error("replace", path, &error)),
        }
    }

    /// Writes a file atomically, so that other processes never see a partial one; `None` removes it.
    pub fn replace(&mut self, path: &Path, content: Option<&[u8]>) -> Result<(), ToolError> {
        let previous = Self::read(path)?;
        if previous.as_deref() == content {
            return Ok(());
        }
        write_or_remove(path, content)?;
        self.files.push((path.to_owned(), previous));
        Ok(())
    }

    /// Keeps the new content.
    pub fn keep(mut self) {
        self.files.clear();
    }
}

impl Drop for ReplacedFiles {
    fn drop(&mut self) {
        for (path, previous) in self.files.drain(..).rev() {
            if let Err(error) = write_or_remove(&path, previous.as_deref()) {
                warn(format_args!("the previous file is not restored: {error}"));
            }
        }
    }
}

fn write_or_remove(path: &Path, content: Option<&[u8]>) -> Result<(), ToolError> {
    let Some(content) = content else {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(file_error("remove", path, &error))
            }
            _ => Ok(()),
        };
    };
    let created = match path.parent() {
        Some(folder) => std::fs::create_dir_all(folder),
        None => Ok(()),
    };
    created
        .and_then(|()| private_files::replace(path, content, FileReaders::Owner))
        .map_err(|error| file_error("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn replaced_files_are_no_links() {
        let folder = tempfile::tempdir().unwrap();
        let (private, link) = (folder.path().join("private"), folder.path().join("link"));
        std::fs::write(&private, "secret").unwrap();
        std::os::unix::fs::symlink(&private, &link).unwrap();
        let mut replaced = ReplacedFiles::default();
        let error = replaced.replace(&link, Some(b"after")).unwrap_err();
        assert!(error.message.contains("is a link"), "{error}");
        drop(replaced);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&private).unwrap(), "secret");
    }

    #[test]
    fn replaced_files_are_restored_unless_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("old"), "before").unwrap();
        std::fs::write(path("removed"), "before").unwrap();
        let change = || {
            let mut replaced = ReplacedFiles::default();
            replaced.replace(&path("old"), Some(b"after")).unwrap();
            replaced.replace(&path("new"), Some(b"after")).unwrap();
            replaced.replace(&path("removed"), None).unwrap();
            replaced
        };
        let read = |name: &str| std::fs::read_to_string(path(name)).ok();
        drop(change());
        assert_eq!(read("old").as_deref(), Some("before"));
        assert_eq!(read("removed").as_deref(), Some("before"));
        assert_eq!(read("new"), None);
        change().keep();
        assert_eq!(read("old").as_deref(), Some("after"));
        assert_eq!(
            (read("new").as_deref(), read("removed")),
            (Some("after"), None)
        );
    }
}
