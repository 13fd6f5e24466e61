//! The authorization of a request while its bodies are transferred.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use mimir_core::network::{NetworkVerdict, RequestTarget};
use tokio::time::Instant;

use crate::authorize::RequestPermit;
use crate::error::Error;
use crate::policy_guard::PolicyGuard;

/// An authorized request: the policy that allowed it, and its deadline.
#[derive(Clone)]
pub(crate) struct AuthorizedRequest {
    pub(crate) guard: Arc<PolicyGuard>,
    pub(crate) generation: u64,
    pub(crate) target: Arc<RequestTarget>,
    pub(crate) method: Method,
    pub(crate) permit: RequestPermit,
    pub(crate) deadline: Instant,
    /// Limit for the whole request, for the timeout message.
    pub(crate) whole: Duration,
}

impl AuthorizedRequest {
    /// Checks that the current policy still allows the request. Judges it again only if the policy has changed.
    pub(crate) fn recheck_policy(&mut self) -> Result<(), Error> {
        if self.guard.generation() == self.generation {
            return Ok(());
        }
        let current = self.guard.current();
        check_verdict(
            current.policy.judge(&self.target, self.method.as_str()),
            self.permit,
        )?;
        self.generation = current.generation;
        Ok(())
    }
}

/// Combines a verdict of the policy with the permit of the authorizer.
pub(crate) fn check_verdict(
    verdict: NetworkVerdict<'_>,
    permit: RequestPermit,
) -> Result<(), Error> {
    match verdict {
        NetworkVerdict::Allowed(_) => Ok(()),
        NetworkVerdict::Unlisted(_) if permit == RequestPermit::Unlisted => Ok(()),
        NetworkVerdict::Unlisted(refusal) | NetworkVerdict::Refused(refusal) => {
            Err(Error::Blocked(refusal))
        }
    }
}
