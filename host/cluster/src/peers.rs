//! Messages between the servers of clients, over plain NATS messages.
//!
//! Each server receives on a subject of its own, on which it gets requests and the parts of replies to its own ones. Only
//! keys of servers may publish there. A request to a server that has ended is answered by NATS itself, so that the sender
//! knows that it was not delivered. A server that handles a request sends a heartbeat each second.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures::StreamExt as _;
use mimir_core::BoxFuture;
use mimir_core::peer_messages::{PeerError, PeerMessageHandler, PeerMessages, PeerReply};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};

use crate::connection::{ClusterConnection, ClusterError};
use crate::names;
use crate::node::{ClusterNode, NodeRole};

mod assembly;
mod frame;
mod reply;

use assembly::RequestAssembly;
use frame::{ExchangeId, FrameKind, PeerFrame};
use reply::{NatsPeerReply, ReplyEvent};

/// Maximum size of the payload of a message. Requests and replies are sent in parts of this size.
const PART_SIZE: usize = 256 << 10;

/// Time within which a server confirms that it has received a request.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of attempts to send a request again that was not delivered to a live server, and the pause before each.
const UNDELIVERED_RETRIES: u32 = 8;
const UNDELIVERED_PAUSE: Duration = Duration::from_millis(50);

/// Interval of the heartbeats while a request is handled.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the id of the node is checked, which changes if the process was paused for long.
const ID_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Messages between the servers of clients of a cluster.
pub struct NatsPeers {
    parts: Arc<PeerParts>,
    task: JoinHandle<()>,
}

impl Drop for NatsPeers {
    fn drop(&mut self) {
        self.task.abort();
        let handled = std::mem::take(&mut *self.parts.handled.lock());
        handled.into_values().for_each(|task| task.abort());
    }
}

struct PeerParts {
    connection: ClusterConnection,
    node: ClusterNode,
    /// Prefix of the subjects on which NATS reports requests that were not delivered.
    inbox: String,
    /// All ids that this server has had.
    own_ids: Mutex<HashSet<String>>,
    handler: OnceLock<RequestHandler>,
    /// Requests of this server that are not answered yet.
    sent: Mutex<HashMap<ExchangeId, mpsc::UnboundedSender<ReplyEvent>>>,
    /// Requests of other servers that are being handled.
    handled: Mutex<HashMap<ExchangeId, AbortHandle>>,
}

/// The handler of requests, and the runtime on which it runs.
struct RequestHandler {
    handler: Arc<dyn PeerMessageHandler>,
    runtime: tokio::runtime::Handle,
}

impl NatsPeers {
    /// Starts to receive messages for this node.
    pub async fn start(
        connection: ClusterConnection,
        node: ClusterNode,
    ) -> Result<Self, ClusterError> {
        let inbox = connection.client().new_inbox();
        let parts = Arc::new(PeerParts {
            connection: connection.clone(),
            node,
            inbox: inbox.clone(),
            own_ids: Mutex::default(),
            handler: OnceLock::new(),
            sent: Mutex::default(),
            handled: Mutex::default(),
        });
        let undelivered = parts.subscribe(format!("{inbox}.*")).await?;
        let id = parts.node.id();
        let subject = names::front_messages(&id);
        let mut messages = parts.subscribe(subject.clone()).await?;
        // Flushed commands may still wait at the server, which would answer the first messages to this one with an error.
        let early = connection
            .confirm_subscription(subject, &mut messages)
            .await?;
        parts.own_ids.lock().insert(id.clone());
        let receiver = Arc::clone(&parts).receive(id, early, messages, undelivered);
        let task = connection.runtime().spawn(receiver);
        Ok(Self { parts, task })
    }
}

impl PeerMessages for NatsPeers {
    fn node(&self) -> String {
        self.parts.node.id()
    }

    fn is_own(&self, node: &str) -> bool {
        self.parts.own_ids.lock().contains(node) || self.parts.node.id() == node
    }

    fn peers(&self) -> Vec<String> {
        let nodes = self.parts.node.nodes().list();
        let fronts = nodes.iter().filter(|node| node.role == NodeRole::Front);
        let others = fronts.filter(|node| !self.is_own(&node.id));
        others.map(|node| node.id.clone()).collect()
    }

