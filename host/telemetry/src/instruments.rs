//! The metrics of mimir: names, units and attributes, for OTLP and for Prometheus.

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instrument {
    /// Time from the arrival of an MCP request to its result, including approvals.
    McpOperationDuration,
    /// Run time of calls, without the time for approvals.
    CallDuration,
    /// Calls by tool, decision and result.
    CallDecisions,
    /// Fuel of calls.
    CallFuel,
    /// Peak memory of calls.
    CallPeakMemory,
    /// Calls that are running or waiting.
    ActiveCalls,
    /// Time until a person has answered an approval question.
    ApprovalWait,
    /// Checks of requests and commands of running calls.
    Effects,
    /// Time until an event is stored in the audit log.
    AuditDuration,
    /// Events that could not be stored in the audit log.
    AuditFailures,
    /// Canary secrets that were seen leaving.
    CanaryAlarms,
    /// Telemetry that was dropped, because the collector is slow or down.
    TelemetryDropped,
    /// Requests to the collector.
    TelemetryExports,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InstrumentKind {
    /// A value that only grows while the process runs.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts of values, by these upper bounds.
    Histogram(&'static [f64]),
}

/// Names and unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InstrumentDefinition {
    /// The name in OTLP.
    pub name: &'static str,
    /// The name for Prometheus, with unit and `_total`.
    pub prometheus: &'static str,
    /// The unit in the notation of UCUM.
    pub unit: &'static str,
    /// A description of one sentence.
    pub help: &'static str,
    /// The kind.
    pub kind: InstrumentKind,
}

/// An attribute of a metric. Its values are from a small set: names of known tools, codes, kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricAttribute {
    /// The operation of GenAI: `execute_tool`.
    Operation,
    /// The method of MCP.
    Method,
    /// The version of MCP.
    ProtocolVersion,
    /// The transport of MCP.
    Transport,
    /// The name of a known tool.
    Tool,
    /// The class of an error. Unset for successful operations.
    ErrorType,
    /// The result: `OK` or the code of the error.
    Code,
    /// The decision of the policy.
    Decision,
    /// The person's answer.
    Answer,
    /// The direction in which a canary was seen.
    Direction,
    /// The signal of telemetry.
    Signal,
    /// The result of a request to the collector.
    Result,
    /// Set if the number of series is above the limit.
    Overflow,
}

