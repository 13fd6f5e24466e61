//! The reply of another server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mimir_core::BoxFuture;
use mimir_core::peer_messages::{PeerError, PeerReply};
use tokio::sync::mpsc;

use super::PeerParts;
use super::frame::ExchangeId;

/// Time without a heartbeat after which the other server counts as ended.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of one part of a reply.
const MAX_PART_SIZE: usize = 64 << 20;

/// An event of a request that was sent to another server.
pub(super) enum ReplyEvent {
    /// NATS has found no receiver.
    Undelivered,
    /// The other server has received the request.
    Received,
    /// The other server handles the request.
    Heartbeat,
    /// The beginning of a part.
    PartStart(Bytes),
    /// The end of a part.
    PartEnd(Bytes),
    /// The end of the reply.
    End,
}

/// The reply of another server. Dropping it cancels the request there.
pub(super) struct NatsPeerReply {
    parts: Arc<PeerParts>,
    node: String,
    exchange: ExchangeId,
    events: mpsc::UnboundedReceiver<ReplyEvent>,
    /// The beginning of the next part.
    part: Vec<u8>,
    is_ended: bool,
}

impl NatsPeerReply {
    pub(super) fn new(
        parts: Arc<PeerParts>,
        node: String,
        exchange: ExchangeId,
        events: mpsc::UnboundedReceiver<ReplyEvent>,
    ) -> Self {
        Self {
            parts,
            node,
            exchange,
            events,
            part: Vec::new(),
            is_ended: false,
        }
    }

    /// Waits until the other server has received the request.
    pub(super) async fn wait_until_received(&mut self, at_most: Duration) -> Result<(), PeerError> {
        match tokio::time::timeout(at_most, self.events.recv()).await {
            Ok(Some(ReplyEvent::Received)) => Ok(()),
            Ok(Some(ReplyEvent::Undelivered)) => {
                self.is_ended = true;
                Err(PeerError::Gone(self.node.clone()))
            }
            Ok(_) => Err(self.no_answer("the answer is not valid")),
            Err(_) => Err(self.no_answer("no answer in time")),
        }
    }

    fn no_answer(&self, text: &str) -> PeerError {
        PeerError::NoAnswer {
            node: self.node.clone(),
            text: text.to_owned(),
        }
    }

    async fn next_part(&mut self) -> Option<Result<Vec<u8>, PeerError>> {
        if self.is_ended {
            return None;
        }
        loop {
            let event = tokio::time::timeout(SILENCE_TIMEOUT, self.events.recv()).await;
            let data = match event {
                Ok(Some(ReplyEvent::Heartbeat | ReplyEvent::Received)) => continue,
                Ok(Some(ReplyEvent::End)) => {
                    self.is_ended = true;
                    return None;
                }
                Ok(Some(ReplyEvent::PartStart(data))) => {
                    self.part.extend(&data);
                    if self.part.len() <= MAX_PART_SIZE {
                        continue;
                    }
                    "the reply is too large"
                }
                Ok(Some(ReplyEvent::PartEnd(data))) => {
                    let mut part = std::mem::take(&mut self.part);
                    part.extend(&data);
                    return Some(Ok(part));
                }
                Ok(Some(ReplyEvent::Undelivered) | None) => "the connection was lost",
                Err(_) => "no heartbeat in time",
            };
            self.is_ended = true;
            return Some(Err(self.no_answer(data)));
        }
    }
}

impl PeerReply for NatsPeerReply {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Vec<u8>, PeerError>>> {
        Box::pin(self.next_part())
    }
}

impl Drop for NatsPeerReply {
    fn drop(&mut self) {
        self.parts.forget(&self.node, self.exchange, self.is_ended);
    }
}
