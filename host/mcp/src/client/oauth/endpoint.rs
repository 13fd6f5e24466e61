//! Requests to the URLs of a login: checks of the URL, and reading of the response.
//!
//! Out of scope: the content of the requests.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mimir_core::ToolError;
use mimir_core::network::{AddressScope, NetworkHost, RequestTarget, UrlScheme, classify};
use mimir_core::text::{prefix, visible};
use mimir_net::{HostClient, RequestLimits, ResponseBody};
use serde::de::DeserializeOwned;

use super::login_error;
use crate::client::server::HttpClientFactory;

/// Maximum size in bytes of a request or response of a login, and time limit of a request.
const MAX_BODY_SIZE: u64 = 256 << 10;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of redirects of a document, all within one origin.
const MAX_REDIRECTS: usize = 3;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// A URL that is contacted for a login, with an HTTP client that reaches only the origin of the URL.
#[derive(Clone)]
pub(super) struct OauthEndpoint {
    target: RequestTarget,
    client: HostClient,
}

/// A response.
pub(super) struct EndpointResponse {
    pub(super) status: StatusCode,
    body: Bytes,
}

/// Checks a URL from the untrusted `server`. The URL must use TLS, unless both are on this machine. It may be on this
/// machine only if the server is, too, and may have a private address only if the server has the same one. `what`
/// describes the URL in errors.
pub(super) fn check_url(
    url: &str,
    what: &str,
    server: &RequestTarget,
) -> Result<RequestTarget, ToolError> {
    let display_url = || visible(prefix(url, 200));
    let not_allowed = |why: &str| {
        login_error(format!(
            "the {what} `{}` is not allowed: {why}",
            display_url()
        ))
    };
    let target = RequestTarget::parse(url).map_err(|error| not_allowed(&error.to_string()))?;
    let (host, server_host) = (target.host(), server.host());
    let is_local = host.is_this_machine() && server_host.is_this_machine();
    if target.scheme() != UrlScheme::Https && !is_local {
        return Err(not_allowed("logins require https"));
    }
    let is_private = match host {
        NetworkHost::Ip(address) => classify(*address).scope != AddressScope::Public,
        NetworkHost::Name(_) => host.is_localhost(),
    };
    if is_private && !is_local && host != server_host {
        return Err(not_allowed(
            "it is on this machine or in a private network, but not at the server's own address",
        ));
    }
    Ok(target)
}

impl OauthEndpoint {
    /// Creates an endpoint for a URL that was [checked](check_url).
    pub(super) fn new(
        target: RequestTarget,
        clients: &HttpClientFactory,
    ) -> Result<Self, ToolError> {
        let limits = RequestLimits {
            first_byte: REQUEST_TIMEOUT,
            between_bytes: REQUEST_TIMEOUT,
            whole: REQUEST_TIMEOUT,
            body_bytes: MAX_BODY_SIZE,
            upload_bytes: MAX_BODY_SIZE,
            redirects: MAX_REDIRECTS,
            ..RequestLimits::default()
        };
        let client = clients(&target.to_string())?.with_limits(limits);
        Ok(Self { target, client })
    }

    pub(super) fn target(&self) -> &RequestTarget {
        &self.target
    }

