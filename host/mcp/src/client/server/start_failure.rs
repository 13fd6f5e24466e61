//! Errors of the last start of a server: stored for listings, and returned to calls of its tools.
//!
//! Out of scope: starting the server.

use std::sync::atomic::Ordering;

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
        let kept = self.deps.store.read(&self.fault_key())?;
        StartFailure::read(&kept).map(StartFailure::error)
    }

    /// Returns the reason why its tools are missing; none if they are known, or if the server was never tried.
    pub(in crate::client) fn fault(&self) -> Option<ToolError> {
        if self.known().is_some() {
            return None;
        }
        let own = self.fault.lock().clone();
        let mut fault = own.or_else(|| self.recent_fault())?;
        let way = format!("run `mimir mcp test {}` to try it again", self.spec.name);
        let before = fault.remedies.to_vec();
        fault = fault.with_remedies(before.into_iter().chain([way]));
        Some(fault)
    }

    /// Clears the error after a successful start.
    pub(super) fn clear_fault(&self) {
        *self.fault.lock() = None;
    }

    /// Records the error of a failed start. A failure because mimir shuts down does not count.
    pub(super) async fn record_fault(&self, error: &ToolError) {
        if program::is_shutting_down().await {
            return;
        }
        let failed = serde_json::to_string(&StartFailure::new(error)).unwrap_or_default();
        self.deps.store.write(&self.fault_key(), &failed);
        *self.fault.lock() = Some(error.clone());
        // A call of one of its known tools gets the error directly.
        if self.known().is_none() {
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.news.notify_one();
        }
    }

    /// Returns the error for a server that was not ready in time, with its last output, and a hint at the setting for
    /// more time.
    pub(super) fn late(&self) -> ToolError {
        let name = &self.spec.name;
        let millis = self.spec.start.as_millis();
        let message =
            format!("the server `{name}` was not ready within {millis} ms (startTimeoutMs)");
        let mut error = ToolError::new(ToolErrorCode::Timeout, message);
        let end = self.last_end.lock().clone();
        if let Some(end) = &end {
            end.append_stderr(&mut error);
        }
        let mut ways = Vec::new();
        if let ServerTransport::Program(launch) = &self.spec.transport {
            if let Some(end) = &end {
                error = sandbox_hint::add_sandbox_hint(error, launch, &self.deps.root, end);
            }
            if let Some(runner) = package_runner::downloading_runner(&launch.args)
                .filter(|_| launch.package.is_none())
            {
                ways.push(format!(
                    "`{runner}` may still be downloading: run `mimir mcp install {name}` to download the package once, without this limit"
                ));
            }
        }
        ways.push(format!(
            "set `startTimeoutMs: {}` in mcp.servers.{name} to give it more time",
            millis.saturating_mul(4)
        ));
        let before = error.remedies.to_vec();
        error.with_remedies(before.into_iter().chain(ways))
    }

    /// Returns the error for a server that is not available, with the reason of its last failure.
    pub(super) fn unavailable_error(&self, mut message: String) -> ToolError {
        let fault = self.fault.lock();
        let mut ways = Vec::new();
        if let Some(fault) = &*fault {
            message.push_str(": ");
            message.push_str(&fault.message);
            ways = fault.remedies.to_vec();
        }
        let name = &self.spec.name;
        ways.push(format!("run `mimir mcp test {name}` to see what is wrong"));
        ToolError::unavailable(message).with_remedies(ways)
    }
}
