//! Figures over the recorded calls: how many, how fast, how many tokens, and what untrusted content led to.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use mimir_core::ToolError;
use serde_json::{Value, json};

use mimir::setup::HostSetup;

use super::recorded_calls::{AuditedCall, days_ago, visit_calls};

/// Maximum number of calls that are read.
const CALLS_MAX: usize = 1_000_000;
/// Maximum number of rows of a table.
const ROWS_MAX: usize = 100;
/// Maximum number of results with untrusted content, and of calls that each led to.
const STRANGERS_MAX: usize = 50;
const LED_TO_MAX: usize = 20;

/// Figures of a group of calls.
#[derive(Default)]
struct CallFigures {
    calls: u64,
    refused: u64,
    asked: u64,
    errors: u64,
    tokens: u64,
    durations: Vec<f32>,
}

impl CallFigures {
    fn add(&mut self, call: &AuditedCall) {
        self.calls += 1;
        self.tokens += call.tokens;
        self.asked += u64::from(call.was_asked());
        if call.is_refused() {
            self.refused += 1;
        } else {
            self.errors += u64::from(!call.ok);
            // Refused calls did not run.
            self.durations.extend(call.duration_ms.map(|ms| ms as f32));
        }
    }

    /// Returns the run time that this share of the calls did not exceed.
    fn percentile(&mut self, share: f64) -> Option<f32> {
        self.durations.sort_by(f32::total_cmp);
        let last = self.durations.len().checked_sub(1)?;
        let at = (last as f64 * share).round() as usize;
        self.durations
            .get(at)
            .map(|ms| (ms * 100.0).round() / 100.0)
    }

    fn value(mut self) -> Value {
        json!({
            "calls": self.calls,
            "refused": self.refused,
            "asked": self.asked,
            "errors": self.errors,
            "p50Ms": self.percentile(0.5),
            "p95Ms": self.percentile(0.95),
            "tokens": self.tokens,
        })
    }
}

/// A result with untrusted content, or a call that was decided because of such content.
struct TaintCall {
    id: String,
    time: Timestamp,
    tool: String,
    decision: String,
    origin: String,
    is_source: bool,
    is_effect: bool,
}

/// Returns the figures of the last days.
pub fn charts(setup: &HostSetup, days: u32) -> Result<Value, ToolError> {
    let days = days.clamp(1, 90);
    let since = days_ago(days);
    let bucket = if days <= 2 {
        SignedDuration::from_hours(1)
    } else {
        SignedDuration::from_hours(24)
    };
    let mut buckets: BTreeMap<i64, CallFigures> = BTreeMap::new();
    let mut by_tool: HashMap<String, CallFigures> = HashMap::new();
    let mut by_session: HashMap<String, (u64, u64)> = HashMap::new();
    let mut taint: HashMap<String, Vec<TaintCall>> = HashMap::new();
    let mut read = 0;
    visit_calls(setup, since, |call| {
        read += 1;
        let start = call.time.as_second().div_euclid(bucket.as_secs());
        buckets.entry(start).or_default().add(&call);
        by_tool.entry(call.tool.clone()).or_default().add(&call);
        let session = by_session.entry(call.session.clone()).or_default();
        session.0 += 1;
        session.1 += call.tokens;
        add_taint(&mut taint, call);
        if read >= CALLS_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    let first = since.as_second().div_euclid(bucket.as_secs());
    let last = Timestamp::now().as_second().div_euclid(bucket.as_secs());
    let buckets: Vec<Value> = (first..=last)
        .map(|at| {
            let mut value = buckets.remove(&at).unwrap_or_default().value();
            let start = Timestamp::from_second(at * bucket.as_secs());
            value["start"] = json!(start.map(|start| format!("{start:.0}")).unwrap_or_default());
            value
        })
        .collect();
    Ok(json!({
        "days": days,
        "buckets": buckets,
        "byTool": tool_rows(by_tool),
        "bySession": session_rows(by_session, setup.settings.config.tools.token_price),
        "strangers": stranger_rows(taint),
    }))
}

fn tool_rows(by_tool: HashMap<String, CallFigures>) -> Vec<Value> {
    let mut tools: Vec<_> = by_tool.into_iter().collect();
    tools.sort_by(|one, other| (other.1.calls, &one.0).cmp(&(one.1.calls, &other.0)));
    tools.truncate(ROWS_MAX);
    let row = |(tool, figures): (String, CallFigures)| {
        let mut value = figures.value();
        value["tool"] = tool.into();
        value
    };
    tools.into_iter().map(row).collect()
}

/// `price` is in dollars per million tokens.
fn session_rows(by_session: HashMap<String, (u64, u64)>, price: f64) -> Vec<Value> {
    let mut sessions: Vec<_> = by_session.into_iter().collect();
    sessions.sort_by(|one, other| (other.1.1, &one.0).cmp(&(one.1.1, &other.0)));
    sessions.truncate(ROWS_MAX);
    let row = |(session, (calls, tokens)): (String, (u64, u64))| {
        json!({
            "session": session,
            "calls": calls,
            "tokens": tokens,
            "cost": tokens as f64 / 1e6 * price,
        })
    };
    sessions.into_iter().map(row).collect()
}

fn add_taint(taint: &mut HashMap<String, Vec<TaintCall>>, call: AuditedCall) {
    let is_source = call.trust.is_some();
    let rule = call.rule.as_deref().unwrap_or_default();
    let is_effect = rule.starts_with("taint:");
    if !is_source && !is_effect {
        return;
    }
    let calls = taint.entry(call.session).or_default();
    // The newest calls of a session come first.
    if calls.len() < 1_000 {
        calls.push(TaintCall {
            id: call.id,
            time: call.time,
            origin: format!("{}:{}", call.source, call.tool),
            tool: call.tool,
            decision: call.decision.unwrap_or_default(),
            is_source,
            is_effect,
        });
    }
}

/// Attributes each call that was decided because of untrusted content to the last such content before it.
fn stranger_rows(taint: HashMap<String, Vec<TaintCall>>) -> Vec<Value> {
    let mut rows: Vec<(Timestamp, bool, Value)> = Vec::new();
    for mut calls in taint.into_values() {
        calls.sort_by_key(|call| call.time);
        let mut effects = Vec::new();
        for call in calls.iter().rev() {
            if call.is_source {
                effects.reverse();
                let led_to: Vec<Value> = effects.drain(..).take(LED_TO_MAX).collect();
                let is_relevant = !led_to.is_empty();
                let row = json!({
                    "callId": call.id,
                    "time": format!("{:.3}", call.time),
                    "tool": call.tool,
                    "origin": call.origin,
                    "ledTo": led_to,
                });
                rows.push((call.time, is_relevant, row));
            }
            if call.is_effect {
                effects.push(json!({
                    "callId": call.id,
                    "tool": call.tool,
                    "decision": call.decision,
                }));
            }
        }
    }
    // Content that led to something comes first, then the newest.
    rows.sort_by_key(|(time, is_relevant, _)| std::cmp::Reverse((*is_relevant, *time)));
    let rows = rows.into_iter().take(STRANGERS_MAX);
    rows.map(|(_, _, row)| row).collect()
}
