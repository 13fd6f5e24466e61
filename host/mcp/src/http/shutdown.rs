//! The end of a server over HTTP: it waits for the responses to the requests that it has accepted, and then answers the
//! calls that still run with an error.
//!
//! A request is open until its response has been passed on completely, which is later than the end of its call. Streams
//! of notifications, which end with the server, are not counted.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{BoxedResponse, HttpService};

/// The number of open requests. Clones share it.
#[derive(Clone, Default)]
pub(super) struct OpenRequests(watch::Sender<RequestCount>);

#[derive(Default)]
struct RequestCount {
    open: usize,
    /// True if further requests are refused.
    is_closed: bool,
}

impl OpenRequests {
    /// Counts a request. Returns `None` if requests are refused.
    pub(super) fn begin(&self) -> Option<OpenRequestGuard> {
        let is_counted = self.0.send_if_modified(|count| {
            count.open += usize::from(!count.is_closed);
            !count.is_closed
        });
        is_counted.then(|| {
            OpenRequestGuard(Arc::new(OpenRequest {
                requests: self.clone(),
                is_counted: AtomicBool::new(true),
            }))
        })
    }

    /// Returns true if further requests are refused.
    pub(super) fn are_closed(&self) -> bool {
        self.0.borrow().is_closed
    }

    fn count(&self) -> usize {
        self.0.borrow().open
    }

    /// Refuses requests from now on.
    fn close(&self) {
        self.0.send_modify(|count| count.is_closed = true);
    }

    async fn wait_until_none(&self) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|count| count.open == 0).await;
    }
}

/// A request whose handler may end the wait for its response.
pub(crate) struct OpenRequest {
    requests: OpenRequests,
    is_counted: AtomicBool,
}

impl OpenRequest {
    /// Lets the server end without the response, because the client expects none, or an endless one.
    pub(crate) fn stop_counting(&self) {
        if self.is_counted.swap(false, Ordering::Relaxed) {
            self.requests.0.send_modify(|count| count.open -= 1);
        }
    }
}

/// Keeps a request open until it is dropped.
pub(super) struct OpenRequestGuard(Arc<OpenRequest>);

impl OpenRequestGuard {
    /// Returns the request, for its handler.
    pub(super) fn request(&self) -> Arc<OpenRequest> {
        Arc::clone(&self.0)
    }

    /// Keeps the request open until the body of the response has been read or dropped.
    pub(super) fn hold_until_sent(self, response: BoxedResponse) -> BoxedResponse {
        response.map(|inner| {
            CountedBody {
                inner,
                _guard: self,
            }
            .boxed()
        })
    }
}

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        self.0.stop_counting();
    }
}

/// The body of a response to an open request.
struct CountedBody {
    inner: BoxBody<Bytes, Infallible>,
    _guard: OpenRequestGuard,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl HttpService {
    /// Makes `/readyz` report that this server is about to end, so that no further clients are sent to it. Requests are
    /// still answered.
    pub fn begin_drain(&self) {
        self.0.readiness.begin_drain();
    }

    /// Returns the number of requests without a complete response, or of running calls, whichever is greater.
    pub fn unanswered(&self) -> usize {
        self.0.open_requests.count().max(self.0.server.calls())
    }

    /// Waits until all requests have been answered, for at most the given time, and refuses further ones then. Meanwhile,
    /// requests are still answered: they may be the answers for which calls wait. Returns false if the time is over.
    pub async fn drain(&self, at_most: Duration) -> bool {
        self.begin_drain();
        let answered = async {
            self.wait_until_answered().await;
            self.0.server.wait_for_task_requests().await;
            self.0.open_requests.close();
            // A request may have arrived in between.
            self.wait_until_answered().await;
        };
        timeout(at_most, answered).await.is_ok()
    }

    /// Refuses further requests, answers those whose calls still run with an error, and ends all sessions. Waits until each
    /// call is in the audit log, for at most twice the given time.
    pub async fn close(&self, at_most: Duration) {
        self.begin_drain();
        self.0.open_requests.close();
        self.0.server.stop();
        // The end of the sessions would cut the responses off.
        let _ = timeout(at_most, self.wait_until_answered()).await;
        (self.0.close)();
        self.0.server.wait_until_idle(at_most).await;
    }

    async fn wait_until_answered(&self) {
        while self.unanswered() > 0 {
            self.0.open_requests.wait_until_none().await;
            self.0.server.wait_for_calls().await;
        }
    }
}
