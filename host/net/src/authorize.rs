//! Authorization of requests: a hook that sees each request as it will be sent.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{NetworkPolicy, NetworkVerdict, RequestTarget};

use crate::error::Error;

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct OutboundRequest<'a> {
    /// The target, after all redirects so far.
    pub target: &'a RequestTarget,
    /// The method that will be on the wire.
    pub method: &'a Method,
    /// The headers, before secrets are inserted.
    pub headers: &'a HeaderMap,
    /// True if the request has a body. A tunnel is authorized a second time, with `true`, once the program has sent
    /// more than 16 KiB through it.
    pub body: bool,
    /// The number of redirects followed so far.
    pub hop: usize,
    /// The verdict of the policy: allowed, or not on a list. Requests that the policy blocks are never passed to the
    /// authorizer.
    pub verdict: &'a NetworkVerdict<'a>,
}

impl OutboundRequest<'_> {
    /// Checks the request against the policies of teams. Fails with the first refusal.
    pub fn check_teams(&self, teams: &[NetworkPolicy]) -> Result<(), Error> {
        let mut verdicts = teams
            .iter()
            .map(|team| team.judge(self.target, self.method.as_str()));
        let refusal = verdicts.find_map(|verdict| verdict.refusal().cloned());
        refusal.map_or(Ok(()), |refusal| Err(Error::Blocked(refusal)))
    }
}

/// Permission granted to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPermit {
    /// Sends the request only if the policy lists the target.
    Listed,
    /// Sends this request even if the policy does not list the target.
    Unlisted,
}

/// Authorizes requests. Called once for every hop, before the name lookup; the clock of the request is paused
/// meanwhile.
pub trait RequestAuthorizer: Send + Sync {
    /// Loads the current policy if it is stored elsewhere. Called just before a request is sent, since the request may
    /// have waited after it was authorized.
    fn reload_policy(&self) {}

    /// Allows the request, or returns the reason for a refusal.
    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>>;

    /// Returns headers to add to a hop to this target, just before it is sent. They belong together: none is added if
    /// the request has one of them already. A redirect does not carry the added ones on.
    fn hop_headers(&self, _: &RequestTarget) -> Vec<(HeaderName, HeaderValue)> {
        Vec::new()
    }

    /// Returns a better explanation of a refusal, or `error` unchanged. Called when the policy refuses a hop because of
    /// its name, its address or a policy change.
    fn explain_refusal<'a>(
        &'a self,
        _: &'a RequestTarget,
        _: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        Box::pin(std::future::ready(error))
    }
}

/// Authorizer that adds no check: the policy alone decides. For the host's own requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct PolicyOnly;

impl RequestAuthorizer for PolicyOnly {
    fn authorize<'a>(
        &'a self,
        _: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        Box::pin(std::future::ready(Ok(RequestPermit::Listed)))
    }
}
