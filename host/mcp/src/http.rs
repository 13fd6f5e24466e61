//! The server over HTTP: access checks and limits.
//!
//! Every client that can connect acts for the user who started the server. A request is therefore accepted only if its
//! `Host` is a name of this server (which prevents DNS rebinding by web pages), if it does not come from a web page
//! whose origin is not allowed, and if it carries the token, if one is required.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::{HeaderMap, Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use mimir_core::network::RequestTarget;
use mimir_core::peer_messages::{PeerMessageHandler, PeerReply};
use mimir_core::{BoxFuture, ToolError};
use rmcp::model::InitializeRequestParams;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::client::IdentityLogin;
use crate::metrics::MetricSource;
use crate::server::{ClientSession, ToolServer};

mod browser_identity;
mod cors;
mod identity;
mod leased_body;
mod login_pages;
mod readiness;
mod replicas;
mod request_body;
mod request_guard;
mod session_manager;
mod session_table;
mod shutdown;
mod status_endpoint;

pub use browser_identity::{BrowserIdentity, IdentifiedPerson, StartedIdentity};
pub use identity::{IdentityOptions, is_user_id};
pub use login_pages::{LoginRecorder, UserLogin, UserLoginOutcome};
pub use readiness::ReadinessCheck;
pub(crate) use replicas::{PipelineSessionId, SealPurpose, SealedCall};
pub use replicas::{ReplicaSet, SealingKeyError};
pub use status_endpoint::StatusEndpoint;

use identity::{IdentityVerifier, TokenRejection};
use leased_body::bind_to_session;
use login_pages::LoginPages;
use readiness::Readiness;
use replicas::{
    ForwardedRequest, RequestRoute, ResponseParts, RouteRequest, SealedSession, SealedSessionStore,
    refusal_parts,
};
use request_body::{BodyError, BodyFailure, TrackedBody};
use request_guard::{HttpRefusal, RequestGuard};
use session_manager::{BoundedSessionManager, RequestScope};
pub(crate) use session_table::SessionLease;
pub(crate) use shutdown::OpenRequest;
use shutdown::OpenRequests;

/// Response to a client.
type BoxedResponse = Response<BoxBody<Bytes, Infallible>>;

/// Path of the MCP endpoint.
const ENDPOINT: &str = "/mcp";

/// Maximum size of a request body in bytes, as on stdin.
const MAX_BODY_SIZE: usize = 16 << 20;

/// Maximum number of sessions, beyond which an idle session is ended; and idle time after which a session expires.
const MAX_SESSIONS: usize = 256;
const SESSION_IDLE: Duration = Duration::from_secs(60 * 60);

/// Maximum number of concurrent calls, including waiting ones.
const MAX_CALLS: usize = 1024;

/// Header that carries the session id.
const SESSION_ID: &str = "mcp-session-id";

/// Access options of a server over HTTP.
#[derive(Clone, Default)]
pub struct HttpOptions {
    /// Names and addresses of this server, without ports. Loopback names are always accepted.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the server, as `scheme://host:port`.
    pub origins: Vec<String>,
    /// Bearer token that every request must carry, or `None` to require no token.
    pub token: Option<String>,
    /// Identity provider whose access tokens are accepted instead of a single token.
    pub identity: Option<IdentityOptions>,
    /// Receives the logins of users at other servers, in a browser.
    pub login_recorder: Option<LoginRecorder>,
    /// Source of additional metrics for `/metrics`.
    pub extra_metrics: Option<MetricSource>,
    /// Conditions under which the server can take calls, for `/readyz`.
    pub readiness: Vec<ReadinessCheck>,
    /// The other servers behind the same address, which answer the requests of the same clients.
    pub replicas: Option<Arc<ReplicaSet>>,
}

/// A server over HTTP, as a tower service for any listener. Clones share the same server.
#[derive(Clone)]
pub struct HttpService(Arc<HttpServiceState>);

