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

mod chain;
mod commit;
mod entry;
mod file;
mod follow;
mod gather;
mod hash;
mod head;
mod json;
mod line;
mod place;
mod reserve;
mod snapshot;
mod tail;
mod verify;

pub use entry::Entry;
pub use file::FileAudit;
pub use follow::Follower;
pub use hash::Hash;
pub use head::Head;
pub use snapshot::{Line, Log, Snapshot};
pub use verify::{Fault, Finding, Report, verify};

use mimir_core::audit::{AuditError, AuditSink, Event, Kind};

/// Reports whether an error says that there is no room left.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests;
