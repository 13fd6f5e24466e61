//! What stands at a path, so that it is known later if something else does.
//!
//! A mount is over what is there. If that is replaced by another program, as editors do when they save, the mount goes
//! with the old file, and the new one is as open as all others.

#[cfg(target_os = "linux")]
use std::fs::File;
#[cfg(unix)]
use std::fs::Metadata;
#[cfg(unix)]
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file or folder by what cannot be given to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    path: PathBuf,
    /// Its device and its number there.
    number: (u64, u64),
    /// Numbers are used again, and this is not.
    born: Option<SystemTime>,
}

impl Seen {
    /// What is there now; nothing if there is nothing, or a socket: it comes and goes with the program that listens on
    /// it.
    #[cfg(unix)]
    pub(crate) fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::FileTypeExt;

        let metadata = path.metadata().ok()?;
        (!metadata.file_type().is_socket()).then(|| Self::with(path, &metadata))
    }

    /// What is there now, reached by a path that has no link in it.
    #[cfg(target_os = "linux")]
    pub(super) fn by_no_link(path: &Path) -> io::Result<Self> {
        let file = open_by_no_link(path)?;
        Ok(Self::with(path, &File::from(file).metadata()?))
    }

    /// What is there now, reached by a path that had no link in it a moment ago.
    #[cfg(all(unix, not(target_os = "linux")))]
    pub(super) fn by_no_link(path: &Path) -> io::Result<Self> {
        if path.canonicalize()? != path {
            return Err(io::Error::other("there is a link in its path"));
        }
        Ok(Self::with(path, &path.symlink_metadata()?))
    }

    #[cfg(unix)]
    fn with(path: &Path, metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;

        Self {
            path: path.to_owned(),
            number: (metadata.dev(), metadata.ino()),
            born: metadata.created().ok(),
        }
    }

    /// Whether it is what this file is, wherever that was found.
    #[cfg(target_os = "linux")]
    pub(super) fn is_in(&self, file: &File) -> io::Result<bool> {
        let other = Self::with(&self.path, &file.metadata()?);
        Ok(other == *self)
    }

    /// No sandbox of other systems covers anything.
    #[cfg(not(unix))]
    pub(crate) fn of(_: &Path) -> Option<Self> {
        None
    }

    /// Where it stands.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still what stands there.
    pub(crate) fn stays(&self) -> bool {
        Self::of(&self.path).as_ref() == Some(self)
    }

    /// Whether it can be told from another one that has got its number.
    #[cfg(unix)]
    pub(super) fn is_sure(&self) -> bool {
        self.born.is_some()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_another_and_what_is_written_to_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("b"));
        assert_eq!(Seen::of(&file), None);
        std::fs::write(&file, "1").unwrap();
        let seen = Seen::of(&file).unwrap();
        std::fs::write(&file, "22").unwrap();
        assert!(seen.stays());
        std::fs::write(&other, "1").unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert!(!seen.stays());
        let seen = Seen::of(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(!seen.stays());
    }
}
/// A hold on something of this machine, by a path that has no link in it. It is one system call, so that it can be made
/// between a fork and what runs then.
#[cfg(target_os = "linux")]
pub(crate) fn open_by_no_link(
    path: impl rustix::path::Arg,
) -> Result<std::os::fd::OwnedFd, rustix::io::Errno> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