struct HttpServiceState {
    server: ToolServer,
    guard: RequestGuard,
    identity: Option<IdentityVerifier>,
    /// Pages for logins of users at other servers.
    login_pages: Option<LoginPages>,
    extra_metrics: Option<MetricSource>,
    readiness: Readiness,
    replicas: Option<Arc<ReplicaSet>>,
    sessions: Arc<BoundedSessionManager>,
    open_requests: OpenRequests,
    inner: StreamableHttpService<ClientSession, BoundedSessionManager>,
    /// Closes the sessions.
    close: Box<dyn Fn() + Send + Sync>,
}

/// The identity of a client: the holder of the single token, or the subject of an access token. Sessions and approvals
/// belong to a principal, even if the protocol generation has no sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Unique id of the principal.
    pub(crate) id: String,
    /// User name for the audit log, if one is known.
    pub(crate) user: Option<String>,
    /// Role of the user. A session belongs to a user in one role, and ends for the user when the role changes.
    pub(crate) role: Option<String>,
}

impl ToolServer {
    /// Creates the server over HTTP. Fails if the options conflict.
    pub fn http(&self, mut options: HttpOptions) -> Result<HttpService, ToolError> {
        let identity = options
            .identity
            .as_ref()
            .map(IdentityVerifier::new)
            .transpose()?;
        options
            .hosts
            .extend(identity.as_ref().map(IdentityVerifier::host));
        let login_pages = identity
            .as_ref()
            .map(|verifier| self.login_pages(verifier.resource(), &options))
            .transpose()?
            .flatten();
        let server = self.clone();
        let discard = move |session: &str| server.discard_pipeline_session(session);
        let sessions = BoundedSessionManager::new(options.replicas.clone(), discard);
        let sessions = Arc::new(sessions);
        let guard = RequestGuard::new(&options);
        let mut config = StreamableHttpServerConfig::default()
            // The guard has already checked both, for every path and before anything else.
            .with_allowed_hosts(guard.hosts().to_vec())
            .disable_allowed_origins()
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY_SIZE);
        if let Some(replicas) = &options.replicas {
            config.session_store = Some(Arc::new(SealedSessionStore(Arc::clone(replicas))));
            self.set_replicas(Arc::clone(replicas));
        }
        let cancellation = config.cancellation_token.clone();
        let server = self.clone();
        let factory = move || {
            // Without a principal, the restrictions of its role would be missing.
            let principal = session_manager::current_principal();
            let principal = principal.ok_or_else(|| io::Error::other("not in a request"))?;
            Ok(server.for_role(principal.role.as_deref()).session())
        };
        let service = HttpService(Arc::new(HttpServiceState {
            server: self.clone(),
            guard,
            identity,
            login_pages,
            extra_metrics: options.extra_metrics,
            readiness: Readiness::new(options.readiness),
            replicas: options.replicas,
            inner: StreamableHttpService::new(factory, Arc::clone(&sessions), config),
            sessions,
            open_requests: OpenRequests::default(),
            close: Box::new(move || cancellation.cancel()),
        }));
        service.receive_forwarded();
        Ok(service)
    }
}

impl ToolServer {
    /// Creates the pages with which users log in at the servers behind this one, if there are any. Fails if the secret of
    /// the client at the identity provider is not stored.
    fn login_pages(
        &self,
        resource: &RequestTarget,
        options: &HttpOptions,
    ) -> Result<Option<LoginPages>, ToolError> {
        let recorder = options.login_recorder.clone();
        let (Some(servers), Some(options)) = (self.servers(), &options.identity) else {
            return Ok(None);
        };
        let login = IdentityLogin::new(options, servers.vault())?;
        Ok(LoginPages::new(resource, servers, login, recorder))
    }
}

impl HttpService {
    /// Returns true if users cannot log in at the servers behind this one with links, because the URL of the resource is
    /// plain http.
    pub fn lacks_login_links(&self) -> bool {
        let state = &self.0;
        let servers = state.server.servers();
        state.identity.is_some()
            && state.login_pages.is_none()
            && servers.is_some_and(|servers| servers.takes_logins())
    }

