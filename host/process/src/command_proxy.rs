//! Network access of one command: a proxy that passes each request through the effect gate of the command's call.
//!
//! Out of scope: which hosts may be reached, and where the proxy listens.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use mimir_core::backend::BoxFuture;
use mimir_core::network::RequestTarget;
use mimir_core::pipeline::{CommandEgress, EgressPermission, OutgoingRequest, PermittedCommand};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::{
    Error, HttpClient, OutboundRequest, PolicyGuard, Proxy, ProxyRefusalHandler, RequestAuthorizer,
    RequestLimits, RequestPermit, TlsRoots,
};
use parking_lot::Mutex;

/// Limits of one request of a command: programs of the machine fetch whole packages and repositories, and their own
/// timeouts end most requests before these do.
const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(20),
    first_byte: Duration::from_secs(120),
    // Servers allow a connection to be idle for about as long.
    between_bytes: Duration::from_secs(300),
    whole: Duration::from_secs(6 * 3600),
    header_bytes: 64 << 10,
    body_bytes: 8 << 30,
    upload_bytes: 1 << 30,
    redirects: 0,
    ratio: 100,
};

/// Creates the proxy for the requests of this command. The settings name certificates by their paths from `workspace`.
pub(crate) fn proxy_for_command(
    permitted: &PermittedCommand,
    workspace: &Path,
    refusals: &Refusals,
) -> Proxy {
    let outside = permitted.network().clone();
    let reach = outside.reach();
    // Unreadable certificates are reported only to requests that need them.
    let roots =
        TlsRoots::from_folder(workspace, &reach.roots).unwrap_or_else(TlsRoots::unavailable);
    let guard = Arc::new(PolicyGuard::new(reach.policy.clone()));
    let gate = Arc::new(ProxyEffectGate {
        outside,
        guard: Arc::clone(&guard),
        refusals: refusals.clone(),
    });
    let client = HttpClient::new(guard, Arc::clone(&gate) as _, roots, LIMITS, None);
    Proxy::new(client, gate)
}

/// The tunnels that were refused to one command. They are recorded because programs do not show the response to
/// `CONNECT`.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<BTreeMap<String, String>>>);

impl Refusals {
    /// Adds the refusal of a host, with the setting that would allow it. Only the first one of a host counts.
    pub(crate) fn add(&self, host: String, why: &str, way: &str) {
        let mut all = self.0.lock();
        let note = format!("`{host}` was not reached: {why}; to allow it: {way}");
        all.entry(host).or_insert(note);
    }

    /// Removes and returns one sentence for each host.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut all = self.0.lock();
        std::mem::take(&mut *all).into_values().collect()
    }
}

/// Hands each request to the effect gate.
struct ProxyEffectGate {
    outside: CommandEgress,
    guard: Arc<PolicyGuard>,
    refusals: Refusals,
}

impl ProxyEffectGate {
    /// Records a refused tunnel for the result of the command.
    fn note(&self, target: &RequestTarget, method: &Method, error: &ToolError) {
        if *method == Method::CONNECT {
            let way = match &*error.remedies {
                [] => self.outside.request_remedy(target, method.as_str()),
                ways => ways.join(", or "),
            };
            self.refusals
                .add(target.host().to_string(), &error.message, &way);
        }
    }
}

impl RequestAuthorizer for ProxyEffectGate {
    fn reload_policy(&self) {
        let now = self.outside.reach();
        if *self.guard.policy() != now.policy {
            self.guard.set(now.policy.clone());
        }
    }

    fn authorize<'a>(
        &'a self,
        ask: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        Box::pin(async move {
            let headers = ask.headers.iter();
            let headers: Vec<&[u8]> = headers
                .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
                .collect();
            let egress = OutgoingRequest {
                headers: &headers,
                body: ask.body,
                ..egress(ask.target, ask.method)
            };
            let consent = self.outside.request(egress).await;
            let consent = consent.inspect_err(|error| self.note(ask.target, ask.method, error))?;
            self.reload_policy();
            Ok(match consent {
                EgressPermission::Listed => RequestPermit::Listed,
                EgressPermission::Unlisted => RequestPermit::Unlisted,
            })
        })
    }
}

/// Describes a request that was refused before its headers were read.
fn egress<'a>(target: &'a RequestTarget, method: &'a Method) -> OutgoingRequest<'a> {
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
            let egress = egress(target, method);
            match error {
                // The network policy refused it before the gate was asked; the gate gives the reason and records the
                // refusal.
                Error::Blocked(_) => match self.outside.request(egress).await {
                    Err(why) => {
                        self.note(target, method, &why);
                        Error::Denied(why)
                    }
                    Ok(_) => error,
                },
                error => {
                    self.outside
                        .refused(egress, ToolErrorCode::PolicyDenied, &error.to_string());
                    error
                }
            }
        })
    }
}
