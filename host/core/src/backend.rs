//! The port to the backends that run approved calls: WebAssembly, script, MCP client, process, container.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use crate::command::CommandRequest;
use crate::decision::Decision;
use crate::error::ToolError;
use crate::outcome::ToolOutput;
use crate::paths::PathRules;
use crate::pipeline::{Approved, Checked};
use crate::tool::RiskLevel;

/// A boxed future, so that ports can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs approved calls. Only the approve stage creates an [`Approved`], so no call can skip the pipeline.
pub trait Backend: Send + Sync {
    /// Runs the call. Dropping the future stops the call at once and frees its resources.
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult>;

    /// Fails if the tool cannot run at this time. Called before a person is asked, so that nobody answers a question about
    /// a call that fails in any case.
    fn check_available(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// Asks the tool's assessor, if any, to assess a call. Assessors have read-only access to files, and no access to
    /// network and commands.
    fn assess<'a>(
        &'a self,
        call: &'a Checked,
    ) -> BoxFuture<'a, Result<Option<ToolAssessment>, ToolError>> {
        let _ = call;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the command that a call with these arguments runs, if the arguments determine it, so that it is checked
    /// before the call runs. The argument `command` is always checked.
    fn command_in_arguments(&self, arguments: &Value) -> Option<CommandRequest> {
        let _ = arguments;
        None
    }

    /// Resolves the links of a path in a call's arguments, so that a rule about a file also applies to other names of
    /// the file. Called only if a rule matches paths.
    fn resolve_path(&self, path: &str) -> RealPath {
        let _ = path;
        RealPath::AsWritten
    }

    /// Returns an id of the content of a workspace file: equal ids mean equal content, also for a missing file. `path`
    /// is relative to the root. `None` if the content cannot be determined. Called only for approvals that are bound to
    /// content.
    fn content_id(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }

    /// Returns an id of the state of all files below these folders of the workspace: equal ids mean that no file has
    /// changed. `None` if the state cannot be determined. Called only for tools whose results are reused.
    fn files_state(&self, folders: Vec<String>) -> BoxFuture<'_, Option<String>> {
        let _ = folders;
        Box::pin(std::future::ready(None))
    }

    /// Discards what the tool holds for a session that has ended, such as a browser. Must not block.
    fn end_session(&self, session: &str) {
        let _ = session;
    }

    /// Reads a text file of the workspace; `path` is relative to the root. `None` if the file is missing, not text, or
    /// hidden by `rules`. Called only to restore masked values that a call writes to the file.
    fn read_text(&self, path: &str, rules: &PathRules) -> Option<String> {
        let _ = (path, rules);
        None
    }
}

/// The result of resolving a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RealPath {
    /// The path has no links.
    AsWritten,
    /// The path resolves to this path below the workspace root, without `.` and `..`.
    Other(String),
    /// The path leads outside the workspace, or cannot be resolved.
    Outside,
}

/// A tool's assessment of one of its own calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAssessment {
    /// The decision that the tool suggests.
    pub approval: Decision,
    /// The possible damage of this call.
    pub risk: RiskLevel,
    /// A summary of the call for the approver, on one line.
    pub summary: String,
    /// The possible consequences.
    pub risks: Vec<String>,
    /// The object of the call that its arguments do not name, such as the site that a browser shows. An approval covers
    /// later calls only on the same object.
    pub scope: Option<String>,
    /// True if an approval covers only this call, and is never stored.
    pub each_time: bool,
}

/// The result of a backend: within the limits, but neither sanitized nor labelled.
#[derive(Debug, Clone, PartialEq)]
pub struct RawResult {
    /// The result or the failure.
    pub result: Result<ToolOutput, ToolError>,
    /// The resources used.
    pub usage: ResourceUsage,
    /// True if the backend has already truncated the result.
    pub truncated: bool,
}

/// Resources used by a run, as far as its backend meters them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceUsage {
    /// Units of fuel.
    pub fuel: Option<u64>,
    /// Peak linear memory in bytes.
    pub peak_memory: Option<u64>,
}

impl ResourceUsage {
    /// Adds the usage of another run. The peak memory is the higher of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let fuel = [self.fuel, other.fuel].into_iter().flatten();
        Self {
            fuel: fuel.reduce(u64::saturating_add),
            peak_memory: self.peak_memory.max(other.peak_memory),
        }
    }
}

impl RawResult {
    /// Creates a failure without resource usage.
    pub fn failed(error: ToolError) -> Self {
        Self {
            result: Err(error),
            usage: ResourceUsage::default(),
            truncated: false,
        }
    }
}

impl From<Result<ToolOutput, ToolError>> for RawResult {
    fn from(result: Result<ToolOutput, ToolError>) -> Self {
        Self {
            result,
            usage: ResourceUsage::default(),
            truncated: false,
        }
    }
}
