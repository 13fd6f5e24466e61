//! The tools of the workspace: list, details, switch and trust.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mimir_core::audit::EventKind;
use mimir_core::grants::{Grant, is_foreign};
use mimir_core::text::visible;
use mimir_core::tool::{ToolSource, ToolTrust};
use mimir_core::{AuditEvent, Decision, Needs, Policy, Tool, ToolError};
use mimir_wasm::family::proofs;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::args::DefinitionFormat;
use crate::commands::tools_trust::{find_plugin, pin_local_file};
use crate::exit::CommandFailure;
use crate::output::info;
use crate::tools::{TokenCosts, ToolDetails, ToolList, disable, enable, is_named, left_out_error};

use super::recorded_calls::{days_ago, visit_calls};
use super::tool_source::source_text;
use super::workspace::LoadedWorkspace;

/// Period over which calls are counted, in days.
const USAGE_DAYS: u32 = 30;

/// Calls of a tool in the last days.
#[derive(Default)]
pub struct RecentUse {
    last: Option<Timestamp>,
    calls: u64,
}

/// The calls of all tools in the last days. Reading a long log takes longer than everything else in the list.
#[derive(Default)]
pub struct UsageCache(Mutex<Option<(Instant, Arc<ToolUses>)>>);

/// The calls of all tools in the last days, by the name of the tool.
pub type ToolUses = HashMap<String, RecentUse>;

/// Time for which the counted calls are used.
const USAGE_AGE: Duration = Duration::from_secs(30);

impl UsageCache {
    /// Returns the calls of all tools. Reads the log unless it was read just now.
    pub fn get(&self, workspace: &LoadedWorkspace) -> Result<Arc<ToolUses>, ToolError> {
        let mut cached = self.0.lock();
        if let Some((at, uses)) = &*cached
            && at.elapsed() < USAGE_AGE
        {
            return Ok(Arc::clone(uses));
        }
        // Under the lock, so that several pages read the log once.
        let uses = Arc::new(recent_uses(workspace)?);
        *cached = Some((Instant::now(), Arc::clone(&uses)));
        Ok(uses)
    }
}

/// Converts the error of a command.
pub fn command_error(failure: CommandFailure) -> ToolError {
    match failure {
        CommandFailure::Reported { error, .. } => error,
        CommandFailure::Print(error) => ToolError::execution(error),
    }
}

/// Returns all tools.
pub fn list(workspace: &LoadedWorkspace, usage: &UsageCache) -> Result<Value, ToolError> {
    let (setup, snapshot) = (&workspace.setup, workspace.snapshot());
    let mut costs = TokenCosts::open(&setup.user_dirs);
    let tools = ToolList::from_snapshot(&snapshot, Some(&mut costs), DefinitionFormat::Openai);
    let mut value = serde_json::to_value(&tools).unwrap_or_default();
    let uses = usage.get(workspace)?;
    let lock = setup.approvals().and_then(|store| store.lock().read().ok());
    let rows = value["tools"].as_array_mut().into_iter().flatten();
    for (row, tool) in rows.zip(snapshot.registry.tools()) {
        row["trust"] = trust_value(tool, &snapshot.policy);
        row["needs"] = json!(tool.definition.needs.lines());
        row["grants"] = json!(granted_lines(tool));
        row["proofs"] = json!(proof_lines(tool));
        row["approval"] = json!(tool.definition.approval);
        let location = &tool.origin.location;
        let source = lock.as_ref().and_then(|lock| lock.sources.get(location));
        if let Some(signer) = source.and_then(|source| source.signer.as_ref()) {
            row["signer"] = json!(signer.to_string());
        }
        add_recent_use(row, uses.get(tool.name().as_str()));
    }
    costs.save();
    // The reasons quote the files.
    workspace.redactor()?.mask_value(&mut value["quarantined"]);
    Ok(value)
}

fn recent_uses(workspace: &LoadedWorkspace) -> Result<ToolUses, ToolError> {
    let mut uses = ToolUses::new();
    visit_calls(&workspace.setup, days_ago(USAGE_DAYS), |call| {
        let recent = uses.entry(call.tool).or_default();
        recent.calls += 1;
        recent.last = recent.last.max(Some(call.time));
        ControlFlow::Continue(())
    })?;
    Ok(uses)
}

