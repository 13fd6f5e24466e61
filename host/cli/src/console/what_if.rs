//! Decisions that an edit of the rules would have changed for the calls on record, and explanations of example calls.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::{Duration, Instant, SystemTime};

use mimir_console::PolicyEdit;
use mimir_core::policy::ToolRuleDecision;
use mimir_core::{Call, CallContext, Decision, Pipeline, Tool, ToolError};
use serde_json::{Value, json};

use super::argument_scope::{ArgumentEffect, ArgumentScope};
use super::matches::call_value;
use super::policy_edits::{EditScope, preview};
use super::recorded_calls::{AuditedCall, days_ago, visit_calls};
use super::workspace::LoadedWorkspace;
use crate::commands::explain::{ExplainReport, ungranted_files};
use mimir::install_package::question_of_running_call;

/// Maximum number of calls that are evaluated, and the time for that.
const CALLS_MAX: usize = 200_000;
const TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum number of examples of each change.
const EXAMPLES_MAX: usize = 50;

/// Maximum number of rows about calls that could not be judged.
const UNJUDGED_MAX: usize = 200;

/// Explains the decision about an example call, as `mimir policy explain --json` does, with an edit if there is one.
/// Blocks while it applies the edit.
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

/// Calls that an edit would have changed in the same way.
#[derive(Default)]
struct ChangedCalls {
    count: usize,
    /// Number of calls of which only the rules about the tool are known, so that another rule may still be stricter.
    approximate: usize,
    examples: Vec<Value>,
}

/// Evaluates the calls of the last days with the current rules and with an edit. What the session of a call had read is
/// not considered. A call whose arguments are not on record is judged by its tool and its recorded decision, as far as
/// these are sufficient. Blocks while it applies the edit and reads the record.
pub async fn what_if(
    workspace: &LoadedWorkspace,
    edit: &PolicyEdit,
    days: u32,
    scope: EditScope,
) -> Result<Value, ToolError> {
    let days = days.clamp(1, 90);
    let edited = preview(workspace, edit)?.settings;
    let after = workspace.with_policy(edited.policy()?);
    let groups = group_calls(workspace, days)?;
    let until = Instant::now() + TIME_MAX;
    let judge = EditJudge {
        before: &workspace.pipeline,
        after: &after,
        scope: ArgumentScope::new(edit, &workspace.setup.settings, &edited),
    };
    let mut checked = 0;
    let mut changes: BTreeMap<(Decision, Decision), ChangedCalls> = BTreeMap::new();
    let mut unjudged: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for group in groups {
        let judged = if Instant::now() < until {
            judge.judge(&group.example).await
        } else {
            EditVerdict::Unknown("the evaluation of all calls took too long")
        };
        checked += group.count;
        let (decisions, is_sure) = match judged {
            EditVerdict::Decided(before, after) => ((before, after), true),
            EditVerdict::AtLeast(before, after) => ((before, after), false),
            EditVerdict::Unknown(why) => {
                *unjudged.entry((group.example.tool, why)).or_default() += group.count;
                continue;
            }
        };
        if decisions.0 == decisions.1 {
            continue;
        }
        let changed = changes.entry(decisions).or_default();
        changed.count += group.count;
        if !is_sure {
            changed.approximate += group.count;
        }
        let calls = std::iter::once(&group.example).chain(&group.more);
        let room = EXAMPLES_MAX - changed.examples.len();
        changed.examples.extend(calls.take(room).map(call_value));
    }
    let changes: Vec<Value> = changes
        .into_iter()
        .map(|((before, after), changed)| {
            json!({
                "before": before,
                "after": after,
                "count": changed.count,
                "approximate": changed.approximate,
                "examples": changed.examples,
            })
        })
        .collect();
    let total: usize = unjudged.values().sum();
    let mut rows: Vec<_> = unjudged.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rows: Vec<Value> = rows
        .into_iter()
        .take(UNJUDGED_MAX)
        .map(|((tool, why), count)| json!({ "tool": tool, "why": why, "count": count }))
        .collect();
    let mut report = json!({
        "checked": checked,
        "unjudged": total,
        "unjudgedBy": rows,
        "from": format!("{:.0}", days_ago(days)),
        "changes": changes,
        "recordsArguments": workspace.setup.settings.config.audit.log_args,
    });
    if scope == EditScope::AllSettings {
        report["toRecordArguments"] = json!({
            "file": "user",
            "key": "audit.logArgs",
            "yaml": "true",
        });
    }
    Ok(report)
}

