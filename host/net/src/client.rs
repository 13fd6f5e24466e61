//! HTTP client: checks, authorizes, sends and monitors one request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{Entry, HeaderMap, SET_COOKIE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, Uri};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use mimir_core::network::{NetworkVerdict, RequestTarget, UrlError};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::authorize::{OutboundRequest, RequestAuthorizer};
use crate::authorized_request::{AuthorizedRequest, check_verdict};
use crate::body::{ResponseBody, ResponseBounds};
use crate::connector::SessionServerDialer;
use crate::error::{Error, RequestStage};
use crate::headers;
use crate::limits::RequestLimits;
use crate::policy_guard::PolicyGuard;
use crate::resolver::{Resolver, SystemResolver};
use crate::secret_swap::{SecretSwap, SwappedSecrets};
use crate::tls::{TlsClient, TlsRoots};
use crate::upload::{BoxError, UploadBody};
use crate::uri::wire_uri;

mod hyper_transport;
mod reqwest_errors;
mod reqwest_transport;
mod tunnel;

use hyper_transport::HyperTransport;
pub(crate) use reqwest_transport::ReqwestTransport;
pub(crate) use tunnel::Tunnel;

/// Maximum idle connections per origin. A tool that sends its requests in sequence needs one; a large pool only burdens
/// servers.
const MAX_IDLE_CONNECTIONS: usize = 8;
/// Lifetime of an idle connection, shorter than the usual timeout of servers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends requests under the policy of one [`PolicyGuard`]. Connections are pooled and reused by this client and its
/// clones only: give each tool its own client.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<HttpClientState>,
    authorizer: Arc<dyn RequestAuthorizer>,
    swap: Option<Arc<dyn SecretSwap>>,
    limits: RequestLimits,
}

struct HttpClientState {
    guard: Arc<PolicyGuard>,
    resolver: Arc<dyn Resolver>,
    tls: Arc<TlsClient>,
    /// The session's own servers, if the client belongs to a session.
    servers: Option<Arc<dyn SessionServerDialer>>,
    limits: RequestLimits,
    slots: Arc<Semaphore>,
    transport: HttpTransport,
    /// The origin of the last request: the next one usually goes there too, and parsing a host is expensive.
    last_origin: Mutex<Option<(Scheme, Authority, RequestTarget)>>,
}

/// The library that holds the connections.
pub(crate) enum HttpTransport {
    /// hyper, with the connector of this crate.
    Hyper(Box<HyperTransport>),
    /// reqwest, for the host's own requests.
    Reqwest(ReqwestTransport),
}

/// One hop of a request.
pub(crate) struct RequestHop {
    pub(crate) target: RequestTarget,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) number: usize,
}

/// The result of a hop.
pub(crate) struct HopResponse {
    pub(crate) response: Response<ResponseBody>,
    pub(crate) swapped: SwappedSecrets,
}

impl HttpClient {
    /// Creates a client that follows the policy of `guard` and calls `authorizer` before each request. Without a
    /// `resolver`, names are resolved by the system.
    pub fn new(
        guard: Arc<PolicyGuard>,
        authorizer: Arc<dyn RequestAuthorizer>,
        roots: TlsRoots,
        limits: RequestLimits,
        resolver: Option<Arc<dyn Resolver>>,
    ) -> Self {
        Self::in_session(guard, authorizer, roots, limits, resolver, None)
    }

    /// Creates a client for a session with its own servers, as listed in the policy (see
    /// [`NetworkPolicy::with_served_ports`]): requests to these servers never leave the session.
    ///
    /// [`NetworkPolicy::with_served_ports`]: mimir_core::network::NetworkPolicy::with_served_ports
    pub fn in_session(
        guard: Arc<PolicyGuard>,
        authorizer: Arc<dyn RequestAuthorizer>,
        roots: TlsRoots,
        limits: RequestLimits,
        resolver: Option<Arc<dyn Resolver>>,
        servers: Option<Arc<dyn SessionServerDialer>>,
    ) -> Self {
        let transport = HttpTransport::Hyper(Box::default());
        let state = HttpClientState::new(guard, roots, limits, resolver, servers, transport);
        Self::with_state(state, authorizer)
    }

    /// Creates a client whose connections are held by reqwest.
    pub(crate) fn over_reqwest(
        guard: Arc<PolicyGuard>,
        authorizer: Arc<dyn RequestAuthorizer>,
        roots: TlsRoots,
        limits: RequestLimits,
        resolver: Option<Arc<dyn Resolver>>,
    ) -> Self {
        let transport = HttpTransport::Reqwest(ReqwestTransport::default());
        let state = HttpClientState::new(guard, roots, limits, resolver, None, transport);
        Self::with_state(state, authorizer)
    }

    fn with_state(shared: HttpClientState, authorizer: Arc<dyn RequestAuthorizer>) -> Self {
        Self {
            limits: shared.limits,
            shared: Arc::new(shared),
            authorizer,
            swap: None,
        }
    }

