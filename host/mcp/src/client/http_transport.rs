//! The transport to a server over HTTP: rmcp's transport on top of mimir's HTTP client.
//!
//! Out of scope: the policy for hosts. The HTTP client reaches only this server, and redirects are not followed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use mimir_core::ToolError;
use mimir_core::redact::Vault;
use mimir_core::text::{prefix, visible};
use mimir_core::trace_context::{TRACEPARENT, TRACESTATE};
use mimir_net::{Error, HostClient, ResponseBody};
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta as _, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use tokio::sync::watch;

use super::connection::{CloseReason, ConnectError, ProtocolGeneration, ServerConnection};
use super::lenient_messages;
use super::listener::ServerListener;
use super::oauth::{BearerAuth, BearerChallenge, BearerToken};
use super::rate_limit::{self, MessageRateLimiter};
use super::spec::fill_secrets_in_pairs;
use super::stdio_transport::{has_too_many_values, is_notification};

/// Content types of responses, and the `Accept` header.
const EVENT_STREAM: &str = "text/event-stream";
pub(super) const JSON: &str = "application/json";
pub(super) const ACCEPTED_TYPES: &str = "application/json, text/event-stream";

/// Headers of the protocol.
const SESSION_HEADER: &str = "mcp-session-id";
const LAST_EVENT_HEADER: &str = "last-event-id";

/// Maximum size of a response with one message in bytes, as for programs.
const MAX_MESSAGE_SIZE: usize = 16 << 20;

/// Maximum size of an error response in bytes.
const MAX_ERROR_SIZE: usize = 64 << 10;

/// Maximum length of a quote from an error response, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// Maximum time for which the first call waits for the session's event stream: a request that the server sends during
/// the call would be lost without the stream. Some servers open the stream only when they have a message to send.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);

type HttpTransportError = StreamableHttpError<Error>;
type SseEventStream = futures::stream::BoxStream<'static, Result<Sse, SseError>>;

/// Parameters of a server that is reached over HTTP.
pub(super) struct HttpServerParams<'a> {
    pub(super) url: &'a str,
    /// Headers from the settings.
    pub(super) headers: &'a [(String, String)],
    pub(super) client: HostClient,
    pub(super) vault: &'a dyn Vault,
    /// The login, or `None` if the headers carry the credentials.
    pub(super) bearer: Option<Arc<BearerAuth>>,
}

/// Connects to a server.
pub(super) async fn connect(
    server: HttpServerParams<'_>,
    generation: ProtocolGeneration,
    listener: Arc<ServerListener>,
    close_reason: Arc<CloseReason>,
) -> Result<ServerConnection, ConnectError> {
    let headers = build_headers(&close_reason.server, server.headers, server.vault);
    let config = StreamableHttpClientTransportConfig::with_uri(server.url)
        .custom_headers(headers.map_err(ConnectError::Failed)?);
    let guarded = GuardedHttpClient::new(server.client, server.bearer, Arc::clone(&close_reason));
    let transport = StreamableHttpClientTransport::with_client(guarded, config);
    ServerConnection::connect(transport, generation, listener, close_reason, Box::new(())).await
}

/// Returns the headers from the settings, with secrets filled in.
pub(super) fn build_headers(
    server: &str,
    pairs: &[(String, String)],
    vault: &dyn Vault,
) -> Result<HashMap<HeaderName, HeaderValue>, ToolError> {
    let pairs = fill_secrets_in_pairs(pairs, vault)?;
    let headers = pairs.iter().map(|(name, value)| {
        let invalid_header = || {
            let name = visible(prefix(name, MAX_ERROR_CHARS));
            let message = format!("mcp.servers.{server}.headers.{name} is not a valid header");
            ToolError::invalid_input(message)
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid_header())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid_header())?;
        value.set_sensitive(true);
        Ok((name, value))
    });
    headers.collect()
}

/// Adapts the guarded client to rmcp's HTTP client trait.
#[derive(Clone)]
struct GuardedHttpClient {
    client: HostClient,
    bearer: Option<Arc<BearerAuth>>,
    close_reason: Arc<CloseReason>,
    rate_limiter: Arc<Mutex<MessageRateLimiter>>,
    /// True once the server has accepted or refused the session's event stream.
    listening: Arc<watch::Sender<bool>>,
}

