//! How often compiled code was there and how often it was not, for whoever watches a server.
//!
//! Never here: what is kept.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What a process has had of its cache of compiled code since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodeCounts {
    /// How often code was there and was mapped as it lay.
    pub mapped: u64,
    /// How often code was there and was read and compared with its hash.
    pub read: u64,
    /// How often code was not there.
    pub missed: u64,
    /// Bytes of the code that was there.
    pub bytes: u64,
    /// How many components were compiled, whether or not that went well.
    pub compiled: u64,
    /// How long that took, all together.
    pub compiling: Duration,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    mapped: AtomicU64,
    read: AtomicU64,
    missed: AtomicU64,
    bytes: AtomicU64,
    compiled: AtomicU64,
    micros: AtomicU64,
}

impl Counts {
    pub(crate) fn mapped(&self, bytes: u64) {
        self.mapped.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn read(&self, bytes: u64) {
        self.read.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn missed(&self) {
        self.missed.fetch_add(1, Relaxed);
    }

    pub(crate) fn compiled(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.compiled.fetch_add(1, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
    }

    pub(crate) fn now(&self) -> CodeCounts {
        CodeCounts {
            mapped: self.mapped.load(Relaxed),
            read: self.read.load(Relaxed),
            missed: self.missed.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            compiled: self.compiled.load(Relaxed),
            compiling: Duration::from_micros(self.micros.load(Relaxed)),
        }
    }
}
