//! Lines that do not belong to the chain.

use sha2::{Digest, Sha256};

use super::{LinePosition, MaintenanceFields};
use crate::LineHash;
use crate::snapshot::AuditLine;

/// Maximum number of positions that are stored.
const MAX_POSITIONS: usize = 200;

/// Consecutive lines that do not belong to the chain.
#[derive(Default)]
pub(super) struct UnchainedLines {
    positions: Vec<LinePosition>,
    lines: u64,
    /// The number of bytes and their digest, without the end of the last line.
    bytes: u64,
    digest: Sha256,
    ended: bool,
}

impl UnchainedLines {
    pub(super) fn push(&mut self, line: AuditLine<'_>) {
        if self.lines > 0 {
            self.digest.update(b"\n");
            self.bytes += 1;
        }
        self.lines += 1;
        self.digest.update(line.bytes);
        self.bytes += line.bytes.len() as u64;
        self.ended = line.ended;
        if self.positions.len() < MAX_POSITIONS {
            self.positions.push(LinePosition::from_line(line));
        }
    }

    /// Returns the positions of the lines, up to [`MAX_POSITIONS`].
    pub(super) fn positions(&self) -> &[LinePosition] {
        &self.positions
    }

    pub(super) fn first(&self) -> Option<&LinePosition> {
        self.positions.first()
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if the last line has its line end.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns true if these are the bytes that a `recovered` event describes. The recorded bytes may include the last
    /// line end, or the writer of the event has added it.
    pub(super) fn matches_recovery(&self, maintenance: &MaintenanceFields) -> bool {
        let with_end = self.digest.clone().chain_update(b"\n");
        [
            (self.bytes, self.digest.clone()),
            (self.bytes + 1, with_end),
        ]
        .into_iter()
        .any(|(bytes, digest)| {
            maintenance.torn_bytes == Some(bytes)
                && maintenance.torn_sha256.as_deref() == Some(LineHash::from(digest).as_str())
        })
    }
}
