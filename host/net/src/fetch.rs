//! Complete exchange for the host's own requests: follows redirects, reads the whole body and decompresses it.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use mimir_core::network::RequestTarget;
use tokio::time::Instant;

use crate::body::ResponseBody;
use crate::client::{HopResponse, HttpClient, RequestHop};
use crate::decode;
use crate::error::{Error, OversizedPart, RequestStage};
use crate::redirect;
use crate::upload::UploadBody;

/// A response, whatever its status.
#[derive(Clone)]
pub struct FetchedResponse {
    /// The status code.
    pub status: StatusCode,
    /// The headers, as received.
    pub headers: HeaderMap,
    /// The decompressed body.
    pub body: Bytes,
    /// The trailers after the body.
    pub trailers: Option<HeaderMap>,
    /// The final URL, after all redirects.
    pub target: RequestTarget,
    /// The number of redirects followed.
    pub redirects: usize,
}

impl fmt::Debug for FetchedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchedResponse")
            .field("status", &self.status)
            .field("origin", &self.target.origin().to_string())
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl HttpClient {
    /// Fetches a URL with GET. See [`Self::fetch`].
    pub async fn get(&self, url: &str) -> Result<FetchedResponse, Error> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = crate::uri(url)?;
        self.fetch(request).await
    }

    /// Sends a request, follows redirects, and returns the whole response, whatever its status. Each redirect is
    /// checked and authorized like the first request. Fails if a hop is refused, the network fails, or a limit is
    /// exceeded.
    pub async fn fetch(&self, request: Request<Bytes>) -> Result<FetchedResponse, Error> {
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        headers
            .entry(header::ACCEPT_ENCODING)
            .or_insert(HeaderValue::from_static(decode::ACCEPT));
        let mut request = redirect::RedirectableRequest {
            target: RequestTarget::parse(&parts.uri.to_string())?,
            method: parts.method,
            headers,
            has_body: !body.is_empty(),
        };
        let mut time_left = self.limits().whole;
        for number in 0..=self.limits().redirects {
            let hop = RequestHop {
                target: request.target.clone(),
                method: request.method.clone(),
                headers: request.headers.clone(),
                number,
            };
            let bytes = if request.has_body {
                body.clone()
            } else {
                Bytes::new()
            };
            let upload = UploadBody::full(bytes, self.limits().upload_bytes);
            let (hop_response, elapsed) = self.send_timed(hop, upload, time_left).await?;
            let (parts, response_body) = hop_response.response.into_parts();
            let next = redirect::redirect_target(
                &request.target,
                parts.status,
                &parts.headers,
                &hop_response.swapped,
            )?;
            let Some(target) = next else {
                let (body, trailers) = self.read_body(response_body, &parts.headers).await?;
                return Ok(FetchedResponse {
                    status: parts.status,
                    headers: parts.headers,
                    body,
                    trailers,
                    target: request.target,
                    redirects: number,
                });
            };
            time_left = time_left.saturating_sub(elapsed);
            request.redirect_to(target, parts.status, &hop_response.swapped);
        }
        Err(Error::TooManyRedirects(self.limits().redirects))
    }

    /// Sends one hop. Returns the response and the elapsed time, without the wait for an approval.
    async fn send_timed(
        &self,
        hop: RequestHop,
        upload: UploadBody,
        time_left: Duration,
    ) -> Result<(HopResponse, Duration), Error> {
        if time_left.is_zero() {
            return Err(Error::Timeout {
                stage: RequestStage::Whole,
                after: self.limits().whole,
            });
        }
        let hop_response = self.send_hop(hop, upload, time_left).await?;
        let elapsed = time_left.saturating_sub(hop_response.response.body().time_left());
        Ok((hop_response, elapsed))
    }

    /// Reads the whole body of a response.
    async fn read_body(
        &self,
        mut body: ResponseBody,
        headers: &HeaderMap,
    ) -> Result<(Bytes, Option<HeaderMap>), Error> {
        let limit = self.limits().body_bytes;
        // A body that announces an excessive size is not read at all.
        if body.size_hint().lower() > limit {
            return Err(Error::TooLarge {
                part: OversizedPart::ResponseBody,
                limit,
            });
        }
        let mut bytes_read = BytesMut::new();
        let mut trailers = None;
        while let Some(frame) = body.frame().await {
            match frame?.into_data() {
                Ok(data) => bytes_read.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
        }
        let decompressed = decode::unpack(bytes_read.freeze(), headers, self.limits()).await?;
        Ok((decompressed, trailers))
    }
}

impl ResponseBody {
    /// Returns the time left until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }
}
