//! `mimir tools trust` and `mimir tools revoke`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::grants::{self, Grant, SourceRecord};
use mimir_core::text::visible;
use mimir_core::tool::ToolTrust;
use mimir_core::{Decision, Registry, Tool, ToolError, ToolSource};
use serde_json::json;

use crate::args::{ClusterScope, GlobalOptions, ToolsTrustArgs};
use crate::arguments::{command_line, quote_for_shell};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{ResultPrinter, grant, note};
use crate::terminal;
use mimir::approval_store::UserApprovalStore;
use mimir::setup::HostSetup;
use mimir::teams::TeamInForce;

use super::approvals::ClusterApprovals;
use super::tools_verify::{LOCAL_REFERENCE, file_digest};
use crate::tools::{is_file, team_at};

mod named_rights;
mod policy_file;
mod worker_tools;

pub(super) use named_rights::set_prefix;
pub(super) use policy_file::beside as policy_beside;

/// Maximum number of tools for which a line each explains that their calls still ask.
const MAX_NAMED_QUESTIONS: usize = 8;

/// Grants a plugin the rights that it needs, after the user has confirmed them.
pub async fn trust(globals: &GlobalOptions, mut args: ToolsTrustArgs) -> CommandResult {
    let printer = globals.printer();
    args.without.sort();
    args.without.dedup();
    let mut setup = HostSetup::find(globals.workspace.as_deref())?;
    if let Some((folder, location)) = outside_component(&setup, &args.name) {
        setup = setup.with_tools_from(&folder)?;
        args.name = location;
    }
    let approval_store = setup.require_approvals()?;
    let Some(prefix) = &args.prefix else {
        return grant_rights(&setup, &approval_store, printer, &args, &args.name).await;
    };
    // Without the prefix, all tools may be left out because of their names, so it is set before the lookup.
    let location = plugin_location(&setup.registry().await.into_registry(), &args.name)?;
    let previous = named_rights::set_prefix(&approval_store, &location, prefix)?;
    let granted = grant_rights(&setup, &approval_store, printer, &args, &location).await;
    if granted.is_err() {
        named_rights::set_prefix(&approval_store, &location, &previous)?;
    }
    granted
}

/// Returns the folder and the location of the component that a path names, if it is outside of `.mimir/tools`, such as in
/// an exported bundle. A name without a folder is that of a file in `.mimir/tools`.
fn outside_component(setup: &HostSetup, name: &str) -> Option<(PathBuf, String)> {
    let path = Path::new(name);
    let is_path = path.components().count() > 1 && path.extension()? == "wasm";
    // Messages name components in the workspace by their path from its root.
    let in_workspace = || setup.workspace.root().join(path).canonicalize();
    let real = path.canonicalize().or_else(|_| in_workspace());
    let real = real.ok().filter(|_| is_path)?;
    let folder = real.parent()?.to_owned();
    let tools = setup.workspace.tools().canonicalize();
    if !real.is_file() || tools.is_ok_and(|tools| tools == folder) {
        return None;
    }
    let shown = real.strip_prefix(setup.workspace.root()).unwrap_or(&real);
    let location = shown.to_string_lossy().replace('\\', "/");
    Some((folder, location))
}

