//! The authorizer of requests: called with each request as it will be sent.

use http::{HeaderMap, Method};
use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{NetworkVerdict, RequestTarget};

use crate::error::Error;

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct OutboundRequest<'a> {
    /// The target, after all redirects so far.
    pub target: &'a RequestTarget,
    /// The method that will be on the wire.
    pub method: &'a Method,
    /// Its headers, before secrets are inserted.
    pub headers: &'a HeaderMap,
    /// True if it has a body. A tunnel is authorized a second time with `true` when the program has sent 16 KiB in it.
    pub body: bool,
    /// The number of redirects followed so far.
    pub hop: usize,
    /// The verdict of the policy: allowed, or not on a list. Requests that the policy blocks are never passed to the
    /// authorizer.
    pub verdict: &'a NetworkVerdict<'a>,
}

/// The permission granted to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPermit {
    /// Only as far as the policy allows: a target that is not on a list stays refused.
    Listed,
    /// Also a target that is not on a list, for this request.
    Unlisted,
}

/// Called once for every hop, before its name is looked up. The clock of the request is paused meanwhile.
pub trait RequestAuthorizer: Send + Sync {
    /// Loads the current policy if it is stored elsewhere. Called just before a request is sent: it may have waited
    /// since it was authorized.
    fn reload_policy(&self) {}

    /// Allows the request, or returns the reason for a refusal.
    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>>;

    /// Called for a hop that the policy refuses by its name, by its address or because the policy has changed. May
    /// return a better explanation.
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
