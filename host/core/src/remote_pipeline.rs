//! The port to pipelines of other processes, which run the calls that this process accepts.

use crate::backend::BoxFuture;
use crate::call::Call;
use crate::error::ToolError;
use crate::outcome::Outcome;

/// Runs calls in another process, which has a pipeline of its own with the same tools and rules.
pub trait RemotePipeline: Send + Sync {
    /// Runs a call for a user in this role. Dropping the future cancels the call.
    ///
    /// The outcome of a call that ran is on record already. An error means that no process has recorded the call, so
    /// that the caller has to.
    fn call<'a>(
        &'a self,
        call: Call,
        role: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Outcome, ToolError>>;

    /// Discards what the other processes hold for a session that has ended. Must not block.
    fn end_session(&self, session: &str);
}
