//! Several servers in one process that share their state and forward requests to each other.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use mimir_core::BoxFuture;
use mimir_core::peer_messages::{PeerError, PeerMessageHandler, PeerMessages, PeerReply};
use parking_lot::Mutex;

/// The connection between servers: the handlers of the live ones.
#[derive(Default)]
pub struct Network(Mutex<BTreeMap<String, ServerHandler>>);

/// The handler of a server, once it has one.
type ServerHandler = Arc<OnceLock<Arc<dyn PeerMessageHandler>>>;

impl Network {
    /// Adds a server.
    pub fn join(self: &Arc<Self>, node: &str) -> Arc<NetworkPeer> {
        self.0.lock().insert(node.to_owned(), Arc::default());
        Arc::new(NetworkPeer {
            node: node.to_owned(),
            network: Arc::clone(self),
            sent: Mutex::default(),
        })
    }

    /// Makes a server unreachable, as if its process had been killed.
    pub fn kill(&self, node: &str) {
        self.0.lock().remove(node);
    }
}

/// A server's end of the network.
pub struct NetworkPeer {
    node: String,
    network: Arc<Network>,
    /// Messages that this server has sent, with their receivers.
    pub sent: Mutex<Vec<(String, Vec<u8>)>>,
}

impl NetworkPeer {
    /// Delivers a message as if another server had sent it, and returns the first part of the reply.
    pub async fn deliver(&self, node: &str, message: Vec<u8>) -> Vec<u8> {
        let mut reply = self.send(node, message).await.unwrap();
        reply.next().await.unwrap().unwrap()
    }
}

impl PeerMessages for NetworkPeer {
    fn node(&self) -> String {
        self.node.clone()
    }

    fn is_own(&self, node: &str) -> bool {
        self.node == node
    }

    fn peers(&self) -> Vec<String> {
        let nodes = self.network.0.lock();
        let others = nodes.keys().filter(|node| **node != self.node);
        others.cloned().collect()
    }

    fn send<'a>(
        &'a self,
        node: &'a str,
        message: Vec<u8>,
    ) -> BoxFuture<'a, Result<Box<dyn PeerReply>, PeerError>> {
        Box::pin(async move {
            self.sent.lock().push((node.to_owned(), message.clone()));
            let handler = self.network.0.lock().get(node).cloned();
            let handler = handler.and_then(|handler| handler.get().cloned());
            let Some(handler) = handler else {
                return Err(PeerError::Gone(node.to_owned()));
            };
            Ok(handler.handle(message).await)
        })
    }

    fn receive(&self, handler: Arc<dyn PeerMessageHandler>) {
        let nodes = self.network.0.lock();
        let _ = nodes[&self.node].set(handler);
    }
}
