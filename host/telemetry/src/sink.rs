//! An audit log that also exports telemetry.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use mimir_core::audit::{AuditError, AuditEvent, AuditSink};
use mimir_core::backend::BoxFuture;
use mimir_core::trace_context::{SpanId, TraceContext};

use crate::telemetry::{RecordingResult, Telemetry};

/// Records events in an audit log, and observes them once they are stored.
pub(crate) struct TelemetrySink {
    pub(crate) inner: Arc<dyn AuditSink>,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl TelemetrySink {
    fn observe_recorded(
        &self,
        event: &AuditEvent,
        started: Instant,
        result: &Result<(), AuditError>,
    ) {
        let (now, took) = (SystemTime::now(), started.elapsed());
        let recording = RecordingResult {
            took,
            failed: result.is_err(),
        };
        self.telemetry.observe(event, now, Some(recording));
    }
}

impl AuditSink for TelemetrySink {
    fn ready(&self) -> Result<(), AuditError> {
        self.inner.ready()
    }

    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        let started = Instant::now();
        let result = self.inner.record(event);
        self.observe_recorded(event, started, &result);
        result
    }

    fn record_with_others<'a>(
        &'a self,
        event: &AuditEvent,
    ) -> BoxFuture<'a, Result<(), AuditError>> {
        let started = Instant::now();
        let recorded = self.inner.record_with_others(event);
        let event = event.clone();
        Box::pin(async move {
            let observed = UnfinishedRecord {
                sink: self,
                event: Some(event),
                started,
            };
            let result = recorded.await;
            observed.finish(&result);
            result
        })
    }

    fn announce<'a>(&'a self, event: &AuditEvent) -> BoxFuture<'a, Result<(), AuditError>> {
        self.inner.announce(event)
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn start_span(&self, parent: Option<&TraceContext>) -> Option<TraceContext> {
        Some(match parent {
            Some(parent) => parent.child(SpanId::random()),
            None => TraceContext::new_trace(self.telemetry.is_sampled()),
        })
    }

    fn observe(&self, event: &AuditEvent) {
        self.telemetry.observe(event, SystemTime::now(), None);
    }

    fn wants_arguments(&self) -> bool {
        self.inner.wants_arguments()
    }
}

/// An event whose recording was started. It is recorded even if the future is dropped, and thus also observed.
struct UnfinishedRecord<'a> {
    sink: &'a TelemetrySink,
    event: Option<AuditEvent>,
    started: Instant,
}

impl UnfinishedRecord<'_> {
    fn finish(mut self, result: &Result<(), AuditError>) {
        if let Some(event) = self.event.take() {
            self.sink.observe_recorded(&event, self.started, result);
        }
    }
}

impl Drop for UnfinishedRecord<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.sink.observe_recorded(&event, self.started, &Ok(()));
        }
    }
}
