//! Traces, metrics and logs of calls for OpenTelemetry collectors, sent as OTLP over HTTP in JSON, and alarms for
//! webhooks.
//!
//! [`Telemetry`] observes audit events: [`Telemetry::wrap`] returns an audit log that records like the wrapped one. Spans
//! and metrics follow the semantic conventions of OpenTelemetry for MCP and GenAI. Exported data never contains content:
//! no arguments, results, paths, queries, or names that a model has chosen.
//!
//! Data waits in bounded queues and is sent by a thread of its own, so that a collector that is slow or down neither
//! delays nor fails a call: then the oldest data is dropped and counted.
//!
//! Out of scope: sending HTTP requests ([`TelemetryTransport`]), settings, and the Prometheus text format.

mod alarm;
mod attributes;
mod call_metrics;
mod call_spans;
mod channel;
mod dashboard;
mod environment;
mod exporter;
mod instruments;
mod log_record;
mod metric_store;
mod otlp;
mod sink;
mod span;
mod telemetry;
mod transport;

pub use alarm::Alarm;
pub use attributes::{AttributeValue, Attributes};
pub use dashboard::DASHBOARD;
pub use environment::OtelVariables;
pub use instruments::{Instrument, InstrumentDefinition, InstrumentKind, MetricAttribute};
pub use log_record::{LogRecord, LogSeverity};
pub use metric_store::{
    AttributeSet, GaugeReading, GaugeSource, HistogramValue, MetricSeries, MetricSnapshot,
    SeriesValue,
};
pub use otlp::TelemetryResource;
pub use telemetry::{ExportSignals, Telemetry, TelemetryOptions};
pub use transport::{TelemetryRequest, TelemetryResponse, TelemetryTransport};
