//! HTTP of the registry client: one request with its redirects, each judged by [`HostClient`], and bounded bodies.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mimir_core::network::{RequestTarget, UrlScheme};
use mimir_net::{Error as HttpError, HostClient, RequestLimits, ResponseBody};

use crate::error::RegistryError;

/// Maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;
/// Headers that follow a redirect to another origin. Any other header may carry a secret.
const CROSS_ORIGIN_HEADERS: [HeaderName; 4] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::USER_AGENT,
    header::RANGE,
];

/// Limits for a client of registries whose blobs have at most `blob_bytes` bytes.
pub(crate) fn limits(blob_bytes: u64) -> RequestLimits {
    RequestLimits {
        whole: Duration::from_secs(600),
        body_bytes: blob_bytes,
        upload_bytes: blob_bytes,
        redirects: MAX_REDIRECTS,
        ..RequestLimits::default()
    }
}

/// Sends requests of the registry client.
#[derive(Debug, Clone)]
pub(crate) struct RegistryHttp {
    client: Arc<HostClient>,
}

/// A request to a registry or its token server.
#[derive(Debug, Clone)]
pub(crate) struct RegistryRequest<'a> {
    /// The registry, for messages.
    pub(crate) registry: &'a str,
    pub(crate) method: Method,
    pub(crate) target: RequestTarget,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A response whose body has not been read.
#[derive(Debug)]
pub(crate) struct RegistryResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The URL that answered, after all redirects.
    pub(crate) target: RequestTarget,
    body: ResponseBody,
}

impl RegistryHttp {
    pub(crate) fn new(client: Arc<HostClient>) -> Self {
        Self { client }
    }

    /// Sends a request and follows redirects of GET and HEAD. Credentials stay at the origin of the request.
    pub(crate) async fn send(
        &self,
        request: RegistryRequest<'_>,
    ) -> Result<RegistryResponse, RegistryError> {
        let RegistryRequest {
            registry,
            method,
            mut target,
            mut headers,
            body,
        } = request;
        let fault = |error: HttpError| RegistryError::http(registry, error);
        let user_agent = concat!("mimir/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(user_agent));
        // Digests and sizes are those of the stored bytes.
        let identity = HeaderValue::from_static("identity");
        headers.insert(header::ACCEPT_ENCODING, identity);
        let may_follow = method == Method::GET || method == Method::HEAD;
        for _ in 0..=MAX_REDIRECTS {
            let mut hop = Request::new(Full::new(body.clone()));
            *hop.method_mut() = method.clone();
            *hop.uri_mut() = mimir_net::uri(target.url().as_str()).map_err(fault)?;
            *hop.headers_mut() = headers.clone();
            let response = self.client.send(hop).await.map_err(fault)?;
            let (parts, response_body) = response.into_parts();
            let is_redirect = matches!(parts.status.as_u16(), 301..=303 | 307 | 308);
            let location = parts.headers.get(header::LOCATION).filter(|_| is_redirect);
            let Some(location) = location else {
                return Ok(RegistryResponse {
                    status: parts.status,
                    headers: parts.headers,
                    target,
                    body: response_body,
                });
            };
            if !may_follow {
                let why = "uploads and logins are not redirected".to_owned();
                return Err(fault(HttpError::Redirect(why)));
            }
            let next = join_location(&target, location).map_err(fault)?;
            if next.origin() != target.origin() {
                headers = headers
                    .into_iter()
                    .filter_map(|(name, value)| Some((name?, value)))
                    .filter(|(name, _)| CROSS_ORIGIN_HEADERS.contains(name))
                    .collect();
            }
            target = next;
        }
        Err(fault(HttpError::TooManyRedirects(MAX_REDIRECTS)))
    }
}

impl RegistryResponse {
    /// Returns the announced size of the body.
    pub(crate) fn content_length(&self) -> Option<u64> {
        let value = self.headers.get(header::CONTENT_LENGTH)?;
        value.to_str().ok()?.parse().ok()
    }

    /// Returns the value of a header, if it is text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the media type of the body, without parameters.
    pub(crate) fn media_type(&self) -> Option<String> {
        let value = self.header(&header::CONTENT_TYPE)?;
        let (media_type, _) = value.split_once(';').unwrap_or((value, ""));
        Some(media_type.trim().to_ascii_lowercase())
    }

    /// Returns the URL in the `Location` header.
    pub(crate) fn location(&self) -> Option<Result<RequestTarget, HttpError>> {
        let location = self.headers.get(header::LOCATION)?;
        Some(join_location(&self.target, location))
    }

    /// Returns the next chunk of the body, or `None` at its end.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        while let Some(frame) = self.body.frame().await {
            // Trailers are not used.
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads the whole body. Fails if it has more than `max` bytes.
    pub(crate) async fn read(
        mut self,
        registry: &str,
        what: &str,
        max: u64,
    ) -> Result<Bytes, RegistryError> {
        let too_large = || RegistryError::Limit {
            registry: registry.to_owned(),
            what: what.to_owned(),
            limit: mimir_core::text::bytes(max),
        };
        if self.content_length().is_some_and(|length| length > max) {
            return Err(too_large());
        }
        let mut bytes = BytesMut::new();
        loop {
            let chunk = self.next_chunk().await;
            let chunk = chunk.map_err(|error| RegistryError::http(registry, error))?;
            let Some(chunk) = chunk else {
                return Ok(bytes.freeze());
            };
            if (bytes.len() + chunk.len()) as u64 > max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
    }
}

/// Returns the target of a `Location` header. Refuses a step from https to http.
fn join_location(from: &RequestTarget, location: &HeaderValue) -> Result<RequestTarget, HttpError> {
    let text = std::str::from_utf8(location.as_bytes());
    let text =
        text.map_err(|_| HttpError::Redirect("its `location` header is not valid text".into()))?;
    let next = from.join(text);
    let next = next.map_err(|error| HttpError::Redirect(error.to_string()))?;
    if from.scheme() == UrlScheme::Https && next.scheme() == UrlScheme::Http {
        return Err(HttpError::Downgrade);
    }
    Ok(next)
}
