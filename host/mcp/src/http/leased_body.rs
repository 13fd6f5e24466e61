//! Response bodies that keep their session busy while they are read, and end when the request's token expires.
//!
//! Out of scope: the content.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use tokio::time::{Instant, Sleep, sleep_until};

use super::BoxedResponse;
use super::session_table::SessionLease;

/// A response body that holds a session lease and ends at a given time.
struct LeasedBody {
    inner: BoxBody<Bytes, Infallible>,
    expires: Option<Pin<Box<Sleep>>>,
    _lease: Option<Arc<SessionLease>>,
}

/// Binds a response to a session lease and to the expiry time of the token.
pub(super) fn bind_to_session(
    response: BoxedResponse,
    lease: Option<Arc<SessionLease>>,
    expires: Option<Instant>,
) -> BoxedResponse {
    // A body of known length is complete already.
    let expires = expires.filter(|_| response.body().size_hint().exact().is_none());
    if lease.is_none() && expires.is_none() {
        return response;
    }
    response.map(|inner| {
        let body = LeasedBody {
            inner,
            expires: expires.map(|expires| Box::pin(sleep_until(expires))),
            _lease: lease,
        };
        body.boxed()
    })
}

impl Body for LeasedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(expires) = &mut self.expires
            && expires.as_mut().poll(context).is_ready()
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
