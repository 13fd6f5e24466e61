//! The end of a long output, in bounded memory.

use std::collections::VecDeque;

/// The last bytes, and how many came before them.
pub(crate) struct OutputTail {
    bytes: VecDeque<u8>,
    most: usize,
    before: u64,
}

impl OutputTail {
    /// Stores the last `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            most,
            before: 0,
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // Only the end of a chunk larger than `most` is stored.
        let skipped = bytes.len().saturating_sub(self.most);
        let bytes = bytes.get(skipped..).unwrap_or_default();
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend(bytes);
        self.before += (skipped + over) as u64;
    }

    /// The number of bytes that were dropped.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.before
    }

    /// The stored bytes.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}
