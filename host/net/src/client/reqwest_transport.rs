//! Exchange of one request over reqwest, for the host's own requests.
//!
//! Each origin has its own reqwest client, made under one policy. Its resolver therefore knows scheme and port of the
//! target, which reqwest does not pass to resolvers, and its connections are not used under another policy.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use mimir_core::network::{NetworkHost, NetworkPolicy, RequestTarget, UrlOrigin, UrlScheme};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::{Instant, timeout_at};

use super::reqwest_errors;
use super::{HttpClient, HttpClientState, IDLE_TIMEOUT, MAX_IDLE_CONNECTIONS, timed_out};
use crate::body::ResponseSource;
use crate::error::{Error, RequestStage};
use crate::hyper_errors;
use crate::policy_guard::NetworkPolicySnapshot;
use crate::resolver::{Resolver, resolve_checked};
use crate::tls;
use crate::upload::{BoxError, UploadBody};

/// Maximum number of origins whose connections are kept. The host's clients reach one, or a few through redirects.
const MAX_ORIGINS: usize = 16;

/// The reqwest clients of one policy.
#[derive(Default)]
pub(crate) struct ReqwestTransport {
    cached: Mutex<CachedClients>,
}

#[derive(Default)]
struct CachedClients {
    generation: u64,
    /// By origin and limit for connections.
    clients: HashMap<(UrlOrigin, Duration), reqwest::Client>,
}

impl HttpClient {
    /// Sends a request and waits for the head of the response. reqwest does not report when a connection is made, so the
    /// limit for the head counts from the start, after the limit for connections.
    pub(super) async fn exchange_with_reqwest(
        &self,
        transport: &ReqwestTransport,
        current: &NetworkPolicySnapshot,
        target: &RequestTarget,
        request: Request<UploadBody>,
        time_left: Duration,
    ) -> Result<Response<ResponseSource>, Error> {
        let limits = self.limits;
        let start = Instant::now();
        let deadline = start + time_left;
        let timeout_error = |stage, after| {
            if Instant::now() >= deadline {
                timed_out(RequestStage::Whole, limits.whole)
            } else {
                timed_out(stage, after)
            }
        };
        // reqwest connects to an address in a URL without the resolver.
        if matches!(target.host(), NetworkHost::Ip(_)) {
            let resolver = &*self.shared.resolver;
            resolve_checked(resolver, &current.policy, target, limits.connect).await?;
        }
        let client = transport
            .client(&self.shared, current, target, limits.connect)
            .await?;
        let request = request.map(|body| reqwest::Body::wrap(SharedUpload(Mutex::new(body))));
        let request = reqwest::Request::try_from(request).map_err(|_| {
            Error::InvalidRequest("the URL has characters that cannot be sent".to_owned())
        })?;
        let until = deadline.min(start + limits.connect + limits.first_byte);
        let response = timeout_at(until, client.execute(request)).await;
        let response =
            response.map_err(|_| timeout_error(RequestStage::Headers, limits.first_byte))?;
        let header_limit = self.shared.limits.header_bytes;
        let response = response.map_err(|error| {
            if reqwest_errors::is_connect_timeout(&error) {
                return timeout_error(RequestStage::Connect, limits.connect);
            }
            reqwest_errors::from_request_error(&error, target, header_limit)
        })?;
        let response = Response::from(response);
        hyper_errors::check_header_count(response.headers(), header_limit)?;
        hyper_errors::check_header_size(response.headers(), header_limit)?;
        Ok(response.map(ResponseSource::Reqwest))
    }
}

impl ReqwestTransport {
    /// Returns the client for an origin under this policy. Connections of an older policy are dropped.
    async fn client(
        &self,
        state: &HttpClientState,
        current: &NetworkPolicySnapshot,
        target: &RequestTarget,
        connect_limit: Duration,
    ) -> Result<reqwest::Client, Error> {
        let key = (target.origin().clone(), connect_limit);
        {
            let cached = self.cached.lock();
            let is_current = cached.generation == current.generation;
            if is_current && let Some(client) = cached.clients.get(&key) {
                return Ok(client.clone());
            }
        }
        let client = new_client(state, &current.policy, target, connect_limit).await?;
        let mut cached = self.cached.lock();
        // This request was checked before the policy changed: its connection is not pooled.
        if cached.generation > current.generation {
            return Ok(client);
        }
        if cached.generation < current.generation || cached.clients.len() >= MAX_ORIGINS {
            cached.clients.clear();
            cached.generation = current.generation;
        }
        // Another request may have made a client meanwhile; they share its connections.
        Ok(cached.clients.entry(key).or_insert(client).clone())
    }
}

async fn new_client(
    state: &HttpClientState,
    policy: &Arc<NetworkPolicy>,
    target: &RequestTarget,
    connect_limit: Duration,
) -> Result<reqwest::Client, Error> {
    let tls = match target.scheme() {
        UrlScheme::Https => rustls::ClientConfig::clone(&*state.tls.config(target).await?),
        // reqwest would otherwise make a configuration of its own, although an unencrypted connection has none.
        UrlScheme::Http => tls::config_without_roots().map_err(|error| internal(&error))?,
    };
    let lookup = GuardedLookup {
        policy: Arc::clone(policy),
        resolver: Arc::clone(&state.resolver),
        target: target.clone(),
        limit: connect_limit,
    };
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .dns_resolver(lookup)
        .tls_backend_preconfigured(tls)
        .connect_timeout(connect_limit)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .http2_max_header_list_size(state.limits.header_bytes)
        .build()
        .map_err(|error| internal(&error))
}

fn internal(error: &dyn std::error::Error) -> Error {
    Error::InvalidRequest(format!("the HTTP client could not be configured: {error}"))
}

/// Resolver of the connections to one origin: looks up its name and checks every address.
struct GuardedLookup {
    policy: Arc<NetworkPolicy>,
    resolver: Arc<dyn Resolver>,
    target: RequestTarget,
    limit: Duration,
}

impl Resolve for GuardedLookup {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, resolver) = (Arc::clone(&self.policy), Arc::clone(&self.resolver));
        let (target, limit) = (self.target.clone(), self.limit);
        Box::pin(async move {
            // Only the target was authorized. Another name would have been added by reqwest, such as that of a proxy.
            if target.host().to_string() != name.as_str() {
                let host = name.as_str().to_owned();
                let why = "it is not the host of the request".to_owned();
                return Err(BoxError::from(Error::Dns { host, why }));
            }
            let addresses = resolve_checked(&*resolver, &policy, &target, limit).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Body in the form that reqwest requires, which may be shared between threads. Its lock is never contended.
struct SharedUpload(Mutex<UploadBody>);

impl HttpBody for SharedUpload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(self.get_mut().0.get_mut()).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}
