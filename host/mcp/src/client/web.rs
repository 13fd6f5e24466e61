//! A server that is reached over HTTP: rmcp's transport over the one way out.
//!
//! Never here: which hosts may be reached. The client that is handed in reaches this server's and no other, and
//! redirects are not followed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use mimir_core::redact::Vault;
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};
use mimir_net::{Body, Client, Error};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use tokio::sync::watch;

use super::ears::Ears;
use super::errors;
use super::lines::{is_dense, is_notification};
use super::link::{End, Era, Link, Unbegun};
use super::oauth::{Bearer, Challenge, Token};
use super::pace::{self, Pace};
use super::spec::filled;

/// What both forms of an answer are called.
const EVENTS: &str = "text/event-stream";
pub(super) const JSON: &str = "application/json";
pub(super) const ANSWERS: &str = "application/json, text/event-stream";

/// Headers of the protocol's own.
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";

/// Bytes of an answer that is one message: as many as of a program's.
const MESSAGE_MOST: usize = 16 << 20;

/// Bytes of an answer that says what is wrong.
const FAULT_MOST: usize = 64 << 10;

/// Characters of that which are told.
const FAULT_SHOWN: usize = 300;

/// How long the first call waits until a session is listened to. A server may ask something in the middle of it on
/// the session's own stream, and throws away what it says while nobody listens there. Some answer only when they have
/// something to say.
const LISTENING: Duration = Duration::from_secs(1);

type Fault = StreamableHttpError<Error>;
type Events = futures::stream::BoxStream<'static, Result<Sse, SseError>>;

/// A server that is reached over HTTP.
pub(super) struct Reached<'a> {
    pub(super) url: &'a str,
    /// The headers that the settings have for it.
    pub(super) headers: &'a [(String, String)],
    pub(super) client: Client,
    pub(super) vault: &'a dyn Vault,
    /// The login at it; none where the headers say who sends the requests.
    pub(super) bearer: Option<Arc<Bearer>>,
}

/// Reaches a server and begins to speak with it.
pub(super) async fn begin(
    server: Reached<'_>,
    era: Era,
    ears: Arc<Ears>,
    end: Arc<End>,
) -> Result<Link, Unbegun> {
    let headers = headers(&end.server, server.headers, server.vault);
    let config = StreamableHttpClientTransportConfig::with_uri(server.url)
        .custom_headers(headers.map_err(Unbegun::Failed)?);
    let guarded = Guarded::new(server.client, server.bearer, Arc::clone(&end));
    let transport = StreamableHttpClientTransport::with_client(guarded, config);
    Link::begin(transport, era, ears, end, Box::new(())).await
}

/// The headers that the settings have for a server, with the secrets in them.
pub(super) fn headers(
    server: &str,
    pairs: &[(String, String)],
    vault: &dyn Vault,
) -> Result<HashMap<HeaderName, HeaderValue>, ToolError> {
    let pairs = filled(pairs, vault)?;
    let each = pairs.iter().map(|(name, value)| {
        let fault = || {
            let name = visible(prefix(name, FAULT_SHOWN));
            let message = format!("mcp.servers.{server}.headers.{name} is no header");
            ToolError::new(Code::InvalidInput, message)
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fault())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| fault())?;
        value.set_sensitive(true);
        Ok((name, value))
    });
    each.collect()
}

/// The guarded client, as rmcp wants one.
#[derive(Clone)]
struct Guarded {
    client: Client,
    bearer: Option<Arc<Bearer>>,
    end: Arc<End>,
    pace: Arc<Mutex<Pace>>,
    /// Whether the session's own stream was asked for, and answered one way or the other.
    listening: Arc<watch::Sender<bool>>,
}

impl Guarded {
    fn new(client: Client, bearer: Option<Arc<Bearer>>, end: Arc<End>) -> Self {
        Self {
            client,
            bearer,
            end,
            pace: Arc::new(Mutex::new(pace::of_notifications())),
            listening: Arc::default(),
        }
    }

    /// Waits until what a server says beside its answers is heard, or cannot be.
    async fn listened(&self) {
        let mut listening = self.listening.subscribe();
        let heard = listening.wait_for(|listening| *listening);
        if tokio::time::timeout(LISTENING, heard).await.is_err() {
            self.listening.send_replace(true);
        }
    }

