//! Whose words a memory may be. The host notes with each mark what the sessions had read that set it, the worst of all of
//! them for good, and a session that looks at the mark has read that, too. So a save sets a mark, named by the memory,
//! before the file changes; and reading a memory looks at it.
//!
//! A file that a person wrote has no mark. One that was saved keeps its mark whatever becomes of it: it may be changed by
//! hand, or an older one may come back from version control, and nobody vouches for each line. A person who does gives it
//! another name. Some file systems take two spellings for one name, so both have one mark.

use mimir_sdk::{Code, Result};

use crate::folder::Folder;
use crate::name::Name;
use crate::store::Store;

/// How the keys begin. The host knows it.
const MARKS: &str = "mark/";

fn key(name: &Name) -> String {
    format!("{MARKS}{}", name.as_str().to_ascii_lowercase())
}

/// This call is about to save a memory of this name.
pub(crate) fn mark(store: &impl Store, folder: &Folder, name: &Name) -> Result<()> {
    match store.set(&key(name), b"") {
        Err(error) if *error.code() == Code::LimitExceeded => {
            tidy(store, folder)?;
            store.set(&key(name), b"")
        }
        done => done,
    }
}

/// This call has read the memory of this name.
pub(crate) fn note(store: &impl Store, name: &Name) -> Result<()> {
    store.get(&key(name)).map(drop)
}

/// This call has read what all memories are called.
pub(crate) fn note_names(store: &impl Store) -> Result<()> {
    store.keys(MARKS).map(drop)
}

/// Removes the marks of memories that are there no more. Only where there is no room for others: what was removed may
/// come back.
fn tidy(store: &impl Store, folder: &Folder) -> Result<()> {
    let there = folder.list()?.entries;
    let there: Vec<String> = there.iter().map(|entry| key(&entry.name)).collect();
    for kept in store.keys(MARKS)? {
        if !there.contains(&kept) {
            store.delete(&kept)?;
        }
    }
    Ok(())
}
