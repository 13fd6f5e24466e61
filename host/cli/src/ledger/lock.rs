//! `.mimir/tools.lock`: the grants of a workspace as text that is reviewed like code.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use mimir_core::approval::LedgerError;
use mimir_core::grants::{LOCK_VERSION, Lock};

use crate::private::Readers;

use super::{failed, turn, write};

/// The file.
pub struct LockFile {
    path: PathBuf,
}

const HEAD: &str = "\
# What the people of this project have granted to its tools. Written by `mimir tools trust` and
# `mimir tools revoke`. A grant counts for those who gave it: after a change by somebody else, look at it and
# run `mimir tools trust NAME` yourself.
";

/// A lock that is longer has been written by something else.
const LONGEST: u64 = 16 << 20;

impl LockFile {
    /// The lock at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says; no file grants nothing.
    pub fn read(&self) -> Result<Lock, LedgerError> {
        let unreadable = |why: &dyn std::fmt::Display| {
            failed(
                &self.path,
                format_args!("no grant counts, because it cannot be read: {why}"),
            )
        };
        // It may have come with a checkout: a link or a pipe in its place is nothing to read from.
        match std::fs::symlink_metadata(&self.path) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(unreadable(&"it is no file; remove it")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lock::default()),
            Err(error) => return Err(unreadable(&error)),
        }
        let mut text = String::new();
        let file = std::fs::File::open(&self.path).map_err(|error| unreadable(&error))?;
        let read = file.take(LONGEST + 1).read_to_string(&mut text);
        read.map_err(|error| unreadable(&error))?;
        if text.len() as u64 > LONGEST {
            return Err(unreadable(&"it is longer than 16 MB"));
        }
        let lock: Lock = serde_yaml::from_str(&text).map_err(|error| unreadable(&error))?;
        if lock.version != LOCK_VERSION {
            let why = format!(
                "its version is {}, and this mimir knows {LOCK_VERSION}; update mimir",
                lock.version
            );
            return Err(unreadable(&why));
        }
        Ok(lock)
    }

    /// Reads, changes and writes it while no other process does.
    pub fn change<T>(&self, change: impl FnOnce(&mut Lock) -> T) -> Result<T, LedgerError> {
        // The turn is taken beside the state and not beside the lock, which is committed.
        let folder = self.path.parent().unwrap_or(Path::new(""));
        for place in [folder, &folder.join("state")] {
            // It may have come with a checkout, and could lead anywhere.
            if place.is_symlink() {
                return Err(failed(place, "is a link; remove it"));
            }
        }
        let _turn = turn(&folder.join("state").join("tools.lock"))?;
        let mut lock = self.read()?;
        let result = change(&mut lock);
        let body = serde_yaml::to_string(&lock).map_err(|error| failed(&self.path, error))?;
        write(&self.path, &format!("{HEAD}{body}"), Readers::Everybody)?;
        Ok(result)
    }
}
