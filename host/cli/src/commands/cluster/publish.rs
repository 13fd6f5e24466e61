//! `mimir cluster publish`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::shared_state::{SharedStateHandle, StateRevision};
use mimir_core::text::visible;
use serde_json::json;

use crate::args::{ClusterPublishArgs, GlobalOptions};
use crate::exit::CommandResult;
use crate::output::{note, warn};
use crate::terminal;
use mimir::cluster::{self, workspace_name};
use mimir::deployments::{WorkspaceFiles, deployment_error};
use mimir::process_identity::publisher;
use mimir::setup::HostSetup;
use mimir::teams::{PublishableBundle, SyncContext, sync_and_compare};
use mimir_cluster::{
    ClusterConnection, ComponentStore, DeploymentManifest, Deployments, NatsState, TeamBundles,
};

use super::super::cluster_record::record_in_cluster;
use nodes::WorkspaceNodes;

mod nodes;

/// Maximum number of changed files that are named.
const NAMED_MAX: usize = 40;

/// The deployment of a workspace, compared with the published one.
struct WorkspacePublication {
    name: String,
    files: WorkspaceFiles,
    manifest: DeploymentManifest,
    replaced: Option<StateRevision>,
    changes: Vec<String>,
    /// The settings that the nodes ignore, because the user has not accepted the file.
    withheld: Vec<String>,
    /// Files of tools that the nodes cannot use, each with the problem.
    left_out: Vec<String>,
    nodes: WorkspaceNodes,
}

/// Publishes the settings, tools and skills of a workspace, and the bundles of the user's teams.
pub(super) async fn run(globals: &GlobalOptions, args: &ClusterPublishArgs) -> CommandResult {
    let options = args.cluster.require_connection()?;
    let folder = args.folder.as_deref().or(globals.workspace.as_deref());
    let found = fetch_bundles(folder).await?;
    let connection = cluster::connect(options).await?;
    let state: SharedStateHandle = Arc::new(NatsState::new(connection.clone()));
    let store = ComponentStore::new(connection.clone());
    let deployments = Deployments::new(Arc::clone(&state), store.clone());
    let bundles = TeamBundles::new(Arc::clone(&state), store);
    let mut teams = Vec::new();
    if args.teams && found.is_empty() {
        let message = "the bundle of a team cannot be published without a membership: `mimir team join` joins a team";
        return Err(ToolError::not_found(message).into());
    }
    for bundle in found {
        let Some(team) = bundle.compare(&bundles).await? else {
            continue;
        };
        // All keys of a cluster can read a bundle, so that a person confirms its first publication.
        if args.yes && !args.teams && team.is_first() {
            note(format_args!(
                "the bundle of the team {} is not in this cluster yet, and was not published; `mimir cluster publish --teams` publishes it",
                visible(team.org_id())
            ));
        } else {
            teams.push(team);
        }
    }
    let workspace = if args.teams {
        None
    } else {
        let setup = HostSetup::find(folder)?;
        let name = workspace_name(&setup.workspace, args.workspace_name.as_deref());
        Some(WorkspacePublication::compare(&setup, name, &deployments, &state).await?)
    };
    let changed_teams = teams.iter().filter(|team| !team.is_renewal);
    let of_workspace = workspace.iter().flat_map(|workspace| &workspace.changes);
    let changes: Vec<String> = of_workspace
        .chain(changed_teams.map(|team| &team.change))
        .cloned()
        .collect();
    let subject = workspace.as_ref().map_or_else(
        || "the members of your teams".to_owned(),
        |workspace| format!("the workspace {}", visible(&workspace.name)),
    );
    let withheld = workspace.as_ref().map(|workspace| &*workspace.withheld);
    let withheld = withheld.unwrap_or_default().to_vec();
    // Also with `--yes`: a setting that counted before is withdrawn from all nodes.
    warn_withheld(&withheld);
    let left_out = workspace
        .as_ref()
        .map_or_else(Vec::new, |workspace| workspace.left_out.clone());
    warn_left_out(&left_out);
    if !changes.is_empty() {
        show(&subject, &connection, &changes);
        if let Some(workspace) = workspace.as_ref().filter(|one| !one.changes.is_empty()) {
            workspace.nodes.describe(&workspace.name);
        }
        if !args.yes && !terminal::confirm(&format!("Publish this to all nodes of {subject}?"))? {
            let message =
                terminal::refusal("nothing was published", "use `mimir cluster publish --yes`");
            return Err(ToolError::approval_denied(message).into());
        }
    }
    let (mut published_teams, mut renewed) = (Vec::new(), Vec::new());
    // The rules of teams come first, because they restrict what the workspace publishes.
    for team in teams {
        let (org_id, version) = (team.org_id().to_owned(), team.version());
        let detail = format!("published by {}: {}", publisher(), team.change);
        let listed = match team.is_renewal {
            true => &mut renewed,
            false => &mut published_teams,
        };
        listed.push(json!({ "orgId": org_id, "version": version }));
        team.publish(&bundles).await?;
        record(&connection, &format!("team {org_id}"), &detail).await;
    }
    let mut result = json!({ "changed": !changes.is_empty() });
    if !withheld.is_empty() {
        result["withheld"] = withheld.into();
    }
    let mut line = "published bundles of teams".to_owned();
    if !left_out.is_empty() {
        result["leftOut"] = left_out.into();
    }
    if let Some(workspace) = workspace {
        let name = visible(&workspace.name);
        result["workspace"] = workspace.name.as_str().into();
        let is_changed = !workspace.changes.is_empty();
        let revision = workspace.publish(&deployments, &connection).await?;
        result["revision"] = revision.into();
        line = match is_changed {
            true => format!(
                "published deployment {} of the workspace {name}",
                shown(revision)
            ),
            false => format!("published bundles of teams; the workspace {name} has not changed"),
        };
    }
    if changes.is_empty() {
        let mut line = format!("nothing to publish: the content of {subject} is published already");
        if !renewed.is_empty() {
            result["renewed"] = renewed.into();
            line += "; the bundles of teams count as checked now";
        }
        return globals.printer().print_done(&result, line);
    }
    result["changes"] = changes.into();
    if !renewed.is_empty() {
        result["renewed"] = renewed.into();
    }
    if !published_teams.is_empty() {
        result["teams"] = published_teams.into();
    }
    line += "; `mimir cluster status` shows the nodes that use it";
    globals.printer().print_done(&result, line)
}

