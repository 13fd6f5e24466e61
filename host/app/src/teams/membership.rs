//! The memberships that the settings define.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use jiff::SignedDuration;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::OciReference;
use mimir_registry::signature::{MAX_KEY_FILE, VerifyingKey};
use mimir_registry::team::check_org_id;

use super::team_store::TeamStore;
use crate::interface::warn;
use crate::settings::{
    ConfigFile, ConfigLocation, ConfigOwner, MergedSettings, check_not_writable_by_others,
};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// A membership in a team: where its bundle is, and who signs it.
#[derive(Debug, Clone)]
pub struct TeamMembership {
    /// The id of the team.
    pub org_id: String,
    /// The reference of a registry, or the absolute path of a folder.
    pub reference: String,
    /// The keys that may sign the bundle.
    pub keys: Vec<VerifyingKey>,
    /// True if the team's tools are loaded.
    pub shared_tools: bool,
    /// Interval of the checks for a newer bundle.
    pub refresh: Duration,
    /// Time after the last successful check until calls of the team's tools are refused.
    pub max_age: SignedDuration,
    /// The owner of the file that defines the membership.
    pub owner: ConfigOwner,
    /// The file that defines the membership, for messages.
    pub shown: String,
}

/// Returns the memberships that the files define. The machine's file takes precedence over the file that a variable
/// names, and both over the user's file: memberships of a lower file are ignored with a warning, because their tools and
/// rules would weaken those of the team that an administrator requires.
///
/// # Errors
/// A project or an environment variable sets `teams`, or a block is not complete.
pub fn memberships(files: &[ConfigFile]) -> Result<Vec<TeamMembership>, ToolError> {
    let (memberships, ignored) = all_memberships(files)?;
    if let (Some(first), Some(ignored)) = (memberships.first(), ignored.first()) {
        warn_ignored(first, ignored);
    }
    Ok(memberships)
}

/// Returns the memberships that count, as [`memberships`] does, and those that are ignored because of them.
///
/// # Errors
/// Those of [`memberships`].
pub fn all_memberships(
    files: &[ConfigFile],
) -> Result<(Vec<TeamMembership>, Vec<TeamMembership>), ToolError> {
    let mut memberships: Vec<TeamMembership> = Vec::new();
    let mut ignored = Vec::new();
    for file in files {
        if !file.sets("teams") {
            continue;
        }
        if matches!(
            file.owner,
            ConfigOwner::Project | ConfigOwner::Environment | ConfigOwner::JoinedTeam
        ) {
            let message = format!(
                "{}: `teams` can only be set in your own config file or an administrator's",
                file.shown
            );
            let remedy = "remove the block there; `mimir team join` joins a team".to_owned();
            return Err(ToolError::invalid_input(message).with_remedies([remedy]));
        }
        let Some(membership) = TeamMembership::from_file(file)? else {
            continue;
        };
        let mut known = memberships.iter();
        if known.any(|known| known.org_id == membership.org_id) {
            continue;
        }
        match memberships.first() {
            Some(first) if first.owner != membership.owner => ignored.push(membership),
            _ => memberships.push(membership),
        }
    }
    Ok((memberships, ignored))
}

/// Warns once per process about a membership that does not count.
fn warn_ignored(required: &TeamMembership, ignored: &TeamMembership) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        warn(format_args!(
            "{}: the membership in the team `{}` is ignored, because {} requires the team `{}`",
            ignored.shown, ignored.org_id, required.shown, required.org_id
        ));
    });
}

/// Returns all locations of config files, those of teams first and in the order in which they count, with the stored bundles
/// among them. Leaves the bundles out if a config file is not valid.
pub fn locations_with_bundles(
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
) -> Vec<ConfigLocation> {
    let mut locations = ConfigLocation::all_locations(user_dirs, workspace);
    let settings = MergedSettings::read_without_teams(user_dirs, workspace);
    let memberships = settings.and_then(|settings| memberships(&settings.files));
    for membership in memberships.unwrap_or_default() {
        let Ok(store) = TeamStore::new(user_dirs, &membership.org_id) else {
            continue;
        };
        let is_above =
            |location: &&ConfigLocation| location.owner.is_above_bundle(membership.owner);
        let at = locations.iter().take_while(is_above).count();
        let bundle = ConfigLocation {
            path: store.record_path(),
            shown: format!("team {}", membership.org_id),
            owner: ConfigOwner::JoinedTeam,
        };
        locations.insert(at, bundle);
    }
    locations
}

