//! Audit events, and the port to the log that records them.

use std::io;

use crate::backend::BoxFuture;

mod arguments;
mod event;
mod kind;

pub use arguments::shorten_arguments;
pub use event::{AuditEvent, rfc3339};
pub use kind::EventKind;

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

/// Returns the remedy for a failed write.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
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

    /// Returns true if events include the arguments of calls.
    fn wants_arguments(&self) -> bool {
        false
    }
}
