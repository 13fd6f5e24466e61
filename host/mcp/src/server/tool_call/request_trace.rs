//! The trace context and the origin of a request, for the audit log, for traces, and for requests that the call makes.

use ::http::HeaderMap;
use mimir_core::audit::{RequestOrigin, RequestTransport};
use mimir_core::call::SessionSharing;
use mimir_core::client_name::ClientName;
use mimir_core::text::prefix;
use mimir_core::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};
use rmcp::RoleServer;
use rmcp::model::RequestMetaObject;
use rmcp::service::RequestContext;
use sha2::{Digest as _, Sha256};

use crate::server::session::{ClientSession, parts};

/// Header with the id of the session.
const SESSION_ID: &str = "mcp-session-id";

/// Number of hex digits of a session's name.
const SESSION_NAME_LENGTH: usize = 32;

/// The trace context of a request, and the request itself.
pub(crate) struct RequestTrace {
    /// The value of `traceparent`.
    pub(crate) parent: Option<String>,
    pub(crate) context: Option<TraceContext>,
    pub(crate) origin: RequestOrigin,
    /// The name and the version of the client.
    pub(crate) client: Option<ClientName>,
}

impl RequestTrace {
    /// Reads the trace context of a request with this method: that in `_meta`, or else that in the HTTP headers.
    pub(super) fn read(method: &'static str, request: &RequestContext<RoleServer>) -> Self {
        let parts = parts(request);
        let headers = parts.map(|parts| &parts.headers);
        let context = from_meta(&request.meta).or_else(|| from_headers(headers?));
        let version = request.protocol_version();
        let session = headers.and_then(|headers| headers.get(SESSION_ID)?.to_str().ok());
        let transport = match parts {
            Some(_) => RequestTransport::Tcp,
            None => RequestTransport::Pipe,
        };
        Self {
            parent: context.as_ref().map(TraceContext::traceparent),
            context,
            client: client_name(request),
            origin: RequestOrigin {
                method,
                protocol_version: version
                    .map(|version| version.as_str().to_owned())
                    .unwrap_or_default(),
                transport,
                session_id: session.map(session_name),
            },
        }
    }
}

/// Returns the name and the version of the client that has sent a request, if it gives them. Without a session, nothing
/// but the request does: the library that reads it would give its own name.
fn client_name(request: &RequestContext<RoleServer>) -> Option<ClientName> {
    let client = match ClientSession::session_sharing(request) {
        SessionSharing::OneClient => request.client_info(),
        SessionSharing::OneUser | SessionSharing::AnyClient => request.meta.client_info(),
    }?;
    ClientName::new(&format!(
        "{} {}",
        prefix(client.name.trim(), ClientName::MAX_CHARS),
        prefix(client.version.trim(), ClientName::MAX_CHARS)
    ))
}

/// Returns a name for a session that is not a credential: the beginning of the digest of its id.
fn session_name(id: &str) -> String {
    let mut name = format!("{:x}", Sha256::digest(id));
    name.truncate(SESSION_NAME_LENGTH);
    name
}

fn from_meta(meta: &RequestMetaObject) -> Option<TraceContext> {
    let field = |name| meta.get(name).and_then(|value| value.as_str());
    TraceContext::parse(field(TRACEPARENT)?, field(TRACESTATE))
}

fn from_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = parents.next()?.to_str().ok()?;
    // The standard allows one only.
    if parents.next().is_some() {
        return None;
    }
    let states = headers.get_all(TRACESTATE).iter();
    let states: Vec<&str> = states.filter_map(|state| state.to_str().ok()).collect();
    TraceContext::parse(parent, Some(&states.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_names_do_not_contain_the_id() {
        let id = "s-1a2b.eyJzIjoiYWxpY2UifQ.seal";
        let name = session_name(id);
        assert_eq!(name.len(), SESSION_NAME_LENGTH);
        assert_eq!(name, session_name(id));
        assert!(name.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(name, session_name("alice"));
    }
}