    /// Returns this client with another authorizer, for one call. Connections are shared.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: Arc<dyn RequestAuthorizer>) -> Self {
        self.authorizer = authorizer;
        self
    }

    /// Returns this client with secrets inserted by `swap`. Connections are shared.
    #[must_use]
    pub fn with_secrets(mut self, swap: Arc<dyn SecretSwap>) -> Self {
        self.swap = Some(swap);
        self
    }

    /// Returns this client with each limit reduced to that of `limits` if that one is tighter. Connections are shared.
    #[must_use]
    pub fn with_limits(mut self, limits: RequestLimits) -> Self {
        self.limits = self.limits.tightest(limits);
        self
    }

    /// Returns the limits of each request.
    pub fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// Sends one request and returns the response as a stream, whatever its status. Does not follow redirects or
    /// decompress the body. A guest's HTTP client is built on this.
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<ResponseBody>, Error>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let hop = RequestHop {
            target: self.shared.parse_target(&parts.uri)?,
            method: parts.method,
            headers: parts.headers,
            number: 0,
        };
        let body = Box::pin(body.map_err(Into::into));
        let upload = UploadBody::stream(body, self.limits.upload_bytes);
        Ok(self
            .send_hop(hop, upload, self.limits.whole)
            .await?
            .response)
    }

    /// Checks, authorizes and sends one hop. `time_left` is the rest of the limit for the whole request.
    pub(crate) async fn send_hop(
        &self,
        hop: RequestHop,
        mut upload: UploadBody,
        time_left: Duration,
    ) -> Result<HopResponse, Error> {
        headers::check(&hop.method, &hop.headers)?;
        upload.announce(headers::content_length(&hop.headers)?)?;
        let RequestHop {
            target,
            method,
            mut headers,
            number,
        } = hop;
        let checked = self.shared.guard.current();
        let verdict = checked.policy.judge(&target, method.as_str());
        if let NetworkVerdict::Refused(refusal) = verdict {
            return Err(self
                .explain_refusal(&target, &method, Error::Blocked(refusal))
                .await);
        }
        let outbound = OutboundRequest {
            target: &target,
            method: &method,
            headers: &headers,
            body: upload.has_bytes(),
            hop: number,
            verdict: &verdict,
        };
        let permit = self
            .authorizer
            .authorize(outbound)
            .await
            .map_err(Error::Denied)?;
        let deadline = Instant::now() + time_left;
        let slot = self.acquire_slot().await?;
        // The policy may have changed while the request waited for an approval or for a slot.
        self.authorizer.reload_policy();
        let current = self.shared.guard.current();
        let verdict = if current.generation == checked.generation {
            verdict
        } else {
            current.policy.judge(&target, method.as_str())
        };
        if let Err(error) = check_verdict(verdict, permit) {
            return Err(self.explain_refusal(&target, &method, error).await);
        }
        let added = self.authorizer.hop_headers(&target);
        // The headers belong together: the state of one trace does not go with the parent of another.
        if added.iter().all(|(name, _)| !headers.contains_key(name)) {
            headers.extend(added);
        }
        let swapped = match &self.swap {
            Some(swap) => SwappedSecrets::insert_into(&**swap, target.origin(), &mut headers),
            None => SwappedSecrets::default(),
        };
        let authorized = AuthorizedRequest {
            guard: Arc::clone(&self.shared.guard),
            generation: current.generation,
            target: Arc::new(target),
            method,
            permit,
            deadline,
            whole: self.limits.whole,
        };
        let mut request = Request::new(upload.with_authorization(authorized.clone()));
        *request.uri_mut() = wire_uri(&authorized.target)?;
        request.method_mut().clone_from(&authorized.method);
        *request.headers_mut() = headers;

        let exchanged = match &self.shared.transport {
            HttpTransport::Hyper(transport) => {
                self.exchange_with_hyper(transport, &current, request, time_left)
                    .await
            }
            HttpTransport::Reqwest(transport) => {
                let target = &authorized.target;
                self.exchange_with_reqwest(transport, &current, target, request, time_left)
                    .await
            }
        };
        let response = match exchanged {
            Ok(response) => response,
            Err(error) => {
                return Err(self
                    .explain_refusal(&authorized.target, &authorized.method, error)
                    .await);
            }
        };
        let bounds = ResponseBounds {
            limit: self.limits.body_bytes,
            between: self.limits.between_bytes,
            authorized,
            slot: Some(slot),
        };
        let mut response = response.map(|inner| ResponseBody::new(inner, bounds));
        mark_sensitive(response.headers_mut());
        Ok(HopResponse { response, swapped })
    }

    /// Lets the authorizer explain why the policy refuses a hop.
    async fn explain_refusal(
        &self,
        target: &RequestTarget,
        method: &Method,
        error: Error,
    ) -> Error {
        match error {
            Error::Blocked(_) | Error::BlockedAddress(_) => {
                self.authorizer.explain_refusal(target, method, error).await
            }
            error => error,
        }
    }

    /// Waits until the number of open requests is below the limit. Fails after the connect timeout.
    async fn acquire_slot(&self) -> Result<OwnedSemaphorePermit, Error> {
        let slots = Arc::clone(&self.shared.slots);
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            return Ok(slot);
        }
        let slot = timeout(self.limits.connect, slots.acquire_owned()).await;
        match slot {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Error::TooMany(RequestLimits::CONCURRENT)),
        }
    }
}

