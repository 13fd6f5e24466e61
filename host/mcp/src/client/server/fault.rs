//! Errors of the last start of a server: stored for listings, and returned to calls of its tools.
//!
//! Out of scope: starting the server.

use std::sync::atomic::Ordering;

use mimir_core::{Code, ToolError};

use super::Server;
use crate::client::described::Failed;
use crate::client::spec::Way;
use crate::client::{hidden, program, runner};

impl Server {
    fn fault_key(&self) -> String {
        format!("{}-failed", self.kept_under())
    }

    /// Returns the error of a recent failure, in this process or another.
    pub(super) fn kept_fault(&self) -> Option<ToolError> {
        let kept = self.deps.store.read(&self.fault_key())?;
        Failed::read(&kept).map(Failed::error)
    }

    /// Returns the reason why its tools are missing; none if they are known, or if the server was never tried.
    pub(in crate::client) fn fault(&self) -> Option<ToolError> {
        if self.known().is_some() {
            return None;
        }
        let own = self.fault.lock().clone();
        let mut fault = own.or_else(|| self.kept_fault())?;
        let way = format!("run `mimir mcp test {}` to try it again", self.spec.name);
        let before = fault.way_out.to_vec();
        fault = fault.with_way_out(before.into_iter().chain([way]));
        Some(fault)
    }

    /// Clears the error after a successful start.
    pub(super) fn is_well(&self) {
        *self.fault.lock() = None;
    }

    /// Records the error of a failed start. A failure because mimir shuts down does not count.
    pub(super) async fn is_ill(&self, error: &ToolError) {
        if program::leaves().await {
            return;
        }
        let failed = serde_json::to_string(&Failed::now(error)).unwrap_or_default();
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
        let mut error = ToolError::new(Code::Timeout, message);
        let end = self.last_end.lock().clone();
        if let Some(end) = &end {
            end.heard(&mut error);
        }
        let mut ways = Vec::new();
        if let Way::Program(launch) = &self.spec.way {
            if let Some(end) = &end {
                error = hidden::told(error, launch, &self.deps.root, end);
            }
            if let Some(runner) =
                runner::downloads(&launch.words).filter(|_| launch.package.is_none())
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
        let before = error.way_out.to_vec();
        error.with_way_out(before.into_iter().chain(ways))
    }

    /// Returns the error for a server that is not available, with the reason of its last failure.
    pub(super) fn unready(&self, mut message: String) -> ToolError {
        let fault = self.fault.lock();
        let mut ways = Vec::new();
        if let Some(fault) = &*fault {
            message.push_str(": ");
            message.push_str(&fault.message);
            ways = fault.way_out.to_vec();
        }
        let name = &self.spec.name;
        ways.push(format!("run `mimir mcp test {name}` to see what is wrong"));
        ToolError::new(Code::Unavailable, message).with_way_out(ways)
    }
}
