//! `mimir team publish`.

use jiff::Timestamp;
use mimir_core::config::KeySource;
use mimir_core::text::visible;
use mimir_registry::team::TeamBundle;
use serde_json::{Value, json};

use super::{open_folder, record};
use crate::args::{GlobalOptions, TeamPublishArgs};
use crate::arguments::quote_for_shell;
use crate::commands::keys::signing_key;
use crate::exit::{CommandResult, ExitReason};
use crate::output::dates::time_with_distance;
use crate::output::{note, warn};
use mimir::registries::registry_client;
use mimir::setup::HostSetup;
use mimir::team_authoring::{
    AuthoringFolder, Publication, PublicationOptions, PublishTarget, publish_command,
};

/// Maximum number of files of a folder that are named.
const MAX_NAMED: usize = 20;

/// Builds, checks and signs the next bundle, and publishes it unless only the difference is wanted.
pub async fn run(globals: &GlobalOptions, args: &TeamPublishArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let folder = open_folder(&setup, &args.dir, Some(&args.sign))?;
    let target = PublishTarget::parse(&args.target)?;
    let key = signing_key(&setup, &args.sign)?;
    let client = registry_client(&setup)?;
    let options = PublicationOptions {
        version: args.bundle_version,
    };
    let publication =
        Publication::prepare(&setup, &client, &folder, target.clone(), &key, &options).await?;
    let bundle = &publication.bundle;
    let key_id = key.verifying_key().id();
    if !args.dry_run {
        publication.publish(&client).await?;
        record(
            &setup,
            &format!("team {}", bundle.team.org_id),
            &format!(
                "published version {} to {target}, envelope {}, signed with the key {}",
                bundle.version,
                publication.envelope_digest,
                publication.key_names.describe(&key_id)
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
            "key": key_id,
            "tools": bundle.tools.len(),
            "reviewers": publication.reviewers,
            "changes": publication.difference,
            "contains": contents(bundle),
            "leftOut": publication.left_out,
        }))?;
        return Ok(ExitReason::Done);
    }
    print_publication(args, &folder, &publication, &target, &key_id);
    Ok(ExitReason::Done)
}

/// Returns the names of all that a bundle contains.
fn contents(bundle: &TeamBundle) -> Value {
    let named = contents_by_kind(bundle).into_iter();
    let named = named.map(|(kind, names)| (kind.to_owned(), names.into()));
    Value::Object(named.collect())
}

fn contents_by_kind(bundle: &TeamBundle) -> [(&'static str, Vec<&str>); 4] {
    let tools = bundle.tools.iter().map(|tool| tool.file.as_str());
    let [workers, prompts, skills] = [&bundle.workers, &bundle.prompts, &bundle.skills]
        .map(|files| files.iter().map(|file| file.path.as_str()).collect());
    [
        ("tools", tools.collect()),
        ("workers", workers),
        ("prompts", prompts),
        ("skills", skills),
    ]
}

fn print_publication(
    args: &TeamPublishArgs,
    folder: &AuthoringFolder,
    publication: &Publication,
    target: &PublishTarget,
    key_id: &str,
) {
    let bundle = &publication.bundle;
    if publication.difference.lines.is_empty() {
        note("no changes besides version and expiry");
    }
    for line in &publication.difference.lines {
        note(format_args!("  {line}"));
    }
    for (file, key) in &publication.reviewers {
        let key = publication.key_names.describe(key);
        note(format_args!("  {file} was approved with the key {key}"));
    }
    note("the bundle contains:");
    for (kind, names) in contents_by_kind(bundle) {
        let more = names.len().saturating_sub(MAX_NAMED);
        let shown = names[..names.len() - more].join(", ");
        let shown = match (names.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => shown,
            (false, more) => format!("{shown}, and {more} more"),
        };
        note(format_args!("  {kind}: {shown}"));
    }
    if !publication.left_out.is_empty() {
        let left_out = publication.left_out.join(", ");
        note(format_args!(
            "left out, hidden files and backups: {left_out}"
        ));
    }
    let now = Timestamp::now();
    let version = bundle.version;
    let valid_until = time_with_distance(bundle.expires_at, now);
    if args.dry_run {
        let before = publication.published_version;
        let before = before.map_or_else(
            || "nothing".to_owned(),
            |version| format!("version {version}"),
        );
        note(format_args!(
            "would publish version {version} to {target}, which has {before} now; it would be valid until {valid_until}"
        ));
        let mut options = folder.sign_option();
        if let Some(version) = args.bundle_version {
            options.push_str(&format!(" --bundle-version {version}"));
        }
        note(format_args!(
            "Next: `{}` publishes it.",
            publish_command(folder, &args.target, &options)
        ));
    } else {
        note(format_args!(
            "published version {version} to {target}, signed with the key {}; it is valid until {valid_until}",
            publication.key_names.describe(key_id)
        ));
        if publication.published_version.is_none() {
            note_first(args, target);
        }
    }
    if let Some(warning) = revocation_warning(publication) {
        warn(warning);
    }
    if bundle.expires_soon(now) {
        warn(format_args!(
            "members are warned from the start, because the bundle expires within 7 days: `expiresInDays` in team.yml is {}",
            publication.expires_in_days
        ));
    }
}

/// Returns the warning about keys that this bundle is the first to revoke: a member who has not fetched the bundle that
/// announced the new key cannot verify this one.
fn revocation_warning(publication: &Publication) -> Option<String> {
    let before = publication.published_version?;
    let names = &publication.key_names;
    let revoked = publication.newly_revoked.iter();
    let revoked: Vec<String> = revoked.map(|id| names.describe(id)).collect();
    if revoked.is_empty() {
        return None;
    }
    Some(format!(
        "this bundle revokes {}: members who have not fetched version {before} before need the public key that signs it, and join again: `mimir team join {} --key FILE`",
        revoked.join(", "),
        quote_for_shell(&publication.target().to_string())
    ))
}

/// Says how members join, after the first bundle.
fn note_first(args: &TeamPublishArgs, target: &PublishTarget) {
    let target = quote_for_shell(&target.to_string());
    if KeySource::classify(&args.sign) == KeySource::Name {
        let key = quote_for_shell(&visible(&args.sign));
        note(format_args!(
            "Next: `mimir keys show {key} > {key}.pub` writes the public key for members, who join with `mimir team join {target} --key {key}.pub`"
        ));
    } else {
        note(format_args!(
            "Next: members join with your public key: `mimir team join {target} --key FILE`"
        ));
    }
}