    async fn handle<B>(&self, request: Request<B>) -> BoxedResponse
    where
        B: Body + Send + 'static,
        B::Error: Into<BodyError>,
    {
        if let Err(refusal) = self.0.guard.check_address(&request) {
            return refusal_response(refusal);
        }
        let page_origin = cors::page_origin(request.headers());
        let mut response = match cors::preflight(&request) {
            Some(response) => response,
            None => self.handle_allowed(request).await,
        };
        cors::add_headers(&mut response, page_origin);
        response
    }

    /// Answers a request that passed the host and origin checks.
    async fn handle_allowed<B>(&self, mut request: Request<B>) -> BoxedResponse
    where
        B: Body + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let shared = &self.0;
        let path = request.uri().path().to_owned();
        // Health checks carry no token, and the response reveals nothing.
        if path == "/healthz" {
            return text_response(StatusCode::OK, "ok\n");
        }
        if path == "/readyz" {
            return shared.readiness.response();
        }
        let mut expires = None;
        let principal = match &shared.identity {
            Some(identity) => {
                // Clients without a token read the metadata to find the provider.
                if let Some(response) = identity.metadata_response(&path) {
                    return response;
                }
                // Browsers carry no token: the pages have checks of their own.
                if let Some(pages) = &shared.login_pages {
                    let (method, uri, headers) =
                        (request.method(), request.uri(), request.headers());
                    if let Some(response) = pages.handle(method, uri, headers, identity).await {
                        return response;
                    }
                }
                match identity.verify(request.headers()).await {
                    Ok(token) => {
                        expires = Some(token.expires);
                        Principal {
                            role: shared.server.role_of(&token.groups),
                            ..token.principal
                        }
                    }
                    Err(denied) => return identity.rejection_response(denied),
                }
            }
            None => match shared.guard.authenticate(request.headers()) {
                Ok(principal) => principal,
                Err(refusal) => return refusal_response(refusal),
            },
        };
        match (path.as_str(), request.method()) {
            ("/metrics", &Method::GET) => {
                let sessions = shared.sessions.count().await;
                let extra_metrics = shared.extra_metrics.as_ref().map(|metrics| metrics());
                let extra_metrics = extra_metrics.unwrap_or_default();
                text_response(
                    StatusCode::OK,
                    &shared.server.metrics(sessions, &extra_metrics),
                )
            }
            (ENDPOINT, &Method::POST) => {
                let Some(open) = shared.open_requests.begin() else {
                    return refusal_response(HttpRefusal::Ending);
                };
                request.extensions_mut().insert(open.request());
                open.hold_until_sent(self.handle_mcp(request, principal, expires).await)
            }
            (ENDPOINT, _) => self.handle_mcp(request, principal, expires).await,
            _ => text_response(
                StatusCode::NOT_FOUND,
                "not found: the MCP endpoint is /mcp\n",
            ),
        }
    }

    /// Handles an MCP request of a principal, whose token may expire.
    ///
    /// The meaning of a disconnect depends on the protocol generation. Since 2026-07-28 it cancels the request, by
    /// dropping the future or the body. Before, it SHOULD NOT be treated as a cancellation: the stream may be resumed,
    /// and a call ends with a `notifications/cancelled` or with its session.
    async fn handle_mcp<B>(
        &self,
        request: Request<B>,
        principal: Principal,
        expires: Option<Instant>,
    ) -> BoxedResponse
    where
        B: Body + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let shared = &self.0;
        let Some(replicas) = &shared.replicas else {
            let context = RequestContext {
                principal,
                expires,
                session: None,
                handshake: None,
            };
            return self.handle_here(request, context).await;
        };
        let (parts, body) = request.into_parts();
        let body = match read_body(body).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        let session = session_id(&parts.headers);
        let routing = replicas.route(RouteRequest {
            parts: &parts,
            body: &body,
            session: session.as_deref(),
            principal: &principal,
        });
        let route = match (expires, &shared.identity) {
            (Some(expires), Some(identity)) => match timeout_at(expires, routing).await {
                Ok(route) => route,
                Err(_) => return identity.rejection_response(TokenRejection::EXPIRED),
            },
            _ => routing.await,
        };
        match route {
            RequestRoute::Local { session, handshake } => {
                let context = RequestContext {
                    principal,
                    expires,
                    session,
                    handshake,
                };
                let request = Request::from_parts(parts, Full::new(body));
                self.handle_here(request, context).await
            }
            RequestRoute::Answered(response) => bind_to_session(response, None, expires),
            RequestRoute::Refused(refusal) => refusal_response(refusal),
        }
    }

    /// Starts to answer the requests that other replicas forward.
    fn receive_forwarded(&self) {
        if let Some(replicas) = &self.0.replicas {
            let service = Arc::downgrade(&self.0);
            replicas
                .peers()
                .receive(Arc::new(ForwardedRequests(service)));
        }
    }

    /// Answers a request that another replica has forwarded.
    async fn handle_forwarded(&self, message: Vec<u8>) -> ResponseParts {
        let Some(replicas) = &self.0.replicas else {
            return refusal_parts(HttpRefusal::NoSession);
        };
        let Some(forwarded) = ForwardedRequest::decode(message, replicas.keys()).await else {
            tracing::warn!(
                "a message of another server was rejected, because its seal is not valid"
            );
            return refusal_parts(HttpRefusal::NoSession);
        };
        let ForwardedRequest {
            mut request,
            principal,
            only_if_held,
        } = forwarded;
        let session = match session_id(request.headers()) {
            None => None,
            Some(id) => match replicas.session_of(&id, &principal).await {
                Some(session) if only_if_held && !self.0.sessions.sessions().contains(&id) => {
                    // This replica may have held the session before another one continued it.
                    self.0.server.discard_pipeline_session(&session.session);
                    return ResponseParts::new(empty_response(StatusCode::NO_CONTENT));
                }
                Some(session) => Some(Box::new(session)),
                None => return refusal_parts(HttpRefusal::NoSession),
            },
        };
        let context = RequestContext {
            principal,
            // The replica that got the request ends the response when the token expires.
            expires: None,
            session,
            handshake: None,
        };
        let Some(open) = self.0.open_requests.begin() else {
            return refusal_parts(HttpRefusal::Ending);
        };
        if request.method() == Method::GET {
            // A stream of notifications.
            open.request().stop_counting();
        }
        request.extensions_mut().insert(open.request());
        let response = self.handle_here(request, context).await;
        ResponseParts::new(open.hold_until_sent(response))
    }

    /// Handles an MCP request that this replica answers.
    async fn handle_here<B>(
        &self,
        mut request: Request<B>,
        context: RequestContext,
    ) -> BoxedResponse
    where
        B: Body + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let shared = &self.0;
        let RequestContext {
            principal,
            expires,
            session,
            handshake,
        } = context;
        let id = session_id(request.headers());
        let is_post = request.method() == Method::POST;
        let is_delete = request.method() == Method::DELETE;
        let lease = match &session {
            // The end of the session is on record already.
            Some(_) if is_delete => Ok(None),
            Some(session) => {
                let id = id.as_deref().unwrap_or_default();
                self.lease_sealed_session(is_post, id, session, &principal)
                    .await
            }
            None => self.lease_session(is_post, id.as_deref(), &principal),
        };
        let lease = match lease {
            Ok(lease) => lease,
            Err(refusal) => return refusal_response(refusal),
        };
        let extensions = request.extensions_mut();
        extensions.insert(principal.clone());
        if let Some(session) = &session {
            let id = Arc::from(session.session.as_str());
            extensions.insert(PipelineSessionId(id));
        }
        if let Some(lease) = &lease {
            // The response keeps the lease while it is being sent.
            extensions.insert(Arc::clone(lease));
        }
        let is_json = has_json(request.headers());
        let (parts, body) = request.into_parts();
        let (body, failure) = TrackedBody::new(body);
        let request = Request::from_parts(parts, body);
        let scope = RequestScope::new(principal, handshake);
        let handling = scope.run_scoped(shared.inner.handle(request));
        let response = match (expires, &shared.identity) {
            (Some(expires), Some(identity)) => match timeout_at(expires, handling).await {
                Ok(response) => response,
                Err(_) => return identity.rejection_response(TokenRejection::EXPIRED),
            },
            _ => handling.await,
        };
        if scope.is_over_limit() {
            return refusal_response(HttpRefusal::Full);
        }
        if let Some(response) = failure_response(&failure) {
            return response;
        }
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR
            && shared.open_requests.are_closed()
        {
            // The end of the sessions has cut the request off.
            return refusal_response(HttpRefusal::Ending);
        }
        let response = match &session {
            Some(_) if response.status() == StatusCode::INTERNAL_SERVER_ERROR => {
                continued_response(response).await
            }
            _ => response,
        };
        if is_post && is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return json_rpc_error(response).await;
        }
        if let Some(id) = id.filter(|_| is_delete && response.status().is_success()) {
            shared.sessions.sessions().remove(&id);
            if let Some(session) = &session {
                shared.server.end_pipeline_session(&session.session);
            }
            // Clients accept no other status for the end of a session.
            return empty_response(StatusCode::NO_CONTENT);
        }
        bind_to_session(response, lease, expires)
    }

    /// Leases the session of a request. Fails if a limit is exceeded or the session does not belong to the principal.
    fn lease_session(
        &self,
        is_post: bool,
        session: Option<&str>,
        principal: &Principal,
    ) -> Result<Option<Arc<SessionLease>>, HttpRefusal> {
        let shared = &self.0;
        if is_post && shared.server.calls() >= MAX_CALLS {
            return Err(HttpRefusal::Busy);
        }
        let Some(id) = session else {
            return Ok(None);
        };
        let lease = shared.sessions.sessions().lease(id, principal);
        lease
            .map(|lease| Some(Arc::new(lease)))
            .ok_or(HttpRefusal::NoSession)
    }

    /// Leases a session that this replica may have to continue for another one.
    async fn lease_sealed_session(
        &self,
        is_post: bool,
        id: &str,
        session: &SealedSession,
        principal: &Principal,
    ) -> Result<Option<Arc<SessionLease>>, HttpRefusal> {
        let shared = &self.0;
        let table = shared.sessions.sessions();
        if table.contains(id) {
            return self.lease_session(is_post, Some(id), principal);
        }
        if is_post && shared.server.calls() >= MAX_CALLS {
            return Err(HttpRefusal::Busy);
        }
        let Some(replicas) = shared.replicas.as_ref().filter(|_| !session.is_expired()) else {
            return Err(HttpRefusal::NoSession);
        };
        match replicas.is_ended(session).await {
            Ok(false) => {}
            Ok(true) => return Err(HttpRefusal::NoSession),
            Err(error) => {
                tracing::warn!(%error, "a session cannot be continued");
                return Err(HttpRefusal::NoState);
            }
        }
        let lease = table.lease_or_insert(id, principal);
        let lease = lease.ok_or(HttpRefusal::NoSession)?;
        Ok(Some(Arc::new(lease)))
    }
}

