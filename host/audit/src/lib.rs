//! The audit log: a hash-chained record of every call, as files of JSON lines.
//!
//! # Format
//!
//! `audit.jsonl` is a hash chain with one JSON object per line. The last two members of each object are
//! `"seq":N,"prev":"HASH"`. `seq` counts from 1. `prev` is the SHA-256 of the bytes of the previous line, without the
//! line end, in lower-case hex; in the first line it is 64 zeros. A line can be checked with `sha256sum`, and a log of
//! a single file with
//!
//! ```sh
//! prev=$(printf '%064d' 0)
//! while IFS= read -r line; do
//!   case $line in *"\"prev\":\"$prev\"}") ;; *) echo "broken: $line" ;; esac
//!   prev=$(printf %s "$line" | sha256sum | cut -c1-64)
//! done < audit.jsonl
//! ```
//!
//! A file that has reached the maximum size ends with an event `rotated` and is renamed to `audit.N.jsonl`, where N is
//! the `seq` of that line; the next file continues the chain. `audit.head` contains `seq` and hash of the last line, so
//! that missing lines at the end are detected, too. The head is written after the line, in place and under the same
//! lock: a crash in between leaves a head that is behind, which is not a fault. A line that was torn by a crash stays
//! in the file; the next writer ends the line and records the number of its bytes in an event `recovered`. A crash
//! never removes the head: if the head is missing or damaged, the next writer records that in `recovered`, and
//! verification reports a fault.
//!
//! The chain has no secret key: anyone who can write all of these files can write another history. To detect that, a
//! front end stores the end of the log in a user folder ([`FileAuditSink::opened_and_current`]), and
//! `mimir audit verify` prints the head, which the user can note elsewhere and check with `--head`.

use std::io;

mod batch;
mod chain_verifier;
mod chain_writer;
mod entry;
mod exported_log;
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

pub use chain_verifier::ChainVerifier;
pub use entry::AuditEntry;
pub use exported_log::ExportedLog;
pub use file::FileAuditSink;
pub use follower::LogFollower;
pub use hash::LineHash;
pub use head::LogHead;
pub use line::{ChainLink, LineDraft};
pub use snapshot::{AuditLine, AuditLog, LogSnapshot};
pub use verify::{ChainFault, VerifyFinding, VerifyReport, verify, verify_exported};

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
