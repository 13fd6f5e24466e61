//! The content of a plugin's sources at the time of a build, by which a later command finds out that the build is
//! outdated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::source_watch::source_files;

/// Maximum size of all sources in bytes. Larger folders are compared by the times of their files.
const MAX_TOTAL_SIZE: u64 = 64 << 20;

/// Digests of the sources of a plugin: the files that `mimir tools build --watch` watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSnapshot {
    root: PathBuf,
    /// sha256 by the path below the root.
    files: BTreeMap<PathBuf, [u8; 32]>,
}

/// A source snapshot in the record of installed components.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDigest {
    /// Absolute path of the folder, or of the only file.
    pub root: PathBuf,
    /// sha256 over the paths and contents of all files.
    pub sha256: String,
}

impl SourceSnapshot {
    /// Reads the sources in a folder, or a single source. `None` if they are too many, too large, or not readable.
    pub fn read(root: &Path) -> Option<Self> {
        let mut sources = BTreeMap::new();
        let mut room = MAX_TOTAL_SIZE;
        for (path, _) in source_files(root).ok()? {
            let content = files::read(&path, LinkPolicy::Follow, room).ok()?;
            room = room.checked_sub(content.len() as u64)?;
            let relative = path.strip_prefix(root).unwrap_or(&path).to_owned();
            sources.insert(relative, Sha256::digest(&content).into());
        }
        Some(Self {
            root: root.to_owned(),
            files: sources,
        })
    }

    /// Returns the snapshot that describes the sources of a build which began with `self` and ended with `after`. Files
    /// that the compiler has added, such as lock files, belong to it. If another file has changed meanwhile, the compiler
    /// may have read either content, so that of the beginning counts and the build is outdated.
    pub fn of_build(self, after: Self) -> Self {
        let is_same = |(path, digest): (&PathBuf, &[u8; 32])| after.files.get(path) == Some(digest);
        if self.files.iter().all(is_same) {
            after
        } else {
            self
        }
    }

    /// Returns the digest for the record.
    pub fn digest(&self) -> SourceDigest {
        let mut hash = Sha256::new();
        for (path, digest) in &self.files {
            let path = path.as_os_str().as_encoded_bytes();
            hash.update((path.len() as u64).to_le_bytes());
            hash.update(path);
            hash.update(digest);
        }
        SourceDigest {
            root: self.root.clone(),
            sha256: format!("{:x}", hash.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_snapshot_differs_only_after_a_change_of_content() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let read = || SourceSnapshot::read(dir.path()).unwrap();
        write("tool.js", "1");
        let before = read();
        // Another time, the same content; and a file that is not a source.
        write("tool.js", "1");
        write(".hidden", "x");
        assert_eq!(read().digest(), before.digest());
        // A lock file of the compiler.
        write("Cargo.lock", "x");
        let with_lock = read();
        let build = before.clone().of_build(with_lock.clone());
        assert_eq!(build.digest(), with_lock.digest());
        write("tool.js", "2");
        let changed_meanwhile = before.clone().of_build(read());
        assert_eq!(changed_meanwhile.digest(), before.digest());
        assert_ne!(read().digest(), before.digest());
        std::fs::rename(dir.path().join("tool.js"), dir.path().join("index.js")).unwrap();
        assert_ne!(read().digest().sha256, changed_meanwhile.digest().sha256);
    }

    #[test]
    fn source_snapshot_of_large_sources_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("model.bin")).unwrap();
        file.set_len(MAX_TOTAL_SIZE + 1).unwrap();
        assert_eq!(SourceSnapshot::read(dir.path()), None);
    }
}
