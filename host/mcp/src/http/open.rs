//! An answer while it is read: it counts as something that goes on in its session, and ends with the token that it was
//! asked for with.
//!
//! Never here: what is answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Answer;
use super::sessions::Visit;

/// An answer's body, and what depends on it.
struct Open {
    inner: BoxBody<Bytes, Infallible>,
    until: Option<Pin<Box<Sleep>>>,
    _visit: Option<Arc<Visit>>,
}

/// The answer as a part of this visit, which ends at this time at the latest.
pub(super) fn open(answer: Answer, visit: Option<Arc<Visit>>, until: Option<Instant>) -> Answer {
    // What has a length is there already.
    let until = until.filter(|_| answer.body().size_hint().exact().is_none());
    if visit.is_none() && until.is_none() {
        return answer;
    }
    answer.map(|inner| {
        let open = Open {
            inner,
            until: until.map(|until| Box::pin(sleep_until(until))),
            _visit: visit,
        };
        open.boxed()
    })
}

impl Body for Open {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(until) = &mut self.until
            && until.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
