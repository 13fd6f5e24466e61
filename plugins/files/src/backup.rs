//! Backups: copies and records of the previous state in `.mimir/state/backups`, from which `mimir undo` restores.
//!
//! For a call with the request id `R` there is `R.json`, a [`Record`], and a folder `R` with the
//! copies `0`, `1`, … that the record names as `R/0`, `R/1`, …. (In `R` every character other than
//! ASCII letters, digits, `-` and `_` is a `-`; if the name is taken, `-2` and so on is added.)
//!
//! The copies and the record are written before anything changes, so a call that is stopped midway can be undone; a
//! call that fails removes its record. Undo goes through the changes from last to first and compares the current state
//! of each path with `after`: if they are equal, it restores `before`; if the path already equals `before`, there is
//! nothing to do; anything else was changed by someone since then. In a move, the content of `from` is backed up like
//! that of a deleted file.
//!
//! Deleted files are not removed but moved to `R/was-N`, where `N` is the index of the change, because this keeps
//! their permissions, which a component cannot read. A separate copy is still made, because a process that has the
//! deleted file open can still write to it.
//!
//! A change without a backup has a record too, with its paths and the reason, so that `mimir undo` does not take an
//! older change for the latest.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use mimir_sdk::{Context, Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::place::Place;
use crate::walk::Kind;
use crate::words;

mod prune;

/// Backup folder, relative to the workspace root. The host grants it to this plugin alone.
pub const FOLDER: &str = ".mimir/state/backups";

/// Most bytes that one call backs up: enough for sources and documents. Hashing takes about 75 units of fuel a byte,
/// so this uses less than half of a call's fuel.
pub const BYTES_MAX: u64 = 100 << 20;

/// Most paths that one call backs up.
pub const PATHS_MAX: usize = 10_000;

/// One call's changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Name of the record; the call's request id, if that is valid as a file name.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Time of the call, RFC 3339 in UTC.
    pub time: String,
    /// In the order in which they were made.
    pub changes: Vec<Change>,
    /// Set instead of `changes` if the call cannot be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<Unkept>,
}

/// Changes without a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unkept {
    /// Reason, as the end of a sentence that begins with "it can't be taken back, because".
    pub why: String,
    /// The changed paths.
    pub paths: Vec<String>,
}

/// One path before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the workspace root, with `/`.
    pub path: String,
    /// State before the change.
    pub before: State,
    /// State after the change.
    pub after: State,
}

/// State of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum State {
    /// The path does not exist.
    Absent,
    /// A directory.
    Directory,
    /// A file.
    File {
        /// SHA-256 of its content in lower-case hex.
        sha256: String,
        /// Its copy, relative to the backup folder; only set for the state before a change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backup: Option<String>,
    },
    /// A symbolic link.
    Link {
        /// Target of the link.
        target: String,
    },
}

impl State {
    /// State of a file with this content.
    pub fn of(content: &[u8]) -> Self {
        Self::File {
            sha256: hex(&Sha256::digest(content)),
            backup: None,
        }
    }

    /// This state without its copy, for records of another path.
    pub fn without_copy(&self) -> Self {
        match self {
            Self::File { sha256, .. } => Self::File {
                sha256: sha256.clone(),
                backup: None,
            },
            other => other.clone(),
        }
    }
}

/// A record under construction.
pub struct Backup {
    folder: PathBuf,
    id: String,
    tool: &'static str,
    changes: Vec<Change>,
    copies: usize,
    bytes: u64,
    unkept: Option<Unkept>,
}

/// Reason to record if the caller turned backups off.
pub fn unwanted(backup: bool) -> Option<&'static str> {
    (!backup).then_some("no backup was wanted (`backup: false`)")
}

