//! Figures over the recorded calls: how many, how fast, how many tokens, and what untrusted content led to.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use mimir_core::ToolError;
use mimir_core::audit::OutcomeKind;
use serde_json::{Value, json};

use mimir::setup::HostSetup;
use mimir::undo::UndoStore;

use super::recorded_calls::{AuditedCall, days_ago, visit_calls_and_notable_effects};
use super::strangers::StrangerTrail;

/// Maximum number of calls that are read.
const CALLS_MAX: usize = 1_000_000;
/// Maximum number of rows of a table.
const ROWS_MAX: usize = 2_000;
/// Maximum number of results with untrusted content, and of calls that each led to.
const STRANGERS_MAX: usize = 500;
const LED_TO_MAX: usize = 100;

/// Figures of a group of calls.
#[derive(Default)]
struct CallFigures {
    calls: u64,
    refused: u64,
    stopped: u64,
    asked: u64,
    /// Calls that a person was asked about, and that then succeeded.
    approved: u64,
    errors: u64,
    tokens: u64,
    durations: Vec<f32>,
}

impl CallFigures {
    fn add(&mut self, call: &AuditedCall) {
        self.calls += 1;
        self.tokens += call.tokens;
        self.asked += u64::from(call.was_asked());
        match call.outcome() {
            OutcomeKind::Ok => self.approved += u64::from(call.was_asked()),
            // Refused calls did not run.
            OutcomeKind::Refused => {
                self.refused += 1;
                return;
            }
            // A person or a client wanted it so.
            OutcomeKind::Stopped => self.stopped += 1,
            OutcomeKind::Limited | OutcomeKind::Unavailable | OutcomeKind::Failed => {
                self.errors += 1;
            }
        }
        self.durations.extend(call.duration_ms.map(|ms| ms as f32));
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
            "stopped": self.stopped,
            "asked": self.asked,
            "approved": self.approved,
            "errors": self.errors,
            "p50Ms": self.percentile(0.5),
            "p95Ms": self.percentile(0.95),
            "tokens": self.tokens,
        })
    }
}

/// Figures of a session.
#[derive(Default)]
struct SessionFigures {
    calls: u64,
    tokens: u64,
    /// The program that made the newest call for which one is on record.
    client: Option<String>,
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
    let mut by_session: HashMap<String, SessionFigures> = HashMap::new();
    let mut strangers = StrangerTrail::default();
    let mut read = 0;
    let searched = visit_calls_and_notable_effects(setup, since, |call| {
        strangers.add(&call);
        if call.is_effect() {
            return ControlFlow::Continue(());
        }
        read += 1;
        let start = call.time.as_second().div_euclid(bucket.as_secs());
        buckets.entry(start).or_default().add(&call);
        by_tool.entry(call.tool.clone()).or_default().add(&call);
        let session = by_session.entry(call.session.clone()).or_default();
        session.calls += 1;
        session.tokens += call.tokens;
        if session.client.is_none() {
            session.client = call.shown_client();
        }
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
    strangers.add_changes(&UndoStore::for_workspace(&setup.workspace));
    let (strangers, strangers_total) = stranger_rows(strangers);
    let totals = json!({
        "tools": by_tool.len(),
        "sessions": by_session.len(),
        "strangers": strangers_total,
    });
    Ok(json!({
        "days": days,
        "totals": totals,
        "searched": searched.value(),
        "buckets": buckets,
        "byTool": tool_rows(by_tool),
        "bySession": session_rows(by_session, setup.settings.config.tools.token_price),
        "strangers": strangers,
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
fn session_rows(by_session: HashMap<String, SessionFigures>, price: f64) -> Vec<Value> {
    let mut sessions: Vec<_> = by_session.into_iter().collect();
    sessions.sort_by(|one, other| (other.1.tokens, &one.0).cmp(&(one.1.tokens, &other.0)));
    sessions.truncate(ROWS_MAX);
    let row = |(session, figures): (String, SessionFigures)| {
        let mut value = json!({
            "session": session,
            "calls": figures.calls,
            "tokens": figures.tokens,
            "cost": figures.tokens as f64 / 1e6 * price,
        });
        if let Some(client) = figures.client {
            value["client"] = client.into();
        }
        value
    };
    sessions.into_iter().map(row).collect()
}

/// Returns the content of strangers that led to something first, then the newest.
fn stranger_rows(trail: StrangerTrail) -> (Vec<Value>, usize) {
    let mut reads = trail.into_reads();
    reads.sort_by_key(|read| std::cmp::Reverse((read.is_relevant(), read.time())));
    let total = reads.len();
    let rows = reads.iter().take(STRANGERS_MAX);
    (rows.map(|read| read.value(LED_TO_MAX)).collect(), total)
}