/// The circumstances of a request that this server answers.
struct RequestContext {
    principal: Principal,
    /// The end of the principal's token.
    expires: Option<Instant>,
    /// The session, if another replica may have created it.
    session: Option<Box<SealedSession>>,
    /// The params of the handshake, if other replicas may continue the session.
    handshake: Option<Box<InitializeRequestParams>>,
}

/// Answers the requests that other replicas forward, for as long as the service exists.
struct ForwardedRequests(Weak<HttpServiceState>);

impl PeerMessageHandler for ForwardedRequests {
    fn handle(&self, message: Vec<u8>) -> BoxFuture<'static, Box<dyn PeerReply>> {
        let service = self.0.upgrade().map(HttpService);
        Box::pin(async move {
            let reply = match service {
                Some(service) => service.handle_forwarded(message).await,
                None => refusal_parts(HttpRefusal::NoSession),
            };
            Box::new(reply) as Box<dyn PeerReply>
        })
    }
}

/// Reads the body of a request. The error is the response.
async fn read_body<B>(body: B) -> Result<Bytes, BoxedResponse>
where
    B: Body + Send + 'static,
    B::Error: Into<BodyError>,
{
    let (body, failure) = TrackedBody::new(body);
    match Limited::new(body, MAX_BODY_SIZE).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(_) => Err(failure_response(&failure).unwrap_or_else(|| {
            let text = format!("the request body is larger than {} bytes\n", MAX_BODY_SIZE);
            text_response(StatusCode::PAYLOAD_TOO_LARGE, &text)
        })),
    }
}

