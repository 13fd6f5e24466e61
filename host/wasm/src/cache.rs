//! Files in the user's cache folder: compiled code, descriptions of components, and indexes of tools folders.
//!
//! An entry is named after the hash of its input, and begins with a hash of its name and content; the hash of compiled
//! code is in a file of its own (see [`code`]). An entry is used only if the hash matches, and if only this user can
//! write to the folder and the file. Any other entry is ignored.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

mod code;
mod counts;
mod private;

use counts::CodeCounters;
pub use counts::CodeCounts;

/// The first bytes of every entry; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"mimir\0c\x02";

/// Length of magic and hash in bytes.
const HEADER: usize = MAGIC.len() + 32;

/// The cache. Without a folder, it stores nothing.
#[derive(Debug)]
pub struct ComponentCache {
    folder: Option<PathBuf>,
    /// True once a warning was logged that the cache cannot be used.
    has_warned: AtomicBool,
    counts: CodeCounters,
}

/// State of the cache, for `doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheState {
    /// The cache is disabled.
    Off,
    /// The folder does not exist yet; the first entry creates it.
    Absent,
    /// The cache can be used.
    Good {
        /// Number of entries.
        entries: u64,
        /// Size in bytes.
        bytes: u64,
    },
    /// The cache cannot be used.
    Bad {
        /// The reason.
        why: String,
    },
}

impl ComponentCache {
    /// Creates a cache in `folder`; `None` disables caching.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            has_warned: AtomicBool::new(false),
            counts: CodeCounters::default(),
        }
    }

    /// Returns the folder, if the cache has one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the counters of hits and misses.
    pub(crate) fn counts(&self) -> &CodeCounters {
        &self.counts
    }

    /// Returns the state and size of the cache.
    pub fn state(&self) -> CacheState {
        let Some(folder) = &self.folder else {
            return CacheState::Off;
        };
        let bad = |error: io::Error| CacheState::Bad {
            why: error.to_string(),
        };
        if folder.symlink_metadata().is_err() {
            // The first entry will create the folder in its nearest existing ancestor.
            let mut ancestors = folder.ancestors().skip(1);
            let existing_ancestor = ancestors.find(|folder| folder.symlink_metadata().is_ok());
            return match existing_ancestor.map_or(Ok(()), private::check_writable) {
                Ok(()) => CacheState::Absent,
                Err(error) => bad(error),
            };
        }
        let checked = private::check_folder(folder).and_then(|()| private::check_writable(folder));
        if let Err(error) = checked {
            return bad(error);
        }
        let (mut entries, mut bytes) = (0, 0);
        for kind in CacheEntryKind::ALL {
            let folder = folder.join(kind.folder());
            if folder.symlink_metadata().is_err() {
                continue;
            }
            // `get` checks each subfolder as well.
            if let Err(error) = private::check_folder(&folder) {
                return CacheState::Bad {
                    why: format!("{}: {error}", folder.display()),
                };
            }
            let Ok(files) = fs::read_dir(folder) else {
                continue;
            };
            for file in files.flatten() {
                entries += u64::from(kind != CacheEntryKind::Seal);
                bytes += file.metadata().map_or(0, |meta| meta.len());
            }
        }
        CacheState::Good { entries, bytes }
    }

    /// Returns the content of an entry if it is intact and can only have been written by this user.
    pub(crate) fn get(&self, kind: CacheEntryKind, key: &str) -> Option<Bytes> {
        let folder = self.folder.as_ref()?;
        match read(folder, &folder.join(kind.folder()), key) {
            Ok(content) => content,
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    tracing::warn!(%error, key, "ignoring a cache entry; it will be replaced");
                } else {
                    self.warn_unusable(folder, &error);
                }
                None
            }
        }
    }

    /// Stores an entry. Failures are only logged: a cache that cannot be written to costs time, nothing else.
    pub(crate) fn put(&self, kind: CacheEntryKind, key: &str, content: &[u8]) {
        let Some(folder) = &self.folder else {
            return;
        };
        if let Err(error) = write(folder, &folder.join(kind.folder()), key, content) {
            self.warn_unusable(folder, &error);
        }
    }

    /// Warns once that the cache cannot be used: a fault that affects one entry usually affects all.
    fn warn_unusable(&self, folder: &Path, error: &io::Error) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "cannot use the cache");
            return;
        }
        let folder = folder.display();
        tracing::warn!(
            "the cache {folder} cannot be used ({error}), so tools are compiled each time; set MIMIR_CACHE_DIR to another folder"
        );
    }
}

/// The kind of an entry, which determines the subfolder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheEntryKind {
    /// Machine code.
    Compiled,
    /// Seal of a machine code file.
    Seal,
    /// Description of a component.
    Description,
    /// Index of a tools folder.
    Folder,
}

impl CacheEntryKind {
    const ALL: [CacheEntryKind; 4] = [
        CacheEntryKind::Compiled,
        CacheEntryKind::Seal,
        CacheEntryKind::Description,
        CacheEntryKind::Folder,
    ];

    fn folder(self) -> &'static str {
        match self {
            CacheEntryKind::Compiled => "compiled",
            CacheEntryKind::Seal => "seals",
            CacheEntryKind::Description => "descriptions",
            CacheEntryKind::Folder => "folders",
        }
    }
}

/// Returns the hash stored in an entry. It covers the key, so an entry copied to another name is not valid.
fn seal(key: &str, content: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((key.len() as u64).to_le_bytes());
    hash.update(key);
    hash.update(content);
    hash.finalize().into()
}

fn read(top: &Path, folder: &Path, key: &str) -> io::Result<Option<Bytes>> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let mut file = match private::open(&folder.join(key)) {
        // A file in place of a folder is reported when an entry is stored.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
        other => other?,
    };
    private::check_folder(top)?;
    private::check_folder(folder)?;
    private::check_file(&file)?;
    let mut entry = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.read_to_end(&mut entry)?;
    let corrupt = || io::Error::new(io::ErrorKind::InvalidData, "it is corrupt");
    let (header, content) = entry.split_at_checked(HEADER).ok_or_else(corrupt)?;
    let (magic, hash) = header.split_at(MAGIC.len());
    if magic != MAGIC || hash != seal(key, content) {
        return Err(corrupt());
    }
    Ok(Some(Bytes::from(entry).slice(HEADER..)))
}

fn write(top: &Path, folder: &Path, key: &str, content: &[u8]) -> io::Result<()> {
    write_to(top, folder, key, |file| {
        file.write_all(MAGIC)?;
        file.write_all(&seal(key, content))?;
        file.write_all(content)
    })
}

/// Writes a file atomically, accessible to this user only.
fn write_to(
    top: &Path,
    folder: &Path,
    key: &str,
    fill: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    private::make_folder(top)?;
    private::make_folder(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    fill(file.as_file_mut())?;
    file.persist(folder.join(key))?;
    Ok(())
}

#[cfg(test)]
mod tests;
