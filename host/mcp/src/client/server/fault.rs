//! Why a server could not be started, or reached: kept for those who only look, and told to those who call its tools.
//!
//! Never here: the start itself.

use std::sync::PoisonError;
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

    /// Why it failed not long ago, in this process or another.
    pub(super) fn kept_fault(&self) -> Option<ToolError> {
        let kept = self.deps.store.read(&self.fault_key())?;
        Failed::read(&kept).map(Failed::error)
    }

    /// Why its tools are not there; nothing of one whose tools are known, or that was never tried.
    pub(in crate::client) fn fault(&self) -> Option<ToolError> {
        if self.known().is_some() {
            return None;
        }
        let own = self
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut fault = own.or_else(|| self.kept_fault())?;
        let way = format!("`mimir mcp test {}` tries it again", self.spec.name);
        let before = fault.way_out.to_vec();
        fault = fault.with_way_out(before.into_iter().chain([way]));
        Some(fault)
    }

    /// It has begun.
    pub(super) fn is_well(&self) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// It has not. What ended because mimir ends is no failure of its own.
    pub(super) async fn is_ill(&self, error: &ToolError) {
        if program::leaves().await {
            return;
        }
        let failed = serde_json::to_string(&Failed::now(error)).unwrap_or_default();
        self.deps.store.write(&self.fault_key(), &failed);
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        // Whoever calls a tool of it is told why.
        if self.known().is_none() {
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.news.notify_one();
        }
    }

    /// The error for a server that was not ready in time: the last lines that it wrote, and the setting that gives it
    /// more time.
    pub(super) fn late(&self) -> ToolError {
        let name = &self.spec.name;
        let millis = self.spec.start.as_millis();
        let message =
            format!("the server `{name}` was not ready within {millis} ms (startTimeoutMs)");
        let mut error = ToolError::new(Code::Timeout, message);
        let end = self
            .last_end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
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
                    "`{runner}` may still be downloading: `mimir mcp install {name}` downloads the package once, without this limit"
                ));
            }
        }
        ways.push(format!(
            "`startTimeoutMs: {}` in mcp.servers.{name} gives it more time",
            millis.saturating_mul(4)
        ));
        let before = error.way_out.to_vec();
        error.with_way_out(before.into_iter().chain(ways))
    }

    /// That it is not started at the moment, and why it failed.
    pub(super) fn unready(&self, mut message: String) -> ToolError {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ways = Vec::new();
        if let Some(fault) = &*fault {
            message.push_str(": ");
            message.push_str(&fault.message);
            ways = fault.way_out.to_vec();
        }
        let name = &self.spec.name;
        ways.push(format!("`mimir mcp test {name}` shows what is wrong"));
        ToolError::new(Code::Unavailable, message).with_way_out(ways)
    }
}