/// Bounds in seconds that the conventions of MCP recommend.
const OPERATION_SECONDS: &[f64] = &[
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// Bounds in seconds, from a cached call to one that uses its whole time limit.
const CALL_SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// Bounds in seconds for a person's answers.
const ANSWER_SECONDS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// Bounds in seconds for writes to a disk or over a network.
const WRITE_SECONDS: &[f64] = &[
    0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0,
];

/// Bounds of fuel, from a trivial call to the default limit.
const FUEL: &[f64] = &[1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

/// Bounds in bytes.
const MEMORY_BYTES: &[f64] = &[
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
];

impl Instrument {
    /// Every metric.
    pub const ALL: [Instrument; 13] = [
        Instrument::McpOperationDuration,
        Instrument::CallDuration,
        Instrument::CallDecisions,
        Instrument::CallFuel,
        Instrument::CallPeakMemory,
        Instrument::ActiveCalls,
        Instrument::ApprovalWait,
        Instrument::Effects,
        Instrument::AuditDuration,
        Instrument::AuditFailures,
        Instrument::CanaryAlarms,
        Instrument::TelemetryDropped,
        Instrument::TelemetryExports,
    ];

    /// Returns names and unit.
    pub const fn definition(self) -> InstrumentDefinition {
        use InstrumentKind::{Counter, Gauge, Histogram};
        let (name, prometheus, unit, kind, help) = match self {
            Instrument::McpOperationDuration => (
                "mcp.server.operation.duration",
                "mcp_server_operation_duration_seconds",
                "s",
                Histogram(OPERATION_SECONDS),
                "Time from the arrival of an MCP request to its result, including approvals.",
            ),
            Instrument::CallDuration => (
                "mimir.call.duration",
                "mimir_call_duration_seconds",
                "s",
                Histogram(CALL_SECONDS),
                "Run time of calls, nested calls too, without the time for approvals.",
            ),
            Instrument::CallDecisions => (
                "mimir.call.decisions",
                "mimir_call_decisions_total",
                "{call}",
                Counter,
                "Calls that have ended, by tool, decision of the policy and code.",
            ),
            Instrument::CallFuel => (
                "mimir.call.fuel",
                "mimir_call_fuel",
                "{fuel}",
                Histogram(FUEL),
                "Fuel of calls of WebAssembly components.",
            ),
            Instrument::CallPeakMemory => (
                "mimir.call.peak_memory",
                "mimir_call_peak_memory_bytes",
                "By",
                Histogram(MEMORY_BYTES),
                "Peak memory of calls of WebAssembly components.",
            ),
            Instrument::ActiveCalls => (
                "mimir.calls.active",
                "mimir_calls_active",
                "{call}",
                Gauge,
                "Calls in the pipeline, running or waiting, nested calls too.",
            ),
            Instrument::ApprovalWait => (
                "mimir.approval.wait",
                "mimir_approval_wait_seconds",
                "s",
                Histogram(ANSWER_SECONDS),
                "Time until approval questions were answered, by answer.",
            ),
            Instrument::Effects => (
                "mimir.effects",
                "mimir_effects_total",
                "{effect}",
                Counter,
                "Checks of requests, commands and other effects of running calls, by code.",
            ),
            Instrument::AuditDuration => (
                "mimir.audit.record.duration",
                "mimir_audit_record_seconds",
                "s",
                Histogram(WRITE_SECONDS),
                "Time until an event is stored in the audit log.",
            ),
            Instrument::AuditFailures => (
                "mimir.audit.failures",
                "mimir_audit_failures_total",
                "{event}",
                Counter,
                "Events that could not be stored in the audit log.",
            ),
            Instrument::CanaryAlarms => (
                "mimir.canary.alarms",
                "mimir_canary_alarms_total",
                "{alarm}",
                Counter,
                "Canary secrets that were seen, by direction.",
            ),
            Instrument::TelemetryDropped => (
                "mimir.telemetry.dropped",
                "mimir_telemetry_dropped_total",
                "{item}",
                Counter,
                "Spans, log records, metrics and alarms that were not delivered, by signal.",
            ),
            Instrument::TelemetryExports => (
                "mimir.telemetry.exports",
                "mimir_telemetry_exports_total",
                "{request}",
                Counter,
                "Requests to the collector and the webhook, by signal and result.",
            ),
        };
        InstrumentDefinition {
            name,
            prometheus,
            unit,
            help,
            kind,
        }
    }

    /// Returns the number of this metric in [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl MetricAttribute {
    /// Returns the name in OTLP.
    pub const fn name(self) -> &'static str {
        match self {
            MetricAttribute::Operation => "gen_ai.operation.name",
            MetricAttribute::Method => "mcp.method.name",
            MetricAttribute::ProtocolVersion => "mcp.protocol.version",
            MetricAttribute::Transport => "network.transport",
            MetricAttribute::Tool => "gen_ai.tool.name",
            MetricAttribute::ErrorType => "error.type",
            MetricAttribute::Code => "mimir.code",
            MetricAttribute::Decision => "mimir.decision",
            MetricAttribute::Answer => "mimir.answer",
            MetricAttribute::Direction => "mimir.direction",
            MetricAttribute::Signal => "mimir.signal",
            MetricAttribute::Result => "mimir.result",
            MetricAttribute::Overflow => "otel.metric.overflow",
        }
    }

    /// Returns the label for Prometheus.
    pub const fn label(self) -> &'static str {
        match self {
            MetricAttribute::Operation => "operation",
            MetricAttribute::Method => "method",
            MetricAttribute::ProtocolVersion => "protocol_version",
            MetricAttribute::Transport => "transport",
            MetricAttribute::Tool => "tool",
            MetricAttribute::ErrorType => "error_type",
            MetricAttribute::Code => "code",
            MetricAttribute::Decision => "decision",
            MetricAttribute::Answer => "answer",
            MetricAttribute::Direction => "direction",
            MetricAttribute::Signal => "signal",
            MetricAttribute::Result => "result",
            MetricAttribute::Overflow => "overflow",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn instrument_names_are_unique_and_histograms_have_rising_bounds() {
        let mut names = BTreeSet::new();
        for (at, instrument) in Instrument::ALL.into_iter().enumerate() {
            assert_eq!(instrument.index(), at, "{instrument:?}");
            let definition = instrument.definition();
            assert!(names.insert(definition.name), "{}", definition.name);
            assert!(
                names.insert(definition.prometheus),
                "{}",
                definition.prometheus
            );
            let is_counter = definition.kind == InstrumentKind::Counter;
            assert_eq!(
                is_counter,
                definition.prometheus.ends_with("_total"),
                "{}",
                definition.prometheus
            );
            if let InstrumentKind::Histogram(bounds) = definition.kind {
                assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}