/// Adds the number of calls of a tool in the last days, and the time of the last one.
fn add_recent_use(row: &mut Value, recent: Option<&RecentUse>) {
    row["calls30d"] = json!(recent.map_or(0, |recent| recent.calls));
    if let Some(last) = recent.and_then(|recent| recent.last) {
        row["lastUsed"] = json!(format!("{last:.0}"));
    }
}

fn granted_lines(tool: &Tool) -> Vec<String> {
    let rights = tool.rights();
    rights.permanent().map_or_else(Vec::new, Needs::lines)
}

fn proof_lines(tool: &Tool) -> Vec<String> {
    // Only the imports of a component limit what it can do.
    if tool.origin.proofs.is_empty() {
        return Vec::new();
    }
    let proofs = proofs(&tool.origin.imports);
    proofs.iter().map(ToString::to_string).collect()
}

/// Returns the trust in a tool, with what it means for its calls.
fn trust_value(tool: &Tool, policy: &Policy) -> Value {
    let without_grant = |cause: &str| {
        let effect = match policy.decision_by_trust(tool) {
            Some(Decision::Deny) => "each call is refused until this version is trusted",
            _ => "each call needs approval",
        };
        format!("{cause}; {effect}")
    };
    let (state, text) = match (tool.source, tool.trust) {
        (ToolSource::BuiltIn, _) => ("built-in", "part of mimir".to_owned()),
        (_, ToolTrust::Trusted) => {
            let text = "its current build is granted what it needs";
            ("trusted", text.to_owned())
        }
        (_, ToolTrust::Harmless) => ("harmless", "it requests no rights".to_owned()),
        (_, ToolTrust::Untrusted) if tool.changes.is_some() => {
            let cause = "it has changed since it was granted";
            ("changed", without_grant(cause))
        }
        (_, ToolTrust::Untrusted) => ("untrusted", without_grant("it has no grant")),
    };
    json!({ "state": state, "text": text })
}

/// Returns the decision about the calls of a tool whose current version is trusted, without rules about arguments.
fn trusted_decision(tool: &Tool, policy: &Policy) -> Decision {
    let (rules, default) = (policy.decision_by_tool(tool), tool.definition.approval);
    match rules.decision {
        Some(decision) if rules.by_arguments => decision.max(default),
        Some(decision) => decision,
        None => default,
    }
}

/// Returns a sentence about the calls of a tool whose current version is trusted.
fn trusted_text(tool: &Tool, policy: &Policy) -> &'static str {
    match trusted_decision(tool, policy) {
        Decision::Allow => {
            "its calls then run without a question, unless a rule about their arguments asks or refuses"
        }
        Decision::Ask => "its calls are then still asked about",
        Decision::Deny => "its calls are still refused, because a rule denies the tool",
    }
}

/// Returns the details of a tool.
pub async fn details(
    workspace: &LoadedWorkspace,
    uses: &ToolUses,
    name: &str,
) -> Result<Value, ToolError> {
    let snapshot = workspace.snapshot();
    let found = snapshot.registry.find(name);
    let tool = found.map_err(|error| with_problem(workspace, name, error))?;
    let mut costs = TokenCosts::open(&workspace.setup.user_dirs);
    let details = ToolDetails::for_tool(&workspace.setup, tool, &mut costs);
    let mut value = info::value(tool, &snapshot.policy, &details);
    value["trustState"] = trust_value(tool, &snapshot.policy);
    // The page shows it as the policy, and in the dialog about trust.
    value["ownDefault"] = value["approval"].take();
    value["approval"] = json!(trusted_decision(tool, &snapshot.policy));
    value["ifTrusted"] = json!(trusted_text(tool, &snapshot.policy));
    add_recent_use(&mut value, uses.get(tool.name().as_str()));
    if let Some(changes) = &tool.changes {
        value["trustDiff"] = json!(changes.lines);
    }
    if let Some(text) = source_text(workspace, tool, &workspace.redactor()?) {
        value["sourceText"] = json!(text);
    }
    if let Err(error) = workspace.setup.verify_description(tool).await {
        value["descriptionProblem"] = json!(error.message);
    }
    Ok(value)
}

