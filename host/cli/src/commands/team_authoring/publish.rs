//! `mimir team publish`.

use serde_json::json;

use super::record;
use crate::args::{GlobalOptions, TeamPublishArgs};
use crate::commands::keys::signing_key;
use crate::exit::{CommandResult, ExitReason};
use crate::output::note;
use mimir::registries::registry_client;
use mimir::setup::HostSetup;
use mimir::team_authoring::{AuthoringFolder, Publication, PublicationOptions, PublishTarget};

/// Builds, checks and signs the next bundle, and publishes it unless only the difference is wanted.
pub async fn run(globals: &GlobalOptions, args: &TeamPublishArgs) -> CommandResult {
    let folder = AuthoringFolder::open(&args.dir)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let target = PublishTarget::parse(&args.target)?;
    let key = signing_key(&setup, &args.sign)?;
    let client = registry_client(&setup)?;
    let options = PublicationOptions {
        version: args.bundle_version,
    };
    let publication =
        Publication::prepare(&setup, &client, &folder, target.clone(), &key, &options).await?;
    let bundle = &publication.bundle;
    if !args.dry_run {
        publication.publish(&client).await?;
        record(
            &setup,
            &format!("team {}", bundle.team.org_id),
            &format!(
                "published version {} to {target}, envelope {}",
                bundle.version, publication.envelope_digest
            ),
        );
    }
    if globals.json {
        globals.printer().print_json(&json!({
            "published": (!args.dry_run).then(|| target.to_string()),
            "target": target.to_string(),
            "version": bundle.version,
            "previousVersion": publication.published_version,
            "expiresAt": bundle.expires_at,
            "envelope": publication.envelope_digest,
            "key": key.verifying_key().id(),
            "tools": bundle.tools.len(),
            "reviewers": publication.reviewers,
            "changes": publication.difference,
        }))?;
        return Ok(ExitReason::Done);
    }
    if publication.difference.lines.is_empty() {
        note("no changes besides version and expiry");
    }
    for line in &publication.difference.lines {
        note(format_args!("  {line}"));
    }
    for (file, key) in &publication.reviewers {
        note(format_args!("  {file} was approved with the key {key}"));
    }
    let (version, expires_at) = (bundle.version, bundle.expires_at);
    if args.dry_run {
        let before = publication.published_version;
        let before = before.map_or_else(
            || "nothing".to_owned(),
            |version| format!("version {version}"),
        );
        note(format_args!(
            "would publish version {version} to {target}, which has {before} now"
        ));
    } else {
        note(format_args!(
            "published version {version} to {target}; it expires at {expires_at}"
        ));
    }
    Ok(ExitReason::Done)
}
