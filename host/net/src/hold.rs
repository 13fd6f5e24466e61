//! What a request is held to while its bodies are on their way.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use mimir_core::network::{Target, Verdict};
use tokio::time::Instant;

use crate::authorize::Permit;
use crate::error::Error;
use crate::guard::Guard;

/// A request that was let, under which policy, and until when it may last.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) guard: Arc<Guard>,
    pub(crate) generation: u64,
    pub(crate) target: Arc<Target>,
    pub(crate) method: Method,
    pub(crate) permit: Permit,
    pub(crate) deadline: Instant,
    /// How long it may last in all, for the message.
    pub(crate) whole: Duration,
}

impl Hold {
    /// Whether the request is still one that the policy lets.
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

/// What a verdict comes to, with what a gate has said.
pub(crate) fn allowed(verdict: Verdict<'_>, permit: Permit) -> Result<(), Error> {
    match verdict {
        Verdict::Allowed(_) => Ok(()),
        Verdict::Unlisted(_) if permit == Permit::Unlisted => Ok(()),
        Verdict::Unlisted(refusal) | Verdict::Refused(refusal) => Err(Error::Blocked(refusal)),
    }
}