/// Adds the problem of a tool that is left out to the error of its lookup. It quotes the file, so that only people see it.
fn with_problem(workspace: &LoadedWorkspace, name: &str, error: ToolError) -> ToolError {
    let snapshot = workspace.snapshot();
    let mut left_out = snapshot.registry.quarantined().iter();
    let Some(left_out) = left_out.find(|left_out| is_named(left_out, name)) else {
        return error;
    };
    let mut message = left_out_error(left_out).message;
    match workspace.redactor() {
        Ok(redactor) => redactor.mask_text(&mut message),
        Err(unreadable) => return unreadable,
    };
    ToolError { message, ..error }
}

/// Switches a tool on or off in the settings.
pub fn switch(
    workspace: &LoadedWorkspace,
    name: &str,
    on: bool,
    by: &str,
) -> Result<Value, ToolError> {
    let (setup, snapshot) = (&workspace.setup, workspace.snapshot());
    let tool = snapshot.registry.find(name)?;
    let mut costs = TokenCosts::open(&setup.user_dirs);
    let switched = if on {
        enable(setup, &snapshot, tool, &mut costs)
    } else {
        disable(setup, &snapshot, tool, false, &mut costs)
    };
    let report = switched.map_err(command_error)?;
    if report.changed {
        let state = if on { "on" } else { "off" };
        let detail = format!("switched {state} by {} at the console", visible(by));
        workspace.record(&LoadedWorkspace::change_event(name, &detail));
    }
    Ok(serde_json::to_value(&report).unwrap_or_default())
}

/// Grants a plugin what its tools need. `digest` is that of the build that the person saw.
pub async fn trust(
    workspace: &LoadedWorkspace,
    name: &str,
    digest: &str,
    by: &str,
) -> Result<Value, ToolError> {
    let (setup, snapshot) = (&workspace.setup, workspace.snapshot());
    let plugin = find_plugin(&snapshot.registry, name).map_err(command_error)?;
    let tool = check_grantable(&plugin, name)?;
    setup.verify_description(tool).await?;
    let location = &tool.origin.location;
    if tool.origin.digest != digest {
        return Err(ToolError::unavailable(format!(
            "{} has changed since it was shown: its digest is {} now; nothing was granted, look at it again",
            visible(location),
            tool.origin.digest
        )));
    }
    let withheld = tool
        .changes
        .as_ref()
        .map(|changes| changes.withheld.clone());
    let grant = Grant::new(&plugin, withheld.unwrap_or_default())
        .ok_or_else(|| ToolError::not_found("the plugin has no tools"))?;
    let store = setup.require_approvals()?;
    store
        .grant(location, grant)
        .map_err(ToolError::unavailable)?;
    pin_local_file(setup, &store, tool).map_err(command_error)?;
    let event = AuditEvent::new(EventKind::Grant, std::time::SystemTime::now())
        .with_subject(location)
        .with_detail(&format!(
            "sha256 {digest}, granted by {} at the console",
            visible(by)
        ));
    workspace.record(&event);
    Ok(json!({ "granted": location, "digest": digest }))
}

/// Returns the first tool of a plugin that can be granted here.
fn check_grantable<'a>(plugin: &'a [Arc<Tool>], name: &str) -> Result<&'a Arc<Tool>, ToolError> {
    let tool = plugin
        .first()
        .ok_or_else(|| ToolError::not_found("the plugin has no tools"))?;
    let refusal = match (tool.source, tool.trust) {
        (ToolSource::BuiltIn, _) => "it is built in and needs no grant",
        (ToolSource::Teams, _) => "its team grants its rights in a signed bundle",
        (_, ToolTrust::Trusted) => "it is granted already",
        (_, ToolTrust::Harmless) => "it requests no rights",
        _ if is_foreign(tool) => {
            "its rights must be named: use `mimir tools trust` with --host, --read, --write or --secret"
        }
        _ => return Ok(tool),
    };
    Err(ToolError::invalid_input(format!(
        "`{}` was not granted: {refusal}",
        visible(name)
    )))
}
