//! `mimir cluster publish`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::shared_state::SharedStateHandle;
use mimir_core::text::visible;
use serde_json::json;

use crate::args::{ClusterPublishArgs, GlobalOptions};
use crate::exit::CommandResult;
use crate::output::note;
use crate::terminal;
use mimir::cluster::{self, workspace_name};
use mimir::deployments::{WorkspaceFiles, deployment_error};
use mimir::setup::HostSetup;
use mimir_cluster::{ComponentStore, DeploymentManifest, Deployments, NatsState};

use super::super::cluster_record::record_in_cluster;

/// Maximum number of changed files that are named.
const NAMED_MAX: usize = 40;

/// Publishes the settings and tools of a workspace.
pub(super) async fn run(globals: &GlobalOptions, args: &ClusterPublishArgs) -> CommandResult {
    let options = args.cluster.require_connection()?;
    let folder = args.folder.as_deref().or(globals.workspace.as_deref());
    let setup = HostSetup::find(folder)?;
    let name = workspace_name(&setup.workspace, args.workspace_name.as_deref());
    let files = WorkspaceFiles::read(&setup)?;
    let connection = cluster::connect(options).await?;
    let state: SharedStateHandle = Arc::new(NatsState::new(connection.clone()));
    let deployments = Deployments::new(state, ComponentStore::new(connection.clone()));
    let current = deployments
        .published(&name)
        .await
        .map_err(|error| deployment_error(&error))?;
    let manifest = files.manifest(&name);
    let previous = current.as_ref().map(|current| current.manifest.as_ref());
    let mut changes = changes(previous.and_then(Result::ok), &manifest);
    if let Some(Err(error)) = previous {
        changes.insert(0, format!("replaces the published entry: {error}"));
    }
    let printer = globals.printer();
    if let Some(current) = current.as_ref().filter(|_| changes.is_empty()) {
        return printer.print_done(
            &json!({ "workspace": name, "revision": current.revision, "changed": false }),
            format_args!(
                "revision {} of {} has this content already",
                current.revision,
                visible(&name)
            ),
        );
    }
    if !args.yes {
        show(&name, &connection, &changes);
        if !terminal::confirm(&format!(
            "Publish this to all nodes of the workspace {}?",
            visible(&name)
        ))? {
            let message =
                terminal::refusal("nothing was published", "use `mimir cluster publish --yes`");
            return Err(ToolError::approval_denied(message).into());
        }
    }
    for content in files.content() {
        let stored = deployments.store_file(content.to_vec()).await;
        stored.map_err(|error| deployment_error(&error))?;
    }
    let replaced = current.as_ref().map(|current| current.revision);
    let revision = deployments.publish(&manifest, replaced).await;
    let revision = revision.map_err(|error| deployment_error(&error))?;
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now())
        .with_subject(&name)
        .with_detail(&format!(
            "deployment {revision} published by {}: {}",
            manifest.published_by,
            changes.join("; ")
        ));
    record_in_cluster(&connection, &event).await;
    printer.print_done(
        &json!({ "workspace": name, "revision": revision, "changed": true, "changes": changes }),
        format_args!(
            "published revision {revision} of the workspace {}; `mimir cluster status` shows the nodes that use it",
            visible(&name)
        ),
    )
}

/// Returns a line for each difference.
fn changes(old: Option<&DeploymentManifest>, new: &DeploymentManifest) -> Vec<String> {
    let mut lines = Vec::new();
    let by_path = |manifest: &DeploymentManifest| -> BTreeMap<String, String> {
        let files = manifest.files.iter();
        files
            .map(|file| (file.path.clone(), file.sha256.clone()))
            .collect()
    };
    let before = old.map(by_path).unwrap_or_default();
    let after = by_path(new);
    for (path, digest) in &after {
        match before.get(path) {
            None => lines.push(format!("new: {path}")),
            Some(found) if found != digest => lines.push(format!("changed: {path}")),
            Some(_) => {}
        }
    }
    let removed = before.keys().filter(|path| !after.contains_key(*path));
    lines.extend(removed.map(|path| format!("removed: {path}")));
    let granted = old.map(|old| old.grants.clone()).unwrap_or_default();
    for (location, id) in &new.grants {
        if granted.get(location) != Some(id) {
            lines.push(format!("granted: {location}"));
        }
    }
    let revoked = granted
        .keys()
        .filter(|location| !new.grants.contains_key(*location));
    lines.extend(revoked.map(|location| format!("no longer granted: {location}")));
    let accepted = |manifest: &DeploymentManifest| {
        (
            manifest.accepted_settings.clone(),
            manifest.accepted_workers.clone(),
        )
    };
    if old.map(accepted).unwrap_or_default() != accepted(new) {
        lines.push("accepted settings and workers".to_owned());
    }
    lines
}

fn show(name: &str, connection: &mimir_cluster::ClusterConnection, changes: &[String]) {
    note(format_args!(
        "changes of the workspace {} in the cluster {}:",
        visible(name),
        connection.servers()
    ));
    for line in changes.iter().take(NAMED_MAX) {
        note(format_args!("  {}", visible(line)));
    }
    if changes.len() > NAMED_MAX {
        note(format_args!("  and {} more", changes.len() - NAMED_MAX));
    }
}
