//! `.mimir/tools.lock`: the grants of a workspace as text that is reviewed like code.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::approval::LedgerError;
use mimir_core::files::{self, Links};
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
        let text = match files::read_text(&self.path, Links::Refused, LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lock::default()),
            Err(error) => return Err(unreadable(&error)),
        };
        mimir_script::yaml::fit(&text).map_err(|unfit| unreadable(&unfit))?;
        let lock: Lock = serde_yaml::from_str(&text).map_err(|error| {
            let way_out = match text.lines().any(|line| line.starts_with("<<<<<<<")) {
                true => "two changes of it were merged and are not settled: keep one of each pair",
                false => "put back the version that was good",
            };
            let error = mimir_core::names::nearer(&error.to_string());
            unreadable(&format_args!(
                "{error}; {way_out}, or remove the file and grant again with `mimir tools trust NAME`"
            ))
        })?;
        if lock.version != LOCK_VERSION {
            let why = format!(
                "its version is {}, and this mimir knows {LOCK_VERSION}; update mimir",
                lock.version
            );
            return Err(unreadable(&why));
        }
        Ok(lock)
    }

    /// Takes a plugin's grant away. Says whether there was one.
    pub fn take(&self, location: &str) -> Result<bool, LedgerError> {
        if !self.read()?.plugins.contains_key(location) {
            return Ok(false);
        }
        let gone = self.change(|lock| lock.plugins.remove(location))?;
        Ok(gone.is_some())
    }

    /// Reads, changes and writes it while no other process does.
    pub fn change<T>(&self, change: impl FnOnce(&mut Lock) -> T) -> Result<T, LedgerError> {
        // The turn is taken beside the state and not beside the lock, which is committed.
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let state = folder.join("state");
        // They may have come with a checkout, and could lead anywhere.
        files::no_links(folder.parent().unwrap_or(Path::new("")), &state)
            .map_err(|error| failed(&self.path, format_args!("cannot be changed: {error}")))?;
        let _turn = turn(&state.join("tools.lock"))?;
        let mut lock = self.read()?;
        let result = change(&mut lock);
        let body = serde_yaml::to_string(&lock).map_err(|error| failed(&self.path, error))?;
        write(&self.path, &format!("{HEAD}{body}"), Readers::Everybody)?;
        Ok(result)
    }
}
