//! The files of one area: reading, and changing under the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mimir_core::files;
use mimir_core::shared_state::{SharedStateError, StateArea, StateEntry, StateKey, StateRevision};
use mimir_core::text::visible;
use sha2::{Digest as _, Sha256};

use super::VALUE_MAX;
use super::stored_value::{FileValue, millis, now_ms};
use crate::private_files::{self, FileReaders, OwnerOnly};

/// Extension of the files with values.
const VALUE_EXTENSION: &str = "value";

/// Name of the lock file. It contains the last revision as decimal text.
const LOCK_NAME: &str = "revision.lock";

/// Maximum time to wait for another process that changes the area.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval in which the first write removes the values whose lifetime has ended, in the unit of revisions.
const CLEANUP_INTERVAL: u64 = 10_000_000;

/// Time between two attempts to lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(2);

/// The files of one area.
#[derive(Clone)]
pub(super) struct AreaFiles {
    folder: PathBuf,
    area: StateArea,
}

/// The locked lock file of an area.
pub(super) struct AreaLock(File);

impl AreaFiles {
    pub(super) fn new(root: &Path, area: StateArea) -> Self {
        Self {
            folder: root.join(area.as_str()),
            area,
        }
    }

    /// Reads a value whose lifetime has not ended.
    pub(super) fn read(&self, key: &StateKey) -> Result<Option<StateEntry>, SharedStateError> {
        let value = self.read_file(&self.path(key))?;
        let live = value.filter(|value| value.is_live(now_ms()) && value.entry.key == *key);
        Ok(live.map(|value| value.entry))
    }

    /// Reads the values whose key begins with `prefix`, sorted by key.
    pub(super) fn list(
        &self,
        prefix: Option<&StateKey>,
    ) -> Result<Vec<StateEntry>, SharedStateError> {
        let values = self.read_all()?.into_iter().map(|value| value.entry);
        let is_wanted =
            |entry: &StateEntry| prefix.is_none_or(|prefix| entry.key.starts_with(prefix));
        Ok(values.filter(is_wanted).collect())
    }

    /// Reads all values whose lifetime has not ended, sorted by key.
    pub(super) fn read_all(&self) -> Result<Vec<FileValue>, SharedStateError> {
        let now = now_ms();
        let mut values = Vec::new();
        for path in self.value_paths()? {
            values.extend(self.read_file(&path)?.filter(|value| value.is_live(now)));
        }
        values.sort_by(|one, other| one.entry.key.cmp(&other.entry.key));
        Ok(values)
    }

    /// Writes a value: a new one, or one that replaces this revision.
    pub(super) fn write(
        &self,
        key: &StateKey,
        value: &[u8],
        replaced: Option<StateRevision>,
        lifetime: Option<Duration>,
    ) -> Result<StateRevision, SharedStateError> {
        if value.len() > VALUE_MAX {
            return Err(SharedStateError::TooLarge {
                size: value.len(),
                max: VALUE_MAX,
            });
        }
        let mut lock = self.lock()?;
        let current = self.read(key)?.map(|entry| entry.revision);
        if current != replaced {
            return Err(SharedStateError::Conflict);
        }
        // Reads all files, which would take long at each of many writes in a short time. Readers ignore such values.
        if is_cleanup_due(self.last_revision(), now_ms()) {
            self.remove_expired()?;
        }
        let revision = lock
            .next_revision()
            .map_err(|error| self.failed(&self.folder, &error))?;
        let stored = FileValue {
            entry: StateEntry {
                key: key.clone(),
                value: value.to_vec(),
                revision,
            },
            // Lifetimes have a resolution of a second, so that none is zero.
            expires_ms: lifetime
                .map(|lifetime| now_ms().saturating_add(millis(lifetime).max(1000))),
        };
        let path = self.path(key);
        private_files::replace(&path, &stored.encode(), FileReaders::Owner)
            .map_err(|error| self.failed(&path, &error))?;
        // A watch that has read the files between the revision and the value reads them again.
        if let Err(error) = lock.next_revision() {
            tracing::debug!(%error, "watches see a change of shared state only with the next one");
        }
        Ok(revision)
    }

