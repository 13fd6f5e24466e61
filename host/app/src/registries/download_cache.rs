//! Limits of the user's cache of downloaded components: size and age.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Maximum size of all files in bytes. The files that were not used for the longest time are removed first.
const MAX_SIZE: u64 = 2 << 30;

/// Time without a use after which a file is removed.
const MAX_AGE: Duration = Duration::from_secs(90 * 24 * 3600);

/// Time in which no file is removed, because another process may be reading or writing it.
const MIN_AGE: Duration = Duration::from_secs(3600);

/// A file in the cache.
struct CachedFile {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

/// Records that a file is used now, so that it is not among the first to be removed.
pub fn mark_used(path: &Path) {
    // A cache that is read-only still serves.
    let _ = File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes old files from a cache, and the oldest ones beyond its size. Files that cannot be removed are left for the next
/// time.
pub fn prune(folder: &Path) {
    if let Err(error) = prune_at(folder, SystemTime::now(), MAX_SIZE) {
        tracing::debug!(%error, folder = %folder.display(), "the cache was not cleaned");
    }
}

fn prune_at(folder: &Path, now: SystemTime, max_size: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Of the entry itself: a link is not followed.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_file() {
            files.push(CachedFile {
                path: entry.path(),
                size: metadata.len(),
                used: last_use(&metadata, now),
            });
        }
    }
    files.sort_by_key(|file| file.used);
    let mut total: u64 = files.iter().map(|file| file.size).sum();
    for file in files {
        let age = now.duration_since(file.used).unwrap_or_default();
        let is_surplus = age > MAX_AGE || total > max_size;
        if is_surplus && age > MIN_AGE && std::fs::remove_file(&file.path).is_ok() {
            total -= file.size;
        }
    }
    Ok(())
}

/// Returns the time of the last use. A time in the future would keep a file for ever.
fn last_use(metadata: &Metadata, now: SystemTime) -> SystemTime {
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    if modified > now + MIN_AGE {
        SystemTime::UNIX_EPOCH
    } else {
        modified
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn download_cache_keeps_recent_files_within_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let write = |name: &str, size: usize, used: SystemTime| {
            let path = dir.path().join(name);
            std::fs::write(&path, vec![0; size]).unwrap();
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(used).unwrap();
        };
        write("ancient", 1, now - MAX_AGE - HOUR);
        write("ancient.partial", 1, now - MAX_AGE - HOUR);
        write("future", 1, now + 48 * HOUR);
        write("oldest", 400, now - 30 * HOUR);
        write("older", 400, now - 20 * HOUR);
        write("old", 400, now - 10 * HOUR);
        write("new", 600, now);
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        prune_at(dir.path(), now, 10_000).unwrap();
        assert_eq!(
            names(dir.path()),
            ["folder", "new", "old", "older", "oldest"]
        );
        mark_used(&dir.path().join("oldest"));
        prune_at(dir.path(), now, 1_500).unwrap();
        assert_eq!(names(dir.path()), ["folder", "new", "old", "oldest"]);
        // What another process may be using stays, whatever its size.
        prune_at(dir.path(), now, 0).unwrap();
        assert_eq!(names(dir.path()), ["folder", "new", "oldest"]);
        prune(&dir.path().join("missing"));
    }
}
