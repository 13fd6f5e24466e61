//! The files of the memories: listed, read, and written whole or not at all.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mimir_sdk::{Context, Error, Result};

use crate::name::Name;

/// Where they are, below the workspace.
pub(crate) const FOLDER: &str = ".mimir/memory";

/// Bytes of a memory: what a model can still read.
pub(crate) const FILE_MOST: u64 = 256 << 10;

/// How many there may be. Each search reads them all.
pub(crate) const FILES_MOST: usize = 400;

/// Bytes of all of them.
pub(crate) const TOTAL_MOST: u64 = 8 << 20;

/// The file of whoever saves at the moment.
const TURN: &str = ".turn";

/// The file of whoever removes that of a call that was stopped on the way.
const SWEEP: &str = ".sweep";

/// How old that file is at most while somebody is at work: saving takes milliseconds.
const TURN_MOST: Duration = Duration::from_secs(10);

/// How long another call waits for its turn.
const WAIT_MOST: Duration = Duration::from_secs(15);

/// And between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The folder of the memories.
pub(crate) struct Folder(PathBuf);

/// A memory that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) size: u64,
    /// ISO 8601.
    pub(crate) modified: String,
}

/// What is in the folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// In the order of their names.
    pub(crate) entries: Vec<Entry>,
    /// How many `.md` files are none that a tool can name or read.
    pub(crate) odd: usize,
}

/// The turn to save. It ends when this is dropped.
pub(crate) struct Turn(PathBuf);

impl Folder {
    pub(crate) fn of(cx: &Context) -> Self {
        Self(cx.workspace().join(FOLDER))
    }

    /// The memories. A folder that is not there is empty.
    pub(crate) fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        // Where nothing was saved yet, the host gives no folder, and what a look at it says depends on the system.
        if fs::metadata(&self.0).is_err() {
            return Ok(listing);
        }
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.starts_with('.') || !file.ends_with(".md") {
                continue;
            }
            // A link could show anything under this name.
            let meta = fs::symlink_metadata(entry.path());
            let meta = meta
                .ok()
                .filter(|meta| meta.is_file() && meta.len() <= FILE_MOST);
            match (Name::of_file(&file), meta) {
                (Some(name), Some(meta)) => listing.entries.push(Entry {
                    name,
                    size: meta.len(),
                    modified: modified(&meta),
                }),
                _ => listing.odd += 1,
            }
        }
        listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    /// A memory, if it is there.
    pub(crate) fn read(&self, name: &Name) -> Result<Option<String>> {
        let path = self.0.join(name.file());
        let Ok(meta) = fs::symlink_metadata(&path) else {
            return Ok(None);
        };
        if !meta.is_file() {
            return Err(Error::invalid_input(format_args!(
                "`{name}` is no regular file; what is in {FOLDER} as a link or a folder is not read"
            )));
        }
        if meta.len() > FILE_MOST {
            return Err(Error::limit_exceeded(format_args!(
                "`{name}` has {} KB, and a memory has at most {}; split it",
                meta.len().div_ceil(1 << 10),
                FILE_MOST >> 10
            )));
        }
        let bytes = fs::read(&path).map_err(failed)?;
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| Error::invalid_input(format_args!("`{name}` is no UTF-8 text")))
    }

    /// Puts a memory there in place of what it was. Only who has the turn does.
    pub(crate) fn write(&self, name: &Name, content: &str, _turn: &Turn) -> Result<()> {
        let new = self.0.join(".new");
        // Left over from a call that was stopped.
        let _ = fs::remove_file(&new);
        let written = File::create_new(&new)
            .and_then(|mut file| {
                file.write_all(content.as_bytes())?;
                // The name is not to be there before what it names.
                file.sync_data()
            })
            .and_then(|()| fs::rename(&new, self.0.join(name.file())));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written.map_err(failed)
    }

    /// Waits until no other call saves, here or in another process.
    pub(crate) fn turn(&self) -> Result<Turn> {
        let path = self.0.join(TURN);
        let mut waited = Duration::ZERO;
        loop {
            match File::create_new(&path) {
                Ok(_) => return Ok(Turn(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
            if let Some(made) = made(&path)?
                && is_stale(made)
            {
                self.sweep(&path, made)?;
            }
            if waited >= WAIT_MOST {
                return Err(Error::unavailable(format_args!(
                    "other calls are saving all the time; try again, and if nobody saves, remove {FOLDER}/{TURN} and {FOLDER}/{SWEEP}"
                )));
            }
            std::thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
    }

    /// Removes the file of a call that was stopped on the way, if it still is the one that was made then. One call at a
    /// time does, so that none removes what another has made since.
    fn sweep(&self, turn: &Path, seen: SystemTime) -> Result<()> {
        let path = self.0.join(SWEEP);
        match File::create_new(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        let still = made(turn);
        if matches!(still, Ok(Some(made)) if made == seen) {
            let _ = fs::remove_file(turn);
        }
        let _ = fs::remove_file(&path);
        still.map(drop)
    }
}

/// When the file of a turn was made, if it is there. What else somebody has put in its place nobody can wait for.
fn made(path: &Path) -> Result<Option<SystemTime>> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Ok(None);
    };
    if !meta.is_file() {
        return Err(Error::unavailable(format_args!(
            "{FOLDER}/{TURN} is no regular file; ask your user to remove it"
        )));
    }
    meta.modified().map(Some).map_err(failed)
}

/// Whether nobody is at work any more who made this file then. A time to come is none that anybody was at work.
fn is_stale(made: SystemTime) -> bool {
    let now = SystemTime::now();
    let apart = now
        .duration_since(made)
        .unwrap_or_else(|ahead| ahead.duration());
    apart > TURN_MOST
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn modified(meta: &fs::Metadata) -> String {
    let stamp = meta.modified().ok();
    let stamp = stamp.and_then(|time| jiff::Timestamp::try_from(time).ok());
    format!("{:.0}", stamp.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

fn failed(error: std::io::Error) -> Error {
    Error::io(&error, FOLDER)
}
