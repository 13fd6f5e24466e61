//! Several servers behind one address, the replicas: any of them can answer a request of any client.
//!
//! Names that clients send back (ids of sessions, states of pending calls, tasks) are sealed with a key that all
//! replicas share, and contain the id of the replica that holds the state. A replica that gets such a name forwards the
//! request to that one and returns its response. If that one has ended:
//!
//! - a session is continued: the name contains the facts of the handshake. Of the live replicas, all choose the same one
//!   to hold it from then on. Labels and approvals of the session are in the shared state of the pipeline.
//! - a pending call or a task has ended with its replica, unless it is a background call, which a worker ends: then any
//!   replica knows its state. Else the client learns that it has ended, and whether it may have run.
//!
//! Out of scope: how messages reach another replica, which is a port ([`PeerMessages`]).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use mimir_core::RequestId;
use mimir_core::background_calls::BackgroundCalls;
use mimir_core::peer_messages::{PeerError, PeerMessages, PeerReply};
use mimir_core::shared_state::{SharedStateError, SharedStateHandle, StateArea, StateKey};
use parking_lot::Mutex;
use rmcp::model::InitializeRequestParams;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::Principal;

mod envelope;
mod message_peek;
mod reply_body;
mod routing;
mod sealed_names;
mod sealing_keys;
mod session_messages;
mod session_store;

pub use sealing_keys::SealingKeyError;

pub(super) use envelope::{ForwardedRequest, ResponseParts, refusal_parts};
pub(super) use routing::{RequestRoute, RouteRequest};
pub(crate) use sealed_names::{SealedCall, SealedSession};
pub(crate) use sealing_keys::SealPurpose;
use sealing_keys::SealingKeys;
pub(super) use session_messages::{original_event_id, original_message, with_node};
pub(super) use session_store::SealedSessionStore;

/// Time for which a replica that could not be reached is left out, until the deployment has noticed its end.
const GONE_LIFETIME: Duration = Duration::from_secs(5);

/// Additional lifetime of the record that a session has ended, because clocks differ.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// First part of the keys of ended sessions in the shared state.
const ENDED_KEYS: &str = "ended";

/// This server as one of several replicas behind one address.
pub struct ReplicaSet {
    peers: Arc<dyn PeerMessages>,
    keys: SealingKeys,
    /// Replicas that could not be reached.
    gone: Mutex<HashMap<String, Instant>>,
    /// The tasks that outlive their replica.
    background: OnceLock<Arc<dyn BackgroundCalls>>,
}

/// The id of the pipeline session of a request, for sessions that several replicas may hold.
#[derive(Debug, Clone)]
pub(crate) struct PipelineSessionId(pub(crate) Arc<str>);

impl ReplicaSet {
    /// Joins the replicas that share this state. Creates the common keys if this is the first one.
    pub async fn join(
        peers: Arc<dyn PeerMessages>,
        state: SharedStateHandle,
    ) -> Result<Arc<Self>, SealingKeyError> {
        Ok(Arc::new(Self {
            peers,
            keys: SealingKeys::load(state).await?,
            gone: Mutex::default(),
            background: OnceLock::new(),
        }))
    }

    /// Makes tasks background calls, so that they outlive their replica. Call it before the server over HTTP is created.
    pub fn keep_tasks(&self, background: Arc<dyn BackgroundCalls>) {
        // Called once, so the cell is empty.
        let _ = self.background.set(background);
    }

    /// Returns the tasks that outlive their replica, if workers run the calls.
    pub(crate) fn background(&self) -> Option<&Arc<dyn BackgroundCalls>> {
        self.background.get()
    }

    /// Returns the id of the principal of all requests if users do not log in: the same at all replicas.
    pub(super) fn principal_id(&self) -> String {
        format!("http-{}", self.keys.deployment())
    }

    pub(super) fn peers(&self) -> &Arc<dyn PeerMessages> {
        &self.peers
    }

    pub(super) fn keys(&self) -> &SealingKeys {
        &self.keys
    }

