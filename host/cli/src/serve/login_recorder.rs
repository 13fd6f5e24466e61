//! Logins at a console on the audit log.

use std::sync::Arc;
use std::time::SystemTime;

use mimir_console::{ConsoleLoginRecord, ConsoleLoginRecorder};
use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::text::visible;

use crate::output::warn;
use mimir::setup::HostSetup;

/// Writes the logins at a console to the audit log.
pub struct AuditedLogins(Arc<dyn AuditSink>);

impl AuditedLogins {
    /// Creates a recorder for the audit log of a workspace, or of its cluster.
    pub fn new(setup: &HostSetup) -> Self {
        Self(setup.audit())
    }
}

impl ConsoleLoginRecorder for AuditedLogins {
    fn record(&self, login: &ConsoleLoginRecord) {
        let mut event = AuditEvent::new(EventKind::ConsoleLogin, SystemTime::now())
            .with_detail(&login.to_string());
        if let Some(name) = &login.name {
            event = event.with_subject(name);
        }
        if let Err(code) = login.outcome {
            event = event.refused(code);
        }
        if let Err(error) = self.0.record(&event) {
            warn(format_args!(
                "a login at the console was not recorded: {}",
                visible(&error.to_string())
            ));
        }
    }
}
