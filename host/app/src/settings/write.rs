//! Changes of config files by the person at the terminal.

use std::path::PathBuf;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use super::edit::{ConfigEdit, apply_edits};
use super::{ConfigLocation, ConfigOwner, MergedSettings, digest};
use crate::file_error::file_error;
use crate::interface::note;
use crate::private_files;
use crate::setup::HostSetup;

/// Changes the config file of the workspace or the user; `changes` computes the edits from its text. Only one process
/// writes at a time. Returns the file's path for messages. An invalid result is not written, and changes that were
/// made since this command read the file are neither overwritten nor accepted.
pub fn change_config(
    setup: &HostSetup,
    user: bool,
    changes: impl FnOnce(&str) -> Result<Vec<ConfigEdit>, ToolError>,
) -> Result<String, ToolError> {
    let whose = if user {
        ConfigOwner::User
    } else {
        ConfigOwner::Project
    };
    match attempt(setup, &setup.settings, whose, changes)? {
        WriteOutcome::Done(shown) => Ok(shown),
        WriteOutcome::Changed(shown) => Err(changed_meanwhile(&shown)),
    }
}

/// Maximum number of attempts of a change that conflicts with others. Each conflict means that another process
/// succeeded, so all processes make progress.
const MAX_ATTEMPTS: usize = 100;

/// Like [`change_config`], for an edit that does not depend on the rest of the file: after a conflict, it is applied to the
/// new content.
pub fn retry_change(
    setup: &HostSetup,
    whose: ConfigOwner,
    changes: impl Fn(&str) -> Result<Vec<ConfigEdit>, ToolError>,
) -> Result<String, ToolError> {
    let mut written = attempt(setup, &setup.settings, whose, &changes)?;
    for _ in 1..MAX_ATTEMPTS {
        if let WriteOutcome::Done(shown) = written {
            return Ok(shown);
        }
        let settings = MergedSettings::read(&setup.user_dirs, &setup.workspace)?;
        written = attempt(setup, &settings, whose, &changes)?;
    }
    match written {
        WriteOutcome::Done(shown) => Ok(shown),
        WriteOutcome::Changed(shown) => Err(changed_meanwhile(&shown)),
    }
}

fn changed_meanwhile(shown: &str) -> ToolError {
    let message = format!("{shown} has changed meanwhile; nothing was written, try again");
    ToolError::invalid_input(message)
}

/// Result of an attempt, with the file's path for messages.
enum WriteOutcome {
    Done(String),
    /// The file differs from the one that the settings were read from.
    Changed(String),
}

fn attempt(
    setup: &HostSetup,
    settings: &MergedSettings,
    whose: ConfigOwner,
    changes: impl FnOnce(&str) -> Result<Vec<ConfigEdit>, ToolError>,
) -> Result<WriteOutcome, ToolError> {
    let mut places = ConfigLocation::all_locations(&setup.user_dirs, &setup.workspace).into_iter();
    let Some(place) = places.find(|place| place.owner == whose) else {
        let message = "this platform has no folder for your own settings; set MIMIR_CONFIG_DIR";
        return Err(ToolError::unavailable(message));
    };
    if whose == ConfigOwner::Project {
        setup.workspace.check_no_links(&place.path)?;
    }
    let folder = place.path.parent().unwrap_or(&place.path);
    std::fs::create_dir_all(folder).map_err(|error| file_error("make", folder, &error))?;
    let turn = match whose {
        ConfigOwner::Project => setup.workspace.state_path("config")?,
        _ => place.path.clone(),
    };
    let turn =
        private_files::lock_for_change(&turn).map_err(|error| file_error("lock", &turn, &error))?;
    let before = place.text()?;
    let known = settings.files.iter().find(|file| file.owner == whose);
    if before.as_deref().map(digest) != known.map(super::ConfigFile::digest) {
        return Ok(WriteOutcome::Changed(place.shown));
    }
    let before = before.unwrap_or_default();
    let after = apply_edits(&before, &changes(&before)?)?;
    if after == before {
        return Ok(WriteOutcome::Done(place.shown));
    }
    MergedSettings::check(&place, &after)?;
    let path = target_file(setup, &place)?;
    private_files::rewrite(&path, after.as_bytes())
        .map_err(|error| file_error("write", &path, &error))?;
    if whose == ConfigOwner::Project {
        accept(setup, settings, &place, &after)?;
    }
    drop(turn);
    Ok(WriteOutcome::Done(place.shown))
}

/// The file to write, with links resolved. A workspace's file may come from a checkout, so it must not lead out of the
/// workspace.
fn target_file(setup: &HostSetup, place: &ConfigLocation) -> Result<PathBuf, ToolError> {
    if !place.path.is_symlink() {
        return Ok(place.path.clone());
    }
    let ConfigLocation {
        path,
        shown,
        owner: whose,
    } = place;
    let real = path.canonicalize().map_err(|error| {
        ToolError::new(
            ToolErrorCode::FileNotFound,
            format!("{shown} is a broken link ({error}); create the target, or remove the link"),
        )
    })?;
    let root = setup.workspace.root();
    let inside = || root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if *whose == ConfigOwner::Project && !inside() {
        let real = visible(&real.display().to_string());
        return Err(ToolError::permission_denied(format!(
            "nothing is written through {shown}: it is a link to {real}, outside of the workspace; edit the target directly, or replace the link by a file"
        )));
    }
    Ok(real)
}

/// Accepts the new content if all of the old content was accepted, because a person has just made the change.
fn accept(
    setup: &HostSetup,
    settings: &MergedSettings,
    place: &ConfigLocation,
    after: &str,
) -> Result<(), ToolError> {
    if !(settings.withheld().is_empty() && settings.unaccepted_texts().is_empty()) {
        note(
            "the project's settings do not take full effect until you accept them: `mimir policy accept`",
        );
        return Ok(());
    }
    let digest = digest(after);
    let changed = setup.require_approvals()?.change(|approvals| {
        approvals.settings.clear();
        approvals.settings.insert(digest.clone())
    });
    changed.map_err(ToolError::unavailable)?;
    let event =
        AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(&place.shown);
    setup.record_event(&event.with_detail(&format!("changed by hand, sha256 {digest}")));
    Ok(())
}
