//! Components that answer HTTP requests, as tools: one request per call, which never leaves this process.

use std::collections::BTreeMap;
use std::convert::Infallible;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::combinators::MapErr;
use http_body_util::{BodyExt as _, Full};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::tool::ToolName;
use mimir_core::{Schema, ToolError, ToolErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use wasmtime::Store;
use wasmtime::component::Accessor;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;
use wasmtime_wasi_http::p3::bindings::ServicePre;
use wasmtime_wasi_http::{WasiBody, WasiHttpView as _, p3};

use crate::store_state::StoreState;

/// The name of the tool.
const NAME: &str = "request";

/// The authority of every request.
const AUTHORITY: &str = "localhost";

/// The arguments of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RequestArguments {
    #[serde(default = "default_method")]
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    body_base64: Option<String>,
}

fn default_method() -> String {
    "GET".to_owned()
}

/// Returns the name, the description and the schemas of the tool.
pub(crate) fn definition() -> Option<(ToolName, String, Schema, Schema)> {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let headers = |description: &str| {
        json!({
            "type": "object", "additionalProperties": { "type": "string" },
            "description": description
        })
    };
    let input = json!({
        "type": "object",
        "properties": {
            "method": text("The method, such as GET or POST. The default is GET."),
            "path": text("The path with its query, such as /items?limit=10."),
            "headers": headers("The headers by name."),
            "body": text("The body, as text."),
            "bodyBase64": {
                "type": "string", "contentEncoding": "base64",
                "description": "The body, if it is not text."
            }
        },
        "required": ["path"],
        "additionalProperties": false
    });
    let output = json!({
        "type": "object",
        "properties": {
            "status": { "type": "integer", "minimum": 100, "maximum": 999 },
            "headers": headers(
                "The headers by name. Several headers of one name are joined with a comma, and cookies (set-cookie) with a line break."
            ),
            "body": text("The body, if it is text."),
            "bodyBase64": {
                "type": "string", "contentEncoding": "base64",
                "description": "The body, if it is not text."
            }
        },
        "required": ["status", "headers"],
        "additionalProperties": false
    });
    let description = "Sends an HTTP request to the component, which answers it itself.";
    Some((
        ToolName::new(NAME).ok()?,
        description.to_owned(),
        Schema::unchecked(input.to_string()),
        Schema::unchecked(output.to_string()),
    ))
}

fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorCode::InvalidInput, message)
}

fn failed(message: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorCode::ExecutionError, message)
}

/// A body that is in memory.
type RequestBody = MapErr<Full<Bytes>, fn(Infallible) -> wasmtime_wasi_http::Error>;

fn full_body(bytes: Bytes) -> RequestBody {
    Full::new(bytes).map_err(|never| match never {})
}

/// Builds the request of a call.
fn parse_request(arguments: &Value) -> Result<Request<RequestBody>, ToolError> {
    let arguments: RequestArguments =
        serde_json::from_value(arguments.clone()).map_err(|error| invalid(error.to_string()))?;
    if !arguments.path.starts_with('/') {
        return Err(invalid("/path: expected a path that begins with `/`"));
    }
    let method = Method::from_bytes(arguments.method.as_bytes())
        .map_err(|_| invalid("/method: it is not an HTTP method; use GET, POST or another one"))?;
    let body = match (arguments.body, arguments.body_base64) {
        (Some(_), Some(_)) => {
            return Err(invalid("give either `body` or `bodyBase64`, not both"));
        }
        (Some(text), None) => Bytes::from(text),
        (None, Some(text)) => STANDARD
            .decode(text)
            .map_err(|error| invalid(format!("/bodyBase64: {error}")))?
            .into(),
        (None, None) => Bytes::new(),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{AUTHORITY}{}", arguments.path))
        .body(full_body(body))
        .map_err(|error| invalid(format!("/path: {error}")))?;
    for (name, value) in arguments.headers {
        let at = format!("/headers/{}", mimir_core::text::visible(&name));
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("{at}: it is not the name of a header")))?;
        let value = HeaderValue::from_str(&value)
            .map_err(|_| invalid(format!("{at}: a header cannot have this value")))?;
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

/// Calls a component of WASI 0.2.
pub(crate) async fn call(
    store: &mut Store<StoreState>,
    pre: &ProxyPre<StoreState>,
    arguments: &Value,
) -> wasmtime::Result<Result<ToolOutput, ToolError>> {
    let request = match parse_request(arguments) {
        Ok(request) => request,
        Err(error) => return Ok(Err(error)),
    };
    let max_bytes = store.data().max_output;
    let (sender, receiver) = oneshot::channel();
    let (request, reply) = {
        let mut http = store.data_mut().http();
        let request = http.new_incoming_request(Scheme::Http, request)?;
        (request, http.new_response_outparam(sender)?)
    };
    let proxy = pre.instantiate_async(&mut *store).await?;
    let handle = async {
        let handler = proxy.wasi_http_incoming_handler();
        let handled = handler.call_handle(&mut *store, request, reply).await;
        // A body that the component has neither finished nor dropped would never end.
        store.data_mut().drop_handles();
        handled
    };
    let read = async {
        match receiver.await {
            Ok(Ok(response)) => read_response(response, max_bytes).await,
            Ok(Err(code)) => Err(failed(reported_error(&code))),
            Err(_) => Err(failed("the component ended without a response")),
        }
    };
    let mut handle = std::pin::pin!(handle);
    let mut read = std::pin::pin!(read);
    // A response that is too large ends the call, whatever the component still writes.
    let result = tokio::select! {
        biased;
        result = &mut read => result,
        handled = &mut handle => {
            handled?;
            return Ok(read.await);
        }
    };
    let is_too_large = matches!(&result, Err(error) if error.code == ToolErrorCode::LimitExceeded);
    // A body ends early for a reason of the component, such as a panic, that only the end of its function tells.
    if !is_too_large {
        handle.await?;
    }
    Ok(result)
}

/// Returns the message for an error code of `wasi:http`, of either version, as WIT writes it: `internal-error: reason`.
fn reported_error(code: &impl std::fmt::Debug) -> String {
    let debug = format!("{code:?}");
    let case = debug
        .split_once("ErrorCode::")
        .map_or(&*debug, |(_, case)| case);
    let (name, detail) = match case.split_once('(') {
        Some((name, detail)) => (name, detail.strip_suffix(')').unwrap_or(detail)),
        None => (case, ""),
    };
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(letter.to_lowercase());
    }
    let detail = detail
        .strip_prefix("Some(")
        .map_or(detail, |detail| detail.strip_suffix(')').unwrap_or(detail));
    // One pair of quotes only: an escaped quote may be next to them.
    let unquoted = detail
        .strip_prefix('"')
        .and_then(|detail| detail.strip_suffix('"'));
    match unquoted.unwrap_or(detail) {
        "" | "None" => format!("the component reports the error {kebab}"),
        detail => format!("the component reports the error {kebab}: {detail}"),
    }
}

