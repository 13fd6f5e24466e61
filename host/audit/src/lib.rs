//! The audit log: a hash-chained record of every call, as files of JSON lines.
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
//! A log that has reached its maximum size ends with an event `rotated` and is renamed to `audit.N.jsonl`, N being the
//! `seq` of that line; the next file continues the chain. `audit.head` holds `seq` and hash of the last line, so that
//! missing lines at the end are detected as well. It is written after the line, in place and under the same lock: a
//! crash in between leaves a head that is behind, which is not a fault. A line torn by a crash stays; the next writer
//! ends it and records its number of bytes in an event `recovered`. No crash removes the head: if it is missing or
//! damaged, the next writer records that in `recovered`, and it stays a fault.
//!
//! The chain has no secret key: anyone who can write all of these files can write another history. Against that, a
//! front-end stores the end of the log in a user folder ([`FileAuditSink::opened_and_current`]), `mimir audit verify`
//! prints the head, to be noted elsewhere, and `--head` checks against the noted hash.

use std::io;

mod batch;
mod chain_writer;
mod entry;
mod file;
mod follower;
mod group_commit;
mod hash;
mod head;
mod line;
mod log_paths;
mod reserve;
mod snapshot;
mod tail;
mod verify;

pub use entry::AuditEntry;
pub use file::FileAuditSink;
pub use follower::LogFollower;
pub use hash::LineHash;
pub use head::LogHead;
pub use snapshot::{AuditLine, AuditLog, LogSnapshot};
pub use verify::{ChainFault, VerifyFinding, VerifyReport, verify};

use mimir_core::audit::{AuditError, AuditEvent, AuditSink, EventKind};

/// Returns true if an error means that the disk is full.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests;
