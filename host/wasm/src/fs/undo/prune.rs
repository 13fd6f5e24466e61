//! Removal of old records so that they do not fill the disk; the file tools prune the same folder in the same way.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum number of records.
const RECORDS_MAX: usize = 200;

/// Number of records left after pruning, so that not every call has to prune.
const RECORDS_LEFT: usize = 180;

/// Maximum size of the copies in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Calls that store less cannot reach [`BYTES_MAX`] before [`RECORDS_MAX`]: only larger ones check sizes.
const BYTES_SMALL: u64 = BYTES_MAX / RECORDS_MAX as u64;

/// Removes the oldest records. `added` is the size of the latest call's copies in bytes. A record that cannot be
/// removed stays.
pub(super) fn prune(folder: &Path, added: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut records: Vec<(SystemTime, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| {
            let changed = fs::metadata(&path).and_then(|meta| meta.modified());
            (changed.unwrap_or(SystemTime::UNIX_EPOCH), path)
        })
        .collect();
    let over = records.len() > RECORDS_MAX;
    if !over && added < BYTES_SMALL {
        return;
    }
    records.sort_unstable();
    let mut bytes = 0;
    // The latest record is never removed.
    for (rank, (_, record)) in records.iter().rev().enumerate() {
        let copies = record.with_extension("");
        if added >= BYTES_SMALL {
            bytes += size(&copies);
        }
        if rank > 0 && (bytes > BYTES_MAX || over && rank >= RECORDS_LEFT) {
            fs::remove_file(record).ok();
            fs::remove_dir_all(copies).ok();
        }
    }
}

fn size(copies: &Path) -> u64 {
    let entries = fs::read_dir(copies).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok());
    sizes.map(|meta| meta.len()).sum()
}
