//! The file of what a user has said about a workspace.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::approval::{Lease, LedgerError};
use serde::{Deserialize, Serialize};

use super::{failed, replace};

/// What a user has said about a workspace.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Book {
    /// Its root, for whoever reads the file.
    pub workspace: String,
    /// sha256 of each state of the project's settings that counts in full.
    pub settings: BTreeSet<String>,
    /// Names of the grants in the project's lock that this user gave.
    pub grants: BTreeSet<String>,
    /// Approvals for good.
    pub leases: Vec<Lease>,
}

/// The file, and the lock that processes take turns with.
pub struct Store {
    path: PathBuf,
    workspace: String,
}

/// A book that is longer has been written by something else.
const LONGEST: u64 = 16 << 20;

impl Store {
    /// The file at `path`, about `workspace`.
    pub fn new(path: PathBuf, workspace: &Path) -> Self {
        Self {
            path,
            workspace: workspace.display().to_string(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says; of a workspace that nobody has spoken about, nothing.
    pub fn read(&self) -> Result<Book, LedgerError> {
        let meta = match std::fs::metadata(&self.path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Book::default()),
            Err(error) => return Err(self.unreadable(error)),
        };
        if meta.len() > LONGEST {
            return Err(self.unreadable("it is longer than 16 MB"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let ours = meta.uid() == rustix::process::geteuid().as_raw();
            if !ours || meta.mode() & 0o022 != 0 {
                return Err(self.unreadable(
                    "somebody else can write it; make it yours alone (chmod 600) or remove it",
                ));
            }
        }
        let text = std::fs::read_to_string(&self.path).map_err(|error| self.unreadable(error))?;
        serde_json::from_str(&text)
            .map_err(|error| self.unreadable(format_args!("{error}; remove it to begin anew")))
    }

    /// Reads, changes and writes it while no other process does.
    pub fn change<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, LedgerError> {
        let _turn = turn(&self.path)?;
        let mut book = self.read()?;
        book.workspace.clone_from(&self.workspace);
        let result = change(&mut book);
        let text =
            serde_json::to_string_pretty(&book).map_err(|error| failed(&self.path, error))?;
        replace(&self.path, &text, true)?;
        Ok(result)
    }

    fn unreadable(&self, why: impl std::fmt::Display) -> LedgerError {
        failed(&self.path, format_args!("cannot be used: {why}"))
    }
}

/// Waits until no other process changes the file; the turn ends when what is returned is dropped.
pub fn turn(path: &Path) -> Result<File, LedgerError> {
    let open = || {
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            // What stands there may have come with a checkout: no link is followed, no pipe is waited for.
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            options.mode(0o600).custom_flags(flags.bits() as i32);
        }
        let file = options.open(path.with_extension("turn"))?;
        file.lock()?;
        Ok::<File, std::io::Error>(file)
    };
    open().map_err(|error| failed(path, format_args!("cannot be changed: {error}")))
}

fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}