    /// The events of an answer, as far as they are heard.
    fn events(&self, response: Response<Body>) -> Events {
        let (end, pace) = (Arc::clone(&self.end), Arc::clone(&self.pace));
        let bearer = self.bearer.clone();
        let heard = move |mut event: Result<Sse, SseError>| {
            let data = event.as_ref().ok().and_then(|event| event.data.as_deref());
            let data = data.unwrap_or_default().as_bytes();
            if is_dense(data) {
                end.because_too_dense();
                return Some(Err(SseError::Body("a message of too many parts".into())));
            }
            let mended = errors::mended(data);
            let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
            let hears = !is_notification(data) || pace.takes();
            drop(pace);
            if !hears {
                end.flooded();
            }
            let bearer = bearer.as_ref().filter(|bearer| bearer.has_values());
            if let Ok(Sse {
                data: Some(data), ..
            }) = &mut event
                && (bearer.is_some() || mended.is_some())
                && let Some(mut message) = mended.or_else(|| serde_json::from_str(data).ok())
            {
                if let Some(bearer) = bearer {
                    bearer.mask(&mut message);
                }
                *data = message.to_string();
            }
            hears.then_some(event)
        };
        let events = SseStream::new(response.into_body());
        Box::pin(events.filter_map(move |event| std::future::ready(heard(event))))
    }

    /// Sends a request with the login at the server. One whose token is not taken is sent once more with another, if
    /// there is another.
    async fn send(
        &self,
        method: Method,
        uri: &str,
        headers: Headers,
        body: Bytes,
    ) -> Result<(Response<Body>, Option<Token>), Fault> {
        let Some(bearer) = &self.bearer else {
            let answer = self.once(method, uri, headers.0, body, None).await?;
            return Ok((answer, None));
        };
        let token = bearer.token().await.map_err(denied)?;
        let first = self.once(
            method.clone(),
            uri,
            headers.0.clone(),
            body.clone(),
            token.as_ref(),
        );
        let answer = first.await?;
        if answer.status() == StatusCode::UNAUTHORIZED
            && let Some(token) = &token
            && let Some(other) = bearer.instead(token).await
        {
            drop(answer);
            let answer = self
                .once(method, uri, headers.0, body, Some(&other))
                .await?;
            return Ok((answer, Some(other)));
        }
        Ok((answer, token))
    }

    async fn once(
        &self,
        method: Method,
        uri: &str,
        mut headers: HeaderMap,
        body: Bytes,
        token: Option<&Token>,
    ) -> Result<Response<Body>, Fault> {
        if let Some(value) = token.and_then(Token::header) {
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

    /// What a server says of a login in the head of an answer, if it says anything.
    fn judged(&self, answer: &Response<Body>, token: Option<&Token>) -> Option<ToolError> {
        let status = answer.status();
        let challenge = || Challenge::of(answer.headers());
        match (&self.bearer, status) {
            (Some(bearer), StatusCode::UNAUTHORIZED) => Some(bearer.wanted(&challenge(), token)),
            (None, StatusCode::UNAUTHORIZED) => {
                let server = &self.end.server;
                let message = format!(
                    "the server `{server}` does not take the header `Authorization` of its settings"
                );
                let way = format!("mcp.servers.{server}.headers has the one that is sent");
                Some(ToolError::new(Code::Unavailable, message).with_way_out([way]))
            }
            (Some(bearer), StatusCode::FORBIDDEN) => {
                let challenge = challenge();
                let few = challenge.is_insufficient();
                few.then(|| bearer.too_little(&challenge, token))
            }
            _ => None,
        }
    }

    /// A message of the server's, without what its login is made of.
    fn masked(&self, body: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
        match self.bearer.as_ref().filter(|bearer| bearer.has_values()) {
            None => errors::read(body),
            Some(bearer) => {
                let mut message: Value = match errors::mended(body) {
                    Some(message) => message,
                    None => serde_json::from_slice(body)?,
                };
                bearer.mask(&mut message);
                serde_json::from_value(message)
            }
        }
    }
}

/// A request that was not sent, or not answered, for a reason that a person can see to.
fn denied(error: ToolError) -> Fault {
    StreamableHttpError::Client(Error::Denied(error))
}

/// That reason, if it is why a message could not be sent.
pub(super) fn why_denied(error: &DynamicTransportError) -> Option<&ToolError> {
    match error.error.downcast_ref()? {
        Fault::Client(Error::Denied(error)) => Some(error),
        _ => None,
    }
}

/// The headers of one request.
struct Headers(HeaderMap);

impl Headers {
    fn new(
        accept: &'static str,
        session: Option<&str>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Self {
        let mut headers: HeaderMap = custom.into_iter().collect();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let mut put = |name: &'static str, value: Option<String>| {
            // What cannot be a header is no session that a server gave out.
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert(name, value);
            }
        };
        put(SESSION, session.map(str::to_owned));
        put(
            AUTHORIZATION.as_str(),
            token.map(|token| format!("Bearer {token}")),
        );
        Self(headers)
    }

    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.insert(name, value);
        self
    }
}