/// Calls a component of WASI 0.3.
pub(crate) async fn call_async(
    store: &mut Store<StoreState>,
    pre: &ServicePre<StoreState>,
    arguments: &Value,
) -> wasmtime::Result<Result<ToolOutput, ToolError>> {
    let request = match parse_request(arguments) {
        Ok(request) => request,
        Err(error) => return Ok(Err(error)),
    };
    let max_bytes = store.data().max_output;
    let service = pre.instantiate_async(&mut *store).await?;
    let (request, _sent) = p3::Request::from_http(store.data_mut().http().hooks, request);
    let exchange = async |accessor: &Accessor<StoreState>| {
        let response = match service.handle(accessor, request).await? {
            Ok(response) => response,
            Err(code) => {
                return Ok(Err(failed(reported_error(&code))));
            }
        };
        let response =
            accessor.with(|store| response.into_http(store, std::future::ready(Ok(()))))?;
        Ok(read_response(response, max_bytes).await)
    };
    store.run_concurrent(exchange).await?
}

/// Reads a response up to the limit for results.
async fn read_response(
    response: Response<WasiBody>,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let (parts, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| failed(format!("the body of the response is incomplete: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > max_bytes.saturating_sub(bytes.len()) {
            return Err(crate::call::result_too_large(max_bytes as u64));
        }
        bytes.extend_from_slice(&data);
    }
    let mut headers = serde_json::Map::new();
    for name in parts.headers.keys() {
        let values = parts.headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        // A cookie may contain a comma.
        let separator = if name == SET_COOKIE { "\n" } else { ", " };
        headers.insert(name.to_string(), values.join(separator).into());
    }
    let mut structured = json!({ "status": parts.status.as_u16(), "headers": headers });
    let text = match String::from_utf8(bytes) {
        Ok(text) => {
            structured["body"] = text.clone().into();
            text
        }
        Err(error) => {
            let encoded = STANDARD.encode(error.as_bytes());
            structured["bodyBase64"] = encoded.clone().into();
            encoded
        }
    };
    Ok(ToolOutput {
        content: vec![Content::text(text)],
        structured: Some(structured),
        exit_code: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_errors_are_named_as_in_wit() {
        use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
        for (code, expected) in [
            (
                ErrorCode::InternalError(Some("no \"disk\"".to_owned())),
                "internal-error: no \\\"disk\\\"",
            ),
            (ErrorCode::InternalError(None), "internal-error"),
            (ErrorCode::ConnectionRefused, "connection-refused"),
        ] {
            let message = format!("the component reports the error {expected}");
            assert_eq!(reported_error(&code), message);
        }
    }

    #[tokio::test]
    async fn response_keeps_cookies_apart() {
        let body = full_body(Bytes::new()).boxed_unsync();
        let response = Response::builder()
            .header("Set-Cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT")
            .header("Set-Cookie", "b=2")
            .header("Vary", "Origin")
            .header("Vary", "Accept")
            .body(body)
            .unwrap();
        let output = read_response(response, 100).await.unwrap();
        let headers = &output.structured.unwrap()["headers"];
        let cookies = headers["set-cookie"].as_str().unwrap();
        assert_eq!(
            cookies.lines().collect::<Vec<_>>(),
            ["a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "b=2"]
        );
        assert_eq!(headers["vary"], "Origin, Accept");
    }

    #[test]
    fn request_is_built_from_the_arguments() {
        let request = parse_request(&json!({
            "method": "POST", "path": "/a?b=1", "headers": { "X-Id": "7" }, "body": "text"
        }))
        .unwrap();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "http://localhost/a?b=1");
        assert_eq!(request.headers()["x-id"], "7");
        for (bad, at) in [
            (json!({}), "path"),
            (json!({ "path": "a" }), "/path"),
            (json!({ "path": "//other host/" }), "/path"),
            (json!({ "path": "/", "method": "GET /x" }), "/method"),
            (
                json!({ "path": "/", "headers": { "a b": "" } }),
                "/headers/a b",
            ),
            (
                json!({ "path": "/", "headers": { "a": "\r\nb: c" } }),
                "/headers/a",
            ),
            (
                json!({ "path": "/", "body": "", "bodyBase64": "" }),
                "either",
            ),
            (json!({ "path": "/", "bodyBase64": "%" }), "/bodyBase64"),
        ] {
            let error = parse_request(&bad).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::InvalidInput, "{bad}");
            assert!(error.message.contains(at), "{error}");
        }
    }
}