fn shown(revision: Option<StateRevision>) -> String {
    revision.map_or_else(String::new, |revision| revision.to_string())
}

/// Checks for newer bundles of the user's teams, and returns those in force. If a check fails, the stored bundle counts.
async fn fetch_bundles(folder: Option<&Path>) -> CommandResult<Vec<PublishableBundle>> {
    let setup = HostSetup::find_for_teams(folder)?;
    let context = SyncContext::new(&setup)?;
    for membership in context.memberships()? {
        if let Err(error) = sync_and_compare(&context, &membership).await {
            warn(&error.message);
        }
    }
    Ok(PublishableBundle::read_all(&setup)?)
}

impl WorkspacePublication {
    /// Compares the files of a workspace with its published deployment.
    async fn compare(
        setup: &HostSetup,
        name: String,
        deployments: &Deployments,
        state: &SharedStateHandle,
    ) -> Result<Self, ToolError> {
        let files = WorkspaceFiles::read(setup)?;
        let current = deployments.published(&name).await;
        let current = current.map_err(|error| deployment_error(&error))?;
        let manifest = files.manifest(&name);
        let previous = current.as_ref().map(|current| current.manifest.as_ref());
        let mut changes = changes(previous.and_then(Result::ok), &manifest);
        if let Some(Err(error)) = previous {
            changes.insert(0, format!("replaces the published entry: {error}"));
        }
        if current.is_none() && changes.is_empty() {
            changes.push("the first deployment".to_owned());
        }
        Ok(Self {
            replaced: current.map(|current| current.revision),
            withheld: setup.settings.withheld().to_vec(),
            left_out: left_out_files(setup).await,
            nodes: WorkspaceNodes::read(&**state, deployments, &name).await?,
            name,
            files,
            manifest,
            changes,
        })
    }

    /// Stores the files and publishes the deployment, unless nothing has changed. Returns the published revision.
    async fn publish(
        self,
        deployments: &Deployments,
        connection: &ClusterConnection,
    ) -> Result<Option<StateRevision>, ToolError> {
        if self.changes.is_empty() {
            return Ok(self.replaced);
        }
        for content in self.files.content() {
            let stored = deployments.store_file(content.to_vec()).await;
            stored.map_err(|error| deployment_error(&error))?;
        }
        let revision = deployments.publish(&self.manifest, self.replaced).await;
        let revision = revision.map_err(|error| deployment_error(&error))?;
        let detail = format!(
            "deployment {revision} published by {}: {}",
            self.manifest.published_by,
            self.changes.join("; ")
        );
        record(connection, &self.name, &detail).await;
        Ok(Some(revision))
    }
}

async fn record(connection: &ClusterConnection, subject: &str, detail: &str) {
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
    let event = event.with_subject(subject).with_detail(detail);
    record_in_cluster(connection, &event).await;
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

/// Returns the files of tools and workers that cannot be used, each with the problem, as `mimir tools list` shows them.
async fn left_out_files(setup: &HostSetup) -> Vec<String> {
    let registry = setup.known_registry().await.registry;
    let left_out = registry.quarantined().iter();
    // The rest is not published, such as tools of MCP servers.
    let left_out = left_out.filter(|left_out| left_out.location.starts_with(".mimir/"));
    let lines = left_out.map(|left_out| {
        let (location, reason) = (visible(&left_out.location), visible(&left_out.reason));
        format!("{location}: {reason}")
    });
    lines.collect()
}

/// Warns of tools that the nodes cannot use.
fn warn_left_out(left_out: &[String]) {
    for line in left_out.iter().take(NAMED_MAX) {
        warn(format_args!("the nodes cannot use this tool: {line}"));
    }
    if left_out.len() > NAMED_MAX {
        let more = left_out.len() - NAMED_MAX;
        warn(format_args!("the nodes cannot use {more} more tools"));
    }
}

/// Warns of settings that the nodes ignore.
fn warn_withheld(withheld: &[String]) {
    if withheld.is_empty() {
        return;
    }
    let named = withheld.iter().take(NAMED_MAX).map(|key| visible(key));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match withheld.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    warn(format_args!(
        "all nodes ignore these settings of .mimir/config.yml, because you have not accepted its current content: \
         {named}{more}; run `mimir policy accept` here, then publish again"
    ));
}

fn show(subject: &str, connection: &ClusterConnection, changes: &[String]) {
    note(format_args!(
        "changes of {subject} in the cluster {}:",
        connection.servers()
    ));
    for line in changes.iter().take(NAMED_MAX) {
        note(format_args!("  {}", visible(line)));
    }
    if changes.len() > NAMED_MAX {
        note(format_args!("  and {} more", changes.len() - NAMED_MAX));
    }
}
