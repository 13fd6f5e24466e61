//! Detection of changed files without reading them.

use std::path::Path;

use mimir_core::platform::PlatformFileId;

/// State of a file, determined without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObeyedStamp {
    size: u64,
    modified: Option<std::time::SystemTime>,
    number: PlatformFileId,
}

impl ObeyedStamp {
    /// Returns the stamp of a regular file, or `None` for anything else.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        let number = PlatformFileId::at_path_without_link(path).ok()?;
        meta.is_file().then(|| Self {
            size: meta.len(),
            modified: meta.modified().ok(),
            number,
        })
    }
}
