//! Bodies on their way: what goes out and what comes in, both counted, and the latter against the clock.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::Method;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use mimir_core::network::{Target, Verdict};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::authorize::Permit;
use crate::error::{Error, Stage};
use crate::failure;
use crate::guard::Guard;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The body of a request, held to its limit and to the length that its header announces.
pub(crate) struct Upload {
    inner: Source,
    sent: u64,
    limit: u64,
    announced: Option<u64>,
}

enum Source {
    Full(Option<Bytes>),
    Stream(Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>),
}

impl Upload {
    pub(crate) fn full(bytes: Bytes, limit: u64) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self::new(Source::Full(bytes), limit)
    }

    pub(crate) fn stream(
        body: Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>,
        limit: u64,
    ) -> Self {
        Self::new(Source::Stream(body), limit)
    }

    fn new(inner: Source, limit: u64) -> Self {
        Self {
            inner,
            sent: 0,
            limit,
            announced: None,
        }
    }

    /// Holds the body to the length that a header announces.
    pub(crate) fn announce(&mut self, length: Option<u64>) -> Result<(), Error> {
        let size = HttpBody::size_hint(self);
        if size.lower() > self.limit {
            return Err(self.too_large());
        }
        self.announced = length;
        match (length, size.exact()) {
            (Some(length), Some(exact)) if length != exact => Err(mismatch()),
            _ => Ok(()),
        }
    }

    fn too_large(&self) -> Error {
        Error::TooLarge {
            what: "the request's body",
            limit: self.limit,
        }
    }
}

fn mismatch() -> Error {
    Error::InvalidRequest("its body is not as long as `content-length` says".to_owned())
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match &mut this.inner {
            Source::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Stream(body) => body.as_mut().poll_frame(cx),
        };
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.sent = this.sent.saturating_add(data.remaining() as u64);
                }
                if this.sent > this.limit {
                    return Poll::Ready(Some(Err(this.too_large().into())));
                }
                if this
                    .announced
                    .is_some_and(|announced| this.sent > announced)
                {
                    return Poll::Ready(Some(Err(mismatch().into())));
                }
            }
            Poll::Ready(None)
                if this
                    .announced
                    .is_some_and(|announced| this.sent != announced) =>
            {
                return Poll::Ready(Some(Err(mismatch().into())));
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Source::Full(bytes) => bytes.is_none(),
            // With an announced length the end is looked at, too.
            Source::Stream(body) => self.announced.is_none() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Source::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Source::Stream(body) => body.size_hint(),
        }
    }
}

/// The body of an answer, as it comes in: data and trailers. It ends with an error at the first limit, and when the
/// policy changes to one that would not have let the request.
pub struct Body {
    inner: Option<Incoming>,
    watch: Watch,
    timer: Option<Pin<Box<Sleep>>>,
    last: Instant,
    received: u64,
}

/// What a body is held to.
pub(crate) struct Watch {
    pub(crate) limit: u64,
    pub(crate) between: Duration,
    pub(crate) whole: Duration,
    pub(crate) deadline: Instant,
    pub(crate) guard: Arc<Guard>,
    pub(crate) generation: u64,
    pub(crate) target: Target,
    pub(crate) method: Method,
    pub(crate) permit: Permit,
    /// Given back when the body has ended.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

impl Watch {
    /// Whether the request is still one that the policy lets.
    fn judge(&mut self) -> Result<(), Error> {
        if self.guard.generation() == self.generation {
            return Ok(());
        }
        let now = self.guard.current();
        allowed(
            now.policy.judge(&self.target, self.method.as_str()),
            self.permit,
        )?;
        self.generation = now.generation;
        Ok(())
    }
}

/// What a verdict comes to, with what a gate has said.
pub(crate) fn allowed(verdict: Verdict<'_>, permit: Permit) -> Result<(), Error> {
    match verdict {
        Verdict::Allowed(_) => Ok(()),
        Verdict::Unlisted(_) if permit == Permit::Unlisted => Ok(()),
        Verdict::Unlisted(refusal) | Verdict::Refused(refusal) => Err(Error::Blocked(refusal)),
    }
}

impl Body {
    pub(crate) fn new(inner: Incoming, watch: Watch) -> Self {
        Self {
            inner: Some(inner),
            watch,
            timer: None,
            last: Instant::now(),
            received: 0,
        }
    }

    /// When all of it must be there.
    pub(crate) fn deadline(&self) -> Instant {
        self.watch.deadline
    }

    /// Checks a frame that came in.
    fn check(&mut self, frame: &Frame<Bytes>) -> Result<(), Error> {
        self.watch.judge()?;
        self.last = Instant::now();
        if self.last >= self.watch.deadline {
            return Err(self.late());
        }
        self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
        if self.received > self.watch.limit {
            return Err(Error::TooLarge {
                what: "the answer's body",
                limit: self.watch.limit,
            });
        }
        Ok(())
    }

    /// Lets go of the connection: if the answer is complete it is used again, else it is closed.
    fn end(&mut self) {
        self.inner = None;
        self.watch.slot = None;
    }

    fn late(&self) -> Error {
        let whole = Instant::now() >= self.watch.deadline;
        let (stage, after) = match whole {
            true => (Stage::Whole, self.watch.whole),
            false => (Stage::Body, self.watch.between),
        };
        Error::Timeout { stage, after }
    }

    /// Waits for the earlier of both limits. The timer is set only where something has to be waited for, and moved
    /// only when it has gone off: most bodies are there before that.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        loop {
            let due = self.watch.deadline.min(self.last + self.watch.between);
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= due {
                return Poll::Ready(self.late());
            }
            timer.as_mut().reset(due);
        }
    }
}

impl HttpBody for Body {
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
        let error = match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => match this.check(&frame) {
                Ok(()) => return Poll::Ready(Some(Ok(frame))),
                Err(error) => error,
            },
            Poll::Ready(Some(Err(error))) => failure::of_exchange(&error),
            Poll::Ready(None) => {
                this.end();
                return Poll::Ready(None);
            }
            Poll::Pending => match this.poll_late(cx) {
                Poll::Ready(error) => error,
                Poll::Pending => return Poll::Pending,
            },
        };
        this.end();
        Poll::Ready(Some(Err(error)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body")
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}
