//! Records that a test can inspect: audit events, log lines, progress.

use std::sync::Mutex;

use mimir_core::audit::AuditError;
use mimir_core::call::{CallObserver, CallProgress, LogLine};
use mimir_core::{AuditEvent, AuditSink};

use crate::person::lock;

/// The in-memory audit log of a test.
#[derive(Default)]
pub(crate) struct RecordedEvents(Mutex<Vec<AuditEvent>>);

impl RecordedEvents {
    pub(crate) fn all(&self) -> Vec<AuditEvent> {
        lock(&self.0).clone()
    }
}

impl AuditSink for RecordedEvents {
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        lock(&self.0).push(event.clone());
        Ok(())
    }

    fn wants_arguments(&self) -> bool {
        true
    }
}

/// Log lines and progress of a test's tools.
#[derive(Default)]
pub(crate) struct RecordedOutput {
    lines: Mutex<Vec<LogLine>>,
    progress: Mutex<Vec<CallProgress>>,
}

impl RecordedOutput {
    pub(crate) fn lines(&self) -> Vec<LogLine> {
        lock(&self.lines).clone()
    }

    pub(crate) fn progress(&self) -> Vec<CallProgress> {
        lock(&self.progress).clone()
    }
}

impl CallObserver for RecordedOutput {
    fn progress(&self, progress: CallProgress) {
        lock(&self.progress).push(progress);
    }

    fn log(&self, line: LogLine) {
        lock(&self.lines).push(line);
    }
}
