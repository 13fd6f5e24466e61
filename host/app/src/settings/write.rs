//! Changes of config files by commands.

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

/// Changes the config file of the workspace, or of the user if `user` is true. `changes` computes the edits from the
/// text of the file. Returns the path of the file for messages.
///
/// One process writes at a time. Fails without writing if the result is not valid, or if the file has changed since
/// this command read it.
pub fn change_config(
    setup: &HostSetup,
    user: bool,
    changes: impl FnOnce(&str) -> Result<Vec<ConfigEdit>, ToolError>,
) -> Result<String, ToolError> {
    let owner = if user {
        ConfigOwner::User
    } else {
        ConfigOwner::Project
    };
    match try_change(setup, &setup.settings, owner, changes)? {
        WriteOutcome::Done(shown) => Ok(shown),
        WriteOutcome::Changed(shown) => Err(changed_meanwhile(&shown)),
    }
}

/// Maximum number of attempts of a change that conflicts with other changes. Each conflict means that another process
/// has succeeded, so all processes make progress.
const MAX_ATTEMPTS: usize = 100;

/// Like [`change_config`], for an edit that does not depend on the rest of the file: after a conflict, the edit is
/// applied to the new content.
pub fn retry_change(
    setup: &HostSetup,
    owner: ConfigOwner,
    changes: impl Fn(&str) -> Result<Vec<ConfigEdit>, ToolError>,
) -> Result<String, ToolError> {
    let mut written = try_change(setup, &setup.settings, owner, &changes)?;
    for _ in 1..MAX_ATTEMPTS {
        if let WriteOutcome::Done(shown) = written {
            return Ok(shown);
        }
        let settings = MergedSettings::read(&setup.user_dirs, &setup.workspace)?;
        written = try_change(setup, &settings, owner, &changes)?;
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

/// Result of an attempt to write, with the path of the file for messages.
enum WriteOutcome {
    Done(String),
    /// The file has changed since the settings were read.
    Changed(String),
}

fn try_change(
    setup: &HostSetup,
    settings: &MergedSettings,
    owner: ConfigOwner,
    changes: impl FnOnce(&str) -> Result<Vec<ConfigEdit>, ToolError>,
) -> Result<WriteOutcome, ToolError> {
    let mut locations =
        ConfigLocation::all_locations(&setup.user_dirs, &setup.workspace).into_iter();
    let Some(location) = locations.find(|location| location.owner == owner) else {
        let message = "this platform has no folder for your own settings; set MIMIR_CONFIG_DIR";
        return Err(ToolError::unavailable(message));
    };
    if owner == ConfigOwner::Project {
        setup.workspace.check_no_links(&location.path)?;
    }
    let folder = location.path.parent().unwrap_or(&location.path);
    std::fs::create_dir_all(folder).map_err(|error| file_error("create", folder, &error))?;
    let lock_path = match owner {
        ConfigOwner::Project => setup.workspace.state_path("config")?,
        _ => location.path.clone(),
    };
    let lock = private_files::lock_for_change(&lock_path)
        .map_err(|error| file_error("lock", &lock_path, &error))?;
    let before = location.text()?;
    let read_before = settings.files.iter().find(|file| file.owner == owner);
    if before.as_deref().map(digest) != read_before.map(super::ConfigFile::digest) {
        return Ok(WriteOutcome::Changed(location.shown));
    }
    let before = before.unwrap_or_default();
    let after = apply_edits(&before, &changes(&before)?)?;
    if after == before {
        return Ok(WriteOutcome::Done(location.shown));
    }
    MergedSettings::check(&location, &after)?;
    let path = target_file(setup, &location)?;
    private_files::rewrite(&path, after.as_bytes())
        .map_err(|error| file_error("write", &path, &error))?;
    if owner == ConfigOwner::Project {
        accept(setup, settings, &location, &after)?;
    }
    drop(lock);
    Ok(WriteOutcome::Done(location.shown))
}

/// Returns the path to write, with links resolved. A workspace's file may come from a checkout, so a link must not lead
/// out of the workspace.
fn target_file(setup: &HostSetup, location: &ConfigLocation) -> Result<PathBuf, ToolError> {
    if !location.path.is_symlink() {
        return Ok(location.path.clone());
    }
    let ConfigLocation { path, shown, owner } = location;
    let real = path.canonicalize().map_err(|error| {
        ToolError::new(
            ToolErrorCode::FileNotFound,
            format!("{shown} is a broken link ({error}); create the target, or remove the link"),
        )
    })?;
    let root = setup.workspace.root();
    let is_inside = || root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if *owner == ConfigOwner::Project && !is_inside() {
        let real = visible(&real.display().to_string());
        return Err(ToolError::permission_denied(format!(
            "{shown} is a link to {real}, outside of the workspace; edit the target directly, or replace the link by a file; nothing was written"
        )));
    }
    Ok(real)
}

/// Accepts the new content of the workspace's file if the old content was accepted, because the user has just made the
/// change.
fn accept(
    setup: &HostSetup,
    settings: &MergedSettings,
    location: &ConfigLocation,
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
        AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(&location.shown);
    // Changes by others are recorded first, and this one is not recorded again by the next command.
    setup.record_changes();
    setup.record_event(&event.with_detail(&format!("changed with mimir, sha256 {digest}")));
    let mut seen = settings.digests();
    match seen.iter_mut().find(|(file, _)| *file == location.shown) {
        Some((_, known)) => *known = digest,
        None => seen.push((location.shown.clone(), digest)),
    }
    setup.audit_watermark.changed_files(&seen);
    Ok(())
}
