//! Facts about a call or an effect for distributed traces. They are not part of the audit log.

use std::time::SystemTime;

use crate::trace_context::{SpanId, TraceContext};

/// The span of a call or an effect, with times within it.
#[derive(Debug, Clone)]
pub struct CallSpan {
    /// The trace, and the id of this span.
    pub context: TraceContext,
    /// The span that this one is part of.
    pub parent: Option<SpanId>,
    /// The request of a client that made the call. `None` for nested calls, and for calls of this process.
    pub origin: Option<RequestOrigin>,
    /// The time of the last answer to an approval question.
    pub answered_at: Option<SystemTime>,
    /// The time at which the call was passed to its tool.
    pub run_at: Option<SystemTime>,
    /// The time at which the tool had ended.
    pub ran_at: Option<SystemTime>,
    /// For an effect: its kind.
    pub effect: Option<EffectKind>,
}

/// The request of an MCP client that made a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The method, such as `tools/call`.
    pub method: &'static str,
    /// The version of the protocol.
    pub protocol_version: String,
    /// The transport.
    pub transport: RequestTransport,
    /// A name for the client's session, if the protocol version has sessions. Not its id, which may be a credential.
    pub session_id: Option<String>,
}

/// The transport of a client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTransport {
    /// Standard input and output.
    Pipe,
    /// HTTP.
    Tcp,
}

/// The kind of an effect, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectKind {
    /// A request to another host.
    Request {
        /// The HTTP method.
        method: String,
        /// The host, without port, path and query.
        host: String,
        /// The port.
        port: u16,
    },
    /// A command.
    Command,
    /// A question to the language model.
    Completion,
}

impl CallSpan {
    /// Creates the span of an operation that begins now, within `parent`.
    pub(crate) fn new(context: TraceContext, parent: Option<&TraceContext>) -> Self {
        Self {
            context,
            parent: parent.map(TraceContext::span_id),
            origin: None,
            answered_at: None,
            run_at: None,
            ran_at: None,
            effect: None,
        }
    }
}
