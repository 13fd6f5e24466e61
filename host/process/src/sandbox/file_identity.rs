//! Identity of a file at a path, used to detect whether another file has replaced it.
//!
//! A mount covers a file, not a name. If the file is replaced, as editors do on save, the mount stays with the old file
//! and the new file is unprotected.

#[cfg(target_os = "linux")]
use std::fs::File;
#[cfg(unix)]
use std::fs::Metadata;
#[cfg(unix)]
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mimir_core::platform::PlatformFileId;

/// Identity of a file or folder, by properties that another file cannot take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    path: PathBuf,
    /// The identity that the system gives the file.
    number: PlatformFileId,
    /// Creation time: unlike an inode number, it is not reused.
    born: Option<SystemTime>,
}

impl FileIdentity {
    /// Identifies the file at `path`. Returns `None` for a missing file and for a socket: sockets come and go with the
    /// programs that listen on them.
    #[cfg(unix)]
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        use std::os::unix::fs::FileTypeExt;

        let metadata = path.metadata().ok()?;
        (!metadata.file_type().is_socket()).then(|| Self::from_metadata(path, &metadata))
    }

    /// Identifies the file at a path that must not contain a symbolic link.
    #[cfg(target_os = "linux")]
    pub(super) fn of_path_without_links(path: &Path) -> io::Result<Self> {
        let file = open_by_no_link(path)?;
        Ok(Self::from_metadata(path, &File::from(file).metadata()?))
    }

    /// Identifies the file at a path that must not contain a symbolic link. The check for links is not atomic on this
    /// platform.
    #[cfg(all(unix, not(target_os = "linux")))]
    pub(super) fn of_path_without_links(path: &Path) -> io::Result<Self> {
        if path.canonicalize()? != path {
            return Err(io::Error::other("its path contains a symbolic link"));
        }
        Ok(Self::from_metadata(path, &path.symlink_metadata()?))
    }

    #[cfg(unix)]
    fn from_metadata(path: &Path, metadata: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            number: PlatformFileId::of_metadata(metadata),
            born: metadata.created().ok(),
        }
    }

    /// Returns true if `file` is this file, regardless of its path.
    #[cfg(target_os = "linux")]
    pub(super) fn is_same_file(&self, file: &File) -> io::Result<bool> {
        let other = Self::from_metadata(&self.path, &file.metadata()?);
        Ok(other == *self)
    }

    /// Identifies the file at `path`. Returns `None` for a missing file.
    #[cfg(windows)]
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        Some(Self {
            path: path.to_owned(),
            number: PlatformFileId::at_path(path).ok()?,
            born: path.metadata().ok()?.created().ok(),
        })
    }

    /// Returns the path at which the file was identified.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the path still leads to this file.
    pub(crate) fn is_unchanged(&self) -> bool {
        Self::of_path(&self.path).as_ref() == Some(self)
    }

    /// Returns true if the file can be distinguished from a later one with the same inode number.
    #[cfg(unix)]
    pub(super) fn is_unambiguous(&self) -> bool {
        self.born.is_some()
    }
}

/// Opens a path that must not contain a symbolic link. Safe between fork and exec, since it is a single system call.
#[cfg(target_os = "linux")]
pub(crate) fn open_by_no_link(
    path: impl rustix::path::Arg,
) -> Result<std::os::fd::OwnedFd, rustix::io::Errno> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_identity_changes_by_replacement_but_not_by_writing() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("b"));
        assert_eq!(FileIdentity::of_path(&file), None);
        std::fs::write(&file, "1").unwrap();
        let identity = FileIdentity::of_path(&file).unwrap();
        std::fs::write(&file, "22").unwrap();
        assert!(identity.is_unchanged());
        std::fs::write(&other, "1").unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert!(!identity.is_unchanged());
        let identity = FileIdentity::of_path(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(!identity.is_unchanged());
    }
}