fn timed_out(stage: RequestStage, after: Duration) -> Error {
    Error::Timeout { stage, after }
}

/// Marks response headers that `Debug` must not show.
fn mark_sensitive(headers: &mut HeaderMap) {
    // Most responses have no cookies, and `entry` would allocate first.
    if headers.contains_key(SET_COOKIE)
        && let Entry::Occupied(mut cookies) = headers.entry(SET_COOKIE)
    {
        let cookies = cookies.iter_mut();
        cookies.for_each(|cookie| cookie.set_sensitive(true));
    }
}

impl HttpClientState {
    fn new(
        guard: Arc<PolicyGuard>,
        roots: TlsRoots,
        limits: RequestLimits,
        resolver: Option<Arc<dyn Resolver>>,
        servers: Option<Arc<dyn SessionServerDialer>>,
        transport: HttpTransport,
    ) -> Self {
        Self {
            guard,
            resolver: resolver.unwrap_or_else(|| Arc::new(SystemResolver)),
            tls: Arc::new(TlsClient::new(roots)),
            servers,
            limits,
            slots: Arc::new(Semaphore::new(RequestLimits::CONCURRENT)),
            transport,
            last_origin: Mutex::new(None),
        }
    }

    /// Parses a URL. If the origin is unchanged since the last request, only the path is parsed.
    fn parse_target(&self, uri: &Uri) -> Result<RequestTarget, UrlError> {
        let path = uri.path_and_query().map_or("", PathAndQuery::as_str);
        if path == "*" {
            return Err(UrlError::Invalid(
                "`*` is not a valid path of a URL".to_owned(),
            ));
        }
        let (Some(scheme), Some(authority), true) =
            (uri.scheme(), uri.authority(), is_rooted_path(path))
        else {
            return RequestTarget::parse(&uri.to_string());
        };
        let mut last_origin = self.last_origin.lock();
        match &*last_origin {
            Some((last_scheme, last_authority, root))
                if last_scheme == scheme && last_authority == authority =>
            {
                root.join(path)
            }
            _ => {
                let root = RequestTarget::parse(&format!("{scheme}://{authority}/"))?;
                let target = root.join(path)?;
                *last_origin = Some((scheme.clone(), authority.clone(), root));
                Ok(target)
            }
        }
    }
}

/// Returns true if this is a plain path from the root. A path that begins with two slashes, forward or back, would name
/// a host.
fn is_rooted_path(path: &str) -> bool {
    let is_slash = |c| matches!(c, '/' | '\\');
    path.strip_prefix('/')
        .is_some_and(|rest| !rest.starts_with(is_slash))
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::network::NetworkPolicy;

    use super::*;
    use crate::authorize::PolicyOnly;

    #[test]
    fn origin_cache_does_not_change_url_parsing() {
        let guard = Arc::new(PolicyGuard::new(NetworkPolicy::default()));
        let authorizer = Arc::new(PolicyOnly);
        let client = HttpClient::new(
            guard,
            authorizer,
            TlsRoots::default(),
            RequestLimits::default(),
            None,
        );
        let urls = [
            "http://a.example/",
            "http://a.example/x/../y?q#f",
            "http://a.example",
            "http://a.example?q",
            "http://a.example//b.example/x",
            "http://a.example/\\b.example/x",
            "http://a.example/%2f/b.example",
            "http://a.example/http://b.example/",
            "http://A.EXAMPLE./x",
            "http://a.example:80/x",
            "http://a.example:81/x",
            "https://a.example/x",
            "http://user@a.example/x",
            "http://0x7f.1/x",
            "http://[::1]/x",
            "ftp://a.example/x",
        ];
        let long = ["http://a.example/", &"x".repeat(8180)].concat();
        let urls: Vec<&str> = urls.into_iter().chain([&*long]).collect();
        let parts = Uri::builder().scheme("http").authority("a.example");
        let asterisk = parts.path_and_query("*").build().unwrap();
        assert!(client.shared.parse_target(&asterisk).is_err());
        // Every URL, after every other URL.
        for before in &urls {
            for url in &urls {
                let [before, uri] = [before, url].map(|url| url.parse::<Uri>());
                let Ok(uri) = uri else { continue };
                let _ = before.map(|before| client.shared.parse_target(&before));
                let _ = client.shared.parse_target(&asterisk);
                assert_eq!(
                    client.shared.parse_target(&uri),
                    RequestTarget::parse(&uri.to_string()),
                    "{url}"
                );
            }
        }
    }
}
