//! The port to calls that run in the background of a deployment: they survive the process that accepted them, and any
//! process can ask for their state and result.

use serde::{Deserialize, Serialize};

use crate::backend::BoxFuture;
use crate::call::RequestId;
use crate::error::ToolError;
use crate::outcome::Outcome;

/// The phase of a background call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackgroundPhase {
    /// A worker runs the call. Older versions have also stored `queued`.
    #[serde(alias = "queued")]
    Running,
    /// The call has ended, and its outcome can be read.
    Done,
    /// The call was cancelled before it ended.
    Cancelled,
}

/// The state of a background call.
#[derive(Debug, Clone, PartialEq)]
pub struct BackgroundStatus {
    /// The phase.
    pub phase: BackgroundPhase,
    /// The tool.
    pub tool: String,
    /// Time of creation, in milliseconds since 1970.
    pub created_ms: u64,
    /// Time of the last change, in milliseconds since 1970.
    pub updated_ms: u64,
    /// The last progress message.
    pub message: Option<String>,
    /// Time after the end for which the result is kept, in milliseconds.
    pub lifetime_ms: u64,
}

/// Lets calls go on in the background.
pub trait BackgroundCalls: Send + Sync {
    /// Makes a background call of a call that this process has sent to a worker: from now on, the worker ends it also if
    /// this process is lost. `id` must be new and impossible to guess. Fails if no worker runs the call, or if it is a
    /// background call already; it goes on as before then.
    fn keep<'a>(
        &'a self,
        owner: &'a str,
        request_id: &'a RequestId,
        tool: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Leaves a call for which [`Self::keep`] has succeeded to its worker: dropping it no longer cancels it. Call it
    /// before this process ends.
    fn release(&self, request_id: &RequestId);

    /// Returns the state, or `None` if the owner has no such call or its result has expired.
    fn status<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<BackgroundStatus>, ToolError>>;

    /// Returns the outcome of a call that has ended, or `None` if it has not or is unknown.
    fn outcome<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Outcome>, ToolError>>;

    /// Cancels a call. Returns false if the owner has no such call, or if it has ended.
    fn cancel<'a>(&'a self, owner: &'a str, id: &'a str) -> BoxFuture<'a, Result<bool, ToolError>>;
}
