//! Usage metrics in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mimir_core::{ApprovalAnswer, Outcome, ToolErrorCode};
use parking_lot::Mutex;

mod metric_family;

pub use metric_family::{MetricFamily, MetricKind, MetricLabel, MetricSource};

/// Metrics since the start of the server.
#[derive(Default)]
pub(crate) struct ServerMetrics(Mutex<MetricsState>);

#[derive(Default)]
struct MetricsState {
    tools: BTreeMap<String, ToolCounters>,
    /// Denied calls by error code.
    denials: BTreeMap<&'static str, u64>,
    /// Approval answers, by kind.
    answers: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
struct ToolCounters {
    /// Ended calls by error code; `OK` for successful ones.
    codes: BTreeMap<&'static str, u64>,
    /// Number of timed calls. `bucket_counts` has the cumulative counts for [`BUCKET_BOUNDS`], `seconds` the total
    /// time.
    timed: u64,
    bucket_counts: [u64; BUCKET_BOUNDS.len()],
    seconds: f64,
}

/// Histogram bounds in seconds: from a call that is served from caches to one that uses its whole time limit.
const BUCKET_BOUNDS: [f64; 9] = [0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Error codes that count as denials.
const DENIALS: [ToolErrorCode; 3] = [
    ToolErrorCode::PermissionDenied,
    ToolErrorCode::ApprovalDenied,
    ToolErrorCode::PolicyDenied,
];

/// Label for unknown tools, because a client may call arbitrary names.
const UNKNOWN: &str = "unknown";

impl ServerMetrics {
    /// Counts an ended call. `tool` is `None` for an unknown tool.
    pub(crate) fn count_call(&self, tool: Option<&str>, outcome: &Outcome) {
        let code = match outcome.result() {
            Ok(_) => "OK",
            Err(error) => error.code.as_str(),
        };
        if let Err(error) = outcome.result()
            && DENIALS.contains(&error.code)
        {
            *self.0.lock().denials.entry(code).or_default() += 1;
        }
        let seconds = outcome.receipt().duration_ms / 1000.0;
        self.count(tool, code, |counts| {
            counts.timed += 1;
            counts.seconds += seconds;
            let bucket_counts = counts.bucket_counts.iter_mut().zip(BUCKET_BOUNDS);
            bucket_counts
                .filter(|(_, bound)| seconds <= *bound)
                .for_each(|(count, _)| *count += 1);
        });
    }

    /// Counts a call of this tool that its client stopped.
    pub(crate) fn count_stopped(&self, tool: Option<&str>) {
        self.count(tool, ToolErrorCode::Cancelled.as_str(), |_| {});
    }

    /// Counts an answer of a person, or of the client on their behalf.
    pub(crate) fn count_answer(&self, answer: &ApprovalAnswer) {
        *self.0.lock().answers.entry(answer.as_str()).or_default() += 1;
    }

    fn count(
        &self,
        tool: Option<&str>,
        code: &'static str,
        update: impl FnOnce(&mut ToolCounters),
    ) {
        let tool = tool.unwrap_or(UNKNOWN);
        let mut state = self.0.lock();
        if !state.tools.contains_key(tool) {
            state.tools.insert(tool.to_owned(), ToolCounters::default());
        }
        if let Some(counts) = state.tools.get_mut(tool) {
            *counts.codes.entry(code).or_default() += 1;
            update(counts);
        }
    }

    /// Returns all metrics as text, with the current values and those of other sources.
    pub(crate) fn text(
        &self,
        active_calls: usize,
        sessions: usize,
        others: &[MetricFamily],
    ) -> String {
        let mut text = String::new();
        let state = self.0.lock();
        let mut line = |line: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        line(format_args!(
            "{}",
            head(
                "mimir_calls_total",
                "counter",
                "Calls that have ended, by tool and code."
            )
        ));
        for (tool, counts) in &state.tools {
            for (code, count) in &counts.codes {
                line(format_args!(
                    "mimir_calls_total{{tool=\"{tool}\",code=\"{code}\"}} {count}"
                ));
            }
        }
        line(format_args!(
            "{}",
            head(
                "mimir_denials_total",
                "counter",
                "Calls denied by a rule, a person or a missing permission, by code."
            )
        ));
        for (code, count) in &state.denials {
            line(format_args!(
                "mimir_denials_total{{code=\"{code}\"}} {count}"
            ));
        }
        line(format_args!(
            "{}",
            head(
                "mimir_call_seconds",
                "histogram",
                "Duration of calls, excluding the time for approvals."
            )
        ));
        for (tool, counts) in &state.tools {
            let count = counts.timed;
            for (bound, bucket_counts) in BUCKET_BOUNDS.iter().zip(counts.bucket_counts) {
                line(format_args!(
                    "mimir_call_seconds_bucket{{tool=\"{tool}\",le=\"{bound}\"}} {bucket_counts}"
                ));
            }
            line(format_args!(
                "mimir_call_seconds_bucket{{tool=\"{tool}\",le=\"+Inf\"}} {count}"
            ));
            line(format_args!(
                "mimir_call_seconds_sum{{tool=\"{tool}\"}} {}",
                counts.seconds
            ));
            line(format_args!(
                "mimir_call_seconds_count{{tool=\"{tool}\"}} {count}"
            ));
        }
        line(format_args!(
            "{}",
            head(
                "mimir_approvals_total",
                "counter",
                "Approval answers of clients' users, by answer."
            )
        ));
        for (answer, count) in &state.answers {
            line(format_args!(
                "mimir_approvals_total{{answer=\"{answer}\"}} {count}"
            ));
        }
        line(format_args!(
            "{}",
            head(
                "mimir_calls_under_way",
                "gauge",
                "Calls that are running or waiting."
            )
        ));
        line(format_args!("mimir_calls_under_way {active_calls}"));
        line(format_args!(
            "{}",
            head("mimir_sessions", "gauge", "Open sessions.")
        ));
        line(format_args!("mimir_sessions {sessions}"));
        for family in others {
            let MetricFamily { name, help, .. } = family;
            line(format_args!("{}", head(name, family.kind.as_str(), help)));
            for (label, value) in &family.values {
                match label {
                    Some((label, label_value)) => {
                        line(format_args!("{name}{{{label}=\"{label_value}\"}} {value}"));
                    }
                    None => line(format_args!("{name} {value}")),
                }
            }
        }
        if let Some(bytes) = resident_memory() {
            let name = "process_resident_memory_bytes";
            line(format_args!(
                "{}",
                head(name, "gauge", "Resident memory of this process.")
            ));
            line(format_args!("process_resident_memory_bytes {bytes}"));
        }
        text
    }
}

/// Returns the header lines of a metric family.
fn head(name: &str, kind: &str, help: &str) -> String {
    format!("# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// Returns the resident memory of this process in bytes, where the system reports it.
fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = line.trim().strip_suffix(" kB")?;
    Some(kilobytes.trim().parse::<u64>().ok()? * 1024)
}