/// Shows the rights of a plugin, and stores the grant if the user confirms it or has passed the digest.
async fn grant_rights(
    setup: &HostSetup,
    approval_store: &UserApprovalStore,
    printer: ResultPrinter,
    args: &ToolsTrustArgs,
    name: &str,
) -> CommandResult {
    // Before the question, so that it is not asked in vain.
    let cluster = ClusterApprovals::find(setup, &args.scope).await?;
    let registry = setup.registry().await.into_registry();
    let mut worker_decisions = None;
    let mut plugin = match find_plugin(&registry, name) {
        Ok(plugin) => plugin,
        Err(unknown) => match worker_tools::find_worker_tools(setup, name).await? {
            Some(found) => {
                worker_decisions = Some(found.decisions);
                found.tools
            }
            None => return Err(unknown),
        },
    };
    let Some(tool) = plugin.first() else {
        return Err(CommandFailure::usage("the plugin has no tools"));
    };
    if tool.source == ToolSource::BuiltIn {
        return Err(CommandFailure::usage(format!(
            "`{}` is built in and needs no grant; set `tools.{}.approval` in the config to change when it asks",
            tool.name(),
            tool.name()
        )));
    }
    let location = tool.origin.location.clone();
    if let Some(team) = team_at(setup, &location)
        && team.grants().plugins.contains_key(&location)
    {
        let fault = format!("nothing was granted for {}", visible(&location));
        return Err(team_grant_error(setup, team, &location, &fault).await);
    }
    let named = named_rights::named_rights(setup, approval_store, args, tool)?;
    if tool.trust == ToolTrust::Harmless && named.is_empty() {
        if args.prefix.is_some() {
            return print_renamed(printer, &location, &plugin);
        }
        if pin_local_file(setup, approval_store, tool)? {
            return printer.print_done(
                &json!({ "pinned": location }),
                format_args!(
                    "pinned this build of {}, which requests no rights",
                    visible(&location)
                ),
            );
        }
        let hint = if grants::takes_files(tool) {
            "; grant folders with `--read DIR` or `--write DIR`"
        } else {
            ""
        };
        return Err(CommandFailure::usage(format!(
            "`{}` requests no rights and needs no grant{hint}",
            tool.name()
        )));
    }
    if args.policy.is_none() && grants::is_foreign(tool) {
        note_policy(setup, &location);
    }
    for tool in plugin.iter_mut().filter(|tool| grants::is_foreign(tool)) {
        // The named rights become needs, so that they are shown and granted like declared ones.
        Arc::make_mut(tool).definition.needs = grants::retain_importable(tool, named.clone());
    }
    let Some(tool) = plugin.first() else {
        return Err(CommandFailure::usage("the plugin has no tools"));
    };
    setup.verify_description(tool).await?;
    match &args.digest {
        Some(digest) if *digest != tool.origin.digest => {
            return Err(refused_trust(format!(
                "digest mismatch: {} has {}; nothing was granted",
                tool.origin.location, tool.origin.digest
            )));
        }
        Some(_) => {}
        None => {
            grant::show(&plugin, &args.without);
            if let Some(decisions) = &worker_decisions {
                worker_tools::note_decisions(decisions);
            }
            if !terminal::confirm(&grant_question(&location))? {
                let without_terminal = if args.policy.is_some() {
                    "name the rights with `--host`, `--read`, `--write` and `--secret` instead of `--policy`, and the digest of the build".to_owned()
                } else {
                    let (command, digest) = (command_line(), &tool.origin.digest);
                    format!("name the digest of the build: `{command} --digest {digest}`")
                };
                let message = terminal::refusal("nothing was granted", &without_terminal);
                return Err(refused_trust(message));
            }
        }
    }
    let Some(grant) = Grant::new(&plugin, args.without.clone()) else {
        return Err(CommandFailure::usage("the plugin has no tools"));
    };
    let grant = grant.with_named(named);
    let shared = cluster.as_ref().map(|_| grant.clone());
    // The grant covers exactly the component that was shown, because it contains the digest of that component.
    approval_store.grant(&location, grant)?;
    pin_local_file(setup, approval_store, tool)?;
    let event = AuditEvent::new(EventKind::Grant, SystemTime::now()).with_subject(&location);
    let event = event.with_detail(&format!("sha256 {}", tool.origin.digest));
    setup.record_event(&event);
    if let Some(cluster) = &cluster {
        cluster.set_grant(&location, shared).await?;
        cluster.record(&event).await;
    }
    if printer.is_json() {
        printer.print_json(&json!({ "granted": location, "digest": tool.origin.digest }))?;
    } else {
        let lock = setup.workspace.display_path(approval_store.lock().path());
        note(format_args!("granted {location}, in {lock}"));
        if let Some(cluster) = &cluster {
            note(format_args!(
                "granted in the cluster, for the workspace {}",
                visible(&cluster.workspace)
            ));
        }
        match (&worker_decisions, &args.digest) {
            (None, _) => note_remaining_questions(setup, &plugin),
            (Some(decisions), Some(_)) => worker_tools::note_decisions(decisions),
            // They were shown before the question.
            (Some(_), None) => {}
        }
    }
    Ok(ExitReason::Done)
}

/// Pins the changed content of a file that was pinned without another source, because the user accepts it. Returns false
/// if there is nothing to pin.
pub fn pin_local_file(
    setup: &HostSetup,
    approval_store: &UserApprovalStore,
    tool: &Tool,
) -> CommandResult<bool> {
    let location = &tool.origin.location;
    let lock = approval_store.lock().read()?;
    let pinned = lock.sources.get(location);
    let Some(pinned) = pinned.filter(|source| source.reference == LOCAL_REFERENCE) else {
        return Ok(false);
    };
    let Some(digest) = file_digest(setup, location)? else {
        return Ok(false);
    };
    // A component that was replaced since it was loaded is not the one that the user has seen.
    let is_other = location.ends_with(".wasm") && digest != tool.origin.digest;
    if is_other || digest == pinned.layer_hex() {
        return Ok(false);
    }
    let source = SourceRecord::new(LOCAL_REFERENCE, &digest);
    approval_store
        .lock()
        .change(|lock| lock.sources.insert(location.clone(), source))?;
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
    let event = event.with_subject(&visible(location));
    setup.record_event(&event.with_detail(&format!("pinned, sha256 {digest}")));
    Ok(true)
}

