//! The files of the memories: listing, reading, and atomic writing.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mimir_sdk::{Context, Error, Result};

use crate::name::Name;

/// Memory folder, relative to the workspace.
pub(crate) const FOLDER: &str = ".mimir/memory";

/// Maximum size of a memory in bytes: about what fits into a model's context.
pub(crate) const MAX_FILE_SIZE: u64 = 256 << 10;

/// Maximum number of memories. Each search reads all memories.
pub(crate) const MAX_FILES: usize = 400;

/// Maximum size of all memories together, in bytes.
pub(crate) const MAX_TOTAL: u64 = 8 << 20;

/// Lock file of the call that is saving.
const LOCK_FILE: &str = ".save.lock";

/// Lock file of the call that removes a stale [`LOCK_FILE`].
const CLEANUP_LOCK_FILE: &str = ".cleanup.lock";

/// Age after which a [`LOCK_FILE`] is stale: saving takes milliseconds.
const LOCK_STALE_AFTER: Duration = Duration::from_secs(10);

/// Maximum time that a call waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);

/// Poll interval while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The folder of the memories.
pub(crate) struct MemoryFolder(PathBuf);

/// An existing memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryEntry {
    pub(crate) name: Name,
    pub(crate) size: u64,
    /// Time of the last change, ISO 8601.
    pub(crate) modified: String,
}

/// Contents of the folder.
#[derive(Debug, Default)]
pub(crate) struct MemoryListing {
    /// The memories, sorted by name.
    pub(crate) entries: Vec<MemoryEntry>,
    /// Number of `.md` files that are not valid memories: invalid name, not a regular file, or too large.
    pub(crate) invalid: usize,
}

/// The lock for saving, released on drop.
pub(crate) struct SaveLock(PathBuf);

impl MemoryFolder {
    /// Returns the memory folder of the call's workspace.
    pub(crate) fn in_workspace(cx: &Context) -> Self {
        Self(cx.workspace().join(FOLDER))
    }

    /// Lists the memories. A missing folder counts as empty.
    pub(crate) fn list(&self) -> Result<MemoryListing> {
        let mut listing = MemoryListing::default();
        // The folder does not exist until something is saved, and the error for listing it depends on the system.
        if fs::metadata(&self.0).is_err() {
            return Ok(listing);
        }
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.starts_with('.') || !file.ends_with(".md") {
                continue;
            }
            // A link could expose any file under this name.
            let meta = fs::symlink_metadata(entry.path());
            let meta = meta
                .ok()
                .filter(|meta| meta.is_file() && meta.len() <= MAX_FILE_SIZE);
            match (Name::from_file_name(&file), meta) {
                (Some(name), Some(meta)) => listing.entries.push(MemoryEntry {
                    name,
                    size: meta.len(),
                    modified: modified(&meta),
                }),
                _ => listing.invalid += 1,
            }
        }
        listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    /// Reads a memory. `None` if the memory does not exist.
    pub(crate) fn read(&self, name: &Name) -> Result<Option<String>> {
        let path = self.0.join(name.file_name());
        let Ok(meta) = fs::symlink_metadata(&path) else {
            return Ok(None);
        };
        if !meta.is_file() {
            return Err(Error::invalid_input(format_args!(
                "`{name}` is not a regular file; links and folders in {FOLDER} are not read"
            )));
        }
        if meta.len() > MAX_FILE_SIZE {
            return Err(Error::limit_exceeded(format_args!(
                "`{name}` has {} KB, but a memory may have at most {} KB; split it",
                meta.len().div_ceil(1 << 10),
                MAX_FILE_SIZE >> 10
            )));
        }
        let bytes = fs::read(&path).map_err(failed)?;
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| Error::invalid_input(format_args!("`{name}` is not UTF-8 text")))
    }

    /// Writes a memory atomically. The caller must hold the lock.
    pub(crate) fn write(&self, name: &Name, content: &str, _lock: &SaveLock) -> Result<()> {
        let new = self.0.join(".new");
        // A call that was stopped may have left a temporary file.
        let _ = fs::remove_file(&new);
        let written = File::create_new(&new)
            .and_then(|mut file| {
                file.write_all(content.as_bytes())?;
                // The content must be on disk before the file is renamed.
                file.sync_data()
            })
            .and_then(|()| fs::rename(&new, self.0.join(name.file_name())));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written.map_err(failed)
    }

    /// Waits for the lock, which excludes other calls and other processes. Fails after [`LOCK_TIMEOUT`].
    pub(crate) fn lock(&self) -> Result<SaveLock> {
        let path = self.0.join(LOCK_FILE);
        let mut waited = Duration::ZERO;
        loop {
            match File::create_new(&path) {
                Ok(_) => return Ok(SaveLock(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
            if let Some(lock_time) = lock_time(&path)?
                && is_stale(lock_time)
            {
                self.remove_stale_lock(&path, lock_time)?;
            }
            if waited >= LOCK_TIMEOUT {
                return Err(Error::unavailable(format_args!(
                    "another call is still saving; try again, and if no other call is running, remove {FOLDER}/{LOCK_FILE} and {FOLDER}/{CLEANUP_LOCK_FILE}"
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
    }

    /// Removes the lock file of a call that was stopped, if the file still has the creation time `seen`. A second lock
    /// ensures that only one call does this, so that no call removes a lock that another call has created since.
    fn remove_stale_lock(&self, lock_file: &Path, seen: SystemTime) -> Result<()> {
        let path = self.0.join(CLEANUP_LOCK_FILE);
        match File::create_new(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        let current = lock_time(lock_file);
        if matches!(current, Ok(Some(lock_time)) if lock_time == seen) {
            let _ = fs::remove_file(lock_file);
        }
        let _ = fs::remove_file(&path);
        current.map(drop)
    }
}

/// Returns the modification time of the lock file, which is its creation time, because nothing is written to it. `None`
/// if it does not exist. Fails if the path is not a regular file, since such an entry would block every save until a
/// person removes it.
fn lock_time(path: &Path) -> Result<Option<SystemTime>> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Ok(None);
    };
    if !meta.is_file() {
        return Err(Error::unavailable(format_args!(
            "{FOLDER}/{LOCK_FILE} is not a regular file; ask your user to remove it"
        )));
    }
    meta.modified().map(Some).map_err(failed)
}

/// Returns true if a lock file with this creation time is stale. A time too far in the future counts as stale as well.
fn is_stale(lock_time: SystemTime) -> bool {
    let now = SystemTime::now();
    let age = now
        .duration_since(lock_time)
        .unwrap_or_else(|ahead| ahead.duration());
    age > LOCK_STALE_AFTER
}

impl Drop for SaveLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn modified(meta: &fs::Metadata) -> String {
    let stamp = meta.modified().ok();
    let stamp = stamp.and_then(|time| jiff::Timestamp::try_from(time).ok());
    format!("{:.0}", stamp.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

fn failed(error: std::io::Error) -> Error {
    Error::io(&error, FOLDER)
}
