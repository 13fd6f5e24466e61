//! Network access of one command: a proxy that passes each request through the effect gate of the tool call.
//!
//! Out of scope: the decision on hosts, and the listening socket of the proxy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use mimir_core::backend::BoxFuture;
use mimir_core::network::RequestTarget;
use mimir_core::pipeline::{CommandEgress, EgressPermission, OutgoingRequest, PermittedCommand};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::headers::trace_headers;
use mimir_net::{
    Error, HttpClient, OutboundRequest, PolicyGuard, Proxy, ProxyRefusalHandler, RequestAuthorizer,
    RequestLimits, RequestPermit, TlsRoots,
};
use parking_lot::Mutex;

/// Limits of a request of a command. They are generous: programs fetch whole packages and repositories, and usually
/// have shorter timeouts themselves.
const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(20),
    first_byte: Duration::from_secs(120),
    // Servers usually tolerate idle connections for about as long.
    between_bytes: Duration::from_secs(300),
    whole: Duration::from_secs(6 * 3600),
    header_bytes: 64 << 10,
    body_bytes: 8 << 30,
    upload_bytes: 1 << 30,
    redirects: 0,
    ratio: 100,
};

/// Creates the proxy for the requests of this command. Certificates are configured by paths relative to `workspace`.
pub(crate) fn proxy_for_command(
    permitted: &PermittedCommand,
    workspace: &Path,
    refusals: &Refusals,
) -> Proxy {
    let egress = permitted.network().clone();
    let reach = egress.reach();
    // Unreadable certificates fail only the requests that need them.
    let roots =
        TlsRoots::from_folder(workspace, &reach.roots).unwrap_or_else(TlsRoots::unavailable);
    let guard = Arc::new(PolicyGuard::new(reach.policy.clone()));
    let gate = Arc::new(ProxyEffectGate {
        egress,
        guard: Arc::clone(&guard),
        refusals: refusals.clone(),
    });
    let client = HttpClient::new(guard, Arc::clone(&gate) as _, roots, LIMITS, None);
    Proxy::new(client, gate)
}

/// Refused tunnels of one command. They are recorded because programs do not show the response to `CONNECT`.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<BTreeMap<String, String>>>);

impl Refusals {
    /// Records the refusal of a host and the setting that would allow it. Further refusals of the same host are
    /// ignored.
    pub(crate) fn add(&self, host: String, why: &str, remedy: &str) {
        let mut notes = self.0.lock();
        let note = format!("`{host}` was not reached: {why}. To allow it, {remedy}");
        notes.entry(host).or_insert(note);
    }

    /// Returns one sentence for each refused host, and clears the record.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut notes = self.0.lock();
        std::mem::take(&mut *notes).into_values().collect()
    }
}

/// Passes each request of the proxy to the effect gate.
struct ProxyEffectGate {
    egress: CommandEgress,
    guard: Arc<PolicyGuard>,
    refusals: Refusals,
}

impl ProxyEffectGate {
    /// Records a refused tunnel for the result of the command.
    fn record_refusal(&self, target: &RequestTarget, method: &Method, error: &ToolError) {
        if *method == Method::CONNECT {
            let remedy = match &*error.remedies {
                [] => self.egress.request_remedy(target, method.as_str()),
                remedies => remedies.join(", or "),
            };
            self.refusals
                .add(target.host().to_string(), &error.message, &remedy);
        }
    }
}

impl RequestAuthorizer for ProxyEffectGate {
    fn reload_policy(&self) {
        let now = self.egress.reach();
        if *self.guard.policy() != now.policy {
            self.guard.set(now.policy.clone());
        }
    }

    /// Returns the trace context of the call, for hosts that the settings name. Tunnels are not changed: their content is
    /// encrypted.
    fn hop_headers(&self, target: &RequestTarget) -> Vec<(HeaderName, HeaderValue)> {
        let context = self.egress.trace_context_for(target);
        context.map_or_else(Vec::new, |context| trace_headers(&context))
    }

    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        Box::pin(async move {
            let headers = request.headers.iter();
            let headers: Vec<&[u8]> = headers
                .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
                .collect();
            let outgoing = OutgoingRequest {
                headers: &headers,
                body: request.body,
                ..request_without_headers(request.target, request.method)
            };
            let permission = self.egress.request(outgoing).await;
            let permission = permission
                .inspect_err(|error| self.record_refusal(request.target, request.method, error))?;
            self.reload_policy();
            Ok(match permission {
                EgressPermission::Listed => RequestPermit::Listed,
                EgressPermission::Unlisted => RequestPermit::Unlisted,
            })
        })
    }
}

/// Describes a request whose headers are unknown, since it was refused before they were read.
fn request_without_headers<'a>(
    target: &'a RequestTarget,
    method: &'a Method,
) -> OutgoingRequest<'a> {
    OutgoingRequest {
        target,
        method: method.as_str(),
        headers: &[],
        body: false,
    }
}

impl ProxyRefusalHandler for ProxyEffectGate {
    fn handle_refusal<'a>(
        &'a self,
        target: &'a RequestTarget,
        method: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        Box::pin(async move {
            let request = request_without_headers(target, method);
            match error {
                // The network policy refused the request before the gate saw it. The gate returns the reason and
                // records the refusal.
                Error::Blocked(_) => match self.egress.request(request).await {
                    Err(why) => {
                        self.record_refusal(target, method, &why);
                        Error::Denied(why)
                    }
                    Ok(_) => error,
                },
                error => {
                    self.egress
                        .refused(request, ToolErrorCode::PolicyDenied, &error.to_string());
                    error
                }
            }
        })
    }
}