impl GuardedHttpClient {
    fn new(
        client: HostClient,
        bearer: Option<Arc<BearerAuth>>,
        close_reason: Arc<CloseReason>,
    ) -> Self {
        Self {
            client,
            bearer,
            close_reason,
            rate_limiter: Arc::new(Mutex::new(rate_limit::notification_limit())),
            listening: Arc::default(),
        }
    }

    /// Waits until the session's event stream is open or refused, for at most [`LISTEN_TIMEOUT`].
    async fn wait_for_event_stream(&self) {
        let mut listening = self.listening.subscribe();
        let opened = listening.wait_for(|listening| *listening);
        if tokio::time::timeout(LISTEN_TIMEOUT, opened).await.is_err() {
            self.listening.send_replace(true);
        }
    }

    /// Returns the events of a response, within the rate limits.
    fn filter_events(&self, response: Response<ResponseBody>) -> SseEventStream {
        let (close_reason, rate_limiter) = (
            Arc::clone(&self.close_reason),
            Arc::clone(&self.rate_limiter),
        );
        let bearer = self.bearer.clone();
        let filter_event = move |mut event: Result<Sse, SseError>| {
            let data = event.as_ref().ok().and_then(|event| event.data.as_deref());
            let data = data.unwrap_or_default().as_bytes();
            if has_too_many_values(data) {
                close_reason.set_too_many_values();
                return Some(Err(SseError::Body("a message with too many values".into())));
            }
            let repaired = lenient_messages::repair_reply(data);
            let mut rate_limiter = rate_limiter.lock();
            let is_within_limit = !is_notification(data) || rate_limiter.try_take();
            drop(rate_limiter);
            if !is_within_limit {
                close_reason.warn_of_flood();
            }
            let bearer = bearer.as_ref().filter(|bearer| bearer.has_values());
            if let Ok(Sse {
                data: Some(data), ..
            }) = &mut event
                && (bearer.is_some() || repaired.is_some())
                && let Some(mut message) = repaired.or_else(|| serde_json::from_str(data).ok())
            {
                if let Some(bearer) = bearer {
                    bearer.mask(&mut message);
                }
                *data = message.to_string();
            }
            is_within_limit.then_some(event)
        };
        let events = SseStream::new(response.into_body());
        Box::pin(events.filter_map(move |event| std::future::ready(filter_event(event))))
    }

    /// Sends a request with the login's token. If the server rejects the token, repeats the request once with a renewed
    /// token, if possible.
    async fn send(
        &self,
        method: Method,
        uri: &str,
        headers: RequestHeaders,
        body: Bytes,
    ) -> Result<(Response<ResponseBody>, Option<BearerToken>), HttpTransportError> {
        let Some(bearer) = &self.bearer else {
            let response = self.send_once(method, uri, headers.0, body, None).await?;
            return Ok((response, None));
        };
        let token = bearer.token().await.map_err(denied_error)?;
        let first = self.send_once(
            method.clone(),
            uri,
            headers.0.clone(),
            body.clone(),
            token.as_ref(),
        );
        let response = first.await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(token) = &token
            && let Some(other) = bearer.replace_rejected(token).await
        {
            drop(response);
            let response = self
                .send_once(method, uri, headers.0, body, Some(&other))
                .await?;
            return Ok((response, Some(other)));
        }
        Ok((response, token))
    }

