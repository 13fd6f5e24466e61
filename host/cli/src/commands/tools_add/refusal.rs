//! Refused content in the audit log: components and signatures that were not accepted.

use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use crate::exit::{CommandFailure, CommandResult};
use mimir::setup::HostSetup;

/// Records that the content of a source was refused, because of its signature, digest, size or the policy. Other errors,
/// such as those of the network, are not recorded.
pub fn record_refusal(setup: &HostSetup, source: &str, error: &ToolError) {
    let is_refusal = matches!(
        error.code,
        ToolErrorCode::PolicyDenied
            | ToolErrorCode::PermissionDenied
            | ToolErrorCode::LimitExceeded
    );
    if !is_refusal {
        return;
    }
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
    let event = event.with_subject(&visible(source)).refused(error.code);
    setup.record_event(&event.with_detail(&format!("refused: {}", visible(&error.message))));
}

/// Records the refusal of a result, if it is one.
pub fn recorded<T>(setup: &HostSetup, source: &str, result: CommandResult<T>) -> CommandResult<T> {
    if let Err(CommandFailure::Reported { error, .. }) = &result {
        record_refusal(setup, source, error);
    }
    result
}