impl Backup {
    /// Begins the record of a call. `unkept` is the reason for making no backup, if any; a record is then written on a
    /// best-effort basis.
    pub fn begin(
        cx: &Context,
        tool: &'static str,
        unkept: Option<&'static str>,
    ) -> Result<Option<Self>> {
        let folder = cx.workspace().join(FOLDER);
        if !folder.is_dir() {
            if unkept.is_some() {
                return Ok(None);
            }
            return Err(Error::unavailable(
                "the backup folder is missing, so nothing was changed; `backup: false` goes ahead without a backup",
            ));
        }
        let wish: String = cx
            .request_id()
            .chars()
            .take(100)
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' {
                    c
                } else {
                    '-'
                }
            })
            .collect();
        let taken =
            |id: &str| folder.join(id).exists() || folder.join(format!("{id}.json")).exists();
        let mut id = wish.clone();
        for number in 2.. {
            if !taken(&id) {
                break;
            }
            id = format!("{wish}-{number}");
        }
        Ok(Some(Self {
            folder,
            id,
            tool,
            changes: Vec::new(),
            copies: 0,
            bytes: 0,
            unkept: unkept.map(|why| Unkept {
                why: why.to_owned(),
                paths: Vec::new(),
            }),
        }))
    }

    /// Name of the record, if the change can be undone from it.
    pub fn id(&self) -> Option<&str> {
        self.unkept.is_none().then_some(self.id.as_str())
    }

    /// Records only the path if this call makes no backup. Returns true in that case.
    pub fn only_names(&mut self, place: &Place) -> bool {
        let Some(unkept) = &mut self.unkept else {
            return false;
        };
        unkept.paths.push(place.exact().to_owned());
        true
    }

    /// Adds a change and backs up the current state.
    pub fn change(&mut self, place: &Place, kind: Option<Kind>, after: State) -> Result<()> {
        if self.only_names(place) {
            return Ok(());
        }
        self.room_for(1)?;
        let before = match kind {
            None => State::Absent,
            Some(Kind::Directory) => State::Directory,
            // The target is recorded as it is, wherever it points: only `mimir undo` creates the link again.
            Some(Kind::Symlink) => State::Link {
                target: link_text(place)?,
            },
            Some(Kind::File) => self.copy(place)?,
            Some(Kind::Other | Kind::Unreadable) => return Err(cannot_keep(place)),
        };
        self.changes.push(Change {
            path: place.exact().to_owned(),
            before,
            after,
        });
        Ok(())
    }

    /// Fails if this many more changes exceed the limit of a record.
    pub fn room_for(&self, more: usize) -> Result<()> {
        if self.changes.len() + more > PATHS_MAX {
            return Err(self.too_much(format_args!("more than {PATHS_MAX} files")));
        }
        Ok(())
    }

    /// The state that the latest change backed up.
    pub fn latest(&self) -> Option<&State> {
        self.changes.last().map(|change| &change.before)
    }

    /// Adds a change that needs no backup.
    pub fn creates(&mut self, place: &Place, after: State) {
        if self.unkept.is_some() {
            return;
        }
        self.changes.push(Change {
            path: place.exact().to_owned(),
            before: State::Absent,
            after,
        });
    }

    fn copy(&mut self, place: &Place) -> Result<State> {
        let here = |error: io::Error| place.failed(&error);
        let there =
            |error: io::Error| Error::io(&error, format!("the backup of {}", place.exact()));
        let copies = self.folder.join(&self.id);
        if self.copies == 0 {
            fs::create_dir(&copies).map_err(there)?;
        }
        let name = self.copies.to_string();
        self.copies += 1;
        let mut from = File::open(place.path()).map_err(here)?;
        let size = from.metadata().map_err(here)?.len();
        if self.bytes + size > BYTES_MAX {
            return Err(self.too_much(format_args!("more than {}", words::bytes(BYTES_MAX))));
        }
        let mut to = File::create_new(copies.join(&name)).map_err(there)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = from.read(&mut buffer).map_err(here)?;
            if count == 0 {
                break;
            }
            self.bytes += count as u64;
            if self.bytes > BYTES_MAX {
                return Err(self.too_much(format_args!("more than {}", words::bytes(BYTES_MAX))));
            }
            hash.update(&buffer[..count]);
            to.write_all(&buffer[..count]).map_err(there)?;
        }
        Ok(State::File {
            sha256: hex(&hash.finalize()),
            backup: Some(format!("{}/{name}", self.id)),
        })
    }

    /// Moves the target of the change `number` to the copies, with its permissions. Returns false if it could not be
    /// moved and is still there.
    pub fn set_aside(&self, place: &Place, number: usize) -> bool {
        let kept = self.changes.get(number).map(|change| &change.before);
        let whole = match kept {
            Some(State::File { .. }) => true,
            Some(State::Directory) => {
                fs::read_dir(place.path()).is_ok_and(|mut inside| inside.next().is_none())
            }
            _ => false,
        };
        if !whole {
            return false;
        }
        let copies = self.folder.join(&self.id);
        let _ = fs::create_dir(&copies);
        fs::rename(place.path(), copies.join(format!("was-{number}"))).is_ok()
    }

    fn too_much(&self, what: std::fmt::Arguments<'_>) -> Error {
        Error::limit_exceeded(format_args!(
            "that would back up {what}, so nothing was changed; `backup: false` goes ahead without"
        ))
    }

    /// Writes the record. From here on the change can be undone.
    pub fn write(&self) -> Result<()> {
        let record = Record {
            id: self.id.clone(),
            tool: self.tool.to_owned(),
            time: words::now(),
            changes: self.changes.clone(),
            unkept: self.unkept.clone(),
        };
        let name = |end| self.folder.join(format!("{}.{end}", self.id));
        let (unfinished, finished) = (name("tmp"), name("json"));
        let json = serde_json::to_vec(&record)?;
        let written = fs::write(&unfinished, json).and_then(|()| fs::rename(&unfinished, finished));
        let Err(error) = written else { return Ok(()) };
        let _ = fs::remove_file(&unfinished);
        if self.unkept.is_some() {
            // A caller who turned backups off may have a full disk, so this failure is ignored.
            return Ok(());
        }
        Err(Error::io(&error, "the record of the backup"))
    }

    /// Keeps only the first `count` changes, because the others did not happen.
    pub fn shorten(&mut self, count: usize) {
        self.changes.truncate(count);
    }

    /// Removes the record and the copies: nothing was changed.
    pub fn discard(self) {
        let _ = fs::remove_file(self.folder.join(format!("{}.json", self.id)));
        let _ = fs::remove_dir_all(self.folder.join(&self.id));
    }
}