fn kind(response: &Response<Body>) -> String {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

async fn text(response: Response<Body>, most: usize) -> Result<Bytes, Fault> {
    let body = Limited::new(response.into_body(), most).collect().await;
    let body = body.map_err(|_| StreamableHttpError::ResponseBodyTooLarge { max_size: most })?;
    Ok(body.to_bytes())
}

fn is_call(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::CallToolRequest(_)))
}

/// The answer to a server that does not know how a conversation of the newer era begins, so that it can be begun in
/// the older one.
fn unknown_era(message: &ClientJsonRpcMessage, status: StatusCode) -> Option<ServerJsonRpcMessage> {
    // Some fall over what they do not know.
    let refuses = (status.is_client_error() || status.is_server_error())
        && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let ClientJsonRpcMessage::Request(request) = message else {
        return None;
    };
    let discovers = matches!(request.request, ClientRequest::DiscoverRequest(_));
    (refuses && discovers).then(|| {
        let error = ErrorData::invalid_request(format!("refused with HTTP {status}"), None);
        ServerJsonRpcMessage::error(error, Some(request.id.clone()))
    })
}

impl StreamableHttpClient for Guarded {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        if session.is_some() && is_call(&message) {
            self.listened().await;
        }
        let body = serde_json::to_vec(&message)?;
        let headers = Headers::new(ANSWERS, session.as_deref(), token, custom);
        let headers = headers.with(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let sent = self.send(Method::POST, &uri, headers, body.into()).await?;
        let (response, token) = sent;
        let status = response.status();
        if let Some(error) = self.judged(&response, token.as_ref()) {
            return Err(denied(error));
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            let words = text(response, FAULT_MOST).await.unwrap_or_default();
            if let Ok(error @ ServerJsonRpcMessage::Error(_)) = self.masked(&words) {
                return Ok(StreamableHttpPostResponse::Json(error, None));
            }
            if let Some(error) = unknown_era(&message, status) {
                return Ok(StreamableHttpPostResponse::Json(error, None));
            }
            let mut words = String::from_utf8_lossy(&words).into_owned();
            if let Some(bearer) = &self.bearer {
                bearer.mask_text(&mut words);
            }
            let words = visible(prefix(&words, FAULT_SHOWN));
            let fault = format!("HTTP {status}: {words}");
            return Err(StreamableHttpError::UnexpectedServerResponse(fault.into()));
        }
        let id = response.headers().get(SESSION);
        let id = id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        match kind(&response).as_str() {
            EVENTS => Ok(StreamableHttpPostResponse::Sse(self.events(response), id)),
            JSON => {
                let body = text(response, MESSAGE_MOST).await?;
                // A notification needs no answer, whatever a server sends for one.
                if body.trim_ascii().is_empty() {
                    return Ok(StreamableHttpPostResponse::Accepted);
                }
                if is_dense(&body) {
                    self.end.because_too_dense();
                    let fault = "a message of too many parts";
                    return Err(StreamableHttpError::UnexpectedServerResponse(fault.into()));
                }
                let message = self.masked(&body)?;
                Ok(StreamableHttpPostResponse::Json(message, id))
            }
            other => {
                let kind = visible(prefix(other, FAULT_SHOWN));
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
    ) -> Result<(), Fault> {
        let headers = Headers::new(JSON, Some(&session), token, custom);
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
    ) -> Result<Events, Fault> {
        let mut headers = Headers::new(EVENTS, session.as_deref(), token, custom);
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(&last).ok()) {
            headers = headers.with(HeaderName::from_static(LAST_EVENT), last);
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
            _ if kind(&response) == EVENTS => Ok(self.events(response)),
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}
