//! The authorization of a request while its bodies are transferred.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use mimir_core::network::{Target, Verdict};
use tokio::time::Instant;

use crate::authorize::Permit;
use crate::error::Error;
use crate::guard::Guard;

/// An authorized request: the policy that allowed it, and its deadline.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) guard: Arc<Guard>,
    pub(crate) generation: u64,
    pub(crate) target: Arc<Target>,
    pub(crate) method: Method,
    pub(crate) permit: Permit,
    pub(crate) deadline: Instant,
    /// The allowed total time, for the message.
    pub(crate) whole: Duration,
}

impl Hold {
    /// Checks that the current policy still allows the request.
    pub(crate) fn judge(&mut self) -> Result<(), Error> {
        if self.guard.generation() == self.generation {
            return Ok(());
        }
        let now = self.guard.current();
        allowed(
            now.policy.judge(&self.target, self.method.as_str()),
            self.permit,
        )?;
        self.generation = now.generation;
        Ok(())
    }
}

/// Combines a verdict of the policy with the permit of the authorizer.
pub(crate) fn allowed(verdict: Verdict<'_>, permit: Permit) -> Result<(), Error> {
    match verdict {
        Verdict::Allowed(_) => Ok(()),
        Verdict::Unlisted(_) if permit == Permit::Unlisted => Ok(()),
        Verdict::Unlisted(refusal) | Verdict::Refused(refusal) => Err(Error::Blocked(refusal)),
    }
}
