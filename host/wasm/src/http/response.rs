//! Responses for guests: a response is cut off when the call loses access to the server, and the call's secrets are
//! masked.
//!
//! A server may echo a request header, for example on a debug page. The tool has only a placeholder for a secret, and
//! must not learn the value that way. A body is masked as it arrives; a compressed body is first read completely and
//! decompressed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use mimir_core::pipeline::EffectGate;
use mimir_core::redact::{KnownValueMasker, Redactor};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::{Error, FetchedResponse, RequestLimits};
use wasmtime_wasi_http::{Error as HttpError, WasiBody};

use super::clients::ClientLink;
use super::{NetworkTransport, RequestFailure};

/// Builds the response for the guest. `limits` applies to decompression.
pub(super) async fn guest_response(
    transport: &NetworkTransport,
    limits: RequestLimits,
    link: ClientLink,
    method: &Method,
    response: Response<mimir_net::ResponseBody>,
) -> Result<Response<WasiBody>, Error> {
    let (mut parts, body) = response.into_parts();
    let mut mask = None;
    let mut ready = VecDeque::new();
    let mut remaining = Some(body);
    if let Some(redactor) = transport.effects.response_redactor() {
        mask_headers(redactor, &mut parts.headers);
        if *method != Method::HEAD {
            // Masking changes the length.
            parts.headers.remove(header::CONTENT_LENGTH);
            if is_compressed(&parts.headers)
                && let Some(body) = remaining.take()
            {
                let (compressed, trailers) = read_body(body, &link, &transport.effects).await?;
                let body = mimir_net::unpack(compressed, &parts.headers, limits).await?;
                parts.headers.remove(header::CONTENT_ENCODING);
                ready.push_back(Frame::data(masked(redactor, &body)));
                if let Some(mut trailers) = trailers {
                    mask_headers(redactor, &mut trailers);
                    ready.push_back(Frame::trailers(trailers));
                }
            } else {
                mask = redactor
                    .known_value_masker()
                    .map(|stream| (redactor.clone(), stream));
            }
        }
    }
    let response = GuestResponseBody {
        body: remaining,
        ready,
        mask,
        effects: transport.effects.clone(),
        link,
        failure: transport.failure.clone(),
        time: transport.limits.whole,
    };
    Ok(Response::from_parts(parts, response.boxed_unsync()))
}

/// Reads the whole body of a response, and its trailers.
async fn read_body(
    mut body: mimir_net::ResponseBody,
    link: &ClientLink,
    effects: &EffectGate,
) -> Result<(Bytes, Option<HeaderMap>), Error> {
    let (mut bytes, mut trailers) = (BytesMut::new(), None);
    loop {
        link.update_access(effects);
        let Some(frame) = body.frame().await else {
            return Ok((bytes.freeze(), trailers));
        };
        match frame.map_err(cut_off_error)?.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
}

/// Masks a complete response.
pub(super) fn mask_fetched(redactor: &Redactor, fetched: &mut FetchedResponse) {
    mask_headers(redactor, &mut fetched.headers);
    if let Some(trailers) = &mut fetched.trailers {
        mask_headers(redactor, trailers);
    }
    fetched.body = masked(redactor, &fetched.body);
}

/// Returns the text with all secrets masked, or `None` if it contains no secrets.
fn mask_values(redactor: &Redactor, text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = text.to_vec();
    redactor.mask_bytes(&mut bytes);
    (bytes != text).then_some(bytes)
}

fn masked(redactor: &Redactor, body: &Bytes) -> Bytes {
    mask_values(redactor, body).map_or_else(|| body.clone(), Bytes::from)
}

fn mask_headers(redactor: &Redactor, headers: &mut HeaderMap) {
    let named = headers
        .keys()
        .filter(|name| mask_values(redactor, name.as_str().as_bytes()).is_some());
    for name in named.cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        if let Some(masked) = mask_values(redactor, value.as_bytes()) {
            let masked = HeaderValue::from_bytes(&masked);
            *value = masked.unwrap_or_else(|_| HeaderValue::from_static(""));
        }
    }
}

fn is_compressed(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut words = codings.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    words.any(|word| {
        let word = word.trim_ascii();
        !word.is_empty() && !word.eq_ignore_ascii_case(b"identity")
    })
}

/// The body of a response. It fails as soon as the call's permissions no longer allow the request.
struct GuestResponseBody {
    body: Option<mimir_net::ResponseBody>,
    /// Frames to return before the next one of the server.
    ready: VecDeque<Frame<Bytes>>,
    mask: Option<(Redactor, KnownValueMasker)>,
    effects: EffectGate,
    link: ClientLink,
    failure: RequestFailure,
    /// The configured time limit of a request.
    time: Duration,
}

/// Converts an error during a transfer. A blocked transfer was allowed at first, so the permissions have changed.
fn cut_off_error(error: Error) -> Error {
    let message =
        "the response was cut off: the network permissions of the tool changed during the transfer";
    match error {
        Error::Blocked(_) => Error::Denied(ToolError::new(ToolErrorCode::PolicyDenied, message)),
        error => error,
    }
}

impl GuestResponseBody {
    /// Takes a frame of the server, with its secrets masked; `None` is the end.
    fn push(&mut self, frame: Option<Frame<Bytes>>) {
        let Some((redactor, stream)) = &mut self.mask else {
            self.ready.extend(frame);
            return;
        };
        let (data, trailers) = match frame.map(Frame::into_data) {
            Some(Ok(data)) => (stream.push(&data), None),
            Some(Err(frame)) => (stream.finish(), frame.into_trailers().ok()),
            None => (stream.finish(), None),
        };
        if !data.is_empty() {
            self.ready.push_back(Frame::data(data.into()));
        }
        if let Some(mut trailers) = trailers {
            mask_headers(redactor, &mut trailers);
            self.ready.push_back(Frame::trailers(trailers));
        }
    }
}

impl HttpBody for GuestResponseBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        loop {
            if let Some(frame) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            let Some(body) = &mut this.body else {
                return Poll::Ready(None);
            };
            this.link.update_access(&this.effects);
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => this.push(Some(frame)),
                Some(Err(error)) => {
                    let code = this.failure.record(cut_off_error(error), this.time);
                    return Poll::Ready(Some(Err(code)));
                }
                None => {
                    this.body = None;
                    this.push(None);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // While the body is open, the masker may retain bytes.
        let ended = self.body.as_ref().is_none_or(HttpBody::is_end_stream);
        ended && self.ready.is_empty() && (self.mask.is_none() || self.body.is_none())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) if self.mask.is_none() && self.ready.is_empty() => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
