//! Partial downloads: a file beside the target that is hashed while it grows, continued later, and renamed at its end.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::TempPath;

use crate::digest::OciDigest;
use crate::error::RegistryError;

/// Size of the chunks in which an existing file is hashed.
const CHUNK: usize = 64 << 10;

/// Download that is not complete.
pub(super) struct PartialDownload {
    file: File,
    path: PathBuf,
    /// Deletes the file if the download is abandoned; `None` for a file that is kept for the next attempt.
    temporary: Option<TempPath>,
    hasher: Sha256,
    length: u64,
}

impl PartialDownload {
    /// Opens the partial download of a blob for `target`, or creates it. A file that another process writes is left
    /// alone: the download then starts from nothing.
    pub(super) async fn open(
        target: PathBuf,
        digest: OciDigest,
        size: u64,
    ) -> Result<Self, RegistryError> {
        let opening = tokio::task::spawn_blocking(move || {
            let path = partial_path(&target, &digest);
            Self::open_blocking(&path, size).map_err(|error| storage_error(&path, &error))
        });
        opening.await.map_err(|error| RegistryError::Storage {
            path: PathBuf::new(),
            why: error.to_string(),
        })?
    }

    fn open_blocking(path: &Path, size: u64) -> io::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        // A link that a repository brings would lead the download to another file.
        if std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            std::fs::remove_file(path)?;
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let (file, path) = tempfile::NamedTempFile::new_in(folder)?.into_parts();
                return Ok(Self {
                    file,
                    path: path.to_path_buf(),
                    temporary: Some(path),
                    hasher: Sha256::new(),
                    length: 0,
                });
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut partial = Self {
            file,
            path: path.to_owned(),
            temporary: None,
            hasher: Sha256::new(),
            length: 0,
        };
        if partial.file.metadata()?.len() > size {
            partial.reset_blocking()?;
        }
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = partial.file.read(&mut chunk)?;
            if count == 0 {
                return Ok(partial);
            }
            partial
                .hasher
                .update(chunk.get(..count).unwrap_or_default());
            partial.length += count as u64;
        }
    }

    /// Returns the number of bytes so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the digest of the bytes so far.
    pub(super) fn digest(&self) -> OciDigest {
        OciDigest::from_sha256(self.hasher.clone().finalize().into())
    }

    /// Appends a chunk. If that fails, the file is deleted, because the disk may be full.
    pub(super) fn write(&mut self, chunk: &[u8]) -> Result<(), RegistryError> {
        if let Err(error) = self.file.write_all(chunk) {
            let _ = self.file.set_len(0);
            let _ = std::fs::remove_file(&self.path);
            return Err(storage_error(&self.path, &error));
        }
        self.hasher.update(chunk);
        self.length += chunk.len() as u64;
        Ok(())
    }

    /// Discards all bytes.
    pub(super) fn reset(&mut self) -> Result<(), RegistryError> {
        self.reset_blocking()
            .map_err(|error| storage_error(&self.path, &error))
    }

    fn reset_blocking(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.hasher = Sha256::new();
        self.length = 0;
        Ok(())
    }

    /// Deletes the file.
    pub(super) fn discard(self) {
        drop(self.file);
        let _ = std::fs::remove_file(&self.path);
    }

    /// Replaces `target` with the complete file.
    pub(super) async fn finish(self, target: PathBuf) -> Result<(), RegistryError> {
        let failed_target = target.clone();
        let renaming = tokio::task::spawn_blocking(move || -> io::Result<()> {
            self.file.sync_all()?;
            // Windows does not rename open files.
            drop(self.file);
            match self.temporary {
                Some(temporary) => Ok(temporary.persist(&target)?),
                None => std::fs::rename(&self.path, &target),
            }
        });
        let renamed = renaming
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        renamed.map_err(|error| storage_error(&failed_target, &error))
    }
}

/// Returns the path of a partial download. The digest in its name keeps downloads of different versions apart.
fn partial_path(target: &Path, digest: &OciDigest) -> PathBuf {
    let hex = digest.hex();
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(
        "{name}.{}.partial",
        mimir_core::text::prefix(&hex, 16)
    ))
}

fn storage_error(path: &Path, error: &io::Error) -> RegistryError {
    RegistryError::Storage {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn partial_download_on_a_full_disk_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.partial");
        std::fs::write(&path, "").unwrap();
        // Every write to this device fails with the error of a full disk.
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut partial = PartialDownload {
            file: full,
            path: path.clone(),
            temporary: None,
            hasher: Sha256::new(),
            length: 0,
        };
        let error = partial.write(b"x").unwrap_err();
        assert!(error.to_string().contains("check free space"), "{error}");
        assert!(!path.exists());
    }
}
