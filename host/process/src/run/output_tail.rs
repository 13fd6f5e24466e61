//! The end of a long output, in bounded memory.

use std::collections::VecDeque;

/// The last bytes of an output, and the number of dropped bytes before them.
pub(crate) struct OutputTail {
    bytes: VecDeque<u8>,
    limit: usize,
    dropped: u64,
}

impl OutputTail {
    /// Creates a buffer for the last `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            limit,
            dropped: 0,
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // Of a chunk larger than `limit`, only the end is stored.
        let skipped = bytes.len().saturating_sub(self.limit);
        let bytes = bytes.get(skipped..).unwrap_or_default();
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.limit);
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend(bytes);
        self.dropped += (skipped + over) as u64;
    }

    /// Returns the number of dropped bytes.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped
    }

    /// Returns the stored bytes.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}
