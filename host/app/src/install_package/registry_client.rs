//! Requests to a registry, each checked and recorded like a request of the command that installs the packages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::{HeaderValue, Request, header};
use mimir_core::backend::BoxFuture;
use mimir_core::pipeline::{CommandEgress, EgressPermission, OutgoingRequest};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::{
    HostClient, OutboundRequest, PolicyGuard, RequestAuthorizer, RequestLimits, RequestPermit,
    TlsRoots,
};
use serde_json::Value;

/// Limits of a lookup. The documents of packages with thousands of versions have tens of megabytes.
const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(10),
    first_byte: Duration::from_secs(20),
    between_bytes: Duration::from_secs(20),
    whole: Duration::from_secs(60),
    header_bytes: 64 << 10,
    body_bytes: 64 << 20,
    upload_bytes: 0,
    redirects: 3,
    ratio: 100,
};

/// Client for the lookups of one call.
pub(super) struct PackageRegistryClient {
    client: HostClient,
}

impl PackageRegistryClient {
    /// Creates a client. Certificates are configured by paths relative to `workspace`.
    pub(super) fn new(egress: CommandEgress, workspace: &Path) -> Self {
        let reach = egress.reach();
        let roots =
            TlsRoots::from_folder(workspace, &reach.roots).unwrap_or_else(TlsRoots::unavailable);
        let guard = Arc::new(PolicyGuard::new(reach.policy.clone()));
        let authorizer = Arc::new(LookupAuthorizer {
            egress,
            guard: Arc::clone(&guard),
        });
        Self {
            client: HostClient::new(guard, authorizer, roots, LIMITS, None),
        }
    }

    /// Fetches a JSON document. `None` if it does not exist.
    pub(super) async fn get_json(&self, url: &str) -> Result<Option<Value>, ToolError> {
        let Some(text) = self.get_text(url).await? else {
            return Ok(None);
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            ToolError::execution(format!(
                "the answer of the package registry is not valid JSON: {error}"
            ))
        })
    }

    /// Fetches a document. `None` if it does not exist.
    pub(super) async fn get_text(&self, url: &str) -> Result<Option<Vec<u8>>, ToolError> {
        let mut request = Request::new(Default::default());
        *request.uri_mut() = mimir_net::uri(url)?;
        let headers = request.headers_mut();
        for (name, value) in [
            (
                header::USER_AGENT,
                concat!("mimir/", env!("CARGO_PKG_VERSION")),
            ),
            (header::ACCEPT, "application/json, text/plain"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let response = self.client.fetch(request).await?;
        match response.status.as_u16() {
            200 => Ok(Some(response.body.to_vec())),
            404 | 410 => Ok(None),
            status => Err(ToolError::new(
                ToolErrorCode::Network,
                format!("the package registry answered with status {status}"),
            )),
        }
    }
}

/// Passes each lookup to the effect gate of the call.
struct LookupAuthorizer {
    egress: CommandEgress,
    guard: Arc<PolicyGuard>,
}

impl RequestAuthorizer for LookupAuthorizer {
    fn reload_policy(&self) {
        let now = self.egress.reach();
        if *self.guard.policy() != now.policy {
            self.guard.set(now.policy.clone());
        }
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
                target: request.target,
                method: request.method.as_str(),
                headers: &headers,
                body: request.body,
            };
            let permission = self.egress.request(outgoing).await?;
            self.reload_policy();
            Ok(match permission {
                EgressPermission::Listed => RequestPermit::Listed,
                EgressPermission::Unlisted => RequestPermit::Unlisted,
            })
        })
    }
}
