//! Usage metrics in the Prometheus text format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use mimir_core::{ApprovalAnswer, Outcome, ToolErrorCode};
use parking_lot::Mutex;

mod metric_family;

pub use metric_family::{
    MetricFamily, MetricKind, MetricLabel, MetricSample, MetricSource, MetricValue,
};

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
    /// Number of timed calls. `bucket_counts` contains the cumulative counts for [`BUCKET_BOUNDS`], and `seconds` the
    /// total time.
    timed: u64,
    bucket_counts: [u64; BUCKET_BOUNDS.len()],
    seconds: f64,
}

/// Histogram bounds in seconds, from a cached call to one that uses its whole time limit.
const BUCKET_BOUNDS: [f64; 9] = [0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Error codes that count as denials.
const DENIALS: [ToolErrorCode; 3] = [
    ToolErrorCode::PermissionDenied,
    ToolErrorCode::ApprovalDenied,
    ToolErrorCode::PolicyDenied,
];

/// Label for unknown tools. Their names are not used, because a client may call arbitrary names.
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

    /// Counts a call that the client stopped.
    pub(crate) fn count_stopped(&self, tool: Option<&str>) {
        self.count(tool, ToolErrorCode::Cancelled.as_str(), |_| {});
    }

    /// Counts an approval answer.
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

    /// Renders all metrics as text, including current values and those of other sources.
    pub(crate) fn render(
        &self,
        active_calls: usize,
        sessions: usize,
        others: &[MetricFamily],
    ) -> String {
        let state = self.0.lock();
        let mut text = MetricsText::default();
        let name = "mimir_calls_total";
        text.write_family(name, "counter", "Calls that have ended, by tool and code.");
        for (tool, counts) in &state.tools {
            for (code, count) in &counts.codes {
                text.write_sample(name, &[("tool", tool), ("code", code)], count);
            }
        }
        let name = "mimir_denials_total";
        let help = "Calls denied by a rule, a user or a missing permission, by code.";
        text.write_family(name, "counter", help);
        for (code, count) in &state.denials {
            text.write_sample(name, &[("code", code)], count);
        }
        let help = "Duration of calls, excluding the time for approvals.";
        text.write_family("mimir_call_seconds", "histogram", help);
        for (tool, counts) in &state.tools {
            let bounds = BUCKET_BOUNDS.map(|bound| bound.to_string());
            let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
            let buckets = counts.bucket_counts.into_iter().chain([counts.timed]);
            for (bound, count) in bounds.zip(buckets) {
                let labels = [("tool", tool.as_str()), ("le", bound)];
                text.write_sample("mimir_call_seconds_bucket", &labels, count);
            }
            let labels = [("tool", tool.as_str())];
            text.write_sample("mimir_call_seconds_sum", &labels, counts.seconds);
            text.write_sample("mimir_call_seconds_count", &labels, counts.timed);
        }
        let name = "mimir_approvals_total";
        let help = "Approval answers of clients' users, by answer.";
        text.write_family(name, "counter", help);
        for (answer, count) in &state.answers {
            text.write_sample(name, &[("answer", answer)], count);
        }
        let help = "Calls that are running or waiting.";
        text.write_gauge("mimir_calls_under_way", help, active_calls);
        text.write_gauge("mimir_sessions", "Open sessions.", sessions);
        text.write_families(others);
        text.0
    }
}

/// Renders these metrics as text, and those of the process.
pub(crate) fn render_families(families: &[MetricFamily]) -> String {
    let mut text = MetricsText::default();
    text.write_families(families);
    text.0
}

/// Metrics in the text format.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    /// Writes the header lines of a metric family.
    fn write_family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a sample with these labels.
    fn write_sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escape_label(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// Writes a number, or the buckets, the sum and the count of a histogram.
    fn write_metric(&mut self, name: &str, sample: &MetricSample) {
        let labels = sample.labels.iter();
        let labels: Vec<(&str, &str)> = labels.map(|(label, text)| (*label, &**text)).collect();
        match &sample.value {
            MetricValue::Number(number) => self.write_sample(name, &labels, number),
            MetricValue::Histogram {
                bounds,
                counts,
                sum,
            } => {
                let bucket_name = format!("{name}_bucket");
                let bounds = bounds.iter().map(f64::to_string);
                let bounds = bounds.chain(["+Inf".to_owned()]);
                let mut total = 0;
                for (bound, count) in bounds.zip(counts) {
                    total += count;
                    let labels = [&labels[..], &[("le", bound.as_str())]].concat();
                    self.write_sample(&bucket_name, &labels, total);
                }
                self.write_sample(&format!("{name}_sum"), &labels, sum);
                self.write_sample(&format!("{name}_count"), &labels, total);
            }
        }
    }

    /// Writes metrics, and those of the process.
    fn write_families(&mut self, families: &[MetricFamily]) {
        for family in families {
            self.write_family(family.name, family.kind.as_str(), family.help);
            for sample in &family.samples {
                self.write_metric(family.name, sample);
            }
        }
        if let Some(bytes) = resident_memory() {
            let help = "Resident memory of this process.";
            self.write_gauge("process_resident_memory_bytes", help, bytes);
        }
    }

    /// Writes a gauge with a single value.
    fn write_gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.write_family(name, "gauge", help);
        self.write_sample(name, &[], value);
    }
}

/// Escapes the value of a label. Names of tools and codes need no escapes.
fn escape_label(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(text);
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    Cow::Owned(escaped.replace('\n', "\\n"))
}

/// Returns the resident memory of this process in bytes, if the system reports it.
fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = line.trim().strip_suffix(" kB")?;
    Some(kilobytes.trim().parse::<u64>().ok()? * 1024)
}
