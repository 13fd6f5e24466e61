//! Requests through `wasi:http`. The host adds the cause to a failure, because the error code contains too little.

use std::time::Duration;

use mimir_sdk::{Error, Result};
use url::Position;
use wasip2::clocks::monotonic_clock::{now, subscribe_instant};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme, http_error_code,
};
use wasip2::io::poll::poll;
use wasip2::io::streams::StreamError;

use super::{Request, Response, Transport};

/// Bytes per read and write.
const CHUNK: usize = 64 << 10;

/// A transport through the host.
pub(crate) struct Network;

impl Transport for Network {
    fn send(&self, request: &Request) -> Result<Response> {
        let options = RequestOptions::new();
        let remaining = request.timeout.map(|timeout| nanos(timeout.remaining));
        if remaining.is_some() {
            // A host that does not support these options applies its own limits.
            let _ = options.set_first_byte_timeout(remaining);
            let _ = options.set_between_bytes_timeout(remaining);
            let _ = options.set_connect_timeout(remaining);
        }
        let outgoing = build_request(request)?;
        let body = if request.body.is_empty() {
            None
        } else {
            outgoing.body().ok()
        };
        let start = now();
        let future = handle(outgoing, Some(options));
        let future = future.map_err(|code| network_error(request, Some(&code)))?;
        if let Some(body) = body {
            upload(body, &request.body);
        }
        future.subscribe().block();
        let response = match future.get() {
            Some(Ok(Ok(response))) => response,
            Some(Ok(Err(code))) => return Err(network_error(request, Some(&code))),
            Some(Err(())) | None => return Err(network_error(request, None)),
        };
        // The host enforces the time limit up to this point, but does not count the wait for an approval. Time beyond
        // the limit was therefore spent on that wait.
        let elapsed = now().saturating_sub(start);
        let elapsed =
            remaining.map_or(0, |remaining| if elapsed < remaining { elapsed } else { 0 });
        let start = now();
        let deadline = remaining.map(|remaining| start.saturating_add(remaining - elapsed));
        let mut received = receive(request, &response, deadline)?;
        received.elapsed = Duration::from_nanos(elapsed + now().saturating_sub(start));
        Ok(received)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn build_request(request: &Request) -> Result<OutgoingRequest> {
    let invalid =
        |part: &str| Error::invalid_input(format_args!("the {part} of the request is not valid"));
    let fields = Fields::new();
    for (name, value) in &request.headers {
        let set = fields.append(name, value.as_bytes());
        set.map_err(|_| {
            let name = mimir_sdk::text::brief(name);
            Error::invalid_input(format_args!(
                "headers: `{name}` cannot be set, or its value is not one line"
            ))
        })?;
    }
    if !request.body.is_empty() || matches!(request.method, "POST" | "PUT" | "PATCH") {
        // Some servers require the length of a body, even of an empty one (RFC 9110, 8.6).
        let length = request.body.len().to_string();
        let _ = fields.set("content-length", &[length.into_bytes()]);
    }
    let url = &request.url;
    let outgoing = OutgoingRequest::new(fields);
    let method = match request.method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "PATCH" => Method::Patch,
        "DELETE" => Method::Delete,
        other => Method::Other(other.to_owned()),
    };
    let scheme = match url.scheme() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    let path = &url[Position::BeforePath..Position::AfterQuery];
    outgoing
        .set_method(&method)
        .map_err(|()| invalid("method"))?;
    outgoing
        .set_scheme(Some(&scheme))
        .map_err(|()| invalid("scheme"))?;
    outgoing
        .set_authority(Some(authority))
        .map_err(|()| invalid("host"))?;
    outgoing
        .set_path_with_query(Some(path))
        .map_err(|()| invalid("path"))?;
    Ok(outgoing)
}

/// Sends the body. Failures are ignored, because a server may respond before the end of the body.
fn upload(body: OutgoingBody, bytes: &[u8]) {
    if let Ok(stream) = body.write() {
        for chunk in bytes.chunks(CHUNK) {
            let mut rest = chunk;
            while !rest.is_empty() {
                stream.subscribe().block();
                let Ok(writable) = stream.check_write() else {
                    return;
                };
                let now = rest
                    .len()
                    .min(usize::try_from(writable).unwrap_or(usize::MAX));
                let (part, later) = rest.split_at(now);
                if stream.write(part).is_err() {
                    return;
                }
                rest = later;
            }
        }
        let _ = stream.blocking_flush();
        drop(stream);
    }
    let _ = OutgoingBody::finish(body, None);
}

/// Reads the whole response. `deadline` is an instant of the monotonic clock, in nanoseconds.
fn receive(
    request: &Request,
    response: &IncomingResponse,
    deadline: Option<u64>,
) -> Result<Response> {
    let headers = response.headers().entries().into_iter();
    let headers = headers.map(|(name, value)| {
        let value = String::from_utf8_lossy(&value).into_owned();
        (name.to_ascii_lowercase(), value)
    });
    let mut received = Response {
        status: response.status(),
        headers: headers.collect(),
        ..Response::default()
    };
    let body: IncomingBody = response
        .consume()
        .map_err(|()| network_error(request, None))?;
    let stream = body.stream().map_err(|()| network_error(request, None))?;
    let timer = deadline.map(subscribe_instant);
    let more = stream.subscribe();
    loop {
        match &timer {
            Some(timer) => drop(poll(&[&more, timer])),
            None => more.block(),
        }
        match stream.read(CHUNK as u64) {
            Ok(bytes) => received.body.extend(bytes),
            Err(StreamError::Closed) => return Ok(received),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(network_error(request, http_error_code(&error).as_ref()));
            }
        }
        if let (Some(timeout), Some(timer)) = (request.timeout, &timer)
            && timer.ready()
        {
            return Err(timeout.timeout_error());
        }
    }
}

/// Returns the error of a failed request. The host adds the cause.
fn network_error(request: &Request, code: Option<&ErrorCode>) -> Error {
    let origin = &request.url[..Position::AfterPort];
    let is_timeout = matches!(
        code,
        Some(
            ErrorCode::DnsTimeout
                | ErrorCode::ConnectionTimeout
                | ErrorCode::ConnectionReadTimeout
                | ErrorCode::ConnectionWriteTimeout
                | ErrorCode::HttpResponseTimeout
        )
    );
    // The host reports the cause, and which of its limits was exceeded.
    let limit_note = match request.timeout {
        Some(timeout) if is_timeout => format!(" (`timeout`: {} s)", timeout.limit.as_secs()),
        _ => String::new(),
    };
    Error::network(format_args!(
        "{} {origin} failed{limit_note}",
        request.method
    ))
}