/// Reads the target of a link, if it can be recorded.
pub fn link_text(place: &Place) -> Result<String> {
    let target = fs::read_link(place.path()).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => place.failed(&error),
        _ => cannot_keep(place),
    })?;
    let target = target.into_os_string().into_string();
    target.map_err(|_| cannot_keep(place))
}

/// Error for devices, pipes, and links whose target is not UTF-8.
fn cannot_keep(place: &Place) -> Error {
    Error::invalid_input(format_args!(
        "`{place}` is neither a regular file nor a link that can be read, so it can't be backed up; `backup: false` goes ahead without"
    ))
}

/// Makes a change under a record: what `plan` adds is written before `act` runs, and removed if either fails. Returns
/// the name of the record, if there is one.
pub fn guarded(
    backup: Option<Backup>,
    plan: impl FnOnce(&mut Backup) -> Result<()>,
    act: impl FnOnce() -> Result<()>,
) -> Result<Option<String>> {
    let Some(mut backup) = backup else {
        act()?;
        return Ok(None);
    };
    match plan(&mut backup)
        .and_then(|()| backup.write())
        .and_then(|()| act())
    {
        Ok(()) => {
            prune::prune(&backup.folder, backup.bytes);
            Ok(backup.id().map(str::to_owned))
        }
        Err(error) => {
            backup.discard();
            Err(error)
        }
    }
}

/// Finishes a record whose change happened at least in part.
pub fn settle(backup: &Backup) -> Result<()> {
    backup.write()?;
    prune::prune(&backup.folder, backup.bytes);
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
