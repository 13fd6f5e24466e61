//! Detection of changed files without reading them.

use std::path::Path;

/// State of a file, determined without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObeyedStamp {
    size: u64,
    modified: Option<std::time::SystemTime>,
    /// The inode number, on systems that have one.
    number: u64,
}

impl ObeyedStamp {
    /// Returns the stamp of a regular file, or `None` for anything else.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&meta);
        #[cfg(not(unix))]
        let number = 0;
        meta.is_file().then(|| Self {
            size: meta.len(),
            modified: meta.modified().ok(),
            number,
        })
    }
}
