//! Requests through `wasi:http`. The host logs the cause of a failure.

use std::time::Duration;

use mimir_sdk::{Error, Result};
use url::{Position, Url};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme};
use wasip2::io::streams::StreamError;

use super::{Response, Transport};

/// Time limit for the connection, for the first byte and between bytes: a search has a minute in total.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes per write: as much as a stream accepts at once.
const WRITE_CHUNK: usize = 4096;

/// Bytes per read.
const READ_CHUNK: u64 = 64 << 10;

/// A transport through the host.
pub(crate) struct Network;

impl Transport for Network {
    fn post(&self, url: &Url, headers: &[(&str, String)], body: &[u8]) -> Result<Response> {
        let failed = || Error::network("it could not be reached, or the connection was lost");
        let options = RequestOptions::new();
        let idle_timeout = u64::try_from(IDLE_TIMEOUT.as_nanos()).ok();
        let _ = options.set_connect_timeout(idle_timeout);
        let _ = options.set_first_byte_timeout(idle_timeout);
        let _ = options.set_between_bytes_timeout(idle_timeout);
        let request = build_request(url, headers, body.len()).ok_or_else(failed)?;
        let outgoing = request.body().map_err(|()| failed())?;
        let future = handle(request, Some(options)).map_err(|_| failed())?;
        {
            let stream = outgoing.write().map_err(|()| failed())?;
            for chunk in body.chunks(WRITE_CHUNK) {
                // A server that rejects the rest of the body has already responded.
                if stream.blocking_write_and_flush(chunk).is_err() {
                    break;
                }
            }
        }
        let _ = OutgoingBody::finish(outgoing, None);
        future.subscribe().block();
        let Some(Ok(Ok(response))) = future.get() else {
            return Err(failed());
        };
        let incoming = response.consume().map_err(|()| failed())?;
        let stream = incoming.stream().map_err(|()| failed())?;
        let mut body = Vec::new();
        loop {
            match stream.blocking_read(READ_CHUNK) {
                Ok(bytes) => body.extend(bytes),
                Err(StreamError::Closed) => break,
                Err(StreamError::LastOperationFailed(_)) => return Err(failed()),
            }
        }
        Ok(Response {
            status: response.status(),
            body,
        })
    }
}

fn build_request(url: &Url, headers: &[(&str, String)], length: usize) -> Option<OutgoingRequest> {
    let fields = Fields::new();
    for (name, value) in headers {
        fields.append(name, value.as_bytes()).ok()?;
    }
    let length = length.to_string().into_bytes();
    fields.set("content-length", &[length]).ok()?;
    let request = OutgoingRequest::new(fields);
    let scheme = match url.scheme() {
        "http" => Scheme::Http,
        _ => Scheme::Https,
    };
    request.set_method(&Method::Post).ok()?;
    request.set_scheme(Some(&scheme)).ok()?;
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    request.set_authority(Some(authority)).ok()?;
    let path = &url[Position::BeforePath..Position::AfterQuery];
    request.set_path_with_query(Some(path)).ok()?;
    Some(request)
}