    fn send<'a>(
        &'a self,
        node: &'a str,
        message: Vec<u8>,
    ) -> BoxFuture<'a, Result<Box<dyn PeerReply>, PeerError>> {
        Box::pin(async move {
            let reply = Arc::clone(&self.parts).send(node, message).await?;
            Ok(Box::new(reply) as Box<dyn PeerReply>)
        })
    }

    fn receive(&self, handler: Arc<dyn PeerMessageHandler>) {
        let runtime = tokio::runtime::Handle::current();
        // Called once, by the server that this process starts.
        let _ = self.parts.handler.set(RequestHandler { handler, runtime });
    }
}

impl PeerParts {
    async fn subscribe(&self, subject: String) -> Result<Subscriber, ClusterError> {
        let subscribed = self.connection.client().subscribe(subject).await;
        subscribed.map_err(|error| ClusterError::Failed {
            servers: self.connection.servers().to_owned(),
            text: error.to_string(),
        })
    }

    /// Receives the messages to this server, also under ids that it gets later.
    async fn receive(
        self: Arc<Self>,
        id: String,
        early: Vec<Message>,
        messages: Subscriber,
        mut undelivered: Subscriber,
    ) {
        let mut id = id;
        let mut streams = futures::stream::SelectAll::new();
        streams.push(messages);
        let mut assembly = RequestAssembly::default();
        for message in early {
            self.accept(&message.payload, &mut assembly);
        }
        let mut check = tokio::time::interval(ID_CHECK_INTERVAL);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = streams.next() => match message {
                    Some(message) => self.accept(&message.payload, &mut assembly),
                    None => return,
                },
                message = undelivered.next() => match message {
                    Some(message) if message.status == Some(StatusCode::NO_RESPONDERS) => {
                        self.report_undelivered(&message.subject);
                    }
                    Some(_) => {}
                    None => return,
                },
                _ = check.tick() => {
                    assembly.drop_old_parts();
                    let current = self.node.id();
                    if current != id
                        && let Ok(more) = self.subscribe(names::front_messages(&current)).await
                    {
                        self.own_ids.lock().insert(current.clone());
                        streams.push(more);
                        id = current;
                    }
                }
            }
        }
    }

    /// Accepts a frame of another server.
    fn accept(self: &Arc<Self>, payload: &Bytes, assembly: &mut RequestAssembly) {
        let Some(frame) = PeerFrame::decode(payload) else {
            return;
        };
        let event = match frame.kind {
            FrameKind::RequestPart | FrameKind::RequestEnd => {
                if let Some(message) = assembly.add(&frame) {
                    self.handle_request(frame.exchange, frame.from, message);
                }
                return;
            }
            FrameKind::Cancel => {
                if let Some(handled) = self.handled.lock().remove(&frame.exchange) {
                    handled.abort();
                }
                return;
            }
            FrameKind::Received => ReplyEvent::Received,
            FrameKind::Heartbeat => ReplyEvent::Heartbeat,
            FrameKind::ReplyPart => ReplyEvent::PartStart(frame.payload),
            FrameKind::ReplyPartEnd => ReplyEvent::PartEnd(frame.payload),
            FrameKind::ReplyEnd => ReplyEvent::End,
        };
        if let Some(waiting) = self.sent.lock().get(&frame.exchange) {
            let _ = waiting.send(event);
        }
    }

    /// Handles a request on the runtime of the handler, and sends the reply.
    fn handle_request(self: &Arc<Self>, exchange: ExchangeId, from: String, message: Vec<u8>) {
        let Some(RequestHandler { handler, runtime }) = self.handler.get() else {
            return;
        };
        let parts = Arc::clone(self);
        let handling = handler.handle(message);
        let mut handled = self.handled.lock();
        let task = runtime.spawn(async move {
            parts.answer(exchange, &from, handling).await;
            parts.handled.lock().remove(&exchange);
        });
        handled.insert(exchange, task.abort_handle());
    }

    async fn answer(
        &self,
        exchange: ExchangeId,
        to: &str,
        handling: BoxFuture<'static, Box<dyn PeerReply>>,
    ) {
        let mut heartbeat = tokio::time::interval(HEARTBEAT_INTERVAL);
        self.publish(to, FrameKind::Received, exchange, &[]).await;
        let mut handling = handling;
        let mut reply = loop {
            tokio::select! {
                reply = &mut handling => break reply,
                _ = heartbeat.tick() => {
                    self.publish(to, FrameKind::Heartbeat, exchange, &[]).await;
                }
            }
        };
        loop {
            let part = tokio::select! {
                part = reply.next() => part,
                _ = heartbeat.tick() => {
                    self.publish(to, FrameKind::Heartbeat, exchange, &[]).await;
                    continue;
                }
            };
            let Some(Ok(part)) = part else {
                break;
            };
            let mut chunks = chunks_of(&part).peekable();
            while let Some(chunk) = chunks.next() {
                let kind = if chunks.peek().is_none() {
                    FrameKind::ReplyPartEnd
                } else {
                    FrameKind::ReplyPart
                };
                self.publish(to, kind, exchange, chunk).await;
            }
        }
        self.publish(to, FrameKind::ReplyEnd, exchange, &[]).await;
    }

    /// Sends a request, and waits until the other server has received it. A request that is not delivered is sent again for
    /// a short time while the server has a lease: the NATS server of this process may not know its subscription yet.
    async fn send(
        self: Arc<Self>,
        node: &str,
        message: Vec<u8>,
    ) -> Result<NatsPeerReply, PeerError> {
        for _ in 0..UNDELIVERED_RETRIES {
            match Arc::clone(&self).send_once(node, &message).await {
                Err(PeerError::Gone(_)) if self.node.nodes().get(node).is_some() => {
                    tokio::time::sleep(UNDELIVERED_PAUSE).await;
                }
                sent => return sent,
            }
        }
        self.send_once(node, &message).await
    }

    async fn send_once(
        self: Arc<Self>,
        node: &str,
        message: &[u8],
    ) -> Result<NatsPeerReply, PeerError> {
        let not_sent = |text: &str| PeerError::NotSent {
            node: node.to_owned(),
            text: text.to_owned(),
        };
        if !names::is_token(node) {
            return Err(PeerError::Gone(node.to_owned()));
        }
        let exchange = ExchangeId::random().ok_or_else(|| not_sent("no random numbers"))?;
        let (events, receiver) = mpsc::unbounded_channel();
        self.sent.lock().insert(exchange, events);
        let parts = Arc::clone(&self);
        // Removes the exchange when it is dropped.
        let mut reply = NatsPeerReply::new(parts, node.to_owned(), exchange, receiver);
        let mut chunks = chunks_of(message).peekable();
        let client = self.connection.client();
        while let Some(chunk) = chunks.next() {
            let is_last = chunks.peek().is_none();
            let kind = if is_last {
                FrameKind::RequestEnd
            } else {
                FrameKind::RequestPart
            };
            let frame = PeerFrame::encode(kind, exchange, &self.node.id(), chunk);
            let subject = names::front_messages(node);
            let published = if is_last {
                let inbox = format!("{}.{exchange}", self.inbox);
                client.publish_with_reply(subject, inbox, frame).await
            } else {
                client.publish(subject, frame).await
            };
            published.map_err(|error| not_sent(&error.to_string()))?;
        }
        reply.wait_until_received(CONFIRM_TIMEOUT).await?;
        Ok(reply)
    }

    /// Reports that NATS has found no receiver of a request.
    fn report_undelivered(&self, subject: &str) {
        let exchange = subject.rsplit('.').next().and_then(ExchangeId::parse);
        let Some(exchange) = exchange else {
            return;
        };
        if let Some(waiting) = self.sent.lock().get(&exchange) {
            let _ = waiting.send(ReplyEvent::Undelivered);
        }
    }

    async fn publish(&self, to: &str, kind: FrameKind, exchange: ExchangeId, payload: &[u8]) {
        if !names::is_token(to) {
            return;
        }
        let frame = PeerFrame::encode(kind, exchange, &self.node.id(), payload);
        let client = self.connection.client();
        // A lost frame ends the reply at the other server, which misses the heartbeats.
        if let Err(error) = client.publish(names::front_messages(to), frame).await {
            tracing::warn!(%error, "a message to another server was not sent");
        }
    }

    /// Forgets a request, and tells the other server that nothing waits for the reply.
    fn forget(self: &Arc<Self>, node: &str, exchange: ExchangeId, is_ended: bool) {
        self.sent.lock().remove(&exchange);
        if is_ended {
            return;
        }
        let (parts, node) = (Arc::clone(self), node.to_owned());
        self.connection.runtime().spawn(async move {
            parts.publish(&node, FrameKind::Cancel, exchange, &[]).await;
        });
    }
}

/// Divides a payload into parts: one if it is empty.
fn chunks_of(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let empty = payload.is_empty().then_some(payload);
    empty.into_iter().chain(payload.chunks(PART_SIZE))
}
