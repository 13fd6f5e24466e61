//! Putting back what a record says was there.

use std::fs::File;
use std::io::{self, Read};

use mimir_core::paths::{Layer, PathRules};
use mimir_core::{Code, ToolError, text};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::sdk;

use super::place::{Item, Place};
use super::{Backups, Change, Record, State};

impl Backups {
    /// Takes the changes of a record back, the last one first, and marks the record. Returns the paths that
    /// were changed. With `force`, also where a path is not what the tool left there.
    pub fn restore(&self, mut record: Record, force: bool) -> Result<Vec<String>, ToolError> {
        let mut todo = Vec::new();
        let mut changed = Vec::new();
        for change in record.changes.iter().rev() {
            self.refuse_protected(&change.path)?;
            let now = self.look(&change.path)?;
            if is_same(&now, &change.before) {
                continue;
            }
            if !is_same(&now, &change.after) {
                changed.push(text::visible(&change.path));
            }
            self.check_copy(change)?;
            todo.push(change);
        }
        if !changed.is_empty() && !force {
            let message = format!(
                "changed since, so it stays as it is: {}; `mimir undo {} --force` restores it all the same",
                changed.join(", "),
                record.id
            );
            return Err(ToolError::new(Code::AlreadyExists, message)
                .with_details(json!({ "changed": changed })));
        }
        let mut done = Vec::new();
        for change in todo {
            self.put_back(change).map_err(|e| {
                let message = format!(
                    "cannot restore {}: {e}; done so far: {}",
                    text::visible(&change.path),
                    done.len()
                );
                ToolError::new(Code::ExecutionError, message)
                    .with_details(json!({ "restored": done }))
            })?;
            done.push(change.path.clone());
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
            .and_then(|json| sdk::put(&path, &json));
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

    /// What no tool may write, no tool wrote: such a record is a forgery.
    fn refuse_protected(&self, path: &str) -> Result<(), ToolError> {
        let rules = PathRules::protected();
        match rules.check_file(path).against_writing() {
            Some(rule) if rule.layer() == Layer::Protected => {
                let message = format!(
                    "{} is protected ({rule}) and is not restored",
                    text::visible(path)
                );
                Err(ToolError::new(Code::PermissionDenied, message))
            }
            _ => Ok(()),
        }
    }

    /// What is at a path now.
    fn look(&self, path: &str) -> Result<State, ToolError> {
        let fault = |e: io::Error| {
            let message = format!("cannot look at {}: {e}", text::visible(path));
            ToolError::new(Code::InvalidPath, message)
        };
        let place = match Place::find(&self.root, path, false) {
            Ok(place) => place,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(State::Absent),
            Err(e) => return Err(fault(e)),
        };
        Ok(match place.item().map_err(fault)? {
            Item::Absent => State::Absent,
            Item::Directory => State::Directory,
            Item::Link(target) => State::Link { target },
            Item::File => State::File {
                sha256: place.open().and_then(sha256).map_err(fault)?,
                backup: None,
            },
        })
    }

    /// The copy of what was there must still be what was there.
    fn check_copy(&self, change: &Change) -> Result<(), ToolError> {
        let State::File {
            sha256: expected,
            backup,
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
            Ok(found) if found == *expected => Ok(()),
            Ok(_) => Err(fault("is damaged")),
            Err(e) => Err(fault(&format!("cannot be read: {e}"))),
        }
    }

    fn put_back(&self, change: &Change) -> io::Result<()> {
        let place = match &change.before {
            State::Absent => Place::find(&self.root, &change.path, false)?,
            _ => Place::find(&self.root, &change.path, true)?,
        };
        match &change.before {
            State::Absent => match place.remove() {
                // Somebody else keeps something in a folder that the tool made.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                done => done,
            },
            // It may have been made on the way to what was in it.
            State::Directory if place.item()? == Item::Directory => Ok(()),
            State::Directory => place.make_directory(),
            State::Link { target } => place.link(target),
            State::File { backup, .. } => {
                let copy = Place::find(&self.folder, backup.as_deref().unwrap_or_default(), false)?;
                place.put(&mut copy.open()?)
            }
        }
    }
}

fn is_same(a: &State, b: &State) -> bool {
    match (a, b) {
        (State::File { sha256: a, .. }, State::File { sha256: b, .. }) => a == b,
        (a, b) => a == b,
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
