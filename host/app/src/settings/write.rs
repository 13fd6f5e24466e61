//! Changes of config files by the person at the terminal.

use std::path::PathBuf;
use std::time::SystemTime;

use mimir_core::audit::{Event, Kind};
use mimir_core::text::visible;
use mimir_core::{Code, ToolError};

use super::edit::{Edit, edited};
use super::{Place, Settings, Whose, digest};
use crate::file_error::file_error;
use crate::interface::note;
use crate::private;
use crate::setup::Setup;

/// Changes the config file of the workspace or the user; `changes` computes the edits from its text. Only one process
/// writes at a time. Returns the file's path for messages. An invalid result is not written, and changes that were
/// made since this command read the file are neither overwritten nor accepted.
pub fn change(
    setup: &Setup,
    user: bool,
    changes: impl FnOnce(&str) -> Result<Vec<Edit>, ToolError>,
) -> Result<String, ToolError> {
    let whose = if user { Whose::User } else { Whose::Project };
    match attempt(setup, &setup.settings, whose, changes)? {
        Written::Done(shown) => Ok(shown),
        Written::Changed(shown) => Err(meanwhile(&shown)),
    }
}

/// Maximum number of attempts of a change that conflicts with others. Each conflict means that another process
/// succeeded, so all processes make progress.
const ATTEMPTS: usize = 100;

/// Like [`change`], for an edit that does not depend on the rest of the file: after a conflict, it is applied to the
/// new content.
pub fn change_again(
    setup: &Setup,
    whose: Whose,
    changes: impl Fn(&str) -> Result<Vec<Edit>, ToolError>,
) -> Result<String, ToolError> {
    let mut written = attempt(setup, &setup.settings, whose, &changes)?;
    for _ in 1..ATTEMPTS {
        if let Written::Done(shown) = written {
            return Ok(shown);
        }
        let settings = Settings::read(&setup.places, &setup.workspace)?;
        written = attempt(setup, &settings, whose, &changes)?;
    }
    match written {
        Written::Done(shown) => Ok(shown),
        Written::Changed(shown) => Err(meanwhile(&shown)),
    }
}

fn meanwhile(shown: &str) -> ToolError {
    let message = format!("{shown} has changed meanwhile; nothing was written, try again");
    ToolError::new(Code::InvalidInput, message)
}

/// Result of an attempt, with the file's path for messages.
enum Written {
    Done(String),
    /// The file differs from the one that the settings were read from.
    Changed(String),
}

fn attempt(
    setup: &Setup,
    settings: &Settings,
    whose: Whose,
    changes: impl FnOnce(&str) -> Result<Vec<Edit>, ToolError>,
) -> Result<Written, ToolError> {
    let mut places = Place::all(&setup.places, &setup.workspace).into_iter();
    let Some(place) = places.find(|place| place.whose == whose) else {
        let message = "this platform has no folder for your own settings; set MIMIR_CONFIG_DIR";
        return Err(ToolError::new(Code::Unavailable, message));
    };
    if whose == Whose::Project {
        setup.workspace.own(&place.path)?;
    }
    let folder = place.path.parent().unwrap_or(&place.path);
    std::fs::create_dir_all(folder).map_err(|error| file_error("make", folder, &error))?;
    let turn = match whose {
        Whose::Project => setup.workspace.kept("config")?,
        _ => place.path.clone(),
    };
    let turn = private::turn(&turn).map_err(|error| file_error("lock", &turn, &error))?;
    let before = place.text()?;
    let known = settings.files.iter().find(|file| file.whose == whose);
    if before.as_deref().map(digest) != known.map(super::ConfigFile::digest) {
        return Ok(Written::Changed(place.shown));
    }
    let before = before.unwrap_or_default();
    let after = edited(&before, &changes(&before)?)?;
    if after == before {
        return Ok(Written::Done(place.shown));
    }
    Settings::check(&place, &after)?;
    let path = led_to(setup, &place)?;
    private::rewrite(&path, after.as_bytes())
        .map_err(|error| file_error("write", &path, &error))?;
    if whose == Whose::Project {
        accept(setup, settings, &place, &after)?;
    }
    drop(turn);
    Ok(Written::Done(place.shown))
}

/// The file to write, with links resolved. A workspace's file may come from a checkout, so it must not lead out of the
/// workspace.
fn led_to(setup: &Setup, place: &Place) -> Result<PathBuf, ToolError> {
    if !place.path.is_symlink() {
        return Ok(place.path.clone());
    }
    let Place { path, shown, whose } = place;
    let real = path.canonicalize().map_err(|error| {
        let message =
            format!("{shown} is a broken link ({error}); create the target, or remove the link");
        ToolError::new(Code::FileNotFound, message)
    })?;
    let root = setup.workspace.root();
    let inside = || root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if *whose == Whose::Project && !inside() {
        let real = visible(&real.display().to_string());
        let message = format!(
            "nothing is written through {shown}: it is a link to {real}, outside of the workspace; edit the target directly, or replace the link by a file"
        );
        return Err(ToolError::new(Code::PermissionDenied, message));
    }
    Ok(real)
}

/// Accepts the new content if all of the old content was accepted, because a person has just made the change.
fn accept(setup: &Setup, settings: &Settings, place: &Place, after: &str) -> Result<(), ToolError> {
    if !(settings.withheld().is_empty() && settings.unread_words().is_empty()) {
        note(
            "the project's settings do not take full effect until you accept them: `mimir policy accept`",
        );
        return Ok(());
    }
    let digest = digest(after);
    let changed = setup.own_ledger()?.change(|book| {
        book.settings.clear();
        book.settings.insert(digest.clone())
    });
    changed.map_err(|error| ToolError::new(Code::Unavailable, error.to_string()))?;
    let event = Event::of(Kind::ConfigChange, SystemTime::now()).with_subject(&place.shown);
    setup.record(&event.with_detail(&format!("changed by hand, sha256 {digest}")));
    Ok(())
}
