//! The form of requests and responses between replicas: a header in JSON and the body, with a seal.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use mimir_core::BoxFuture;
use mimir_core::peer_messages::{PeerError, PeerReply};
use serde::{Deserialize, Serialize};

use crate::http::{BoxedResponse, HttpRefusal, Principal};

use super::sealing_keys::{SealingKeys, now_ms};

/// Length of the seal at the end of a message.
const SEAL_LENGTH: usize = 32;

/// Length of the size of the header.
const SIZE_LENGTH: usize = 4;

/// Maximum age of a message, and the tolerance for different clocks.
const MAX_AGE_MS: u64 = 5 * 60 * 1_000;

/// Headers that are forwarded, besides those of the protocol.
const FORWARDED_HEADERS: [&str; 5] = [
    "accept",
    "content-type",
    "last-event-id",
    "traceparent",
    "tracestate",
];

/// Prefix of the headers of the protocol.
const PROTOCOL_HEADERS: &str = "mcp-";

/// A request of a client, as another replica has forwarded it.
pub(in crate::http) struct ForwardedRequest {
    pub(in crate::http) request: Request<Full<Bytes>>,
    pub(in crate::http) principal: Principal,
    /// True if the request concerns only a session that this replica holds.
    pub(in crate::http) only_if_held: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestHead {
    method: String,
    headers: Vec<(String, String)>,
    principal: (String, Option<String>, Option<String>),
    only_if_held: bool,
    at_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct ResponseHead {
    status: u16,
    headers: Vec<(String, String)>,
}

/// Returns the message that forwards a request.
pub(super) fn encode_request(
    parts: &Parts,
    body: &[u8],
    principal: &Principal,
    only_if_held: bool,
    keys: &SealingKeys,
) -> Vec<u8> {
    let Principal { id, user, role } = principal.clone();
    let head = RequestHead {
        method: parts.method.to_string(),
        headers: forwarded_headers(&parts.headers),
        principal: (id, user, role),
        only_if_held,
        at_ms: now_ms(),
    };
    // A struct of strings and numbers.
    let head = serde_json::to_vec(&head).unwrap_or_default();
    let size = u32::try_from(head.len()).unwrap_or_default();
    let mut message = Vec::with_capacity(SIZE_LENGTH + head.len() + body.len() + SEAL_LENGTH);
    message.extend(size.to_le_bytes());
    message.extend(head);
    message.extend(body);
    let seal = keys.sign_message(&message);
    message.extend(seal);
    message
}

impl ForwardedRequest {
    /// Reads the message of another replica. Returns `None` if it is not valid.
    pub(in crate::http) async fn decode(mut message: Vec<u8>, keys: &SealingKeys) -> Option<Self> {
        let length = message.len().checked_sub(SEAL_LENGTH)?;
        let seal = message.split_off(length);
        if !keys.verifies_message(&message, &seal) {
            keys.reload().await;
            if !keys.verifies_message(&message, &seal) {
                return None;
            }
        }
        let (size, rest) = message.split_first_chunk::<SIZE_LENGTH>()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let head: RequestHead = serde_json::from_slice(rest.get(..size)?).ok()?;
        if head.at_ms.abs_diff(now_ms()) > MAX_AGE_MS {
            return None;
        }
        let mut request = Request::builder()
            .method(Method::from_bytes(head.method.as_bytes()).ok()?)
            .uri(crate::http::ENDPOINT)
            // Checked by the replica that got the request.
            .header(HOST, "localhost");
        for (name, value) in &head.headers {
            request = request.header(name, value);
        }
        let body = Bytes::from(message).slice(SIZE_LENGTH + size..);
        let (id, user, role) = head.principal;
        Some(Self {
            request: request.body(Full::new(body)).ok()?,
            principal: Principal { id, user, role },
            only_if_held: head.only_if_held,
        })
    }
}

fn forwarded_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let forwarded = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let is_forwarded = name.starts_with(PROTOCOL_HEADERS) || FORWARDED_HEADERS.contains(&name);
        Some((name.to_owned(), value.to_str().ok()?.to_owned())).filter(|_| is_forwarded)
    });
    forwarded.collect()
}

/// A response as parts of a reply: the header, then the body.
pub(in crate::http) struct ResponseParts {
    head: Option<Vec<u8>>,
    body: BoxBody<Bytes, Infallible>,
}

impl ResponseParts {
    /// Splits a response.
    pub(in crate::http) fn new(response: BoxedResponse) -> Self {
        let (parts, body) = response.into_parts();
        let headers = parts.headers.iter().filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        });
        let head = ResponseHead {
            status: parts.status.as_u16(),
            headers: headers.collect(),
        };
        Self {
            head: Some(serde_json::to_vec(&head).unwrap_or_default()),
            body,
        }
    }
}

impl PeerReply for ResponseParts {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Vec<u8>, PeerError>>> {
        Box::pin(async move {
            if let Some(head) = self.head.take() {
                return Some(Ok(head));
            }
            while !self.body.is_end_stream() {
                let frame = self.body.frame().await?;
                let Ok(frame) = frame;
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data.to_vec()));
                }
            }
            None
        })
    }
}

/// Returns the reply to a message that is not accepted.
pub(in crate::http) fn refusal_parts(refusal: HttpRefusal) -> ResponseParts {
    ResponseParts::new(crate::http::refusal_response(refusal))
}

/// Returns the response with this header, without its body.
pub(super) fn decode_head(head: &[u8]) -> Option<Response<()>> {
    let head: ResponseHead = serde_json::from_slice(head).ok()?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status).ok()?;
    for (name, value) in &head.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = HeaderValue::from_str(value).ok()?;
        response.headers_mut().append(name, value);
    }
    Some(response)
}

/// Returns true if a response is a stream of events, so that its parts are passed on as they arrive.
pub(super) fn is_event_stream(response: &Response<()>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with("text/event-stream")
}

/// Returns true if a client accepts a response in JSON.
pub(super) fn accepts_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("application/json"))
}