/// Names the policy file beside a component of the workspace.
fn note_policy(setup: &HostSetup, location: &str) {
    if let Some(policy) = policy_beside(&setup.workspace.root().join(location)) {
        let policy = quote_for_shell(&setup.workspace.display_path(&policy));
        note(format_args!(
            "beside it is a policy file of another host: `--policy {policy}` requests what it lists"
        ));
    }
}

/// Returns the question about the rights that were shown.
fn grant_question(location: &str) -> String {
    let location = mimir_core::text::visible(location);
    format!(
        "{location} asks for the rights above. If you answer y, its tools have them until it changes; if you answer n, nothing is granted. Grant them?"
    )
}

/// Names the tools that need approval for each call despite the grant, and how to change that.
fn note_remaining_questions(setup: &HostSetup, plugin: &[Arc<Tool>]) {
    let path = |name: &str| ["tools", name, "approval"].map(str::to_owned);
    let is_set = |tool: &Tool| {
        let layers = setup.settings.layer_values(&path(tool.name().as_str()));
        layers.iter().any(|layer| !layer.withheld)
    };
    let still_asking = plugin
        .iter()
        .filter(|tool| tool.source != ToolSource::Mcp && tool.definition.approval == Decision::Ask);
    // The author of a setting has chosen already.
    let still_asking: Vec<_> = still_asking.filter(|tool| !is_set(tool)).collect();
    if let [first, _, ..] = still_asking[..]
        && still_asking.len() > MAX_NAMED_QUESTIONS
    {
        let count = still_asking.len();
        let name = first.name();
        note(format_args!(
            "Each call of these {count} tools still asks you. To allow the calls of one of them, use `mimir config set tools.{name}.approval allow`."
        ));
        return;
    }
    for tool in still_asking {
        let name = tool.name();
        note(format_args!(
            "Each call of `{name}` still asks you, because its author has not declared that it may run without a question. To allow that, use `mimir config set tools.{name}.approval allow`."
        ));
    }
}

/// Prints the new names of a plugin's tools. The plugin needs no rights, so nothing is granted.
fn print_renamed(printer: ResultPrinter, location: &str, plugin: &[Arc<Tool>]) -> CommandResult {
    let names: Vec<&str> = plugin.iter().map(|tool| tool.name().as_str()).collect();
    printer.print_done(
        &json!({ "named": location, "tools": names }),
        format_args!("{location}: {}", names.join(", ")),
    )
}

/// Returns the location of the named plugin, even if all of its tools are left out.
fn plugin_location(registry: &Registry, name: &str) -> CommandResult<String> {
    let mut left_out = registry.quarantined().iter();
    let skipped = left_out.find_map(|left_out| {
        let location = left_out.location.split(" (").next()?;
        is_file(location, name).then(|| location.to_owned())
    });
    match (find_plugin(registry, name), skipped) {
        (Ok(tools), _) if !tools.is_empty() => Ok(tools[0].origin.location.clone()),
        (_, Some(location)) => Ok(location),
        (other, None) => other.and(Err(CommandFailure::usage("the plugin has no tools"))),
    }
}

