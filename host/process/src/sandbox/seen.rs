//! What stands at a path, so that it is known later if something else does.
//!
//! A mount is over what is there. If that is replaced by another program, as editors do when they save, the mount goes
//! with the old file, and the new one is as open as all others.

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
    /// What is there now; nothing if there is nothing.
    #[cfg(unix)]
    pub(crate) fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let metadata = path.metadata().ok()?;
        Some(Self {
            path: path.to_owned(),
            number: (metadata.dev(), metadata.ino()),
            born: metadata.created().ok(),
        })
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