impl TeamMembership {
    fn from_file(file: &ConfigFile) -> Result<Option<Self>, ToolError> {
        let settings = &file.config.teams;
        if !settings.enabled {
            return Ok(None);
        }
        let fault = |key: &str, why: String| {
            let place = file.place_of(&format!("teams.{key}"));
            ToolError::invalid_input(format!("{place}: teams.{key}: {why}"))
        };
        let missing = |key: &str| {
            let why = "is missing; `mimir team join REF --key KEY` writes the whole block";
            fault(key, why.to_owned())
        };
        let org_id = settings.org_id.clone().ok_or_else(|| missing("orgId"))?;
        check_org_id(&org_id).map_err(|error| fault("orgId", error.to_string()))?;
        let reference = settings.reference.clone();
        let reference = reference.ok_or_else(|| missing("reference"))?;
        check_reference(&reference).map_err(|error| fault("reference", error))?;
        if settings.keys.is_empty() {
            return Err(missing("keys"));
        }
        let keys = settings.keys.iter().enumerate().map(|(at, key)| {
            check_key_file(key, file.owner)
                .and_then(|()| read_team_key(key))
                .map_err(|error| ToolError {
                    message: format!("{}: teams.keys[{at}]: {}", file.shown, error.message),
                    ..error
                })
        });
        Ok(Some(Self {
            keys: keys.collect::<Result<_, _>>()?,
            shared_tools: settings.features.shared_tools,
            refresh: Duration::from_secs(u64::from(settings.refresh_minutes()) * 60),
            max_age: SignedDuration::from_hours(i64::from(settings.max_age_hours())),
            owner: file.owner,
            shown: file.shown.clone(),
            org_id,
            reference,
        }))
    }

    /// Returns true if an administrator requires the membership, so that the user cannot leave.
    pub fn is_required(&self) -> bool {
        self.owner.is_team()
    }
}

/// Checks that a reference is an absolute path or a reference of a registry.
fn check_reference(reference: &str) -> Result<(), String> {
    if Path::new(reference).is_absolute() {
        return Ok(());
    }
    let parsed = reference.parse::<OciReference>();
    parsed.map(drop).map_err(|error| error.to_string())
}

/// Refuses a key file of the machine's file that other users can write, like the machine's file itself.
fn check_key_file(key: &str, owner: ConfigOwner) -> Result<(), ToolError> {
    let path = Path::new(key);
    if owner != ConfigOwner::Machine || key.contains("-----BEGIN") || !path.is_absolute() {
        return Ok(());
    }
    let file = files::open(path, LinkPolicy::Follow);
    // A file that cannot be opened is reported when it is read.
    let Ok(file) = file else { return Ok(()) };
    check_not_writable_by_others("the key of the team", path, &file)
        .map_err(|error| ToolError::permission_denied(error.to_string()))
}

/// Reads a public key: a PEM text, or the absolute path of a PEM file.
///
/// # Errors
/// The file cannot be read, or it is not a supported public key.
pub fn read_team_key(key: &str) -> Result<VerifyingKey, ToolError> {
    if key.contains("-----BEGIN") {
        return Ok(VerifyingKey::from_pem(key.as_bytes())?);
    }
    let path = PathBuf::from(key);
    let shown = visible(key);
    if !path.is_absolute() {
        let message = format!("`{shown}` is neither a public key in PEM nor an absolute path");
        return Err(ToolError::invalid_input(message));
    }
    let text = files::read(&path, LinkPolicy::Follow, MAX_KEY_FILE as u64).map_err(|error| {
        ToolError::new(
            ToolErrorCode::FileNotFound,
            format!("the key {shown} cannot be read: {error}"),
        )
    })?;
    if text.trim_ascii().is_empty() {
        let message = format!("the key file {shown} is empty: expected a public key in PEM");
        return Err(ToolError::invalid_input(message));
    }
    VerifyingKey::from_pem(&text).map_err(|error| {
        let error = ToolError::from(error);
        let message = format!("the key file {shown} cannot be used: {}", error.message);
        ToolError { message, ..error }
    })
}

#[cfg(test)]
mod tests;
