//! Response body with size and time limits, cut off when the policy no longer allows the request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::authorized_request::AuthorizedRequest;
use crate::error::{Error, OversizedPart, RequestStage};
use crate::hyper_errors;

/// Streamed body of a response: data and trailers. Ends with an error at the first exceeded limit, or when the policy
/// changes and no longer allows the request.
pub struct ResponseBody {
    inner: Option<ResponseSource>,
    bounds: ResponseBounds,
    timer: Option<Pin<Box<Sleep>>>,
    last_frame: Instant,
    received: u64,
}

/// The body as the library delivers it.
pub(crate) enum ResponseSource {
    Hyper(Incoming),
    Reqwest(reqwest::Body),
}

impl ResponseSource {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match self {
            Self::Hyper(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|error| hyper_errors::from_hyper_error(&error)),
            Self::Reqwest(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|error| hyper_errors::from_body_error(&error)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Hyper(body) => body.is_end_stream(),
            Self::Reqwest(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Hyper(body) => body.size_hint(),
            Self::Reqwest(body) => body.size_hint(),
        }
    }
}

/// The limits of a body.
pub(crate) struct ResponseBounds {
    pub(crate) limit: u64,
    /// The maximum time between two frames.
    pub(crate) between: Duration,
    pub(crate) authorized: AuthorizedRequest,
    /// Released when the body has ended.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

impl ResponseBody {
    pub(crate) fn new(inner: ResponseSource, bounds: ResponseBounds) -> Self {
        Self {
            inner: Some(inner),
            bounds,
            timer: None,
            last_frame: Instant::now(),
            received: 0,
        }
    }

    /// Returns the deadline for the whole body.
    pub(crate) fn deadline(&self) -> Instant {
        self.bounds.authorized.deadline
    }

    /// Checks a received frame against the policy, the deadline and the size limit.
    fn check(&mut self, frame: &Frame<Bytes>) -> Result<(), Error> {
        self.bounds.authorized.recheck_policy()?;
        self.last_frame = Instant::now();
        if self.last_frame >= self.bounds.authorized.deadline {
            return Err(self.timeout_error());
        }
        self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
        if self.received > self.bounds.limit {
            return Err(Error::TooLarge {
                part: OversizedPart::ResponseBody,
                limit: self.bounds.limit,
            });
        }
        Ok(())
    }

    /// Releases the connection: it is reused if the response is complete, and closed otherwise.
    fn end(&mut self) {
        self.inner = None;
        self.bounds.slot = None;
    }

    fn timeout_error(&self) -> Error {
        let is_deadline_over = Instant::now() >= self.bounds.authorized.deadline;
        let (stage, after) = if is_deadline_over {
            (RequestStage::Whole, self.bounds.authorized.whole)
        } else {
            (RequestStage::Body, self.bounds.between)
        };
        Error::Timeout { stage, after }
    }

    /// Waits for the earlier of both time limits. The timer is created only when the body is not ready, and reset only
    /// after it has fired: most bodies arrive before that.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        loop {
            let due = self
                .bounds
                .authorized
                .deadline
                .min(self.last_frame + self.bounds.between);
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= due {
                return Poll::Ready(self.timeout_error());
            }
            timer.as_mut().reset(due);
        }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let error = match inner.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => match this.check(&frame) {
                Ok(()) => return Poll::Ready(Some(Ok(frame))),
                Err(error) => error,
            },
            Poll::Ready(Some(Err(error))) => error,
            Poll::Ready(None) => {
                this.end();
                return Poll::Ready(None);
            }
            Poll::Pending => match this.poll_timeout(cx) {
                Poll::Ready(error) => error,
                Poll::Pending => return Poll::Pending,
            },
        };
        this.end();
        Poll::Ready(Some(Err(error)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner
            .as_ref()
            .is_none_or(ResponseSource::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), ResponseSource::size_hint)
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody")
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}
