//! Errors of the last start of a server: stored for listings, and returned to calls of its tools.
//!
//! Out of scope: starting the server.

use mimir_core::{ToolError, ToolErrorCode};

use super::RemoteServer;
use crate::client::description::StartFailure;
use crate::client::spec::ServerTransport;
use crate::client::{package_runner, program, sandbox_hint};

impl RemoteServer {
    fn fault_key(&self) -> String {
        format!("{}-failed", self.cache_key())
    }

    /// Returns the error of a recent failure, in this process or another.
    pub(super) fn recent_fault(&self) -> Option<ToolError> {
        let stored = self.deps.store.read(&self.fault_key())?;
        StartFailure::parse(&stored).map(StartFailure::error)
    }

    /// Returns the reason why the server's tools are unknown, or `None` if they are known or the server was
    /// never started.
    pub(in crate::client) fn fault(&self) -> Option<ToolError> {
        if self.known().is_some() {
            return None;
        }
        let last_error = self.fault.lock().clone();
        let mut fault = last_error.or_else(|| self.recent_fault())?;
        let remedy = format!("run `mimir mcp test {}` to try again", self.spec.name);
        let earlier = fault.remedies.to_vec();
        fault = fault.with_remedies(earlier.into_iter().chain([remedy]));
        Some(fault)
    }

    /// Clears the error after a successful start.
    pub(super) fn clear_fault(&self) {
        *self.fault.lock() = None;
    }

    /// Forgets the failures of earlier starts, also those of other processes.
    pub(in crate::client) fn forget_fault(&self) {
        self.clear_fault();
        self.deps.store.write(&self.fault_key(), "");
    }

    /// Records the error of a failed start. A failure because mimir shuts down does not count.
    pub(super) async fn record_fault(&self, error: &ToolError) {
        if program::is_shutting_down().await {
            return;
        }
        let failed = serde_json::to_string(&StartFailure::new(error)).unwrap_or_default();
        self.deps.store.write(&self.fault_key(), &failed);
        *self.fault.lock() = Some(error.clone());
        // If the tools are known, their calls return the error directly.
        if self.known().is_none() {
            self.announce_change();
        }
    }

    /// Returns the error for a server that was not ready in time, with the server's last output and remedies.
    pub(super) fn start_timeout_error(&self) -> ToolError {
        let name = &self.spec.name;
        let millis = self.spec.start.as_millis();
        let message =
            format!("the server `{name}` was not ready within {millis} ms (startTimeoutMs)");
        let mut error = ToolError::new(ToolErrorCode::Timeout, message);
        let close_reason = self.last_close_reason.lock().clone();
        if let Some(close_reason) = &close_reason {
            close_reason.append_stderr(&mut error);
        }
        let mut remedies = Vec::new();
        if let ServerTransport::Program(launch) = &self.spec.transport {
            if let Some(close_reason) = &close_reason {
                error =
                    sandbox_hint::add_sandbox_hint(error, launch, &self.deps.root, close_reason);
            }
            if let Some(runner) = package_runner::downloading_runner(&launch.args)
                .filter(|_| launch.package.is_none())
            {
                remedies.push(format!(
                    "`{runner}` may still be downloading: run `mimir mcp install {name}` to download the package once, without this limit"
                ));
            }
        }
        remedies.push(format!(
            "set `startTimeoutMs: {}` in mcp.servers.{name} to give it more time",
            millis.saturating_mul(4)
        ));
        let earlier = error.remedies.to_vec();
        error.with_remedies(earlier.into_iter().chain(remedies))
    }

    /// Returns the error for a server that is not available, with the reason of its last failure.
    pub(super) fn unavailable_error(&self, mut message: String) -> ToolError {
        let fault = self.fault.lock();
        let mut remedies = Vec::new();
        if let Some(fault) = &*fault {
            message.push_str(": ");
            message.push_str(&fault.message);
            remedies = fault.remedies.to_vec();
        }
        let name = &self.spec.name;
        remedies.push(format!(
            "`mimir mcp logs {name}` shows what the server printed, and `mimir mcp test {name}` starts it again"
        ));
        ToolError::unavailable(message).with_remedies(remedies)
    }
}