    async fn send_once(
        &self,
        method: Method,
        uri: &str,
        mut headers: HeaderMap,
        body: Bytes,
        token: Option<&BearerToken>,
    ) -> Result<Response<ResponseBody>, HttpTransportError> {
        if let Some(value) = token.and_then(BearerToken::header) {
            headers.insert(AUTHORIZATION, value);
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = mimir_net::uri(uri).map_err(StreamableHttpError::Client)?;
        *request.headers_mut() = headers;
        self.client
            .send(request)
            .await
            .map_err(StreamableHttpError::Client)
    }

    /// Returns the error for a response that requires a login, or `None` for another response.
    fn login_error(
        &self,
        response: &Response<ResponseBody>,
        token: Option<&BearerToken>,
    ) -> Option<ToolError> {
        let status = response.status();
        let challenge = || BearerChallenge::from_headers(response.headers());
        match (&self.bearer, status) {
            (Some(bearer), StatusCode::UNAUTHORIZED) => {
                Some(bearer.login_required(&challenge(), token))
            }
            (None, StatusCode::UNAUTHORIZED) => {
                let server = &self.close_reason.server;
                let message = format!(
                    "the server `{server}` rejects the `Authorization` header of its settings"
                );
                let remedy = format!("correct the header in mcp.servers.{server}.headers");
                Some(ToolError::unavailable(message).with_remedies([remedy]))
            }
            (Some(bearer), StatusCode::FORBIDDEN) => {
                let challenge = challenge();
                let is_insufficient = challenge.is_insufficient();
                is_insufficient.then(|| bearer.insufficient_scope(&challenge, token))
            }
            _ => None,
        }
    }

    /// Parses a message of the server, with the login's secrets masked.
    fn parse_masked(&self, body: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
        match self.bearer.as_ref().filter(|bearer| bearer.has_values()) {
            None => lenient_messages::parse_message(body),
            Some(bearer) => {
                let mut message: Value = match lenient_messages::repair_reply(body) {
                    Some(message) => message,
                    None => serde_json::from_slice(body)?,
                };
                bearer.mask(&mut message);
                serde_json::from_value(message)
            }
        }
    }
}

/// Returns the transport error for a failure with remedies for the user.
fn denied_error(error: ToolError) -> HttpTransportError {
    StreamableHttpError::Client(Error::Denied(error))
}

/// Returns the failure created by [`denied_error`], if it is the reason why a message could not be sent.
pub(super) fn denial_reason(error: &DynamicTransportError) -> Option<&ToolError> {
    match error.error.downcast_ref()? {
        HttpTransportError::Client(Error::Denied(error)) => Some(error),
        _ => None,
    }
}

/// Describes why a request over HTTP got no answer. `None` for an error of another transport.
pub(super) fn describe_request_failure(error: &DynamicTransportError) -> Option<String> {
    Some(match error.error.downcast_ref()? {
        HttpTransportError::Client(error) => error.to_string(),
        HttpTransportError::UnexpectedServerResponse(fault) => fault.to_string(),
        other => other.to_string(),
    })
}

/// The headers of one request.
struct RequestHeaders(HeaderMap);

impl RequestHeaders {
    fn new(
        accept: &'static str,
        session: Option<&str>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Self {
        let mut headers: HeaderMap = custom.into_iter().collect();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let mut put = |name: &'static str, value: Option<String>| {
            // A value that is not valid in a header cannot be a session id of the server.
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert(name, value);
            }
        };
        put(SESSION_HEADER, session.map(str::to_owned));
        put(
            AUTHORIZATION.as_str(),
            token.map(|token| format!("Bearer {token}")),
        );
        Self(headers)
    }

    /// Adds the trace context of a request, which its `_meta` contains, for servers behind this one's proxies.
    fn with_trace_of(mut self, message: &ClientJsonRpcMessage) -> Self {
        let ClientJsonRpcMessage::Request(request) = message else {
            return self;
        };
        let meta = request.request.get_meta();
        for name in [TRACEPARENT, TRACESTATE] {
            let value = meta.get(name).and_then(Value::as_str);
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                self.0.insert(name, value);
            }
        }
        self
    }

    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.insert(name, value);
        self
    }
}

fn content_type(response: &Response<ResponseBody>) -> String {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

async fn read_body(
    response: Response<ResponseBody>,
    limit: usize,
) -> Result<Bytes, HttpTransportError> {
    let body = Limited::new(response.into_body(), limit).collect().await;
    let body = body.map_err(|_| StreamableHttpError::ResponseBodyTooLarge { max_size: limit })?;
    Ok(body.to_bytes())
}

fn is_call(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::CallToolRequest(_)))
}

