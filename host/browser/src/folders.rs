//! Folders of browsers on this machine: the one that a browser shares with this process, and the lock of a profile.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of attempts to create a folder: others may have the same name, or remove it before it is locked.
const ATTEMPTS: usize = 100;

/// The folder that a browser shares with this process, for uploads and downloads. Removed on drop.
pub(crate) struct ExchangeFolder {
    path: PathBuf,
    /// Locked as long as the folder is in use.
    _lock: File,
}

impl ExchangeFolder {
    /// Creates a folder below `parent`, and removes those of processes that were killed.
    pub(crate) fn create_in(parent: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        std::fs::create_dir_all(parent)?;
        remove_unused_folders(parent);
        let mut result = Err(io::ErrorKind::AlreadyExists.into());
        for _ in 0..ATTEMPTS {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            result = Self::create(parent.join(format!("{}-{number}", std::process::id())));
            match &result {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AlreadyExists
                            | io::ErrorKind::NotFound
                            | io::ErrorKind::WouldBlock
                    ) => {}
                _ => break,
            }
        }
        result
    }

    fn create(path: PathBuf) -> io::Result<Self> {
        std::fs::create_dir(&path)?;
        let lock = File::open(&path)?;
        lock.try_lock()?;
        // Fails if another process has removed the folder before it was locked.
        for name in ["downloads", "uploads"] {
            std::fs::create_dir(path.join(name))?;
        }
        Ok(Self { path, _lock: lock })
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ExchangeFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders that no process has locked. A failure only leaves files in the cache.
fn remove_unused_folders(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten();
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder
            && let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a profile for one browser, by a file next to its folder. Dropping the lock releases it. `None` if another
/// browser has locked it.
pub(crate) fn lock_profile(folder: &Path) -> io::Result<Option<File>> {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let path = folder.with_file_name(name);
    let lock = mimir_core::files::open_private(&path, OpenOptions::new().write(true))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn exchange_folders_of_killed_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let used = ExchangeFolder::create_in(parent.path()).unwrap();
        let left = parent.path().join("123-0");
        std::fs::create_dir_all(left.join("downloads")).unwrap();
        std::fs::write(left.join("downloads").join("a"), "a").unwrap();
        let other = ExchangeFolder::create_in(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(used.path().join("uploads").is_dir() && other.path().join("downloads").is_dir());
        assert_ne!(used.path(), other.path());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn profile_is_locked_for_one_browser() {
        let parent = tempfile::tempdir().unwrap();
        let (work, other) = (
            parent.path().join("p").join("work"),
            parent.path().join("p").join("work.old"),
        );
        let lock = lock_profile(&work).unwrap();
        assert!(lock.is_some() && lock_profile(&work).unwrap().is_none());
        assert!(lock_profile(&other).unwrap().is_some());
        drop(lock);
        assert!(lock_profile(&work).unwrap().is_some());
    }
}
