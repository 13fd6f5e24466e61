//! The temporary folder of one program, which the program sees as `/tmp`. It is limited in size and removed when the
//! program ends. Folders left by a killed process are removed when another process prepares an engine.
//!
//! Out of scope: the workspace.

use std::path::{Path, PathBuf};
use std::time::Instant;

use mimir_core::command::CommandStream;
use mimir_core::platform;
use mimir_core::{ToolError, ToolErrorCode};

use super::ProgramOutput;
use crate::fs::MountQuota;
use crate::output_pipes::OutputTarget as _;

/// Size limit in bytes. The folder may be in memory, of which a call may use 256 MB; larger files belong in the
/// workspace.
const MAX_BYTES: u64 = 256 << 20;

/// Maximum number of files, folders and links: about as many as in an unpacked source archive.
const MAX_ENTRIES: u64 = 10_000;

/// Prefix of the folder name.
const NAME_PREFIX: &str = "mimir-";

/// A folder for one program, removed on drop.
pub(super) struct TemporaryFolder {
    path: PathBuf,
    quota: MountQuota,
    /// Locked as long as the folder is in use.
    #[cfg(unix)]
    _lock: std::fs::File,
}

impl TemporaryFolder {
    pub(super) fn new() -> Result<Self, ToolError> {
        use std::hash::{BuildHasher as _, RandomState};
        let name = RandomState::new().hash_one(Instant::now());
        let name = format!("{NAME_PREFIX}{}-{name:016x}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let failed = |error: std::io::Error| {
            let message = format!("cannot create a temporary folder: {error}");
            ToolError::new(ToolErrorCode::ExecutionError, message)
        };
        platform::create_private_folder(&path, false).map_err(failed)?;
        Ok(Self {
            #[cfg(unix)]
            _lock: lock(&path).map_err(failed)?,
            quota: MountQuota::new(MAX_BYTES, MAX_ENTRIES),
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn quota(&self) -> &MountQuota {
        &self.quota
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Usually the folder is empty. If it cannot be removed, the system cleans it up later.
        if std::fs::remove_dir(&self.path).is_err() {
            std::fs::remove_dir_all(&self.path).ok();
        }
    }
}

/// Writes a message to stderr that the folder is full.
pub(super) fn report_full(sink: &ProgramOutput) {
    let message = format!(
        "mimir: /tmp is limited to {} MiB and {MAX_ENTRIES} files; write the rest to the workspace\n",
        MAX_BYTES >> 20
    );
    sink.stream(CommandStream::Stderr).take(message.as_bytes());
}

#[cfg(unix)]
fn lock(path: &Path) -> std::io::Result<std::fs::File> {
    use rustix::fs::{FlockOperation, flock};
    let folder = std::fs::File::open(path)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// Minimum age of a folder that is removed: a newer one may not be locked by its process yet.
#[cfg(unix)]
const MIN_AGE: std::time::Duration = std::time::Duration::from_secs(60);

/// Removes folders that are not locked and thus no longer in use. The process ID in the name is not reliable: it may
/// have been reused, or belong to another container.
#[cfg(unix)]
pub(super) fn remove_stale_folders() {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(std::env::temp_dir());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.to_str().is_some_and(is_program_folder) {
            continue;
        }
        let path = entry.path();
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        let may_be_stale =
            meta.is_dir() && meta.uid() == own && age.is_some_and(|age| age > MIN_AGE);
        // The lock also keeps other processes from removing the folder at the same time.
        if may_be_stale && let Ok(_lock) = lock(&path) {
            std::fs::remove_dir_all(&path).ok();
        }
    }
}

/// Does nothing: this platform cannot detect unused folders, and the system cleans up.
#[cfg(not(unix))]
pub(super) fn remove_stale_folders() {}

/// Returns true if a folder of this name belongs to a program.
#[cfg_attr(not(unix), cfg(test))]
fn is_program_folder(name: &str) -> bool {
    let rest = name
        .strip_prefix(NAME_PREFIX)
        .and_then(|rest| rest.split_once('-'));
    rest.is_some_and(|(process, suffix)| {
        !process.is_empty()
            && process.bytes().all(|byte| byte.is_ascii_digit())
            && suffix.len() == 16
            && suffix.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_removes_only_folders_of_programs() {
        assert!(is_program_folder("mimir-12-0123456789abcdef"));
        for other in [
            "mimir-12",
            "mimir-x-0123456789abcdef",
            "mimir-12-0123",
            "mimir--0123456789abcdef",
            "other",
        ] {
            assert!(!is_program_folder(other), "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn sweep_keeps_folders_in_use() {
        let used = TemporaryFolder::new().unwrap();
        let left = TemporaryFolder::new().unwrap();
        let path = left.path().to_owned();
        std::fs::write(path.join("a"), "a").unwrap();
        let old = std::time::SystemTime::now() - 2 * MIN_AGE;
        for path in [used.path(), &path] {
            std::fs::File::open(path)
                .unwrap()
                .set_modified(old)
                .unwrap();
        }
        // The state after a killed process: without its lock.
        let TemporaryFolder { _lock, .. } = &left;
        rustix::fs::flock(_lock, rustix::fs::FlockOperation::Unlock).unwrap();
        remove_stale_folders();
        assert!(used.path().exists() && !path.exists());
    }
}
