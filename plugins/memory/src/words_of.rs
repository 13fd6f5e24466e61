//! Whose words a memory may be. The host notes with each value in storage what the session had read that set it, and
//! a session that reads the value, or its key, has read that too. So a save sets a value of its own, named by memory
//! and content, before the file changes; and reading a memory reads that value.
//!
//! A file that a person wrote has no such value. One that was changed by hand since a save is taken for the worst of
//! what was ever saved under its name: a line that is added vouches for none of the others.

use mimir_sdk::Result;
use sha2::{Digest as _, Sha256};

use crate::name::Name;
use crate::store::Store;

/// How the keys begin.
const SAVED: &str = "saved/";

fn key(name: &Name, content: &str) -> String {
    format!("{SAVED}{name}/{:x}", Sha256::digest(content))
}

/// This call is about to save this content.
pub(crate) fn mark(store: &impl Store, name: &Name, content: &str) -> Result<()> {
    store.set(&key(name, content), b"")
}

/// This call has read this content.
pub(crate) fn note(store: &impl Store, name: &Name, content: &str) -> Result<()> {
    if store.get(&key(name, content))?.is_none() {
        store.keys(&format!("{SAVED}{name}/"))?;
    }
    Ok(())
}

/// This call has read what all memories are called.
pub(crate) fn note_names(store: &impl Store) -> Result<()> {
    store.keys(SAVED).map(drop)
}

/// This content is there no more.
pub(crate) fn forget(store: &impl Store, name: &Name, content: &str) -> Result<()> {
    store.delete(&key(name, content))
}
