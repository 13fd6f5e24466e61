//! Tracks the origin of a memory's text with a stored value, the mark, for each saved memory. With each mark the host
//! stores the worst taint of all sessions that set it, and a session that reads the mark takes on that taint. So a save
//! sets the mark of the memory before the file changes, and reading a memory reads its mark.
//!
//! A file that a person wrote has no mark. A saved memory keeps its mark whatever happens to the file: a person may
//! edit it, or version control may restore an older one, and neither means that each line was checked. To clear the
//! taint, a person renames the file. Some file systems treat two spellings as one name, so both share a mark.

use mimir_sdk::{Code, Result};

use crate::folder::Folder;
use crate::name::Name;
use crate::store::Store;

/// Prefix of the keys. The host knows it.
const MARKS: &str = "mark/";

fn key(name: &Name) -> String {
    format!("{MARKS}{}", name.as_str().to_ascii_lowercase())
}

/// Sets the mark of a memory that this call is about to save.
pub(crate) fn set_mark(store: &impl Store, folder: &Folder, name: &Name) -> Result<()> {
    match store.set(&key(name), b"") {
        Err(error) if *error.code() == Code::LimitExceeded => {
            remove_orphans(store, folder)?;
            store.set(&key(name), b"")
        }
        done => done,
    }
}

/// Registers that this call has read the memory of this name.
pub(crate) fn record_read(store: &impl Store, name: &Name) -> Result<()> {
    store.get(&key(name)).map(drop)
}

/// Registers that this call has read the names of all memories.
pub(crate) fn record_names_read(store: &impl Store) -> Result<()> {
    store.keys(MARKS).map(drop)
}

/// Removes the marks of missing memories. Only done when the storage is full, because a removed memory may be
/// restored.
fn remove_orphans(store: &impl Store, folder: &Folder) -> Result<()> {
    let entries = folder.list()?.entries;
    let known_keys: Vec<String> = entries.iter().map(|entry| key(&entry.name)).collect();
    for stored_key in store.keys(MARKS)? {
        if !known_keys.contains(&stored_key) {
            store.delete(&stored_key)?;
        }
    }
    Ok(())
}
