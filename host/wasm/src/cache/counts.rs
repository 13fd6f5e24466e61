//! Counters of cache hits and misses for compiled code, for monitoring a server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Use of the cache for compiled code since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodeCounts {
    /// Hits that were mapped.
    pub mapped: u64,
    /// Hits that were read and verified against their hash.
    pub read: u64,
    /// Misses.
    pub missed: u64,
    /// Bytes of code found in the cache.
    pub bytes: u64,
    /// Components compiled, successfully or not.
    pub compiled: u64,
    /// Total time spent compiling.
    pub compiling: Duration,
}

/// Live counters of [`CodeCounts`].
#[derive(Debug, Default)]
pub(crate) struct CodeCounters {
    mapped: AtomicU64,
    read: AtomicU64,
    missed: AtomicU64,
    bytes: AtomicU64,
    compiled: AtomicU64,
    micros: AtomicU64,
}

impl CodeCounters {
    pub(crate) fn count_mapped(&self, bytes: u64) {
        self.mapped.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn count_read(&self, bytes: u64) {
        self.read.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn count_missed(&self) {
        self.missed.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_compiled(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.compiled.fetch_add(1, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> CodeCounts {
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
