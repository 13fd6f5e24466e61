//! Decisions that an edit of the rules would have changed for the calls on record, and explanations of example calls.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mimir_console::PolicyEdit;
use mimir_core::{Call, CallContext, Decision, Pipeline, ToolError};
use serde_json::{Value, json};

use super::matches::call_value;
use super::policy_edits::preview;
use super::recorded_calls::{AuditedCall, days_ago, visit_calls};
use super::workspace::{LoadedWorkspace, blocking};
use crate::commands::explain::{ExplainReport, ungranted_files};
use mimir::install_package::question_of_running_call;

/// Maximum number of calls that are evaluated, and the time for that.
const CALLS_MAX: usize = 200_000;
const TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum number of examples of each change.
const EXAMPLES_MAX: usize = 5;

/// Explains the decision about an example call, as `mimir policy explain --json` does, with an edit if there is one.
pub async fn explain(
    workspace: &LoadedWorkspace,
    tool: &str,
    arguments: Value,
    edit: Option<&PolicyEdit>,
) -> Result<Value, ToolError> {
    let edited = match edit {
        Some(edit) => {
            let policy = preview(workspace, edit)?.settings.policy()?;
            Some(workspace.with_policy(policy))
        }
        None => None,
    };
    let pipeline = edited.as_ref().unwrap_or(&workspace.pipeline);
    let snapshot = workspace.snapshot();
    let found = snapshot.registry.find(tool)?;
    let explanation = pipeline.explain(new_call(tool, arguments)).await?;
    let ungranted = ungranted_files(found);
    let later = question_of_running_call(found);
    let report = ExplainReport::new(&explanation, ungranted.as_deref(), later);
    Ok(serde_json::to_value(report).unwrap_or_default())
}

fn new_call(tool: &str, arguments: Value) -> Call {
    Call::new(
        tool.to_owned(),
        arguments,
        CallContext::new_session(SystemTime::now()),
    )
}

/// Calls that get the same decision, because they have the same tool and arguments.
struct EqualCalls {
    example: AuditedCall,
    more: Vec<AuditedCall>,
    count: usize,
}

/// Evaluates the calls of the last days with the current rules and with an edit. What the session of a call had read is
/// not considered, because it is not on record.
pub async fn what_if(
    workspace: Arc<LoadedWorkspace>,
    edit: &PolicyEdit,
    days: u32,
) -> Result<Value, ToolError> {
    let days = days.clamp(1, 90);
    let after = workspace.with_policy(preview(&workspace, edit)?.settings.policy()?);
    let reader = Arc::clone(&workspace);
    let groups = blocking(move || group_calls(&reader, days)).await?;
    let until = Instant::now() + TIME_MAX;
    let (mut checked, mut unjudged) = (0, 0);
    let mut changes: BTreeMap<(Decision, Decision), (usize, Vec<Value>)> = BTreeMap::new();
    for group in groups {
        let judged = if Instant::now() < until {
            judge(&workspace.pipeline, &after, &group.example).await
        } else {
            EditVerdict::Unknown
        };
        checked += group.count;
        let (decisions, is_sure) = match judged {
            EditVerdict::Decided(before, after) => (Some((before, after)), true),
            // Only the rules about the tool are known, so another rule may still be stricter.
            EditVerdict::ByTool(before, after) => (Some((before, after)), before != after),
            EditVerdict::Unknown => (None, false),
        };
        if !is_sure {
            unjudged += group.count;
        }
        if let Some((before, after)) = decisions.filter(|(before, after)| before != after) {
            let (count, examples) = changes.entry((before, after)).or_default();
            *count += group.count;
            let calls = std::iter::once(&group.example).chain(&group.more);
            let room = EXAMPLES_MAX - examples.len();
            examples.extend(calls.take(room).map(call_value));
        }
    }
    let changes: Vec<Value> = changes
        .into_iter()
        .map(|((before, after), (count, examples))| {
            json!({ "before": before, "after": after, "count": count, "examples": examples })
        })
        .collect();
    Ok(json!({
        "checked": checked,
        "unjudged": unjudged,
        "from": format!("{:.0}", days_ago(days)),
        "changes": changes,
    }))
}

fn group_calls(workspace: &LoadedWorkspace, days: u32) -> Result<Vec<EqualCalls>, ToolError> {
    let mut groups: HashMap<(String, String), EqualCalls> = HashMap::new();
    let mut read = 0;
    visit_calls(&workspace.setup, days_ago(days), |call| {
        read += 1;
        let arguments = call.complete_arguments();
        let key = (
            call.tool.clone(),
            arguments.map_or_else(String::new, Value::to_string),
        );
        match groups.get_mut(&key) {
            Some(group) => {
                group.count += 1;
                if group.more.len() + 1 < EXAMPLES_MAX {
                    group.more.push(call);
                }
            }
            None => {
                let group = EqualCalls {
                    example: call,
                    more: Vec::new(),
                    count: 1,
                };
                groups.insert(key, group);
            }
        }
        if read < CALLS_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let mut groups: Vec<EqualCalls> = groups.into_values().collect();
    // The most frequent ones first, in case that the time is not sufficient for all.
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Ok(groups)
}

/// The decisions about a recorded call before and after an edit.
enum EditVerdict {
    /// All rules were evaluated.
    Decided(Decision, Decision),
    /// The arguments are not on record, so only the rules about the tool were evaluated.
    ByTool(Decision, Decision),
    /// The tool does not exist any more, or the arguments are not valid any more.
    Unknown,
}

async fn judge(before: &Pipeline, after: &Pipeline, call: &AuditedCall) -> EditVerdict {
    let snapshot = before.snapshot();
    let Some(tool) = snapshot.registry.get(&call.tool) else {
        return EditVerdict::Unknown;
    };
    let Some(arguments) = call.complete_arguments() else {
        let decision = |pipeline: &Pipeline| {
            let snapshot = pipeline.snapshot();
            let decision = snapshot.policy.tool_decision(tool);
            decision.unwrap_or(tool.definition.approval)
        };
        return EditVerdict::ByTool(decision(before), decision(after));
    };
    let explain = |pipeline: &Pipeline| {
        let call = new_call(&call.tool, arguments.clone());
        let pipeline = pipeline.clone();
        async move { pipeline.explain(call).await }
    };
    match (explain(before).await, explain(after).await) {
        (Ok(before), Ok(after)) => {
            EditVerdict::Decided(before.evaluation.decision(), after.evaluation.decision())
        }
        _ => EditVerdict::Unknown,
    }
}