/// Returns an error response on behalf of a server that rejects the newer protocol generation, so that the connection
/// falls back to the older one.
fn unknown_generation_reply(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
) -> Option<ServerJsonRpcMessage> {
    // Some servers fail with status 5xx on an unknown request.
    let is_rejected = (status.is_client_error() || status.is_server_error())
        && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let ClientJsonRpcMessage::Request(request) = message else {
        return None;
    };
    let is_discovery = matches!(request.request, ClientRequest::DiscoverRequest(_));
    (is_rejected && is_discovery).then(|| {
        let error = ErrorData::invalid_request(format!("refused with HTTP {status}"), None);
        ServerJsonRpcMessage::error(error, Some(request.id.clone()))
    })
}

impl StreamableHttpClient for GuardedHttpClient {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpTransportError> {
        if session.is_some() && is_call(&message) {
            self.wait_for_event_stream().await;
        }
        let body = serde_json::to_vec(&message)?;
        let headers = RequestHeaders::new(ACCEPTED_TYPES, session.as_deref(), token, custom);
        let headers = headers.with_header(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let headers = headers.with_trace_of(&message);
        let sent = self.send(Method::POST, &uri, headers, body.into()).await?;
        let (response, token) = sent;
        let status = response.status();
        if let Some(error) = self.login_error(&response, token.as_ref()) {
            return Err(denied_error(error));
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            let text = read_body(response, MAX_ERROR_SIZE)
                .await
                .unwrap_or_default();
            if let Ok(error @ ServerJsonRpcMessage::Error(_)) = self.parse_masked(&text) {
                return Ok(StreamableHttpPostResponse::Json(error, None));
            }
            if let Some(error) = unknown_generation_reply(&message, status) {
                return Ok(StreamableHttpPostResponse::Json(error, None));
            }
            let mut text = String::from_utf8_lossy(&text).into_owned();
            if let Some(bearer) = &self.bearer {
                bearer.mask_text(&mut text);
            }
            let text = visible(prefix(&text, MAX_ERROR_CHARS));
            let fault = format!("HTTP {status}: {text}");
            return Err(StreamableHttpError::UnexpectedServerResponse(fault.into()));
        }
        let id = response.headers().get(SESSION_HEADER);
        let id = id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        match content_type(&response).as_str() {
            EVENT_STREAM => Ok(StreamableHttpPostResponse::Sse(
                self.filter_events(response),
                id,
            )),
            JSON => {
                let body = read_body(response, MAX_MESSAGE_SIZE).await?;
                // A notification has no response, whatever the body contains.
                if body.trim_ascii().is_empty() {
                    return Ok(StreamableHttpPostResponse::Accepted);
                }
                if has_too_many_values(&body) {
                    self.close_reason.set_too_many_values();
                    let fault = "a message with too many values";
                    return Err(StreamableHttpError::UnexpectedServerResponse(fault.into()));
                }
                let message = self.parse_masked(&body)?;
                Ok(StreamableHttpPostResponse::Json(message, id))
            }
            other => {
                let kind = visible(prefix(other, MAX_ERROR_CHARS));
                Err(StreamableHttpError::UnexpectedContentType(Some(kind)))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpTransportError> {
        let headers = RequestHeaders::new(JSON, Some(&session), token, custom);
        let (response, _) = self
            .send(Method::DELETE, &uri, headers, Bytes::new())
            .await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => {
                Err(StreamableHttpError::ServerDoesNotSupportDeleteSession)
            }
            _ => Ok(()),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<SseEventStream, HttpTransportError> {
        let mut headers = RequestHeaders::new(EVENT_STREAM, session.as_deref(), token, custom);
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(&last).ok()) {
            headers = headers.with_header(HeaderName::from_static(LAST_EVENT_HEADER), last);
        }
        let response = self.send(Method::GET, &uri, headers, Bytes::new()).await;
        self.listening.send_replace(true);
        let (response, _) = response?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND if session.is_some() => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => {
                let fault = format!("HTTP {status}");
                Err(StreamableHttpError::UnexpectedServerResponse(fault.into()))
            }
            _ if content_type(&response) == EVENT_STREAM => Ok(self.filter_events(response)),
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}
