//! Log records in the JSON form of OTLP.

use std::time::SystemTime;

use mimir_core::trace_context::TraceContext;
use serde_json::{Value, json};

use crate::attributes::Attributes;
use crate::span::nanos;

/// The severity of a log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSeverity {
    /// A normal event.
    Info,
    /// A possible problem.
    Warn,
    /// A failure.
    Error,
}

/// A log record. The text must be masked, and must not contain content of calls.
#[derive(Debug, Clone)]
pub struct LogRecord {
    /// The time of the event.
    pub time: SystemTime,
    /// The severity.
    pub severity: LogSeverity,
    /// The name of the event, if it has one.
    pub event: Option<&'static str>,
    /// The message.
    pub body: String,
    /// The attributes.
    pub attributes: Attributes,
    /// The span that the event belongs to.
    pub trace: Option<TraceContext>,
}

impl LogRecord {
    /// Returns OTLP's `LogRecord`.
    pub(crate) fn to_json(&self) -> Value {
        let (number, text) = match self.severity {
            LogSeverity::Info => (9, "INFO"),
            LogSeverity::Warn => (13, "WARN"),
            LogSeverity::Error => (17, "ERROR"),
        };
        let mut record = json!({
            "timeUnixNano": nanos(self.time),
            "observedTimeUnixNano": nanos(self.time),
            "severityNumber": number,
            "severityText": text,
            "body": { "stringValue": self.body },
            "attributes": self.attributes.to_json(),
        });
        if let Some(event) = self.event {
            record["eventName"] = event.into();
        }
        if let Some(trace) = &self.trace {
            record["traceId"] = trace.trace_id().to_string().into();
            record["spanId"] = trace.span_id().to_string().into();
        }
        record
    }
}
