//! An id of the state of workspace folders, by which stored results of tools are compared.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// Maximum number of files and directories. Walking more takes longer than most calls.
const MAX_ENTRIES: usize = 50_000;

/// Folder of mimir's own state, which tools cannot read and each call changes.
const OWN_STATE: &str = ".mimir/state";

/// Age from which on a file's times tell whether it has changed since. The second one is for file systems that store
/// whole seconds only.
const SETTLED_AGE: Duration = Duration::from_millis(100);
const SETTLED_AGE_COARSE: Duration = Duration::from_secs(3);

/// Returns an id of the state of all files and directories in these folders below `root`: names, kinds, sizes, times and
/// inodes. `None` if there are too many, if one cannot be examined, or if one has changed so recently that another change
/// could have the same times.
fn files_state(root: &Path, folders: &[String], now: SystemTime) -> Option<String> {
    let mut state = FilesState {
        root: root.canonicalize().ok()?,
        hash: Sha256::new(),
        entries: 0,
        now,
    };
    for folder in folders {
        state.add_tree(folder)?;
    }
    Some(format!("{:x}", state.hash.finalize()))
}

/// Runs `files_state` on a thread for blocking work.
pub async fn read_files_state(root: PathBuf, folders: Vec<String>) -> Option<String> {
    let work = move || files_state(&root, &folders, SystemTime::now());
    tokio::task::spawn_blocking(work).await.ok().flatten()
}

struct FilesState {
    root: PathBuf,
    hash: Sha256,
    entries: usize,
    now: SystemTime,
}

impl FilesState {
    fn add_tree(&mut self, folder: &str) -> Option<()> {
        let start = self.root.join(folder);
        self.hash.update(folder.as_bytes());
        let mut pending = vec![start];
        while let Some(path) = pending.pop() {
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => return None,
            };
            self.add_entry(&path, &metadata)?;
            let is_own = path.strip_prefix(&self.root) == Ok(Path::new(OWN_STATE));
            if !metadata.is_dir() || is_own {
                continue;
            }
            let mut children = Vec::new();
            for child in fs::read_dir(&path).ok()? {
                children.push(child.ok()?.path());
            }
            // The order of the operating system may change without a change of files.
            children.sort_unstable();
            pending.append(&mut children);
        }
        Some(())
    }

    fn add_entry(&mut self, path: &Path, metadata: &Metadata) -> Option<()> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return None;
        }
        let is_link = metadata.is_symlink();
        let name = path.as_os_str().as_encoded_bytes();
        self.hash.update((name.len() as u64).to_le_bytes());
        self.hash.update(name);
        self.hash
            .update([u8::from(metadata.is_dir()), u8::from(is_link)]);
        if is_link {
            let target = fs::read_link(path).ok()?;
            self.hash.update(target.as_os_str().as_encoded_bytes());
            self.hash.update([0]);
            // Tools follow links that stay in the workspace, also to folders that are not listed here.
            if let Ok(metadata) = fs::metadata(path) {
                if metadata.is_dir() {
                    return None;
                }
                self.add_times(&metadata)?;
            }
        }
        // The times of folders change with their names, which are compared anyway.
        if metadata.is_file() {
            self.add_times(metadata)?;
        }
        Some(())
    }

    fn add_times(&mut self, metadata: &Metadata) -> Option<()> {
        self.hash.update(metadata.len().to_le_bytes());
        for time in change_times(metadata)? {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            self.hash.update(since.as_nanos().to_le_bytes());
            let settled = match since.subsec_nanos() {
                0 => SETTLED_AGE_COARSE,
                _ => SETTLED_AGE,
            };
            if time + settled > self.now {
                return None;
            }
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            self.hash.update(metadata.ino().to_le_bytes());
            self.hash.update(metadata.mode().to_le_bytes());
        }
        Some(())
    }
}

/// Returns the times at which the content and the attributes of a file have changed.
#[cfg(unix)]
fn change_times(metadata: &Metadata) -> Option<[SystemTime; 2]> {
    use std::os::unix::fs::MetadataExt as _;
    let seconds = u64::try_from(metadata.ctime()).ok()?;
    let nanoseconds = u32::try_from(metadata.ctime_nsec()).ok()?;
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    Some([metadata.modified().ok()?, changed])
}

/// Returns the time at which the content of a file has changed. Programs can set it.
#[cfg(not(unix))]
fn change_times(metadata: &Metadata) -> Option<[SystemTime; 1]> {
    Some([metadata.modified().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn state(root: &Path, folder: &str) -> Option<String> {
        files_state(root, &[folder.to_owned()], SystemTime::now() + HOUR)
    }

    #[test]
    fn files_state_changes_with_any_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join(".mimir/state")).unwrap();
        fs::write(root.join("a/b/file"), "one").unwrap();
        let first = state(root, ".");
        assert!(first.is_some());
        assert_eq!(state(root, "."), first);
        let part = state(root, "a/b");

        fs::write(root.join("a/new"), "").unwrap();
        let second = state(root, ".");
        assert_ne!(second, first);
        assert_eq!(state(root, "a/b"), part);

        // The same size, and the same time as before.
        let file = root.join("a/b/file");
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&file, "two").unwrap();
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        #[cfg(unix)]
        assert_ne!(state(root, "."), second);

        let third = state(root, ".");
        fs::write(root.join(".mimir/state/x"), "").unwrap();
        assert_eq!(state(root, "."), third);
        fs::remove_file(&file).unwrap();
        assert_ne!(state(root, "."), third);
        assert_ne!(state(root, "missing"), None);
    }

    #[test]
    fn files_state_is_unknown_right_after_a_change() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let now = SystemTime::now();
        assert_eq!(files_state(folder.path(), &[".".to_owned()], now), None);
        assert!(files_state(folder.path(), &[".".to_owned()], now + HOUR).is_some());
    }
}
