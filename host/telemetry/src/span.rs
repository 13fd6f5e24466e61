//! Spans in the JSON form of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use mimir_core::trace_context::{SpanId, TraceId};
use serde_json::{Value, json};

use crate::attributes::Attributes;

/// The role of a span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// An operation within the process.
    Internal,
    /// The processing of a request of a client.
    Server,
}

/// A completed operation.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub start: SystemTime,
    pub end: SystemTime,
    pub attributes: Attributes,
    /// The class of the error if the operation failed, as in the attribute `error.type`.
    pub error: Option<String>,
}

impl Span {
    /// Returns OTLP's `Span`. Ids are in hex, times in nanoseconds as strings.
    pub(crate) fn to_json(&self) -> Value {
        let mut span = json!({
            "traceId": self.trace.to_string(),
            "spanId": self.id.to_string(),
            "name": self.name,
            "kind": match self.kind {
                SpanKind::Internal => 1,
                SpanKind::Server => 2,
            },
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.end.max(self.start)),
            "attributes": self.attributes.to_json(),
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = parent.to_string().into();
        }
        // A status is set for errors only: a successful operation leaves it unset.
        if self.error.is_some() {
            span["status"] = json!({ "code": 2 });
        }
        span
    }
}

/// Returns a time as nanoseconds since 1970, as OTLP writes it.
pub(crate) fn nanos(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}