    /// Removes a value.
    pub(super) fn remove(
        &self,
        key: &StateKey,
        revision: Option<StateRevision>,
    ) -> Result<(), SharedStateError> {
        let path = self.path(key);
        if revision.is_none() {
            match std::fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(self.failed(&path, &error)),
                Ok(_) => {}
            }
        }
        let mut lock = self.lock()?;
        if let Some(revision) = revision
            && self.read(key)?.map(|entry| entry.revision) != Some(revision)
        {
            return Err(SharedStateError::Conflict);
        }
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed(&path, &error)),
            // Watches compare revisions to detect a change.
            _ => lock
                .next_revision()
                .map(drop)
                .map_err(|error| self.failed(&self.folder, &error)),
        }
    }

    /// Returns the last revision of the area. 0 if nothing was written yet.
    pub(super) fn last_revision(&self) -> StateRevision {
        let bytes = private_files::read_bytes(&self.folder.join(LOCK_NAME), OwnerOnly::Writing);
        bytes
            .ok()
            .flatten()
            .map_or(0, |bytes| parse_revision(&bytes))
    }

    fn path(&self, key: &StateKey) -> PathBuf {
        // Not the key itself: some file systems ignore the case of names, or reserve some names.
        let name = format!("{:x}.{VALUE_EXTENSION}", Sha256::digest(key.as_str()));
        self.folder.join(name)
    }

    fn value_paths(&self) -> Result<Vec<PathBuf>, SharedStateError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(&self.folder, &error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry
                .map_err(|error| self.failed(&self.folder, &error))?
                .path();
            if path
                .extension()
                .is_some_and(|found| found == VALUE_EXTENSION)
            {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    fn read_file(&self, path: &Path) -> Result<Option<FileValue>, SharedStateError> {
        let bytes = private_files::read_bytes(path, OwnerOnly::Writing)
            .map_err(|error| self.failed(path, &error))?;
        let value = bytes.as_deref().map(FileValue::decode).transpose();
        value.map_err(|fault| SharedStateError::Unreachable {
            location: visible(&path.display().to_string()),
            text: format!("{fault}; remove the file"),
        })
    }

    /// Removes the files of values whose lifetime has ended. Requires the lock.
    fn remove_expired(&self) -> Result<(), SharedStateError> {
        let now = now_ms();
        for path in self.value_paths()? {
            if matches!(self.read_file(&path), Ok(Some(value)) if !value.is_live(now)) {
                // Another attempt follows at the next change.
                let _ = std::fs::remove_file(&path);
            }
        }
        Ok(())
    }

    fn lock(&self) -> Result<AreaLock, SharedStateError> {
        lock_folder(&self.folder).map_err(|error| self.failed(&self.folder, &error))
    }

    fn failed(&self, path: &Path, error: &io::Error) -> SharedStateError {
        let location = visible(&path.display().to_string());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => SharedStateError::Full {
                location,
                text: error.to_string(),
            },
            ErrorKind::PermissionDenied => SharedStateError::Forbidden {
                location,
                area: self.area,
            },
            _ => SharedStateError::Unreachable {
                location,
                text: error.to_string(),
            },
        }
    }
}

/// Locks a folder of shared state, and creates it if it is missing.
pub(super) fn lock_folder(folder: &Path) -> io::Result<AreaLock> {
    private_files::private_folder(folder)?;
    let path = folder.join(LOCK_NAME);
    let file = files::open_private(&path, OpenOptions::new().read(true).write(true))?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(AreaLock(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    format!(
                        "another process has locked it for {} s",
                        LOCK_TIMEOUT.as_secs()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

impl AreaLock {
    /// Stores and returns the next revision. It is also later than all revisions before a lock file that was lost.
    fn next_revision(&mut self) -> io::Result<StateRevision> {
        let mut text = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut text)?;
        let revision = parse_revision(&text)
            .saturating_add(1)
            .max(now_ms().saturating_mul(1000));
        self.0.rewind()?;
        self.0.write_all(format!("{revision:020}\n").as_bytes())?;
        Ok(revision)
    }
}

/// Returns true if the last revision is of an earlier interval than the time: revisions count microseconds.
fn is_cleanup_due(last: StateRevision, now_ms: u64) -> bool {
    last / CLEANUP_INTERVAL != now_ms.saturating_mul(1000) / CLEANUP_INTERVAL
}

/// Parses the content of the lock file. Anything else than a number counts as 0.
fn parse_revision(bytes: &[u8]) -> StateRevision {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_changes_the_last_revision_after_the_value_is_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let files = AreaFiles::new(folder.path(), StateArea::Questions);
        let written = files.write(&StateKey::new(["a"]), b"1", None, None);
        // A watch that looked in between has seen `written`, and not the value.
        assert!(files.last_revision() > written.unwrap());
    }

    #[test]
    fn expired_values_are_removed_once_in_an_interval() {
        let now = 1_800_000_000_000;
        for (seconds_before, expected) in [(0, false), (3, false), (10, true), (3_600, true)] {
            let last = (now + 4_000 - seconds_before * 1_000) * 1_000;
            assert_eq!(
                is_cleanup_due(last, now + 4_000),
                expected,
                "{seconds_before}"
            );
        }
        assert!(is_cleanup_due(0, now));
    }
}
