//! `mimir team` for administrators and authors: `init`, `add`, `remove`, `propose`, `approve`, `reject` and `publish`.

use std::path::Path;
use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::grants::SourceRecord;
use mimir_core::text::visible;
use mimir_registry::OciReference;
use serde_json::json;

use crate::args::{GlobalOptions, TeamAuthoringCommand, TeamInitArgs};
use crate::exit::CommandResult;
use mimir::setup::HostSetup;
use mimir::team_authoring::{AuthoringFolder, ProposalSource};

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
    globals.printer().print_done(
        &json!({ "created": dir, "files": files }),
        format_args!(
            "wrote {dir}; next, edit team.yml and settings.yml, add and approve tools, and publish (`mimir help team-admin`)"
        ),
    )
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
fn registry_source(record: &SourceRecord) -> Result<Option<ProposalSource>, ToolError> {
    let Some(manifest) = &record.manifest else {
        return Ok(None);
    };
    let reference: OciReference = record.reference.parse()?;
    Ok(Some(ProposalSource {
        reference: reference.with_digest(manifest.parse()?).to_string(),
        signer: record.signer.clone(),
        provenance: record.provenance.clone(),
    }))
}
