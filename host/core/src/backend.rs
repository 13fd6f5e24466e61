//! The port to whatever runs an approved call: wasm, script, MCP client, process, container.

use std::future::Future;
use std::pin::Pin;

use crate::decision::Decision;
use crate::error::ToolError;
use crate::outcome::Output;
use crate::paths::PathRules;
use crate::pipeline::{Approved, Checked};
use crate::tool::Risk;

/// A future on the heap, so that ports can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs calls that were approved. There is no other way in: only the approve stage makes an
/// [`Approved`].
pub trait Backend: Send + Sync {
    /// Runs the call. Dropping the future stops it at once and frees what it holds.
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw>;

    /// Asks the tool to judge this call, if it has an assessor. Runs with read-only files, no
    /// network and no commands.
    fn assess<'a>(
        &'a self,
        call: &'a Checked,
    ) -> BoxFuture<'a, Result<Option<Assessment>, ToolError>> {
        let _ = call;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Where a path among the arguments of a call leads, if links are followed as far as there is something: a
    /// rule about one name of a file must not be passed by under another. Asked only where a rule is about paths.
    fn real_path(&self, path: &str) -> RealPath {
        let _ = path;
        RealPath::AsWritten
    }

    /// Names what is in a file of the workspace, by a path from its root: the same as long as that is the same, also if
    /// there is no such file. Nothing if it cannot be known. Asked only where an answer is bound to it.
    fn content(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }

    /// Reads a text file of the workspace, by a path from its root, unless one of the rules hides it. Nothing if it is not
    /// there or no text. Asked only to put masked values back that a call writes to the file.
    fn text(&self, path: &str, rules: &PathRules) -> Option<String> {
        let _ = (path, rules);
        None
    }
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RealPath {
    /// There is no link on the way.
    AsWritten,
    /// To this path below the workspace root, without `.` and `..`.
    Other(String),
    /// Out of the workspace, or nowhere.
    Outside,
}

/// What a tool says about one call of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// What it would do with the call.
    pub approval: Decision,
    /// How bad this call could be.
    pub risk: Risk,
    /// One line for the person who is asked.
    pub summary: String,
    /// What could go wrong.
    pub risks: Vec<String>,
}

/// What a backend hands back: unbounded in nothing, but neither sanitised nor labelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Raw {
    /// The result or the failure.
    pub result: Result<Output, ToolError>,
    /// What it used.
    pub usage: Usage,
    /// Whether the backend cut the result already.
    pub truncated: bool,
}

/// What a run used, as far as its backend meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Units of fuel.
    pub fuel: Option<u64>,
    /// Most bytes of linear memory held at once.
    pub peak_memory: Option<u64>,
}

impl Raw {
    /// A failure that used nothing.
    pub fn failed(error: ToolError) -> Self {
        Self {
            result: Err(error),
            usage: Usage::default(),
            truncated: false,
        }
    }
}

impl From<Result<Output, ToolError>> for Raw {
    fn from(result: Result<Output, ToolError>) -> Self {
        Self {
            result,
            usage: Usage::default(),
            truncated: false,
        }
    }
}
