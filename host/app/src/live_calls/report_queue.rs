//! Reports that wait to be sent to consoles. Calls add reports without blocking; what exceeds the bounds is dropped.

use std::collections::VecDeque;

use mimir_core::call_monitor::CallReport;

/// Number of waiting reports from which on output is dropped.
const MAX_WITH_OUTPUT: usize = 4_096;

/// Number of waiting reports from which on new calls are dropped, too.
const MAX_WITH_STARTS: usize = 6_144;

/// Maximum number of waiting reports. The ends of calls have the most room, so that calls do not seem to run forever.
const MAX_REPORTS: usize = 16_384;

/// Maximum size of waiting reports in bytes.
const MAX_SIZE: usize = 32 << 20;

/// Reports that wait to be sent.
#[derive(Default)]
pub(super) struct ReportQueue {
    reports: VecDeque<CallReport>,
    size: usize,
    dropped: u64,
}

impl ReportQueue {
    /// Adds a report, or drops it and counts it.
    pub(super) fn push(&mut self, report: CallReport) {
        let max = if report.is_output() {
            MAX_WITH_OUTPUT
        } else if report.is_start() {
            MAX_WITH_STARTS
        } else {
            MAX_REPORTS
        };
        let size = report.size();
        if self.reports.len() >= max || self.size + size > MAX_SIZE {
            self.dropped = self.dropped.saturating_add(1);
        } else {
            self.size += size;
            self.reports.push_back(report);
        }
    }

    /// Removes the oldest reports, at most `max`.
    pub(super) fn take(&mut self, max: usize) -> Vec<CallReport> {
        let count = self.reports.len().min(max);
        let taken: Vec<_> = self.reports.drain(..count).collect();
        let size: usize = taken.iter().map(CallReport::size).sum();
        self.size -= size;
        taken
    }

    /// Returns the number of dropped reports since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Returns true if new calls are dropped.
    pub(super) fn is_crowded(&self) -> bool {
        self.reports.len() >= MAX_WITH_STARTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.dropped == 0
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
