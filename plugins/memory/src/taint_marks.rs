//! Tracks the origin of memories. Each saved memory has a mark, a value in the plugin's storage. With each mark, the
//! host stores the worst taint of all sessions that set the mark, and a session that reads the mark takes on that
//! taint. So a save sets the mark of the memory before the file changes, and reading a memory reads its mark.
//!
//! A file written by a person has no mark. A saved memory keeps its mark even if a person edits the file, or version
//! control restores an older version, because neither means that each line was checked. To clear the taint, a person
//! renames the file. Names that differ only in case share a mark, because some file systems treat them as equal.

use mimir_sdk::{Code, Result};

use crate::folder::MemoryFolder;
use crate::name::Name;
use crate::store::Store;

/// Prefix of the storage keys, by which the host recognizes marks.
const MARKS: &str = "mark/";

fn key(name: &Name) -> String {
    format!("{MARKS}{}", name.as_str().to_ascii_lowercase())
}

/// Sets the mark of a memory that this call is about to save.
pub(crate) fn set_mark(store: &impl Store, folder: &MemoryFolder, name: &Name) -> Result<()> {
    match store.set(&key(name), b"") {
        Err(error) if *error.code() == Code::LimitExceeded => {
            remove_orphans(store, folder)?;
            store.set(&key(name), b"")
        }
        done => done,
    }
}

/// Registers that this call has read the memory with this name.
pub(crate) fn record_read(store: &impl Store, name: &Name) -> Result<()> {
    store.get(&key(name)).map(drop)
}

/// Registers that this call has read the names of all memories.
pub(crate) fn record_names_read(store: &impl Store) -> Result<()> {
    store.keys(MARKS).map(drop)
}

/// Removes the marks of missing memories. Call this only if the storage is full, because a removed memory may be
/// restored.
fn remove_orphans(store: &impl Store, folder: &MemoryFolder) -> Result<()> {
    let entries = folder.list()?.entries;
    let known_keys: Vec<String> = entries.iter().map(|entry| key(&entry.name)).collect();
    for stored_key in store.keys(MARKS)? {
        if !known_keys.contains(&stored_key) {
            store.delete(&stored_key)?;
        }
    }
    Ok(())
}