    /// Fetches the document at the URL. Returns `None` if the response is not a valid document. Follows redirects
    /// within the origin.
    pub(super) async fn fetch_document<T: DeserializeOwned>(&self) -> Result<Option<T>, ToolError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = mimir_net::uri(&self.target.to_string()).map_err(ToolError::from)?;
        request.headers_mut().insert(ACCEPT, JSON);
        let fetched = self.client.fetch(request).await.map_err(ToolError::from)?;
        let is_ok = fetched.status == StatusCode::OK;
        Ok(serde_json::from_slice(&fetched.body).ok().filter(|_| is_ok))
    }

    /// Posts a form, with optional client credentials in the header. Does not follow redirects.
    pub(super) async fn post_form(
        &self,
        fields: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<EndpointResponse, ToolError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, FORM);
        if let Some((id, secret)) = basic {
            // Both parts are form-encoded, because either may contain a colon; RFC 6749 section 2.3.1.
            let pair = format!("{}:{}", form_encode(id), form_encode(secret));
            let value = format!("Basic {}", STANDARD.encode(pair));
            let mut value = HeaderValue::from_str(&value).map_err(ToolError::internal)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        self.post(headers, encode_form(fields).into()).await
    }

    /// Posts JSON. Does not follow redirects.
    pub(super) async fn post_json(
        &self,
        value: &serde_json::Value,
    ) -> Result<EndpointResponse, ToolError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, JSON);
        self.post(headers, value.to_string().into()).await
    }

    /// Posts a prepared body.
    pub(super) async fn post(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<EndpointResponse, ToolError> {
        let (parts, body) = self.post_for_head(headers, body).await?.into_parts();
        let body = body.collect().await.map_err(ToolError::from)?;
        Ok(EndpointResponse {
            status: parts.status,
            body: body.to_bytes(),
        })
    }

    /// Posts a prepared body, and returns only the head of the response, because the body may be endless.
    pub(super) async fn post_for_head(
        &self,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, ToolError> {
        headers.entry(ACCEPT).or_insert(JSON);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = mimir_net::uri(&self.target.to_string()).map_err(ToolError::from)?;
        *request.headers_mut() = headers;
        self.client.send(request).await.map_err(ToolError::from)
    }
}

/// Returns the first valid document at one of these URLs, or `None`. An error at a URL is returned only if no later URL
/// has a document.
pub(super) async fn fetch_first_document<T: DeserializeOwned>(
    urls: Vec<RequestTarget>,
    clients: &HttpClientFactory,
) -> Result<Option<T>, ToolError> {
    let mut last_error = None;
    for url in urls {
        match OauthEndpoint::new(url, clients)?.fetch_document().await {
            Ok(None) => {}
            Ok(document) => return Ok(document),
            Err(error) => last_error = Some(error),
        }
    }
    last_error.map_or(Ok(None), Err)
}

impl EndpointResponse {
    /// Parses the body as JSON. Returns `None` if it is not a valid `T`.
    pub(super) fn parse_json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Encodes pairs as a form.
pub(super) fn encode_form(fields: &[(&str, &str)]) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    form.finish()
}

fn form_encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use mimir_core::ToolErrorCode;

    use super::*;

    #[test]
    fn endpoint_rejects_private_addresses_of_public_servers() {
        let check = |url: &str, server: &str| {
            check_url(
                url,
                "token endpoint",
                &RequestTarget::parse(server).unwrap(),
            )
            .map(|_| ())
        };
        let far = "https://mcp.example/mcp";
        check("https://as.example/token", far).unwrap();
        for is_private in [
            "http://as.example/token",
            "https://127.0.0.1/token",
            "https://localhost/token",
            "http://localhost:1/token",
            "https://10.0.0.1/token",
            "https://[fd00::1]/token",
            "https://169.254.169.254/latest",
            "https://[::ffff:127.0.0.1]/token",
            "https://0x7f.1/token",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://user@as.example/token",
            "/token",
        ] {
            let error = check(is_private, far).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::PermissionDenied, "{is_private}");
        }
        // A local server may name local addresses, and one in a private network its own address there.
        check("http://localhost:2/token", "http://127.0.0.1:1/mcp").unwrap();
        check("https://10.0.0.1:2/token", "https://10.0.0.1/mcp").unwrap();
        assert!(check("https://10.0.0.2/token", "https://10.0.0.1/mcp").is_err());
        assert!(check("http://10.0.0.1/token", "http://10.0.0.1/mcp").is_err());
        assert!(check("https://127.0.0.1/token", "https://10.0.0.1/mcp").is_err());
    }
}
