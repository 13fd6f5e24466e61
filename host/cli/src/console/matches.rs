//! The recorded calls that the answer "always" to a question would have covered.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mimir_core::approval::{ApprovalPattern, is_narrower_pattern};
use mimir_core::command::{CommandPattern, ShellWord};
use mimir_core::{Call, CallContext, ToolError};
use serde_json::{Value, json};

use mimir::shared_questions::SharedQuestion;

use super::recorded_calls::{AuditedCall, visit_calls};
use super::workspace::{LoadedWorkspace, blocking_future};

/// Number of calls of the record that are tested.
const CALLS_MAX: usize = 1_000;

/// Maximum number of matches that are returned.
const MATCHES_MAX: usize = CALLS_MAX;

/// Maximum time for reading the commands of recorded calls.
const TIME_MAX: Duration = Duration::from_secs(3);

/// Tests the last calls with the pattern of a question, or with narrower patterns of commands.
pub async fn find_matches(
    workspace: std::sync::Arc<LoadedWorkspace>,
    question: &SharedQuestion,
    patterns: Option<Vec<String>>,
) -> Result<Value, ToolError> {
    let card = &question.card;
    let offered = card.always.as_ref().map(|always| always.commands.clone());
    let offered = offered.unwrap_or_default();
    if let Some(wider) = patterns
        .iter()
        .flatten()
        .find(|pattern| !is_narrower_pattern(pattern, &offered))
    {
        return Err(ToolError::invalid_input(format!(
            "`{}` is not one of the offered patterns or a narrower one",
            mimir_core::text::visible(mimir_core::text::prefix(wider, 200))
        )));
    }
    let patterns = patterns.unwrap_or(offered);
    let (tool, covers) = (card.tool.clone(), card.facts.covers.clone());
    // Reading many commands takes long.
    blocking_future(move || async move {
        test_calls(&workspace, &tool, covers.as_deref(), &patterns).await
    })
    .await
}

async fn test_calls(
    workspace: &LoadedWorkspace,
    tool: &str,
    covers: Option<&ApprovalPattern>,
    patterns: &[String],
) -> Result<Value, ToolError> {
    let calls = last_calls(workspace)?;
    let of_tool: Vec<&AuditedCall> = calls.iter().filter(|call| call.tool == tool).collect();
    let mut matches = CallMatches::default();
    if patterns.is_empty() {
        matches.test_arguments(covers, &of_tool);
    } else {
        matches.test_commands(workspace, patterns, &of_tool).await;
    }
    Ok(json!({
        "checked": calls.len(),
        "matched": matches.matched,
        "total": matches.total,
        "unjudged": matches.unjudged,
    }))
}

fn last_calls(workspace: &LoadedWorkspace) -> Result<Vec<AuditedCall>, ToolError> {
    let mut calls = Vec::new();
    visit_calls(&workspace.setup, Timestamp::MIN, |call| {
        calls.push(call);
        if calls.len() < CALLS_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(calls)
}

#[derive(Default)]
struct CallMatches {
    matched: Vec<Value>,
    total: usize,
    /// Number of calls of the tool whose arguments are not on record, or not completely.
    unjudged: usize,
}

impl CallMatches {
    fn add(&mut self, call: &AuditedCall) {
        self.total += 1;
        if self.matched.len() < MATCHES_MAX {
            self.matched.push(call_value(call));
        }
    }

    fn test_arguments(&mut self, pattern: Option<&ApprovalPattern>, calls: &[&AuditedCall]) {
        for call in calls {
            match (pattern, call.complete_arguments()) {
                (Some(pattern), Some(arguments)) => {
                    if pattern.covers(arguments) {
                        self.add(call);
                    }
                }
                _ => self.unjudged += 1,
            }
        }
    }

    async fn test_commands(
        &mut self,
        workspace: &LoadedWorkspace,
        patterns: &[String],
        calls: &[&AuditedCall],
    ) {
        let patterns: Vec<CommandPattern> = patterns
            .iter()
            .filter_map(|pattern| CommandPattern::parse(pattern).ok())
            .collect();
        let until = Instant::now() + TIME_MAX;
        for call in calls {
            let commands = match call.complete_arguments() {
                Some(arguments) if Instant::now() < until => {
                    commands_of(workspace, &call.tool, arguments).await
                }
                _ => None,
            };
            let Some(commands) = commands else {
                self.unjudged += 1;
                continue;
            };
            let is_covered =
                |words: &Vec<ShellWord>| patterns.iter().any(|pattern| pattern.matches(words));
            if commands.iter().any(is_covered) {
                self.add(call);
            }
        }
    }
}

/// Returns the commands of a call, each as words. `None` if they cannot be read.
async fn commands_of(
    workspace: &LoadedWorkspace,
    tool: &str,
    arguments: &Value,
) -> Option<Vec<Vec<ShellWord>>> {
    let context = CallContext::new_session(std::time::SystemTime::now());
    let call = Call::new(tool.to_owned(), arguments.clone(), context);
    let explained = workspace.pipeline.explain(call).await.ok()?;
    let commands = explained.evaluation.commands().iter();
    let words = commands.map(|verdict| {
        let words = verdict.command.split_whitespace();
        words
            .map(|word| {
                let plain = word.trim_matches(['\'', '"']);
                if plain.contains(['$', '*', '`']) {
                    ShellWord::Unknown(plain.to_owned())
                } else {
                    ShellWord::Known(plain.to_owned())
                }
            })
            .collect()
    });
    Some(words.collect())
}

/// Returns a call as an example.
pub fn call_value(call: &AuditedCall) -> Value {
    json!({
        "callId": call.id,
        "time": format!("{:.3}", call.time),
        "tool": call.tool,
        "summary": call.summary(),
    })
}
