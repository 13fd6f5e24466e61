//! Several servers in one process that share their state and forward requests to each other.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mimir_core::BoxFuture;
use mimir_core::peer_messages::{PeerError, PeerMessageHandler, PeerMessages, PeerReply};
use mimir_core::shared_state::{
    SharedState, SharedStateError, StateArea, StateEntry, StateKey, StateRevision, StateWatch,
};
use parking_lot::Mutex;

/// Shared state in memory, without watches and lifetimes.
#[derive(Default)]
pub struct MemoryState {
    values: Mutex<BTreeMap<(StateArea, StateKey), (Vec<u8>, StateRevision)>>,
    /// Makes every access fail.
    pub unreachable: Mutex<bool>,
}

type Stored<T> = Result<T, SharedStateError>;

impl MemoryState {
    fn write(
        &self,
        area: StateArea,
        key: &StateKey,
        value: Vec<u8>,
        expected: Option<StateRevision>,
    ) -> Stored<StateRevision> {
        self.check()?;
        let mut values = self.values.lock();
        let stored = values
            .get(&(area, key.clone()))
            .map(|(_, revision)| *revision);
        if stored != expected {
            return Err(SharedStateError::Conflict);
        }
        let revision = stored.unwrap_or_default() + 1;
        values.insert((area, key.clone()), (value, revision));
        Ok(revision)
    }

    fn check(&self) -> Stored<()> {
        let is_reachable = !*self.unreachable.lock();
        is_reachable
            .then_some(())
            .ok_or_else(|| SharedStateError::Unreachable {
                location: self.location(),
                text: "the test says so".to_owned(),
            })
    }
}

impl SharedState for MemoryState {
    fn get<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
    ) -> BoxFuture<'a, Stored<Option<StateEntry>>> {
        let found = self.check().map(|()| {
            let values = self.values.lock();
            let (value, revision) = values.get(&(area, key.clone()))?.clone();
            let key = key.clone();
            Some(StateEntry {
                key,
                value,
                revision,
            })
        });
        Box::pin(std::future::ready(found))
    }

    fn create<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        _: Option<Duration>,
    ) -> BoxFuture<'a, Stored<StateRevision>> {
        Box::pin(std::future::ready(self.write(area, key, value, None)))
    }

    fn update<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        revision: StateRevision,
        _: Option<Duration>,
    ) -> BoxFuture<'a, Stored<StateRevision>> {
        let written = self.write(area, key, value, Some(revision));
        Box::pin(std::future::ready(written))
    }

    fn remove<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        _: Option<StateRevision>,
    ) -> BoxFuture<'a, Stored<()>> {
        self.values.lock().remove(&(area, key.clone()));
        Box::pin(std::future::ready(Ok(())))
    }

    fn list<'a>(
        &'a self,
        _: StateArea,
        _: Option<&'a StateKey>,
    ) -> BoxFuture<'a, Stored<Vec<StateEntry>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn watch(&self, _: StateArea) -> BoxFuture<'_, Stored<Box<dyn StateWatch>>> {
        let unreachable = SharedStateError::Unreachable {
            location: self.location(),
            text: "watches are not part of this test".to_owned(),
        };
        Box::pin(std::future::ready(Err(unreachable)))
    }

    fn count_within<'a>(
        &'a self,
        _: &'a StateKey,
        _: u32,
        _: Duration,
    ) -> BoxFuture<'a, Stored<bool>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

/// The connection between servers: the handlers of the live ones.
#[derive(Default)]
pub struct Network(Mutex<BTreeMap<String, Arc<OnceLock<Arc<dyn PeerMessageHandler>>>>>);

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
