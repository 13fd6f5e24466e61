//! Tests of messages between servers of clients over a NATS server. Each has a connection of its own, as a process has.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that goes wrong ends where it goes wrong"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mimir_cluster::{
    ClusterConnection, ClusterNode, ConnectionOptions, NatsPeers, NodeDescription, NodeRole,
};
use mimir_core::BoxFuture;
use mimir_core::peer_messages::{PeerError, PeerMessageHandler, PeerMessages, PeerReply};
use tokio::sync::Notify;

#[path = "../../../../tests/kit/nats_server.rs"]
#[expect(dead_code, reason = "other tests stop and start the server")]
mod nats_server;

use nats_server::NatsServer;

/// Time limit for everything; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Size of a message that is sent in many parts.
const LARGE: usize = 5 << 20;

struct Server {
    node: ClusterNode,
    peers: NatsPeers,
}

impl Server {
    async fn start(nats: &NatsServer) -> Self {
        let options = ConnectionOptions {
            servers: nats.url(),
            ..ConnectionOptions::default()
        };
        let connection = ClusterConnection::connect_node(options).await.unwrap();
        let description = NodeDescription {
            role: NodeRole::Front,
            host: "test".to_owned(),
            workspace: None,
            labels: Default::default(),
            capacity: 0,
            tools: None,
        };
        let node = ClusterNode::start(connection.clone(), description)
            .await
            .unwrap();
        let peers = NatsPeers::start(connection, node.clone()).await.unwrap();
        Self { node, peers }
    }
}

/// Replies with the message, in parts that arrive one after another, or waits after the first one.
struct Echo {
    waits: bool,
    /// Number of replies that were dropped before their end.
    dropped: Arc<AtomicUsize>,
    dropped_one: Arc<Notify>,
}

impl Echo {
    fn new(waits: bool) -> Arc<Self> {
        Arc::new(Self {
            waits,
            dropped: Arc::default(),
            dropped_one: Arc::default(),
        })
    }
}

struct EchoReply {
    parts: Vec<Vec<u8>>,
    waits: bool,
    dropped: Arc<AtomicUsize>,
    dropped_one: Arc<Notify>,
}

impl PeerMessageHandler for Echo {
    fn handle(&self, message: Vec<u8>) -> BoxFuture<'static, Box<dyn PeerReply>> {
        let reply = EchoReply {
            parts: vec![b"end".to_vec(), message, b"begin".to_vec()],
            waits: self.waits,
            dropped: Arc::clone(&self.dropped),
            dropped_one: Arc::clone(&self.dropped_one),
        };
        Box::pin(std::future::ready(Box::new(reply) as Box<dyn PeerReply>))
    }
}

impl PeerReply for EchoReply {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Vec<u8>, PeerError>>> {
        Box::pin(async move {
            if self.waits && self.parts.len() < 3 {
                std::future::pending::<()>().await;
            }
            self.parts.pop().map(Ok)
        })
    }
}

impl Drop for EchoReply {
    fn drop(&mut self) {
        if !self.parts.is_empty() {
            self.dropped.fetch_add(1, Ordering::SeqCst);
            self.dropped_one.notify_one();
        }
    }
}

async fn collect(mut reply: Box<dyn PeerReply>) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some(part) = tokio::time::timeout(PATIENCE, reply.next()).await.unwrap() {
        parts.push(part.unwrap());
    }
    parts
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn peers_exchange_messages_of_any_size() {
    let nats = NatsServer::start();
    let (one, two) = (Server::start(&nats).await, Server::start(&nats).await);
    two.peers.receive(Echo::new(false));
    let node = two.peers.node();
    assert!(two.peers.is_own(&node) && !one.peers.is_own(&node));
    for size in [0, 1, LARGE] {
        let message: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let reply = one.peers.send(&node, message.clone()).await.unwrap();
        let parts = collect(reply).await;
        assert!(
            parts == [b"begin".to_vec(), message, b"end".to_vec()],
            "size {size}"
        );
    }
    let mut times = Vec::new();
    for _ in 0..300 {
        let began = Instant::now();
        collect(one.peers.send(&node, vec![1; 4_096]).await.unwrap()).await;
        times.push(began.elapsed());
    }
    times.sort();
    eprintln!(
        "4 KB to another server and back: p50 {:?}, p99 {:?}",
        times[150], times[297]
    );
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn peers_that_have_ended_get_nothing() {
    let nats = NatsServer::start();
    let one = Server::start(&nats).await;
    let two = Server::start(&nats).await;
    two.peers.receive(Echo::new(true));
    let node = two.peers.node();
    let mut reply = one.peers.send(&node, b"wait".to_vec()).await.unwrap();
    assert_eq!(reply.next().await, Some(Ok(b"begin".to_vec())));
    two.node.shut_down().await;
    drop(two);
    let broken = tokio::time::timeout(PATIENCE, reply.next()).await.unwrap();
    assert!(
        matches!(broken, Some(Err(PeerError::NoAnswer { .. }))),
        "{broken:?}"
    );
    for gone in [node.as_str(), "never", "*", "a.b", ""] {
        let began = Instant::now();
        let sent = one.peers.send(gone, b"hello".to_vec()).await;
        assert!(matches!(sent, Err(PeerError::Gone(_))), "{gone}");
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "NATS answers at once"
        );
    }
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn peers_cancel_what_nothing_waits_for() {
    let nats = NatsServer::start();
    let (one, two) = (Server::start(&nats).await, Server::start(&nats).await);
    let echo = Echo::new(true);
    two.peers.receive(Arc::clone(&echo) as Arc<_>);
    let mut reply = one
        .peers
        .send(&two.peers.node(), b"wait".to_vec())
        .await
        .unwrap();
    assert_eq!(reply.next().await, Some(Ok(b"begin".to_vec())));
    drop(reply);
    let dropped = tokio::time::timeout(PATIENCE, echo.dropped_one.notified());
    dropped.await.unwrap();
    assert_eq!(echo.dropped.load(Ordering::SeqCst), 1);
}
