//! The audit event of a call, and the port to the log that records it.

use std::io;

use crate::backend::BoxFuture;

mod arguments;
mod event;
mod kind;

pub use arguments::brief;
pub use event::{AuditEvent, rfc3339};
pub use kind::EventKind;

/// An event that could not be recorded.
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

/// Advises the person how to make the log writable again.
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
    /// Checks that an event could be recorded now. The pipeline asks before a call takes effect: a call that cannot be
    /// recorded is not made.
    fn ready(&self) -> Result<(), AuditError> {
        Ok(())
    }

    /// Records an event; returns when it is stored.
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError>;

    /// Records an event while other calls are active: events of calls that end meanwhile may be written together with
    /// it. It is recorded even if the future is dropped.
    fn record_with_others<'a>(
        &'a self,
        event: &AuditEvent,
    ) -> BoxFuture<'a, Result<(), AuditError>> {
        Box::pin(std::future::ready(self.record(event)))
    }

    /// Returns true if events carry the arguments.
    fn wants_arguments(&self) -> bool {
        false
    }
}