fn group_calls(workspace: &LoadedWorkspace, days: u32) -> Result<Vec<EqualCalls>, ToolError> {
    let mut groups: HashMap<(String, String), EqualCalls> = HashMap::new();
    let mut read = 0;
    visit_calls(&workspace.setup, days_ago(days), |call| {
        read += 1;
        let arguments = call.complete_arguments();
        let key = (
            call.tool.clone(),
            match arguments {
                Some(arguments) => arguments.to_string(),
                None => format!("decided: {}", call.decision.as_deref().unwrap_or_default()),
            },
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
    /// All rules that count are known.
    Decided(Decision, Decision),
    /// Only the rules about the tool are known, so another rule may be stricter after the edit.
    AtLeast(Decision, Decision),
    /// The record is not sufficient, for this reason.
    Unknown(&'static str),
}

/// The rules before and after an edit.
struct EditJudge<'a> {
    before: &'a Pipeline,
    after: &'a Pipeline,
    /// The calls about which the edit decides by their arguments.
    scope: ArgumentScope,
}

impl EditJudge<'_> {
    async fn judge(&self, call: &AuditedCall) -> EditVerdict {
        let snapshot = self.before.snapshot();
        let Some(tool) = snapshot.registry.get(&call.tool) else {
            return EditVerdict::Unknown("the tool is not here any more");
        };
        let Some(arguments) = call.complete_arguments() else {
            return self.judge_by_tool(call, tool);
        };
        let explain = |pipeline: &Pipeline| {
            let call = new_call(&call.tool, arguments.clone());
            let pipeline = pipeline.clone();
            async move { pipeline.explain(call).await }
        };
        match (explain(self.before).await, explain(self.after).await) {
            (Ok(before), Ok(after)) => {
                EditVerdict::Decided(before.evaluation.decision(), after.evaluation.decision())
            }
            _ => EditVerdict::Unknown("the tool does not take these arguments any more"),
        }
    }

    /// Judges a call without arguments: by its tool, and by the decision on record.
    fn judge_by_tool(&self, call: &AuditedCall, tool: &Tool) -> EditVerdict {
        let recorded = call.decision.clone().map(Value::String);
        let recorded = recorded.and_then(|word| serde_json::from_value(word).ok());
        let Some(recorded): Option<Decision> = recorded else {
            return EditVerdict::Unknown("neither its arguments nor a decision are on record");
        };
        let by_tool = |pipeline: &Pipeline| pipeline.snapshot().policy.decision_by_tool(tool);
        let (before, after) = (by_tool(self.before), by_tool(self.after));
        let judged = if before == after {
            EditVerdict::Decided(recorded, recorded)
        } else {
            judge_rules_of_tool(recorded, before, after)
        };
        match (self.scope.effect_on(tool), judged) {
            // The strictest decision wins.
            (_, judged) if after.decision == Some(Decision::Deny) => judged,
            (ArgumentEffect::Unchanged, judged) => judged,
            (ArgumentEffect::AtLeast(added), EditVerdict::Decided(recorded, after)) => {
                EditVerdict::Decided(recorded, after.max(added))
            }
            (ArgumentEffect::AtLeast(added), EditVerdict::AtLeast(recorded, after)) => {
                EditVerdict::AtLeast(recorded, after.max(added))
            }
            (ArgumentEffect::AtLeast(_), EditVerdict::Unknown(why)) => EditVerdict::Unknown(why),
            (ArgumentEffect::Unknown, _) => EditVerdict::Unknown("its arguments are not on record"),
        }
    }
}

/// Judges a call with this recorded decision after a change of the rules about its tool.
fn judge_rules_of_tool(
    recorded: Decision,
    before: ToolRuleDecision,
    after: ToolRuleDecision,
) -> EditVerdict {
    // The strictest decision wins, and the other reasons of the call were at most as strict as the recorded decision.
    if let Some(decision) = after.decision
        && decision >= recorded
        && (before.by_arguments || !after.by_arguments)
    {
        return EditVerdict::Decided(recorded, decision);
    }
    let is_stricter = before.decision.is_none_or(|decision| decision < recorded);
    if is_stricter && (!before.by_arguments || recorded == Decision::Deny) {
        return EditVerdict::Unknown(
            "a rule about its arguments decided, and these are not on record",
        );
    }
    match after.decision {
        Some(after_decision) if !after.by_arguments => {
            EditVerdict::AtLeast(recorded, after_decision)
        }
        _ => EditVerdict::Unknown("its arguments decide, and these are not on record"),
    }
}
