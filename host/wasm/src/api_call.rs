//! Requests of tools that an OpenAPI document describes. They take the same checks as requests of components.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use mimir_core::{Approved, ToolError, text};

use crate::host::WasmHost;
use crate::http::GuestNetwork;
use crate::script::ScriptState;

/// A request to the server of an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// The method in upper case.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// Names and values of headers. A value may contain the placeholder of a secret.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Bytes,
}

/// The response of the server, after redirects, and with the call's secrets masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResponse {
    /// The status code.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: Option<String>,
    /// The value of `Retry-After`.
    pub retry_after: Option<String>,
    /// The decompressed body.
    pub body: Bytes,
}

impl ScriptState {
    /// Sends a request on behalf of a call, within the hosts and secrets that the call was granted. `build` creates the
    /// request with the placeholders of the call's secrets, by name.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is not valid, is refused, or fails. A response with any status is a success.
    pub async fn send_api_request(
        &self,
        host: &Arc<WasmHost>,
        call: &Approved,
        build: impl FnOnce(&HashMap<String, String>) -> Result<ApiRequest, ToolError>,
    ) -> Result<ApiResponse, ToolError> {
        if call.rights().hosts.is_empty() {
            let remedy = format!(
                "`mimir tools trust {}` grants its hosts",
                call.tool().trust_argument()
            );
            let error = ToolError::permission_denied("the tool was not granted the network");
            return Err(error.with_remedies([remedy]));
        }
        let network = GuestNetwork::for_call(Arc::clone(&self.0), Arc::clone(host), call);
        let placeholders = network.placeholders();
        let placeholders =
            placeholders.map(|(name, placeholder)| (name.to_owned(), placeholder.to_owned()));
        let request = http_request(build(&placeholders.collect())?)?;
        let response = network.fetch(request).await?;
        let header = |name: HeaderName| {
            let value = response.headers.get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        Ok(ApiResponse {
            status: response.status.as_u16(),
            content_type: header(http::header::CONTENT_TYPE),
            retry_after: header(http::header::RETRY_AFTER),
            body: response.body,
        })
    }
}

fn http_request(request: ApiRequest) -> Result<Request<Bytes>, ToolError> {
    let invalid =
        |what: String| ToolError::invalid_input(format!("{what} is not valid in a request"));
    let mut built = Request::new(request.body);
    *built.method_mut() = Method::from_bytes(request.method.as_bytes())
        .map_err(|_| invalid(format!("the method `{}`", text::visible(&request.method))))?;
    *built.uri_mut() = mimir_net::uri(&request.url)?;
    for (name, value) in request.headers {
        let shown = text::visible(text::prefix(&name, 100));
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(&value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(invalid(format!("the header `{shown}`")));
        };
        built.headers_mut().append(name, value);
    }
    Ok(built)
}
