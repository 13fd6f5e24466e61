//! Removal of old records and copies, which limits their disk use.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Maximum number of records.
const MAX_RECORDS: usize = 200;

/// Number of records left after pruning: fewer than [`MAX_RECORDS`], so that not every call has to prune.
const RECORDS_AFTER_PRUNING: usize = 180;

/// Maximum size of all copies in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Size in bytes from which the copies of a call trigger a check of all sizes. Smaller calls reach [`MAX_RECORDS`]
/// before [`MAX_BYTES`].
const MAX_UNCHECKED_BYTES: u64 = MAX_BYTES / MAX_RECORDS as u64;

/// Age after which copies without a record are removed. They are left over from a call that was killed while copying;
/// no call runs longer than this.
const ORPHAN_AGE: Duration = Duration::from_secs(60 * 60);

/// Removes the oldest records. `added` is the size of the latest call's copies in bytes. A record that cannot be
/// removed stays.
pub(super) fn prune(folder: &Path, added: u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let (records, others): (Vec<PathBuf>, Vec<PathBuf>) = entries
        .flatten()
        .map(|entry| entry.path())
        .partition(|path| path.extension().is_some_and(|end| end == "json"));
    remove_orphans(&records, &others);
    if records.len() <= MAX_RECORDS && added < MAX_UNCHECKED_BYTES {
        return;
    }
    let age = |path: &PathBuf| {
        fs::metadata(path)
            .and_then(|data| data.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let mut by_age: Vec<(SystemTime, PathBuf)> =
        records.into_iter().map(|path| (age(&path), path)).collect();
    by_age.sort_unstable();
    let is_over_limit = by_age.len() > MAX_RECORDS;
    let mut bytes = 0;
    // The latest record is never removed.
    for (rank, (_, record)) in by_age.iter().rev().enumerate() {
        let copies = record.with_extension("");
        if added >= MAX_UNCHECKED_BYTES {
            bytes += size(&copies);
        }
        if rank > 0 && (bytes > MAX_BYTES || is_over_limit && rank >= RECORDS_AFTER_PRUNING) {
            let _ = fs::remove_file(record);
            let _ = fs::remove_dir_all(copies);
        }
    }
}

fn remove_orphans(records: &[PathBuf], others: &[PathBuf]) {
    let recorded: HashSet<&Path> = records.iter().map(PathBuf::as_path).collect();
    for orphan in others {
        if recorded.contains(orphan.with_extension("json").as_path()) {
            continue;
        }
        let changed = fs::metadata(orphan).and_then(|data| data.modified());
        let age = changed.ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > ORPHAN_AGE) {
            let _ = fs::remove_dir_all(orphan);
            let _ = fs::remove_file(orphan);
        }
    }
}

fn size(copies: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(copies) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|data| data.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(folder: &Path, number: u64, bytes: usize) {
        let copies = folder.join(number.to_string());
        fs::create_dir(&copies).unwrap();
        fs::write(copies.join("0"), vec![0; bytes]).unwrap();
        let path = folder.join(format!("{number}.json"));
        fs::write(&path, "{}").unwrap();
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number);
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    #[test]
    fn prune_removes_the_oldest_records() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=MAX_RECORDS as u64 {
            record(folder.path(), number, 1);
        }
        prune(folder.path(), 1);
        let left: Vec<bool> = [0, 20, 21, 200]
            .map(|n: u64| folder.path().join(n.to_string()).exists())
            .into();
        assert_eq!(left, [false, false, true, true]);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            RECORDS_AFTER_PRUNING * 2
        );
    }

    #[test]
    fn prune_keeps_records_within_the_limits() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..5 {
            record(folder.path(), number, 1000);
        }
        prune(folder.path(), MAX_UNCHECKED_BYTES);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 10);
    }

    #[cfg(unix)]
    #[test]
    fn prune_removes_copies_without_a_record_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path(), 1, 1);
        for name in ["old", "young", "1"] {
            let copies = folder.path().join(name);
            fs::create_dir_all(&copies).unwrap();
            let age = if name == "young" {
                Duration::ZERO
            } else {
                2 * ORPHAN_AGE
            };
            let time = SystemTime::now() - age;
            fs::File::open(copies).unwrap().set_modified(time).unwrap();
        }
        prune(folder.path(), 1);
        let left = ["old", "young", "1"].map(|name| folder.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
    }
}
