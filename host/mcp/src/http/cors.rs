//! CORS for web pages of allowed origins: preflight responses, and headers that let a page read a response.
//!
//! Out of scope: the check of the origin, which `request_guard` has done.

use ::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use super::{BoxedResponse, empty_response};

const ALLOWED_METHODS: &str = "GET, POST, DELETE";

/// Headers that a client may send, in addition to headers that begin with `mcp-`.
const REQUEST_HEADERS: [&str; 8] = [
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
];

/// Response headers that a page may read.
const EXPOSED_HEADERS: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after";

/// Seconds for which a browser may cache a preflight response.
const MAX_AGE_SECS: &str = "600";

/// Header of the preflight with which a public web page asks for access to a private network.
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// Returns the origin of a request from a web page.
pub(super) fn page_origin(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(ORIGIN).cloned()
}

/// Returns the response to a preflight request, or `None` for another request. A preflight carries no token.
pub(super) fn preflight<B>(request: &Request<B>) -> Option<BoxedResponse> {
    let request_headers = request.headers();
    let is_preflight = request.method() == Method::OPTIONS
        && request_headers.contains_key(ORIGIN)
        && request_headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if !is_preflight {
        return None;
    }
    let mut response = empty_response(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(ALLOWED_METHODS),
    );
    headers.insert(
        ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static(MAX_AGE_SECS),
    );
    let requested = request_headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
    let requested = requested.and_then(|requested| requested.to_str().ok());
    let requested = requested.unwrap_or_default().split(',');
    let requested = requested.map(|name| name.trim().to_ascii_lowercase());
    let mcp_headers = requested
        .filter(|name| name.starts_with("mcp-") && HeaderName::from_bytes(name.as_bytes()).is_ok());
    let mut allowed: Vec<String> = REQUEST_HEADERS
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    allowed.extend(mcp_headers);
    allowed.sort();
    allowed.dedup();
    if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    if request_headers.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    Some(response)
}

/// Adds the headers that let an allowed page read a response. `Vary` keeps caches from serving a response to another
/// page. Credentials are never allowed, because the server uses no cookies.
pub(super) fn add_headers(response: &mut BoxedResponse, page: Option<HeaderValue>) {
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(page) = page {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED_HEADERS),
        );
    }
}
