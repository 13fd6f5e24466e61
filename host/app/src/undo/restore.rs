//! Restoring the state before a recorded call.

use std::fs::File;
use std::io::{self, Read};
use std::time::SystemTime;

use mimir_core::{Code, ToolError, text};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::file_error::write_atomically;

use super::judge::refuse_protected;
use super::place::{Item, Place};
use super::{Backups, Change, Record, State};

/// The outcome for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// The old state was restored.
    Restored,
    /// The item that the tool created was removed.
    Removed,
    /// A folder that the tool created was kept, because it contains other files.
    Kept,
    /// The path was already in its old state.
    AsBefore,
}

/// An undone change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Path relative to the workspace root.
    pub path: String,
    /// State before the call.
    pub before: State,
    /// The outcome.
    pub became: Became,
    /// Path of the copy of the replaced item, relative to the folder of the backups.
    pub copy: Option<String>,
}

/// The current state of a path.
enum Now {
    /// A known state.
    State(State),
    /// No item can be here, because a parent is not a folder.
    Blocked,
}

/// Maximum number of paths in a message.
const NAMED_MAX: usize = 10;

impl Backups {
    /// Undoes the changes of a record in reverse order, and marks the record as undone. Returns the outcome for each
    /// path. With `force`, paths that were changed since the call are restored, too. `logged` must be true if the call
    /// of the record is in the audit log.
    pub fn restore(
        &self,
        mut record: Record,
        force: bool,
        logged: bool,
    ) -> Result<Vec<Restored>, ToolError> {
        let mut done = Vec::new();
        let mut todo = Vec::new();
        let (mut changed, mut blocked) = (Vec::new(), Vec::new());
        for (number, change) in record.changes.iter().enumerate().rev() {
            refuse_protected(change, logged)?;
            let now = match self.look(change)? {
                Now::State(now) => now,
                Now::Blocked if change.before == State::Absent => State::Absent,
                Now::Blocked => {
                    blocked.push(change.path.as_str());
                    continue;
                }
            };
            if is_same(&now, &change.before) {
                done.push(became(change, Became::AsBefore, None));
                continue;
            }
            if !is_same(&now, &change.after) {
                changed.push(change.path.as_str());
                if stands_in_the_way(&now, &change.before) {
                    blocked.push(change.path.as_str());
                }
            }
            self.check_copy(change)?;
            todo.push((number, change));
        }
        if !changed.is_empty() && !force {
            let message = format!(
                "changed since the call, not restored: {}; `mimir undo {} --force` restores it anyway",
                named(&changed),
                record.id
            );
            return Err(ToolError::new(Code::AlreadyExists, message)
                .with_details(json!({ "changed": changed })));
        }
        if !blocked.is_empty() {
            let message = format!(
                "another item has replaced {}, so nothing is restored; move it away and undo again",
                named(&blocked)
            );
            return Err(ToolError::new(Code::AlreadyExists, message)
                .with_details(json!({ "blocked": blocked })));
        }
        let modes = self.modes(&record);
        for (number, change) in &todo {
            let kept = self.keep(&record, *number);
            match kept.and_then(|copy| Ok((self.put_back(change, modes[*number])?, copy))) {
                Ok((as_told, copy)) => done.push(became(change, as_told, copy)),
                Err(error) => return Err(cannot(change, &error, &done)),
            }
        }
        // Permissions of folders are restored last, because they may forbid writing into the folder.
        for (number, change) in todo.iter().rev() {
            if let (State::Directory, Some(mode)) = (&change.before, modes[*number]) {
                Place::find(&self.root, &change.path, false)
                    .and_then(|place| place.set_mode(mode))
                    .map_err(|error| cannot(change, &error, &done))?;
            }
        }
        record.undone = Some(now());
        self.mark(&record)?;
        Ok(done)
    }

    fn mark(&self, record: &Record) -> Result<(), ToolError> {
        let path = self.folder.join(format!("{}.json", record.id));
        // Records are pruned by modification time, which an undo must not renew.
        let age = path.metadata().and_then(|meta| meta.modified());
        let written = serde_json::to_vec(record)
            .map_err(io::Error::from)
            .and_then(|json| write_atomically(&path, &json));
        if let (Ok(age), Ok(file)) = (age, File::options().write(true).open(&path)) {
            let _ = file.set_modified(age);
        }
        written.map_err(|e| {
            let message = format!(
                "everything is restored, but the record {} cannot be marked: {e}",
                record.id
            );
            ToolError::new(Code::ExecutionError, message)
        })
    }

