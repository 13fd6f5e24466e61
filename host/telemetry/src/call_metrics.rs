//! Metrics of calls and other events.

use std::time::{Duration, SystemTime};

use mimir_core::audit::{AuditEvent, EventKind};

use crate::call_spans::{EXECUTE_TOOL, error_type, known_tool, transport_name};
use crate::instruments::{Instrument, MetricAttribute};
use crate::metric_store::{AttributeSet, MetricStore};

/// Label for unknown tools, whose names a model has chosen.
const UNKNOWN_TOOL: &str = "unknown";

impl MetricStore {
    /// Counts an event that was recorded at `now`.
    pub(crate) fn count_event(&self, event: &AuditEvent, now: SystemTime) {
        match event.event {
            EventKind::Call => self.count_call(event, now),
            EventKind::Effect => {
                self.count(Instrument::Effects, vec![tool(event), code(event)]);
                self.count_answer(event);
            }
            EventKind::Canary => {
                let direction = event
                    .direction
                    .map_or("result", |direction| direction.as_str());
                let attributes = vec![(MetricAttribute::Direction, direction.into())];
                self.count(Instrument::CanaryAlarms, attributes);
            }
            _ => {}
        }
    }

    fn count_call(&self, event: &AuditEvent, now: SystemTime) {
        let mut attributes = vec![tool(event)];
        attributes.extend(error_attribute(event));
        if let Some(duration) = event.duration_ms {
            self.add(Instrument::CallDuration, attributes, duration / 1000.0);
        }
        let decision = event.decision.map_or("none", mimir_core::Decision::as_str);
        let attributes = vec![
            tool(event),
            (MetricAttribute::Decision, decision.into()),
            code(event),
        ];
        self.count(Instrument::CallDecisions, attributes);
        if let Some(fuel) = event.fuel {
            self.add(Instrument::CallFuel, vec![tool(event)], fuel as f64);
        }
        if let Some(memory) = event.peak_memory {
            self.add(Instrument::CallPeakMemory, vec![tool(event)], memory as f64);
        }
        self.count_answer(event);
        let Some(origin) = event.span.as_ref().and_then(|span| span.origin.as_ref()) else {
            return;
        };
        let mut attributes = vec![
            (MetricAttribute::Operation, EXECUTE_TOOL.into()),
            (MetricAttribute::Method, origin.method.into()),
            (
                MetricAttribute::ProtocolVersion,
                origin.protocol_version.clone().into(),
            ),
            (
                MetricAttribute::Transport,
                transport_name(origin.transport).into(),
            ),
            tool(event),
        ];
        attributes.extend(error_attribute(event));
        let seconds = now.duration_since(event.time).unwrap_or_default();
        let instrument = Instrument::McpOperationDuration;
        self.add(instrument, attributes, seconds.as_secs_f64());
    }

    fn count_answer(&self, event: &AuditEvent) {
        if let (Some(answer), Some(waited)) = (event.answer, event.waited_ms) {
            let attributes = vec![(MetricAttribute::Answer, answer.into())];
            let waited = Duration::from_millis(waited);
            self.add(Instrument::ApprovalWait, attributes, waited.as_secs_f64());
        }
    }
}

type MetricPair = <AttributeSet as IntoIterator>::Item;

fn tool(event: &AuditEvent) -> MetricPair {
    let tool = known_tool(event).unwrap_or(UNKNOWN_TOOL);
    (MetricAttribute::Tool, tool.to_owned().into())
}

fn code(event: &AuditEvent) -> MetricPair {
    let code = event.code.map_or("OK", mimir_core::ToolErrorCode::as_str);
    (MetricAttribute::Code, code.into())
}

fn error_attribute(event: &AuditEvent) -> Option<MetricPair> {
    Some((MetricAttribute::ErrorType, error_type(event)?.into()))
}
