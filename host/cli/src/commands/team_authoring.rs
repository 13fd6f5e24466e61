//! `mimir team` for administrators and authors: `init`, `add`, `remove`, `propose`, `approve`, `reject` and `publish`.

use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::grants::SourceRecord;
use mimir_core::text::visible;
use mimir_registry::OciReference;
use serde_json::json;

use crate::args::{GlobalOptions, TeamAuthoringCommand, TeamInitArgs};
use crate::exit::CommandResult;
use crate::output::dates::time_with_distance;
use crate::output::warn;
use mimir::registries::SignatureState;
use mimir::setup::HostSetup;
use mimir::signing_keys::UserKeys;
use mimir::team_authoring::{AuthoringFolder, LastPublication, ProposalSource, publish_command};

mod catalog;
mod propose;
mod publish;
mod review;

/// Runs a command.
pub async fn run(globals: &GlobalOptions, command: TeamAuthoringCommand) -> CommandResult {
    match command {
        TeamAuthoringCommand::Init(args) => init(globals, &args),
        TeamAuthoringCommand::Add(args) => catalog::add(globals, &args).await,
        TeamAuthoringCommand::Remove { tool, dir } => catalog::remove(globals, &tool, &dir),
        TeamAuthoringCommand::Propose(args) => propose::run(globals, &args).await,
        TeamAuthoringCommand::Approve(args) => review::approve(globals, &args).await,
        TeamAuthoringCommand::Reject(args) => review::reject(globals, &args).await,
        TeamAuthoringCommand::Publish(args) => publish::run(globals, &args).await,
    }
}

/// Writes the folder of a team.
fn init(globals: &GlobalOptions, args: &TeamInitArgs) -> CommandResult {
    let files = AuthoringFolder::create(&args.dir, &args.org, &args.name)?;
    let files: Vec<String> = files.iter().map(|file| shown(file)).collect();
    let dir = shown(&args.dir);
    let has_key = HostSetup::find(globals.workspace.as_deref())
        .is_ok_and(|setup| own_key_name(&setup).is_some());
    let next = if has_key {
        let folder = AuthoringFolder::open(&args.dir)?;
        format!("`{}` adds a tool", folder.command(&["add", "FILE"], ""))
    } else {
        format!("`mimir keys new {}` makes a key to sign with", args.org)
    };
    globals.printer().print_done(
        &json!({ "created": dir, "files": files }),
        format_args!(
            "wrote {dir}; put it under version control, and edit its team.yml and settings.yml\nNext: {next}; all steps: `mimir help team-admin`"
        ),
    )
}

/// Returns the name of the user's key for commands in messages: that of the only key that can sign, or the placeholder `KEY`.
fn own_key_name(setup: &HostSetup) -> Option<String> {
    let keys = UserKeys::new(&setup.user_dirs).and_then(|keys| keys.list());
    let mut keys = keys.ok()?.into_iter().filter(|key| key.can_sign);
    match (keys.next(), keys.next()) {
        (Some(only), None) => Some(only.name),
        _ => None,
    }
}

/// Opens the folder of a team. Messages name commands with the key `sign`, or with the user's only key.
fn open_folder(
    setup: &HostSetup,
    dir: &Path,
    sign: Option<&str>,
) -> Result<AuthoringFolder, ToolError> {
    let folder = AuthoringFolder::open(dir)?;
    let key = sign.map(str::to_owned).or_else(|| own_key_name(setup));
    Ok(match key {
        Some(key) => folder.with_key_name(&key),
        None => folder,
    })
}

/// Returns the command that publishes the folder to the target of the last time, in backticks. Before the first time, it
/// explains the placeholder.
fn next_publish(folder: &AuthoringFolder) -> String {
    let last = LastPublication::read(folder, Timestamp::now());
    let target = last.as_ref().map_or("TARGET", |last| &last.target);
    let command = publish_command(folder, target, &folder.sign_option());
    let explained = if last.is_some() {
        ""
    } else {
        ", where TARGET is a reference in a registry or a folder, such as ./shared"
    };
    format!("`{command}`{explained}")
}

/// Warns the administrator of a published bundle that expires soon, or has expired.
fn warn_expiry(folder: &AuthoringFolder) {
    let now = Timestamp::now();
    let Some(last) = LastPublication::read(folder, now) else {
        return;
    };
    let Some(expires_at) = last.expires_soon else {
        return;
    };
    warn(format_args!(
        "the published version {} is valid until {}; members cannot use the team's tools after that: publish again with `{}`",
        last.version,
        time_with_distance(expires_at, now),
        publish_command(folder, &last.target, &folder.sign_option())
    ));
}

/// Returns a path for messages.
fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}

/// Records a change of the catalog, or a decision about a tool, in the audit log of the workspace.
fn record(setup: &HostSetup, subject: &str, detail: &str) {
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(subject);
    setup.record_event(&event.with_detail(detail));
}

/// Returns the origin of a component in a registry; `None` for other sources, which a digest alone does not find again.
fn registry_source(
    record: &SourceRecord,
    signature: Option<SignatureState>,
) -> Result<Option<ProposalSource>, ToolError> {
    let Some(manifest) = &record.manifest else {
        return Ok(None);
    };
    let reference: OciReference = record.reference.parse()?;
    Ok(Some(ProposalSource {
        reference: reference.with_digest(manifest.parse()?).to_string(),
        signer: record.signer.clone(),
        provenance: record.provenance.clone(),
        signature,
    }))
}
