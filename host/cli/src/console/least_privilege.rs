//! Rights that were not used, and approvals that one rule would replace.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use jiff::Timestamp;
use mimir_core::approval::StoredApproval;
use mimir_core::tool::ToolSource;
use mimir_core::{Decision, Needs, ToolError};
use serde_json::{Value, json};

use super::recorded_calls::{days_ago, visit_calls};
use super::stored_approvals::{listed_approvals, stored_approvals};
use super::workspace::LoadedWorkspace;

/// Period without use, in days.
const UNUSED_DAYS: u32 = 30;

/// Least number of approvals that a rule must replace to be proposed.
const REPLACED_MIN: usize = 3;

/// Returns the grants and stored approvals that were not used, and rules that would replace questions.
pub fn report(workspace: &LoadedWorkspace) -> Result<Value, ToolError> {
    let since = days_ago(UNUSED_DAYS);
    let mut last_used: HashMap<String, Timestamp> = HashMap::new();
    let mut approved: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused: HashMap<String, usize> = HashMap::new();
    let mut oldest = None;
    visit_calls(&workspace.setup, Timestamp::MIN, |call| {
        oldest = Some(call.time);
        let last = last_used.entry(call.tool.clone()).or_insert(call.time);
        *last = (*last).max(call.time);
        if call.time >= since {
            match call.answer.as_deref() {
                Some("once" | "session" | "always") => {
                    *approved.entry(call.tool).or_default() += 1;
                }
                Some("no") => *refused.entry(call.tool).or_default() += 1,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(json!({
        "days": UNUSED_DAYS,
        "recordBegins": oldest.map(|time| format!("{time:.0}")),
        "unused": unused(workspace, since, &last_used),
        "unusedApprovals": unused_approvals(workspace, since)?,
        "rules": rules(workspace, &approved, &refused)?,
    }))
}

/// Returns the rights of tools that were not called in the period.
fn unused(
    workspace: &LoadedWorkspace,
    since: Timestamp,
    last_used: &HashMap<String, Timestamp>,
) -> Vec<Value> {
    let snapshot = workspace.snapshot();
    let mut unused = Vec::new();
    for tool in snapshot.registry.tools() {
        let last = last_used.get(tool.name().as_str());
        let rights = tool.rights();
        let grants = rights.permanent().map_or_else(Vec::new, Needs::lines);
        let is_unused = last.is_none_or(|last| *last < since);
        if tool.source == ToolSource::BuiltIn || grants.is_empty() || !is_unused {
            continue;
        }
        let edit = json!({
            "file": "project",
            "changes": [{ "key": format!("tools.{}.enabled", tool.name()), "value": false }],
        });
        for grant in grants {
            unused.push(json!({
                "tool": tool.name(),
                "grant": grant,
                "lastUsed": last.map(|last| format!("{last:.0}")),
                "edit": edit,
                "command": format!("mimir tools revoke {}", tool.name()),
            }));
        }
    }
    unused
}

/// Returns the stored approvals that no call has used in the period.
fn unused_approvals(workspace: &LoadedWorkspace, since: Timestamp) -> Result<Value, ToolError> {
    let is_unused = |stored: &StoredApproval| stored.last_used.is_none_or(|used| used < since);
    let mut unused = stored_approvals(workspace)?;
    unused.retain(is_unused);
    listed_approvals(workspace, &unused)
}

/// Returns rules for tools whose calls were approved again and again, and never refused.
fn rules(
    workspace: &LoadedWorkspace,
    approved: &BTreeMap<String, usize>,
    refused: &HashMap<String, usize>,
) -> Result<Vec<Value>, ToolError> {
    let stored = stored_approvals(workspace)?;
    let snapshot = workspace.snapshot();
    let mut rules: Vec<(usize, Value)> = Vec::new();
    for tool in snapshot.registry.tools() {
        let name = tool.name().as_str();
        let answers = approved.get(name).copied().unwrap_or_default();
        let approvals = stored.iter().filter(|stored| stored.tool == name).count();
        let replaces = answers + approvals;
        let is_set = snapshot.policy.tool_decision(tool) == Some(Decision::Allow);
        // The rules about commands and hosts are finer than a rule for the whole tool, and dangerous tools keep asking.
        let needs = &tool.definition.needs;
        let is_harmless = needs.commands.is_empty()
            && needs.hosts.is_empty()
            && needs.secrets.is_empty()
            && !tool.definition.hints.destructive
            && !tool.definition.hints.open_world;
        if replaces < REPLACED_MIN || refused.contains_key(name) || is_set || !is_harmless {
            continue;
        }
        let text = format!(
            "`{name}` was approved {answers} times in {UNUSED_DAYS} days and never refused; this rule allows its calls without a question and replaces {approvals} stored approvals"
        );
        let rule = json!({
            "text": text,
            "tool": name,
            "replaces": replaces,
            "edit": {
                "file": "user",
                "changes": [{ "key": format!("tools.{name}.approval"), "value": "allow" }],
            },
        });
        rules.push((replaces, rule));
    }
    rules.sort_by_key(|(replaces, _)| std::cmp::Reverse(*replaces));
    Ok(rules.into_iter().map(|(_, rule)| rule).collect())
}
