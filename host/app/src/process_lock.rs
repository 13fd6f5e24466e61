//! Files that processes lock while they run. The lock ends with the process, however it ends, and other processes see it
//! even from another PID namespace, such as that of a container.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};

/// A file that this process has locked. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    path: PathBuf,
    _file: File,
}

impl ProcessLock {
    /// Creates a file and locks it, before it can be seen at its path. Another file at the path is replaced.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        // Renamed once it is locked, so that no reader takes it for that of a process that has ended.
        let new_path = path.with_extension("new");
        let file = files::open_private(&new_path, OpenOptions::new().write(true))?;
        file.lock()?;
        std::fs::rename(&new_path, &path)?;
        Ok(Self { path, _file: file })
    }

    /// Returns true if a process holds the lock of a file, and false if the file does not exist.
    pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
        let file = match files::open(path, LinkPolicy::Refuse) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // If it stays, the next reader removes it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns a file name that no other process uses: the process id, which may be the same in another container, and 64
/// random bits.
pub(crate) fn process_file_name() -> io::Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let random = u64::from_ne_bytes(random);
    Ok(format!("{}-{random:016x}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_lock_is_held_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(process_file_name().unwrap() + ".lock");
        assert!(!ProcessLock::is_held(&path).unwrap());
        let lock = ProcessLock::create(path.clone()).unwrap();
        assert!(ProcessLock::is_held(&path).unwrap());
        drop(lock);
        assert!(!path.exists());
        // As after a crash.
        std::fs::write(&path, "").unwrap();
        assert!(!ProcessLock::is_held(&path).unwrap());
        let folder_path = folder.path().join("folder.lock");
        std::fs::create_dir(&folder_path).unwrap();
        assert!(ProcessLock::is_held(&folder_path).is_err());
    }
}
