//! Files of an export: written beside their places first, then renamed, so that an export that fails changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use tempfile::TempDir;

use mimir::file_error::file_error;

/// Maximum number of existing files in a message.
const MAX_NAMED_FILES: usize = 5;

/// A file to write.
pub struct ExportFile {
    /// Path below the folder, with `/`.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl ExportFile {
    /// Creates a file.
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
        }
    }
}

/// A folder with the files of one format.
pub struct ExportFolder {
    folder: PathBuf,
    files: Vec<ExportFile>,
}

/// Files that were written beside their folder.
pub struct StagedFolder<'a> {
    target: &'a ExportFolder,
    staging: TempDir,
}

impl ExportFolder {
    /// Creates a folder of these files. Writes nothing.
    pub fn new(folder: &Path, files: Vec<ExportFile>) -> Self {
        Self {
            folder: folder.to_owned(),
            files,
        }
    }

    /// Returns the path as the user wrote it.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns the names of the files and folders at the top, each once.
    pub fn top_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for file in &self.files {
            let name = file.path.split('/').next().unwrap_or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Writes the files into a temporary folder beside the target.
    ///
    /// # Errors
    ///
    /// Fails if a file exists with other content and `replace` is false, and if a part of a path is a link.
    pub fn stage(&self, replace: bool) -> Result<StagedFolder<'_>, ToolError> {
        let failed = |action: &str, path: &Path, error| file_error(action, path, &error);
        let mut existing = Vec::new();
        for file in &self.files {
            let path = self.folder.join(&file.path);
            if self.folder.exists() {
                files::reject_links(&self.folder, &path)
                    .map_err(|e| failed("replace", &path, e))?;
            }
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_file() && is_same(&path, &file.bytes) => {}
                Ok(found) if found.is_file() => existing.push(path),
                Ok(_) => {
                    let shown = visible(&path.display().to_string());
                    let message = format!("{shown} is not a file and is not replaced");
                    return Err(ToolError::new(ToolErrorCode::AlreadyExists, message));
                }
                Err(_) => {}
            }
        }
        if !replace && !existing.is_empty() {
            return Err(self.exists_error(&existing));
        }
        // In the folder above the first that exists, so that it is on the same file system.
        let base = self.folder.ancestors().find(|path| path.is_dir());
        let base = base.filter(|path| !path.as_os_str().is_empty());
        let base = base.unwrap_or(Path::new("."));
        let staging = tempfile::Builder::new()
            .prefix(".mimir-export-")
            .tempdir_in(base);
        let staging = staging.map_err(|error| failed("write to", base, error))?;
        for file in &self.files {
            let path = staging.path().join(&file.path);
            let parent = path.parent().unwrap_or(staging.path());
            fs::create_dir_all(parent).map_err(|error| failed("create", parent, error))?;
            fs::write(&path, &file.bytes).map_err(|error| failed("write", &path, error))?;
        }
        Ok(StagedFolder {
            target: self,
            staging,
        })
    }

    fn exists_error(&self, existing: &[PathBuf]) -> ToolError {
        let shown = existing.iter().take(MAX_NAMED_FILES);
        let names: Vec<String> = shown
            .map(|path| visible(&path.display().to_string()))
            .collect();
        let more = existing.len().saturating_sub(MAX_NAMED_FILES);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let message = format!(
            "nothing was exported, because files exist already: {}{more}",
            names.join(", ")
        );
        ToolError::new(ToolErrorCode::AlreadyExists, message).with_remedies([
            "--force replaces these files; other files of the folder stay".to_owned(),
        ])
    }
}

impl StagedFolder<'_> {
    /// Moves the files to their places.
    pub fn commit(self) -> Result<(), ToolError> {
        for file in &self.target.files {
            let path = self.target.folder.join(&file.path);
            let parent = path.parent().unwrap_or(&self.target.folder);
            fs::create_dir_all(parent).map_err(|error| file_error("create", parent, &error))?;
            fs::rename(self.staging.path().join(&file.path), &path)
                .map_err(|error| file_error("write", &path, &error))?;
        }
        Ok(())
    }
}

fn is_same(path: &Path, bytes: &[u8]) -> bool {
    let size = bytes.len() as u64;
    files::read(path, LinkPolicy::Refuse, size).is_ok_and(|found| found == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(path: &Path, text: &str) -> ExportFolder {
        let files = vec![
            ExportFile::new("a.json", text),
            ExportFile::new("deep/b.wasm", "same"),
        ];
        ExportFolder::new(path, files)
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn export_replaces_files_only_if_forced() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("new/out");
        let read = || fs::read_to_string(path.join("a.json")).unwrap();
        folder(&path, "1").stage(false).unwrap().commit().unwrap();
        fs::write(path.join("own.txt"), "own").unwrap();
        // The same content again is not a conflict.
        folder(&path, "1").stage(false).unwrap().commit().unwrap();
        let error = folder(&path, "2").stage(false).err().unwrap();
        assert_eq!(error.code, ToolErrorCode::AlreadyExists);
        assert!(
            error.message.contains("a.json") && !error.message.contains("b.wasm"),
            "{error:?}"
        );
        assert_eq!(read(), "1");
        // Staged, but not committed.
        drop(folder(&path, "2").stage(true).unwrap());
        assert_eq!(read(), "1");
        folder(&path, "2").stage(true).unwrap().commit().unwrap();
        assert_eq!(read(), "2");
        assert_eq!(names(&path), ["a.json", "deep", "own.txt"]);
        assert_eq!(names(temporary.path()), ["new"]);
    }

    #[cfg(unix)]
    #[test]
    fn export_follows_no_links_in_its_folder() {
        let temporary = tempfile::tempdir().unwrap();
        let (path, outside) = (
            temporary.path().join("out"),
            temporary.path().join("outside"),
        );
        fs::create_dir_all(&path).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, path.join("deep")).unwrap();
        assert!(folder(&path, "1").stage(true).is_err());
        assert_eq!(names(&outside), [""; 0]);
    }
}
