//! Requests of an upstream server to the client that made the call: to have a form filled in, a text completed by the
//! client's model, or the client's folders listed.
//!
//! A backend sends them by [`crate::call::CallObserver::upstream_handler`], during an approved call, and records each request first
//! ([`crate::pipeline::EffectGate::record_upstream_request`]).
//!
//! Out of scope: the permission of a server to send requests. Its settings define it, and its backend enforces it.

use serde_json::Value;

use crate::backend::BoxFuture;
use crate::error::ToolError;

/// The kinds of upstream requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpstreamRequestKind {
    /// A form for the person to fill in.
    Form,
    /// A text for the client's model to complete.
    Model,
    /// The folders that the client works in.
    Roots,
}

impl UpstreamRequestKind {
    /// The method name in the protocol and in the audit log.
    pub const fn method(self) -> &'static str {
        match self {
            UpstreamRequestKind::Form => "elicitation/create",
            UpstreamRequestKind::Model => "sampling/createMessage",
            UpstreamRequestKind::Roots => "roots/list",
        }
    }
}

/// One upstream request.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamRequest {
    /// A name that is unique within the call.
    pub name: String,
    /// The kind of request.
    pub kind: UpstreamRequestKind,
    /// The parameters, as the protocol defines them.
    pub params: Value,
}

/// The client that made a call, as far as it serves upstream requests.
pub trait UpstreamRequestHandler: Send + Sync {
    /// Returns true if the client supports this kind of request.
    fn supports(&self, want: UpstreamRequestKind) -> bool;
    /// Has the client answer a batch of requests, in order and in the protocol's form.
    fn handle_requests(
        &self,
        requests: Vec<UpstreamRequest>,
    ) -> BoxFuture<'_, Result<Vec<Value>, ToolError>>;
}
