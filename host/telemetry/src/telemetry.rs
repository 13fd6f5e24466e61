//! The entry point: observes audit events, and passes them to the exporter.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mimir_core::audit::{AuditEvent, AuditSink, EventKind};

use crate::alarm::Alarm;
use crate::attributes::Attributes;
use crate::call_spans;
use crate::exporter::Exporter;
use crate::instruments::Instrument;
use crate::log_record::{LogRecord, LogSeverity};
use crate::metric_store::{GaugeSource, MetricSnapshot, MetricStore};
use crate::otlp::TelemetryResource;
use crate::sink::TelemetrySink;
use crate::transport::TelemetryTransport;

/// The signals that are sent to the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportSignals {
    /// Spans of calls.
    pub traces: bool,
    /// Metrics.
    pub metrics: bool,
    /// Summaries of audit events, and warnings of mimir itself.
    pub logs: bool,
}

/// Options of [`Telemetry`]. The default exports nothing and only collects metrics.
#[derive(Clone, Default)]
pub struct TelemetryOptions {
    /// Sends requests to the collector, for these signals.
    pub collector: Option<(Arc<dyn TelemetryTransport>, ExportSignals)>,
    /// Sends alarms to the webhook.
    pub webhook: Option<Arc<dyn TelemetryTransport>>,
    /// Attributes of this process.
    pub resource: TelemetryResource,
    /// Name of this machine, for alarms.
    pub host: String,
    /// Share of new traces that are exported, from 0 to 1. Traces of clients keep the client's choice. `None` exports
    /// all.
    pub sample_ratio: Option<f64>,
    /// Time between two exports of metrics. `None` is a minute.
    pub interval: Option<Duration>,
    /// Delay before a failed request is tried again. `None` is a second. It doubles with each further attempt.
    pub first_backoff: Option<Duration>,
}

/// Observes audit events, and exports spans, metrics, logs and alarms.
pub struct Telemetry {
    metrics: Arc<MetricStore>,
    exporter: Option<Exporter>,
    sample_ratio: f64,
}

/// The result of recording an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordingResult {
    pub took: Duration,
    pub failed: bool,
}

impl Telemetry {
    /// Starts telemetry. Starts a thread if something is exported.
    pub fn start(options: TelemetryOptions) -> Arc<Self> {
        let metrics = Arc::new(MetricStore::new(SystemTime::now()));
        let sample_ratio = options.sample_ratio.unwrap_or(1.0);
        Arc::new(Self {
            exporter: Exporter::start(options, &metrics),
            metrics,
            sample_ratio,
        })
    }

    /// Returns an audit log that records in `inner`, and whose events are exported.
    pub fn wrap(self: &Arc<Self>, inner: Arc<dyn AuditSink>) -> Arc<dyn AuditSink> {
        Arc::new(TelemetrySink {
            inner,
            telemetry: Arc::clone(self),
        })
    }

    /// Adds a source of current values of gauges.
    pub fn add_gauges(&self, source: GaugeSource) {
        self.metrics.add_gauges(source);
    }

    /// Returns the current values of all metrics.
    pub fn metrics(&self) -> Vec<MetricSnapshot> {
        self.metrics.snapshot()
    }

    /// Exports a log record, if logs are exported. The text must be masked.
    pub fn log(&self, record: LogRecord) {
        if let Some(exporter) = &self.exporter {
            exporter.log(record);
        }
    }

    /// Returns true if logs are exported.
    pub fn exports_logs(&self) -> bool {
        self.exporter.as_ref().is_some_and(Exporter::has_logs)
    }

    /// Sends what waits, for at most this time. Returns true if nothing waits any more.
    pub fn flush(&self, timeout: Duration) -> bool {
        let exporter = self.exporter.as_ref();
        exporter.is_none_or(|exporter| exporter.flush(Instant::now() + timeout))
    }

    /// Decides whether a new trace is exported.
    pub(crate) fn is_sampled(&self) -> bool {
        if self.sample_ratio >= 1.0 {
            return true;
        }
        let random = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
        random < self.sample_ratio
    }

    /// Observes an event at `now`. `recording` is `None` if another process has recorded it.
    pub(crate) fn observe(
        &self,
        event: &AuditEvent,
        now: SystemTime,
        recording: Option<RecordingResult>,
    ) {
        self.metrics.count_event(event, now);
        if let Some(RecordingResult { took, failed }) = recording {
            let took = took.as_secs_f64();
            self.metrics
                .add(Instrument::AuditDuration, Vec::new(), took);
            if failed {
                self.metrics.count(Instrument::AuditFailures, Vec::new());
            }
        }
        let Some(exporter) = &self.exporter else {
            return;
        };
        if let Some(alarm) = Alarm::from_event(event) {
            exporter.alarm(alarm);
        }
        if exporter.has_traces() {
            call_spans::spans(event, now)
                .into_iter()
                .for_each(|span| exporter.span(span));
        }
        if exporter.has_logs() {
            exporter.log(summary(event, now));
        }
    }
}

/// Returns the summary of an audit event as a log record, without subject, detail and arguments.
fn summary(event: &AuditEvent, now: SystemTime) -> LogRecord {
    let mut attributes = Attributes::default();
    let tool = call_spans::known_tool(event).map(str::to_owned);
    attributes.set_some("gen_ai.tool.name", tool);
    if !event.id.is_empty() {
        attributes.set("mimir.call.id", event.id.clone());
    }
    let decision = event.decision.map(mimir_core::Decision::as_str);
    attributes.set_some("mimir.decision", decision);
    let code = event.code.map(mimir_core::ToolErrorCode::as_str);
    attributes.set_some("mimir.code", code);
    let direction = event.direction.map(|direction| direction.as_str());
    attributes.set_some("mimir.direction", direction);
    attributes.set("mimir.ok", event.ok);
    LogRecord {
        time: now,
        severity: match (event.event, event.ok) {
            (EventKind::Canary, _) => LogSeverity::Error,
            (_, true) => LogSeverity::Info,
            (_, false) => LogSeverity::Warn,
        },
        event: Some("mimir.audit"),
        body: event.event.as_str().to_owned(),
        attributes,
        trace: event.span.as_ref().map(|span| span.context.clone()),
    }
}
