//! Audit events, and the port to the log that records them.

use std::io;

use crate::backend::BoxFuture;
use crate::trace_context::TraceContext;

mod arguments;
mod call_span;
mod canary_direction;
mod event;
mod kind;
mod outcome_kind;

pub use arguments::shorten_arguments;
pub use call_span::{CallSpan, EffectKind, RequestOrigin, RequestTransport};
pub use canary_direction::CanaryDirection;
pub use event::{AuditEvent, rfc3339};
pub use kind::EventKind;
pub use outcome_kind::{OutcomeKind, StopCause};

/// Error of an event that could not be recorded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the audit log {place} cannot be written: {source}; {}",
    remedy(source)
)]
pub struct AuditError {
    /// Path of the log.
    pub place: String,
    /// The cause.
    pub source: io::Error,
}

impl AuditError {
    /// Returns true if the cause is [`OutcomeTakenOver`].
    pub fn is_taken_over(&self) -> bool {
        let cause = self.source.get_ref();
        cause.is_some_and(|cause| cause.is::<OutcomeTakenOver>())
    }
}

/// Cause of an [`AuditError`] in a cluster: another process has closed the log of this one, because its lease had ended,
/// and has recorded its calls as `UNAVAILABLE`. The call may have run. It must not be recorded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "another process has recorded the end of the call, because the lease of this process had ended"
)]
pub struct OutcomeTakenOver;

/// Returns the remedy for a failed write.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if error
            .get_ref()
            .is_some_and(|cause| cause.is::<OutcomeTakenOver>()) =>
        {
            "check the effects of the call before you call again"
        }
        io::ErrorKind::NotConnected | io::ErrorKind::TimedOut => {
            "check that the NATS servers run and have a quorum, and that this process can reach them"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or set `audit.onFailure: run` to go on without a record"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make its folder writable for you, or set `audit.onFailure: run` to go on without a record"
        }
        _ => {
            "run `mimir doctor` to check it, or set `audit.onFailure: run` to go on without a record"
        }
    }
}

/// The port to the log that records events.
pub trait AuditSink: Send + Sync {
    /// Checks that an event can be recorded now. The pipeline checks this before a call takes effect, and refuses calls
    /// that cannot be recorded.
    fn ready(&self) -> Result<(), AuditError> {
        Ok(())
    }

    /// Records an event. Returns when the event is stored.
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError>;

    /// Records an event, possibly in one write with events of concurrent calls. The event is recorded even if the
    /// future is dropped.
    fn record_with_others<'a>(
        &'a self,
        event: &AuditEvent,
    ) -> BoxFuture<'a, Result<(), AuditError>> {
        Box::pin(std::future::ready(self.record(event)))
    }

    /// Announces a call that is about to take effect, so that its outcome is recorded even if this process ends before.
    /// Returns when the announcement is stored. Logs whose processes do not take over from each other store nothing.
    fn announce<'a>(&'a self, event: &AuditEvent) -> BoxFuture<'a, Result<(), AuditError>> {
        let _ = event;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns true if recording takes a network round trip, so that callers should use [`Self::record_with_others`]
    /// where they can.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the context of a new span within `parent`, or of a new trace, for a log that also exports traces. Events
    /// then have spans.
    fn start_span(&self, parent: Option<&TraceContext>) -> Option<TraceContext> {
        let _ = parent;
        None
    }

    /// Observes a call that another process has recorded, for a log that also exports traces.
    fn observe(&self, event: &AuditEvent) {
        let _ = event;
    }

    /// Returns true if events include the arguments of calls.
    fn wants_arguments(&self) -> bool {
        false
    }
}
