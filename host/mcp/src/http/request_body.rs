//! Request bodies that record their failure, because rmcp's responses do not distinguish a late body from an incomplete
//! one.
//!
//! Out of scope: the content.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

pub(super) type BodyError = Box<dyn Error + Send + Sync>;

/// A body that records its failure.
pub(super) struct TrackedBody<B> {
    inner: Pin<Box<B>>,
    failure: BodyFailure,
}

/// The failure of a request's body, if there was one.
#[derive(Clone, Default)]
pub(super) struct BodyFailure(Arc<AtomicU8>);

const LATE: u8 = 1;
const BROKEN: u8 = 2;

impl BodyFailure {
    /// Returns true if the body did not arrive in time.
    pub(super) fn is_late(&self) -> bool {
        self.0.load(Ordering::Acquire) == LATE
    }

    /// Returns true if the body ended before it was complete.
    pub(super) fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire) == BROKEN
    }
}

impl<B> TrackedBody<B> {
    /// Wraps a body. The second value reports the failure of the body.
    pub(super) fn new(inner: B) -> (Self, BodyFailure) {
        let failure = BodyFailure::default();
        let reported = failure.clone();
        let inner = Box::pin(inner);
        (Self { inner, failure }, reported)
    }
}

impl<B> Body for TrackedBody<B>
where
    B: Body,
    B::Error: Into<BodyError>,
{
    type Data = B::Data;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BodyError>>> {
        let frame = std::task::ready!(self.inner.as_mut().poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            frame.map_err(|error| {
                let error = error.into();
                let state = if is_late(&*error) { LATE } else { BROKEN };
                self.failure.0.store(state, Ordering::Release);
                error
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn is_late(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::TimedOut;
        }
        next = error.source();
    }
    false
}
