//! HTTP client for the host's own requests.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;

use crate::authorize::RequestAuthorizer;
use crate::body::ResponseBody;
use crate::client::HttpClient;
use crate::error::Error;
use crate::fetch::FetchedResponse;
use crate::limits::RequestLimits;
use crate::policy_guard::PolicyGuard;
use crate::resolver::Resolver;
use crate::tls::TlsRoots;
use crate::upload::BoxError;

/// Sends the host's own requests, with the checks, limits and errors of [`HttpClient`], over reqwest. reqwest gets the
/// checked addresses of a name from this crate, reads no proxy from the environment, retries nothing, and follows no
/// redirect: [`Self::fetch`] checks and authorizes each one as a request of its own.
///
/// Clones share their connections. Two limits are looser than those of [`HttpClient`]: the head of a response may have
/// 400 KiB before it is refused, and its time limit begins only after that for connections.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use mimir_core::network::{HostPattern, NetworkPolicy, NetworkRules};
/// use mimir_net::{HostClient, PolicyGuard, PolicyOnly, RequestLimits, TlsRoots};
///
/// let rules = NetworkRules { allowed: vec!["*.example.com".parse::<HostPattern>()?.into()], ..NetworkRules::default() };
/// let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
/// let client = HostClient::new(guard, Arc::new(PolicyOnly), TlsRoots::default(), RequestLimits::default(), None);
///
/// let error = client.get("http://169.254.169.254/latest/meta-data").await.unwrap_err();
/// assert_eq!((error.kind(), error.code().as_str()), ("blocked", "POLICY_DENIED"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HostClient(HttpClient);

impl HostClient {
    /// Creates a client that follows the policy of `guard` and calls `authorizer` before each request. Without a
    /// `resolver`, names are resolved by the system.
    pub fn new(
        guard: Arc<PolicyGuard>,
        authorizer: Arc<dyn RequestAuthorizer>,
        roots: TlsRoots,
        limits: RequestLimits,
        resolver: Option<Arc<dyn Resolver>>,
    ) -> Self {
        Self(HttpClient::over_reqwest(
            guard, authorizer, roots, limits, resolver,
        ))
    }

    /// Returns this client with another authorizer, for one call. Connections are shared.
    #[must_use]
    pub fn with_authorizer(self, authorizer: Arc<dyn RequestAuthorizer>) -> Self {
        Self(self.0.with_authorizer(authorizer))
    }

    /// Returns this client with each limit reduced to that of `limits` if that one is tighter.
    #[must_use]
    pub fn with_limits(self, limits: RequestLimits) -> Self {
        Self(self.0.with_limits(limits))
    }

    /// Returns the limits of each request.
    pub fn limits(&self) -> RequestLimits {
        self.0.limits()
    }

    /// Fetches a URL with GET. See [`Self::fetch`].
    pub async fn get(&self, url: &str) -> Result<FetchedResponse, Error> {
        self.0.get(url).await
    }

    /// Sends a request, follows redirects, and returns the whole response, whatever its status. See
    /// [`HttpClient::fetch`].
    pub async fn fetch(&self, request: Request<Bytes>) -> Result<FetchedResponse, Error> {
        self.0.fetch(request).await
    }

    /// Sends one request and returns the response as a stream, whatever its status. Does not follow redirects or
    /// decompress the body. See [`HttpClient::send`].
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<ResponseBody>, Error>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.0.send(request).await
    }
}

impl fmt::Debug for HostClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostClient").field(&self.limits()).finish()
    }
}
