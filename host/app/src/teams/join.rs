//! Joining and leaving a team.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::text::visible;
use mimir_registry::signature::VerifyingKey;
use mimir_registry::team::{AcceptedBundle, TeamBundle};
use serde_json::json;

use super::bundle_source::{BundleSource, FetchedEnvelope};
use super::bundle_sync::{SyncContext, SyncOutcome, check, put_in_force};
use super::membership::TeamMembership;
use super::team_in_force::check_team_settings;
use super::team_store::TeamStore;
use crate::settings::{ConfigEdit, ConfigOwner, change_config};
use crate::setup::HostSetup;

/// A verified bundle that a user may join, for the card.
pub struct JoinPlan {
    /// The membership.
    pub membership: TeamMembership,
    /// The bundle.
    pub bundle: TeamBundle,
    /// Id of the key that signed it.
    pub signer_id: String,
    source: BundleSource,
    /// The envelope of the bundle, so that exactly what was shown is put in force.
    fetched: FetchedEnvelope,
}

/// Minimal settings of a membership that is not in a file yet.
fn new_membership(reference: String, keys: Vec<VerifyingKey>, org_id: &str) -> TeamMembership {
    let defaults = mimir_core::config::TeamSettings::default();
    TeamMembership {
        org_id: org_id.to_owned(),
        reference,
        keys,
        shared_tools: true,
        refresh: std::time::Duration::from_secs(u64::from(defaults.refresh_minutes()) * 60),
        max_age: jiff::SignedDuration::from_hours(i64::from(defaults.max_age_hours())),
        owner: ConfigOwner::User,
        shown: "your config file".to_owned(),
    }
}

/// Fetches and verifies the bundle at `reference`: a reference of a registry, or a folder. Changes nothing.
///
/// # Errors
/// The source is not available, or the bundle is not signed by one of the keys.
pub async fn plan_join(
    context: &SyncContext,
    reference: &str,
    keys: Vec<VerifyingKey>,
) -> Result<JoinPlan, ToolError> {
    let reference = absolute_reference(reference)?;
    let source = context.source(&reference)?;
    let fetched = source.fetch_envelope().await?;
    let org_id = verified_org_id(&fetched, &keys)?;
    let membership = new_membership(reference, keys, &org_id);
    let store = TeamStore::new(context.user_dirs(), &org_id)?;
    let accepted = check(&store, &membership, &fetched);
    let accepted = accepted.inspect_err(|error| {
        let detail = format!("joining was refused: {}", error.message);
        context.record(&org_id, &detail, Some(error.code));
    })?;
    check_team_settings(&accepted.bundle)?;
    Ok(JoinPlan {
        signer_id: accepted.signer.id(),
        bundle: accepted.bundle,
        membership,
        source,
        fetched,
    })
}

/// Returns the id in a bundle that one of the keys signed.
fn verified_org_id(fetched: &FetchedEnvelope, keys: &[VerifyingKey]) -> Result<String, ToolError> {
    AcceptedBundle::org_id(&fetched.bytes, keys).map_err(|error| {
        let remedy = "compare the key with the one that your team's administrator has published";
        ToolError::from(error).with_remedies([remedy.to_owned()])
    })
}

/// Returns the absolute path of a folder, or the reference of a registry as it is. What begins with `.` or is an
/// existing folder is a folder.
fn absolute_reference(reference: &str) -> Result<String, ToolError> {
    let path = Path::new(reference);
    let is_relative = [".", ".."].iter().any(|start| path.starts_with(start));
    if !(path.is_absolute() || is_relative || path.is_dir()) {
        return Ok(reference.to_owned());
    }
    let real: PathBuf = path
        .canonicalize()
        .map_err(|error| crate::file_error::file_error("open", path, &error))?;
    let text = real.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let shown = visible(&real.display().to_string());
        ToolError::invalid_input(format!("{shown} is not UTF-8: rename the folder"))
    })
}

impl JoinPlan {
    /// Puts exactly this bundle in force, and writes the membership to the user's config file.
    ///
    /// # Errors
    /// The bundle cannot be stored, or the file cannot be changed. Then the user is not a member.
    pub async fn join(
        &self,
        setup: &HostSetup,
        context: &SyncContext,
    ) -> Result<SyncOutcome, ToolError> {
        let outcome = self.put_in_force(context).await?;
        let keys: Vec<String> = self
            .membership
            .keys
            .iter()
            .map(VerifyingKey::to_pem)
            .collect();
        let edits = vec![
            ConfigEdit::set_key(&["teams", "enabled"], true),
            ConfigEdit::set_key(&["teams", "orgId"], self.membership.org_id.as_str()),
            ConfigEdit::set_key(&["teams", "reference"], self.membership.reference.as_str()),
            ConfigEdit::set_key(&["teams", "keys"], json!(keys)),
        ];
        change_config(setup, true, |_| Ok(edits))?;
        context.record(&self.membership.org_id, "joined by hand", None);
        Ok(outcome)
    }

    async fn put_in_force(&self, context: &SyncContext) -> Result<SyncOutcome, ToolError> {
        let result = put_in_force(context, &self.membership, &self.source, &self.fetched).await;
        if let Err(error) = &result {
            let org_id = &self.membership.org_id;
            let detail = format!("joining failed: {}", error.message);
            context.record(org_id, &detail, Some(error.code));
            TeamStore::new(context.user_dirs(), org_id)?.remove_incomplete();
        }
        result
    }
}

/// Leaves a team: removes the membership from the user's config file, and the stored bundle.
///
/// # Errors
/// An administrator requires the membership, or a file cannot be changed.
pub fn leave_team(
    setup: &HostSetup,
    context: &SyncContext,
    membership: &TeamMembership,
) -> Result<(), ToolError> {
    if membership.is_required() {
        let message = format!(
            "the team `{}` cannot be left: {} requires it for every user of this machine",
            membership.org_id, membership.shown
        );
        let remedy = "ask the administrator of this machine".to_owned();
        return Err(ToolError::permission_denied(message).with_remedies([remedy]));
    }
    change_config(setup, true, |_| Ok(vec![ConfigEdit::remove(&["teams"])]))?;
    TeamStore::new(context.user_dirs(), &membership.org_id)?.leave()?;
    context.record(&membership.org_id, "left by hand", None);
    Ok(())
}