    /// Returns the id of this replica.
    pub(super) fn node(&self) -> String {
        self.peers.node()
    }

    /// Returns the name for a new session of a principal with this handshake, and the id of its pipeline session.
    pub(super) fn new_session(
        &self,
        principal: &Principal,
        handshake: &InitializeRequestParams,
    ) -> Option<String> {
        let id = RequestId::new(SystemTime::now());
        SealedSession::new(&id, self.node(), principal, &self.keys, handshake).seal(&self.keys)
    }

    /// Returns a name for a pending call or a task of this replica.
    pub(crate) fn new_call_name(
        &self,
        purpose: SealPurpose,
        owner: &str,
        may_have_run: bool,
    ) -> Option<String> {
        SealedCall::new_name(purpose, self.node(), owner, may_have_run, &self.keys)
    }

    /// Returns the content of a name that another replica has given to this owner. `None` if the seal is not valid, or
    /// if the name is of this replica, which has ended the call.
    pub(crate) fn call_of_ended_replica(
        &self,
        purpose: SealPurpose,
        name: &str,
        owner: &str,
    ) -> Option<SealedCall> {
        let call = SealedCall::open(purpose, name, &self.keys)?;
        let is_of_other = !self.peers.is_own(&call.node) && call.belongs_to(owner, &self.keys);
        is_of_other.then_some(call)
    }

    /// Returns the live replicas other than this one.
    fn live_peers(&self) -> Vec<String> {
        let mut gone = self.gone.lock();
        gone.retain(|_, since| since.elapsed() < GONE_LIFETIME);
        let mut peers = self.peers.peers();
        peers.retain(|peer| !gone.contains_key(peer));
        peers
    }

    /// Returns the replica that holds a session, or `None` for this one: the one that created it, or, after its end, one
    /// on which all replicas agree.
    fn holder_of(&self, session: &SealedSession) -> Option<String> {
        let own = self.node();
        // Not a former id of this replica: the others have given it up, and have chosen a replica among the live ones.
        if session.node == own {
            return None;
        }
        let peers = self.live_peers();
        if peers.contains(&session.node) {
            return Some(session.node.clone());
        }
        let candidates = peers.iter().chain([&own]);
        let holder = candidates.max_by_key(|node| rendezvous_weight(node, &session.session));
        holder.filter(|holder| **holder != own).cloned()
    }

    /// Sends a message to a replica. Leaves the replica out from now on if it has ended.
    async fn send(&self, node: &str, message: Vec<u8>) -> Result<Box<dyn PeerReply>, PeerError> {
        let sent = self.peers.send(node, message).await;
        if matches!(sent, Err(PeerError::Gone(_) | PeerError::NoAnswer { .. })) {
            self.gone.lock().insert(node.to_owned(), Instant::now());
        }
        sent
    }

    /// Returns true if a client has ended the session.
    pub(super) async fn is_ended(&self, session: &SealedSession) -> Result<bool, SharedStateError> {
        let key = ended_key(session);
        let ended = self.keys.state().get(StateArea::Sessions, &key).await?;
        Ok(ended.is_some())
    }

    /// Records that a client has ended the session.
    async fn record_end(&self, session: &SealedSession) -> Result<(), SharedStateError> {
        let lifetime = session.remaining_lifetime() + CLOCK_TOLERANCE;
        let key = ended_key(session);
        let state = self.keys.state();
        let created = state.create(StateArea::Sessions, &key, b"{}".to_vec(), Some(lifetime));
        match created.await {
            Ok(_) | Err(SharedStateError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn ended_key(session: &SealedSession) -> StateKey {
    StateKey::new([ENDED_KEYS, &session.session])
}

/// Returns the weight of a replica for a session. Of all replicas, the one with the highest weight holds the session, so
/// that few sessions move when replicas come and go.
fn rendezvous_weight(node: &str, session: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((node.len() as u64).to_le_bytes());
    hash.update(node);
    hash.update(session);
    hash.finalize().into()
}