/// Revokes the grant of a plugin: of this user in this workspace, and in the cluster that `scope` names.
pub async fn revoke(globals: &GlobalOptions, name: &str, scope: &ClusterScope) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let cluster = ClusterApprovals::find(&setup, scope).await?;
    let approval_store = setup.require_approvals()?;
    let location = match find_location(&setup, &approval_store, name).await {
        Ok(location) => location,
        Err(unknown) => match &cluster {
            Some(cluster) => cluster.find_grant(name).await?.ok_or(unknown)?,
            None => return Err(unknown),
        },
    };
    let event = AuditEvent::new(EventKind::Revoke, SystemTime::now()).with_subject(&location);
    if let Some(cluster) = &cluster {
        cluster.set_grant(&location, None).await?;
        cluster.record(&event).await;
    }
    let revoked = approval_store.revoke(&location);
    if !matches!(revoked, Ok(false)) {
        setup.record_event(&event);
    }
    if !revoked? && cluster.is_none() {
        if let Some(team) = team_at(&setup, &location) {
            let fault = format!("{} has no grant of yours", visible(&location));
            return Err(team_grant_error(&setup, team, &location, &fault).await);
        }
        let error = ToolError::not_found(format!("{location} has no grant"));
        return Err(error.into());
    }
    let remaining = team_tools_named(&setup, name, &location).await;
    let mut revoked = json!({ "revoked": location });
    if !remaining.is_empty() {
        revoked["teamTools"] = remaining.iter().map(|(tool, _)| tool.as_str()).collect();
    }
    let place = match &cluster {
        Some(cluster) => format!(
            " here and in the cluster, for the workspace {}",
            visible(&cluster.workspace)
        ),
        None => String::new(),
    };
    let line = format!("revoked the grant of {location}{place}");
    let exit = printer.print_done(&revoked, line)?;
    if !printer.is_json() {
        for (tool, team) in &remaining {
            note(format_args!(
                "`{tool}` of {team} still runs, with the rights that the team grants in its signed bundle (mimir help teams)"
            ));
        }
    }
    Ok(exit)
}

/// Returns the names of teams' tools that a name or a file of the workspace also refers to, each with its team.
async fn team_tools_named(setup: &HostSetup, name: &str, location: &str) -> Vec<(String, String)> {
    if setup.settings.teams.is_empty() {
        return Vec::new();
    }
    let file = location.rsplit('/').next().unwrap_or(location);
    let registry = setup.registry().await.into_registry();
    let tools = registry.tools().iter().filter_map(|tool| {
        let team = team_at(setup, &tool.origin.location)?;
        let is_named = tool.answers_to(name) || is_file(&tool.origin.location, file);
        is_named.then(|| (tool.name().to_string(), visible(&team.shown())))
    });
    tools.collect()
}

/// Creates the error about a grant that the bundle of a team contains, with the ways to refuse it.
async fn team_grant_error(
    setup: &HostSetup,
    team: &TeamInForce,
    location: &str,
    fault: &str,
) -> CommandFailure {
    let registry = setup.registry().await.into_registry();
    let mut tools = registry.tools().iter();
    let tool = tools.find(|tool| tool.origin.location == location);
    let (team_name, org_id) = (visible(&team.bundle.team.name), &team.membership.org_id);
    let message =
        format!("{fault}: the team {team_name} ({org_id}) grants its rights in its signed bundle");
    let mut remedies = Vec::new();
    if let Some(tool) = tool {
        let name = tool.name();
        remedies.push(format!(
            "to be asked before each call: `mimir config set tools.{name}.approval ask`"
        ));
        if !tool.enforced {
            remedies.push(format!(
                "or, to refuse the tool: `mimir tools disable {name}`"
            ));
        }
    }
    if team.membership.is_required() {
        remedies.push("or ask the administrator of the team".to_owned());
    } else {
        remedies.push(format!("or leave the team: `mimir team leave {org_id}`"));
    }
    let error = ToolError::not_found(message);
    error.with_remedies(remedies).into()
}

/// Returns the location of the plugin whose grant or source is named. Both may exist although the file was removed, and the
/// grant although the lock file is missing or not valid.
pub(super) async fn find_location(
    setup: &HostSetup,
    approval_store: &UserApprovalStore,
    name: &str,
) -> CommandResult<String> {
    let approvals = approval_store.read()?;
    let lock = approval_store.lock().read().unwrap_or_default();
    let granted = lock.plugins.keys().chain(approvals.grants.keys());
    let mut known = granted.chain(lock.sources.keys());
    if let Some(location) = known.find(|location| is_file(location, name)) {
        return Ok(location.clone());
    }
    let registry = setup.registry().await.into_registry();
    let plugin = find_plugin(&registry, name)?;
    let location = plugin.first().map(|tool| tool.origin.location.clone());
    Ok(location.unwrap_or_default())
}

/// Returns all tools of a plugin. `name` is the name or an alias of one of its tools, or its file name.
pub fn find_plugin(registry: &Registry, name: &str) -> CommandResult<Vec<Arc<Tool>>> {
    let tools = registry.tools().iter().chain(registry.displaced());
    let mut tools_of_file = tools.filter(|tool| is_file(&tool.origin.location, name));
    let tool = match (registry.get(name), tools_of_file.next()) {
        (Some(tool), _) | (None, Some(tool)) => tool,
        (None, None) => registry
            .find(name)
            .map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?,
    };
    Ok(registry.plugin(tool))
}

fn refused_trust(message: String) -> CommandFailure {
    ToolError::approval_denied(message).into()
}
