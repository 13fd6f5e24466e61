//! The record: what is in an event, and the port to where it is kept.
//!
//! # The log
//!
//! `audit.jsonl` is a chain: one JSON object a line, and the last two members of each are
//! `"seq":N,"prev":"HASH"`. `seq` counts from 1; `prev` is the SHA-256 of the line before, of its bytes
//! without the line end, in lower-case hex; before the first line it is 64 zeros. So any line can be checked
//! with `sha256sum`, and the whole log with
//!
//! ```sh
//! prev=$(printf '%064d' 0)
//! while IFS= read -r line; do
//!   case $line in *"\"prev\":\"$prev\"}") ;; *) echo "broken: $line" ;; esac
//!   prev=$(printf %s "$line" | sha256sum | cut -c1-64)
//! done < audit.jsonl
//! ```
//!
//! A log that has reached its size ends with an event `rotated` and is renamed to `audit.N.jsonl`, N being the
//! `seq` of that line; the next file goes on with the chain. `audit.head` holds `seq` and hash of the last line,
//! so that missing lines at the end are noticed too. It is written after the line, in place and under the same
//! lock: a crash between the two leaves a head that is behind, which is no fault. A line that a crash has torn
//! stays; the next writer ends it and says how many bytes it was in an event `recovered`. No crash takes the head
//! away: where it is missing or damaged, the next writer says so in `recovered`, and that stays a fault.
//!
//! Nobody holds a key: who can write all of these files can write another history. Against that, a front-end
//! remembers where the log ended in a place of the user's own ([`FileAudit::course`]), `mimir audit verify`
//! prints the head, to be noted elsewhere, and `--head` checks against what was noted.

use std::io;

use crate::backend::BoxFuture;

mod arguments;
mod chain;
mod commit;
mod entry;
mod event;
mod file;
mod follow;
mod gather;
mod hash;
mod head;
mod json;
mod kind;
mod line;
mod place;
mod reserve;
mod snapshot;
mod tail;
mod verify;

pub use arguments::brief;
pub use entry::Entry;
pub use event::Event;
pub use file::FileAudit;
pub use follow::Follower;
pub use hash::Hash;
pub use head::Head;
pub use kind::Kind;
pub use snapshot::{Line, Log, Snapshot};
pub use verify::{Fault, Finding, Report, verify};

/// An event that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "the audit log {place} cannot be written: {source}; {}",
    way_out(source)
)]
pub struct AuditError {
    /// The log.
    pub place: String,
    /// Why.
    pub source: io::Error,
}

/// What the person can do about it.
fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or set `audit.onFailure: run` to go on without a record"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make its folder writable for you, or set `audit.onFailure: run` to go on without a record"
        }
        _ => "`mimir doctor` looks at it; `audit.onFailure: run` goes on without a record",
    }
}

/// Whether an error says that there is no room left.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Where the record is kept.
pub trait AuditSink: Send + Sync {
    /// Whether an event could be kept now. Asked before a call takes effect: a call that cannot be
    /// recorded is not made.
    fn ready(&self) -> Result<(), AuditError> {
        Ok(())
    }

    /// Keeps an event; returns when it is kept.
    fn record(&self, event: &Event) -> Result<(), AuditError>;

    /// Keeps an event while other calls are under way: those that end meanwhile may be kept together with it.
    /// It is kept also if the future is dropped.
    fn record_with_others<'a>(&'a self, event: &Event) -> BoxFuture<'a, Result<(), AuditError>> {
        Box::pin(std::future::ready(self.record(event)))
    }

    /// Whether events carry the arguments.
    fn wants_arguments(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