    /// Stores the file or link that is about to be replaced or removed. Returns the path of the copy.
    fn keep(&self, record: &Record, number: usize) -> io::Result<Option<String>> {
        let place = match Place::find(&self.root, &record.changes[number].path, false) {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            place => place?,
        };
        if matches!(place.item()?, Item::Absent | Item::Directory) {
            return Ok(None);
        }
        // An interrupted undo may have stored copies already.
        for again in 0.. {
            let name = format!("{}/undone-{number}-{again}", record.id);
            let copy = Place::find(&self.folder, &name, true)?;
            if copy.item()? == Item::Absent {
                place.keep_at(&copy)?;
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Reads the current state at the path of a change. The content is only read if the record has a digest.
    fn look(&self, change: &Change) -> Result<Now, ToolError> {
        let path = &change.path;
        let digests = [&change.before, &change.after].map(|state| {
            matches!(
                state,
                State::File {
                    sha256: Some(_),
                    ..
                }
            )
        });
        let fault = |e: io::Error| {
            let message = format!("cannot look at {}: {e}", text::visible(path));
            ToolError::new(Code::InvalidPath, message)
        };
        let place = match Place::find(&self.root, path, false) {
            Ok(place) => place,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Now::State(State::Absent));
            }
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(Now::Blocked),
            Err(e) => return Err(fault(e)),
        };
        Ok(Now::State(match place.item().map_err(fault)? {
            Item::Absent => State::Absent,
            Item::Directory => State::Directory,
            Item::Link(target) => State::Link { target },
            Item::File => {
                let file = place.open().map_err(fault)?;
                let meta = file.metadata().map_err(fault)?;
                State::File {
                    size: Some(meta.len()),
                    modified: meta.modified().ok().map(nanoseconds),
                    sha256: if digests.contains(&true) {
                        Some(sha256(file).map_err(fault)?)
                    } else {
                        None
                    },
                    backup: None,
                }
            }
        }))
    }

    /// Checks that the copy still matches the digest in the record.
    fn check_copy(&self, change: &Change) -> Result<(), ToolError> {
        let State::File {
            sha256: expected,
            backup,
            ..
        } = &change.before
        else {
            return Ok(());
        };
        let fault = |why: &str| {
            let message = format!(
                "the copy of {} {why}; nothing is restored",
                text::visible(&change.path)
            );
            ToolError::new(Code::Unavailable, message)
        };
        let Some(backup) = backup else {
            return Err(fault("was not kept"));
        };
        let found = Place::find(&self.folder, backup, false)
            .and_then(|place| place.open())
            .and_then(sha256);
        match found {
            Ok(found) if Some(&found) == expected.as_ref() => Ok(()),
            Ok(_) => Err(fault("is damaged")),
            Err(e) => Err(fault(&format!("cannot be read: {e}"))),
        }
    }

    fn put_back(&self, change: &Change, mode: Option<u32>) -> io::Result<Became> {
        let place = match &change.before {
            State::Absent => Place::find(&self.root, &change.path, false)?,
            _ => Place::find(&self.root, &change.path, true)?,
        };
        match &change.before {
            State::Absent => match place.remove() {
                // The folder contains files that the tool did not create.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(Became::Kept),
                done => return done.map(|()| Became::Removed),
            },
            // The folder may have been created as a parent of an earlier path.
            State::Directory if place.item()? == Item::Directory => {}
            State::Directory => place.make_directory()?,
            State::Link { target } => {
                if place.item()? != Item::Absent {
                    place.remove()?;
                }
                place.link(target)?;
            }
            State::File { backup, .. } => {
                let copy = Place::find(&self.folder, backup.as_deref().unwrap_or_default(), false)?;
                place.put(&mut copy.open()?, mode)?;
            }
        }
        Ok(Became::Restored)
    }
}

fn became(change: &Change, became: Became, copy: Option<String>) -> Restored {
    Restored {
        path: change.path.clone(),
        before: change.before.clone(),
        became,
        copy,
    }
}

/// Returns true if a folder would replace another item, or another item a folder.
fn stands_in_the_way(now: &State, before: &State) -> bool {
    match (now, before) {
        (State::Absent, _) | (_, State::Absent) => false,
        (now, before) => (*now == State::Directory) != (*before == State::Directory),
    }
}

fn named(paths: &[&str]) -> String {
    let shown = paths.iter().take(NAMED_MAX);
    let shown: Vec<String> = shown.map(|path| text::visible(path)).collect();
    match paths.len().saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The error of an undo that stopped halfway. It can be repeated.
fn cannot(change: &Change, error: &io::Error, done: &[Restored]) -> ToolError {
    use io::ErrorKind as K;
    let code = match error.kind() {
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Code::LimitExceeded,
        K::PermissionDenied | K::ReadOnlyFilesystem => Code::PermissionDenied,
        K::NotADirectory | K::IsADirectory | K::AlreadyExists => Code::AlreadyExists,
        _ => Code::ExecutionError,
    };
    let restored: Vec<&str> = done.iter().map(|done| done.path.as_str()).collect();
    let message = format!(
        "cannot restore {}: {error}; done so far: {}",
        text::visible(&change.path),
        restored.len()
    );
    ToolError::new(code, message).with_details(json!({ "restored": restored }))
}

/// Returns true if the present state (`a`) is the recorded one (`b`).
fn is_same(a: &State, b: &State) -> bool {
    match (a, b) {
        (
            State::File {
                sha256: Some(a), ..
            },
            State::File {
                sha256: Some(b), ..
            },
        ) => a == b,
        (
            State::File {
                size: Some(size),
                modified: Some(modified),
                ..
            },
            State::File {
                sha256: None,
                size: recorded_size,
                modified: recorded,
                ..
            },
        ) => Some(*size) == *recorded_size && Some(*modified) == *recorded,
        (State::File { .. }, State::File { .. }) => false,
        (a, b) => a == b,
    }
}

/// A time in nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(error) => {
            let before = i64::try_from(error.duration().as_nanos());
            before.map_or(i64::MIN, |before| -before)
        }
    }
}

fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut from, &mut hash)?;
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
