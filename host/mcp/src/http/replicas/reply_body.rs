//! The body of a response that another replica sends.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use mimir_core::peer_messages::{PeerError, PeerReply};
use tokio::sync::mpsc;

/// Number of parts that wait for a slow client.
const QUEUE_CAPACITY: usize = 16;

/// A body whose parts arrive from another replica. Dropping it cancels the request there.
pub(super) struct ReplyBody(mpsc::Receiver<Bytes>);

impl ReplyBody {
    /// Creates the body. If the reply breaks off, `on_failure` is its last part.
    pub(super) fn new(mut reply: Box<dyn PeerReply>, on_failure: Option<Bytes>) -> Self {
        let (parts, receiver) = mpsc::channel(QUEUE_CAPACITY);
        tokio::spawn(async move {
            loop {
                let part = tokio::select! {
                    part = reply.next() => part,
                    () = parts.closed() => return,
                };
                match part {
                    Some(Ok(part)) => {
                        if parts.send(Bytes::from(part)).await.is_err() {
                            return;
                        }
                    }
                    Some(Err(error)) => {
                        tracing::warn!(%error, "the response of another replica broke off");
                        if let Some(last) = on_failure {
                            let _ = parts.send(last).await;
                        }
                        return;
                    }
                    None => return,
                }
            }
        });
        Self(receiver)
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = std::task::ready!(self.0.poll_recv(context));
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }
}

/// Waits for the rest of a reply, which must not be longer than `max` bytes.
pub(super) async fn collect(
    reply: &mut Box<dyn PeerReply>,
    max: usize,
) -> Result<Option<Bytes>, PeerError> {
    let mut body = Vec::new();
    while let Some(part) = reply.next().await {
        body.extend(part?);
        if body.len() > max {
            return Ok(None);
        }
    }
    Ok(Some(body.into()))
}