/// Returns the response to a request whose body did not arrive.
fn failure_response(failure: &BodyFailure) -> Option<BoxedResponse> {
    if failure.is_late() {
        let text = "the request body did not arrive in time\n";
        return Some(text_response(StatusCode::REQUEST_TIMEOUT, text));
    }
    let text = "the request body is incomplete\n";
    let is_broken = failure.is_broken();
    is_broken.then(|| text_response(StatusCode::BAD_REQUEST, text))
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Error: Into<BodyError>,
    B::Data: Send + 'static,
{
    type Response = BoxedResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<BoxedResponse, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let http = self.clone();
        Box::pin(async move { Ok(http.handle(request).await) })
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(SESSION_ID)?.to_str().ok()?;
    Some(id.to_owned())
}

/// Returns true if the headers declare a JSON body.
fn has_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(::http::header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Text in rmcp's response if it cannot continue a session.
const RESTORE_FAILURE: &str = "restore session";

/// Prefixes of serde_json's messages about invalid JSON.
const SYNTAX_ERRORS: [&str; 12] = [
    "EOF while parsing",
    "expected ",
    "trailing ",
    "key must be",
    "control character",
    "invalid escape",
    "invalid number",
    "invalid unicode",
    "lone leading surrogate",
    "unexpected end of hex escape",
    "number out of range",
    "recursion limit",
];

/// Replaces rmcp's response to an invalid body, which is plain text with status 415, with a JSON-RPC error.
async fn json_rpc_error(response: BoxedResponse) -> BoxedResponse {
    let why = response.into_body().collect().await;
    let why = why
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let why = String::from_utf8_lossy(&why);
    let why = why.trim_start_matches("fail to deserialize request body ");
    let (code, message) = if SYNTAX_ERRORS.iter().any(|prefix| why.starts_with(prefix)) {
        (-32700, "the body is not valid JSON")
    } else {
        (-32600, "the body is JSON, but not one JSON-RPC message")
    };
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut response = text_response(StatusCode::BAD_REQUEST, &error.to_string());
    let kind = ::http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(::http::header::CONTENT_TYPE, kind);
    response
}

/// Returns the response to a request whose session could not be continued, because its copy at this replica was just
/// ending: the session itself is valid, and the request had no effect. Other responses are returned as they are.
async fn continued_response(response: BoxedResponse) -> BoxedResponse {
    let (parts, body) = response.into_parts();
    let body = body.collect().await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    if String::from_utf8_lossy(&body).contains(RESTORE_FAILURE) {
        return refusal_response(HttpRefusal::NotContinued);
    }
    Response::from_parts(parts, Full::new(body).boxed())
}

/// Returns a response without a body.
fn empty_response(status: StatusCode) -> BoxedResponse {
    let mut response = text_response(status, "");
    response.headers_mut().clear();
    response
}

fn text_response(status: StatusCode, text: &str) -> BoxedResponse {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    let plain = ::http::HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(::http::header::CONTENT_TYPE, plain);
    response
}

fn refusal_response(refusal: HttpRefusal) -> BoxedResponse {
    let mut response = text_response(refusal.status(), refusal.message());
    if let Some((name, value)) = refusal.header() {
        let value = ::http::HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use ::http::header::RETRY_AFTER;

    use super::*;

    #[tokio::test]
    async fn sessions_that_cannot_be_continued_are_retried_by_clients() {
        let failed = |text: &str| text_response(StatusCode::INTERNAL_SERVER_ERROR, text);
        // As rmcp writes it.
        let text = "Encounter an error when restore session: Session service terminated";
        let response = continued_response(failed(text)).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(RETRY_AFTER));
        let response = continued_response(failed("another fault")).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "another fault");
    }
}
