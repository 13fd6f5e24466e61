//! What is in a folder of tools, and what was known about it the last time.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::cache::{Cache, Kind};
use crate::describe::Described;
use crate::digest::Hash;

/// How a file looked from outside. Two looks that agree mean the same content; what runs is hashed
/// all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    modified: u128,
    changed: i128,
    inode: u64,
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        let modified = meta
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        #[cfg(unix)]
        let (changed, inode) = {
            use std::os::unix::fs::MetadataExt;
            (
                i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec()),
                meta.ino(),
            )
        };
        #[cfg(not(unix))]
        let (changed, inode) = (0, 0);
        Self {
            size: meta.len(),
            modified: modified.map_or(0, |time| time.as_nanos()),
            changed,
            inode,
        }
    }
}

/// The components in a folder. A folder that is not there is empty.
pub(crate) fn scan(folder: &Path) -> io::Result<BTreeMap<String, Stamp>> {
    let mut found = BTreeMap::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !name.ends_with(".wasm") || name.starts_with('.') {
            continue;
        }
        // Follows a link: people link to where their build puts the file.
        if let Ok(meta) = std::fs::metadata(entry.path()) {
            found.insert(name, Stamp::of(&meta));
        }
    }
    Ok(found)
}

/// What is known about the files of a folder.
#[derive(Debug, Default)]
pub(crate) struct Index {
    entries: BTreeMap<String, Entry>,
    changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    stamp: Stamp,
    digest: Hash,
    /// Kept as text, so that writing the index again does not make it again.
    described: Box<RawValue>,
}

impl Index {
    /// What is kept about `folder`.
    pub(crate) fn read(cache: &Cache, folder: &Path) -> Self {
        let kept = cache.get(Kind::Folder, &key(folder));
        let entries = kept.and_then(|content| serde_json::from_slice(&content).ok());
        Self {
            entries: entries.unwrap_or_default(),
            changed: false,
        }
    }

    /// Keeps it, if it is not what was read.
    pub(crate) fn write(&self, cache: &Cache, folder: &Path) {
        if !self.changed {
            return;
        }
        match serde_json::to_vec(&self.entries) {
            Ok(content) => cache.put(Kind::Folder, &key(folder), &content),
            Err(error) => tracing::warn!(%error, "the index of a folder cannot be kept"),
        }
    }

    /// Forgets files that are gone or look different now.
    pub(crate) fn retain(&mut self, files: &BTreeMap<String, Stamp>) {
        let before = self.entries.len();
        self.entries
            .retain(|name, entry| files.get(name) == Some(&entry.stamp));
        self.changed |= self.entries.len() != before;
    }

    /// What is known about a file.
    pub(crate) fn get(&self, name: &str) -> Option<(Hash, Described)> {
        let entry = self.entries.get(name)?;
        let described = serde_json::from_str(entry.described.get()).ok()?;
        Some((entry.digest, described))
    }

    /// Notes what is known about a file.
    pub(crate) fn put(&mut self, name: &str, stamp: Stamp, digest: Hash, described: &Described) {
        if let Ok(described) = serde_json::value::to_raw_value(described) {
            let entry = Entry {
                stamp,
                digest,
                described,
            };
            self.entries.insert(name.to_owned(), entry);
            self.changed = true;
        }
    }
}

/// The name of a folder's index: the folder, and the form of what is kept.
fn key(folder: &Path) -> String {
    let full = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let hash = Hash::of(full.as_os_str().as_encoded_bytes()).to_string();
    format!("{}-{}", &hash[..32], crate::describe::FORM)
}
