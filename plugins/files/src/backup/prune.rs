//! Old backups go, so that they don't fill the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// So many records are kept.
const RECORDS_MAX: usize = 200;

/// After pruning so many are left, so that not every call has to prune.
const RECORDS_LEFT: usize = 180;

/// So many bytes of copies are kept.
const BYTES_MAX: u64 = 1 << 30;

/// Calls that keep less than this can't reach [`BYTES_MAX`] before they reach [`RECORDS_MAX`]:
/// only larger ones look at sizes.
const BYTES_SMALL: u64 = BYTES_MAX / RECORDS_MAX as u64;

/// Removes the oldest records. `added` is what the latest call kept, in bytes. What can't be
/// removed stays: a backup too many is no reason to fail a call.
pub fn prune(folder: &Path, added: u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let records: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    if records.len() <= RECORDS_MAX && added < BYTES_SMALL {
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
    let over = by_age.len() > RECORDS_MAX;
    let mut bytes = 0;
    // The latest is always kept.
    for (rank, (_, record)) in by_age.iter().rev().enumerate() {
        let copies = record.with_extension("");
        if added >= BYTES_SMALL {
            bytes += size(&copies);
        }
        if rank > 0 && (bytes > BYTES_MAX || over && rank >= RECORDS_LEFT) {
            let _ = fs::remove_file(record);
            let _ = fs::remove_dir_all(copies);
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
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=RECORDS_MAX as u64 {
            record(folder.path(), number, 1);
        }
        prune(folder.path(), 1);
        let left: Vec<bool> = [0, 20, 21, 200]
            .map(|n: u64| folder.path().join(n.to_string()).exists())
            .into();
        assert_eq!(left, [false, false, true, true]);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            RECORDS_LEFT * 2
        );
    }

    #[test]
    fn below_the_bounds_everything_stays() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..5 {
            record(folder.path(), number, 1000);
        }
        prune(folder.path(), BYTES_SMALL);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 10);
    }
}
