//! Putting back what a record says was there.

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

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// What was there is there again.
    Restored,
    /// What the tool made is gone.
    Removed,
    /// A folder that the tool made stays, because somebody else keeps something in it.
    Kept,
    /// Nothing was to be done: somebody had put back or removed it already.
    AsBefore,
}

/// A path of a record that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Relative to the workspace root.
    pub path: String,
    /// What was there before the tool came.
    pub before: State,
    /// What became of it.
    pub became: Became,
    /// Where what was there until now is kept, relative to the folder of the backups.
    pub copy: Option<String>,
}

/// What is at a path now.
enum Now {
    /// This.
    State(State),
    /// Nothing, and nothing can be put there: on the way is something else than a folder.
    Blocked,
}

/// More paths than this make a message unreadable.
const NAMED_MAX: usize = 10;

impl Backups {
    /// Takes the changes of a record back, the last one first, and marks the record. Returns what became of
    /// each path. With `force`, also where a path is not what the tool left there. `logged` is whether the record
    /// is of a call in the log.
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
                "changed since, so it stays as it is: {}; `mimir undo {} --force` restores it all the same",
                named(&changed),
                record.id
            );
            return Err(ToolError::new(Code::AlreadyExists, message)
                .with_details(json!({ "changed": changed })));
        }
        if !blocked.is_empty() {
            let message = format!(
                "something else is now in the place of {}, and nothing is restored; move it away and undo again",
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
        // What is in a folder is there before the folder is closed.
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
        // Old records are pruned by their dates: taking one back does not make it young.
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

    /// Keeps the file or the link that is going to be replaced or removed, and tells where.
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
        // An undo that was broken off has kept something already.
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

    /// Looks up the present state at the path of a change. A file is read only if the record has a digest to compare
    /// with.
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

    /// The copy of what was there must still be what was there.
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
                // Somebody else keeps something in a folder that the tool made.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(Became::Kept),
                done => return done.map(|()| Became::Removed),
            },
            // It may have been made on the way to what was in it.
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

/// Whether a folder would have to replace something else, or the other way round.
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

/// An undo that ended in the middle. It can be repeated.
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
