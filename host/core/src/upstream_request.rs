//! Requests of an upstream MCP server to the client that made the call: to fill in a form, to open a web page, to complete
//! a text with the client's model, or to list the client's folders.
//!
//! During an approved call, the backend records each request with
//! [`record_upstream_request`](crate::pipeline::EffectGate::record_upstream_request) and then sends it through
//! [`upstream_handler`](crate::call::CallObserver::upstream_handler).
//!
//! Out of scope: whether a server may send requests. The server's settings define it, and its backend enforces it.

use serde_json::Value;

use crate::backend::BoxFuture;
use crate::error::ToolError;

/// The kinds of upstream requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpstreamRequestKind {
    /// Asks the user to fill in a form.
    Form,
    /// Asks the user to open a web page.
    Page,
    /// Asks the client's model to complete a text.
    Model,
    /// Asks for the folders that the client works in.
    Roots,
}

impl UpstreamRequestKind {
    /// Returns the MCP method name, which the audit log uses, too.
    pub const fn method(self) -> &'static str {
        match self {
            UpstreamRequestKind::Form | UpstreamRequestKind::Page => "elicitation/create",
            UpstreamRequestKind::Model => "sampling/createMessage",
            UpstreamRequestKind::Roots => "roots/list",
        }
    }
}

/// A request of an upstream server.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamRequest {
    /// A name that is unique within the call.
    pub name: String,
    /// The kind of request.
    pub kind: UpstreamRequestKind,
    /// The parameters, as defined by MCP.
    pub params: Value,
}

/// Answers upstream requests on behalf of the client that made a call.
pub trait UpstreamRequestHandler: Send + Sync {
    /// Returns true if the client supports this kind of request.
    fn supports(&self, want: UpstreamRequestKind) -> bool;
    /// Forwards requests to the client. Returns one MCP result per request, in the same order.
    fn handle_requests(
        &self,
        requests: Vec<UpstreamRequest>,
    ) -> BoxFuture<'_, Result<Vec<Value>, ToolError>>;
}
