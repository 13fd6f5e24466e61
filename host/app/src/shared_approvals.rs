//! Approvals and grants that count in all processes of a cluster, and orders to stop agents.
//!
//! They belong to a workspace by its name, since its path differs on each machine. A process reads them from a mirror
//! that follows all changes, so that an approval or a revocation counts everywhere at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mimir_core::Tool;
use mimir_core::approval::{ApprovalStore, ApprovalStoreError, Fingerprint, StoredApproval};
use mimir_core::grants::{Grant, SkillPin, ToolsLock};
use mimir_core::needs::NeedKind;
use mimir_core::shared_state::{
    SharedState, SharedStateError, SharedStateHandle, StateArea, StateEntry, StateKey,
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::approval_store::limit_lifetime;
use crate::call_switch::set_value;
use crate::shared_state::StateMirror;
use crate::skills::consent_key;

mod agent_stops;
#[cfg(test)]
mod tests;

/// Lifetime of the entry of a session approval, and of an order to stop a session. Without its entry, neither counts.
const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Minimum time between two records of the use of an approval.
const USE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Number of hex digits of a session's hash, enough to tell the sessions of a cluster apart.
const SESSION_HASH_LENGTH: usize = 32;

/// A grant of a plugin for all processes of a cluster, or its revocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedGrant {
    /// The location of the plugin.
    pub location: String,
    /// The grant. `None` revokes the grants of all processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
    /// The user who gave or revoked it.
    pub by: String,
    /// The time.
    pub at: Timestamp,
}

/// The pin of a skill that counts for all processes of a cluster, or its revocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedSkillPin {
    /// The name of the skill.
    pub name: String,
    /// The accepted pin. `None` revokes the consent of all processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<SkillPin>,
    /// The user who accepted or revoked it.
    pub by: String,
    /// The time.
    pub at: Timestamp,
}

/// An approval for one session, so that a person can list and revoke it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SharedSessionApproval {
    /// Hash of the session's id. The id itself may be a credential of a client.
    pub session: String,
    /// The approval.
    pub approval: StoredApproval,
}

/// The keys of one workspace.
#[derive(Debug, Clone)]
struct WorkspaceKeys(String);

impl WorkspaceKeys {
    fn approvals(&self) -> StateKey {
        StateKey::new([self.0.as_str(), "approvals"])
    }

    fn approval(&self, id: &Fingerprint) -> StateKey {
        StateKey::new([self.0.as_str(), "approvals", id.as_str()])
    }

    fn sessions(&self) -> StateKey {
        StateKey::new([self.0.as_str(), "sessions"])
    }

    fn session(&self, session: &str) -> StateKey {
        StateKey::new([self.0.as_str(), "sessions", session])
    }

    fn session_approval(&self, session: &str, id: &Fingerprint) -> StateKey {
        StateKey::new([self.0.as_str(), "sessions", session, id.as_str()])
    }

    fn agent_stops(&self) -> StateKey {
        StateKey::new([self.0.as_str(), "stops"])
    }

    fn agent_stop(&self, session: &str) -> StateKey {
        StateKey::new([self.0.as_str(), "stops", session])
    }

    fn grants(&self) -> StateKey {
        StateKey::new([self.0.as_str(), "grants"])
    }

    fn grant(&self, location: &str) -> StateKey {
        StateKey::new([self.0.as_str(), "grants", location])
    }

    fn skills(&self) -> StateKey {
        StateKey::new([self.0.as_str(), "skills"])
    }

    fn skill(&self, name: &str) -> StateKey {
        StateKey::new([self.0.as_str(), "skills", name])
    }
}

fn session_hash(session: &str) -> String {
    let mut hash = format!("{:x}", Sha256::digest(session));
    hash.truncate(SESSION_HASH_LENGTH);
    hash
}

/// Access to the approvals and grants of a workspace, for commands. It reads and writes the store itself.
pub struct SharedApprovals {
    state: SharedStateHandle,
    keys: WorkspaceKeys,
}

impl SharedApprovals {
    /// Creates access to the approvals of the workspace with this name.
    pub fn new(state: SharedStateHandle, workspace: &str) -> Self {
        Self {
            state,
            keys: WorkspaceKeys(workspace.to_owned()),
        }
    }

    /// Reads all approvals, expired ones included, but none that is older than `max_age`.
    pub async fn approvals(
        &self,
        max_age: SignedDuration,
    ) -> Result<Vec<StoredApproval>, SharedStateError> {
        let mut approvals = self.read(&self.keys.approvals()).await?;
        limit_lifetime(&mut approvals, max_age);
        Ok(approvals)
    }

    /// Reads the approvals of sessions.
    pub async fn session_approvals(&self) -> Result<Vec<SharedSessionApproval>, SharedStateError> {
        self.read(&self.keys.sessions()).await
    }

    /// Reads the grants and the revocations.
    pub async fn grants(&self) -> Result<Vec<SharedGrant>, SharedStateError> {
        self.read(&self.keys.grants()).await
    }

    /// Revokes an approval, also in all sessions. Returns the number of removed entries.
    pub async fn revoke(&self, id: &Fingerprint) -> Result<usize, SharedStateError> {
        let mut keys = vec![self.keys.approval(id)];
        let sessions = self.session_approvals().await?.into_iter();
        let sessions = sessions.filter(|listed| listed.approval.id == *id);
        keys.extend(sessions.map(|listed| self.keys.session_approval(&listed.session, id)));
        let mut removed = 0;
        for key in keys {
            if self.state.get(StateArea::Approvals, &key).await?.is_some() {
                self.state.remove(StateArea::Approvals, &key, None).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Sets the grant of a plugin, or revokes it.
    pub async fn set_grant(&self, grant: &SharedGrant) -> Result<(), SharedStateError> {
        let key = self.keys.grant(&grant.location);
        let value = encode(grant);
        set_value(&*self.state, StateArea::Approvals, &key, value)
            .await
            .map(drop)
    }

    /// Sets the accepted pin of a skill, or revokes it.
    pub async fn set_skill(&self, pin: &SharedSkillPin) -> Result<(), SharedStateError> {
        let (key, value) = (self.keys.skill(&pin.name), encode(pin));
        set_value(&*self.state, StateArea::Approvals, &key, value)
            .await
            .map(drop)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        prefix: &StateKey,
    ) -> Result<Vec<T>, SharedStateError> {
        let entries = self.state.list(StateArea::Approvals, Some(prefix)).await?;
        Ok(entries.iter().filter_map(decode).collect())
    }
}

/// The approval store of a process in a cluster.
pub struct SharedApprovalStore {
    state: SharedStateHandle,
    keys: WorkspaceKeys,
    mirror: StateMirror,
    /// The user of this process, as the origin of grants.
    user: String,
    max_age: Mutex<Option<SignedDuration>>,
    /// The times at which the use of an approval was recorded by this process.
    uses: Mutex<HashMap<Fingerprint, Timestamp>>,
}

impl SharedApprovalStore {
    /// Creates the approval store of the workspace with this name, and follows its changes on the current runtime.
    pub async fn start(
        state: SharedStateHandle,
        workspace: &str,
        user: &str,
    ) -> Result<Self, SharedStateError> {
        Ok(Self {
            mirror: StateMirror::start(&state, StateArea::Approvals).await?,
            state,
            keys: WorkspaceKeys(workspace.to_owned()),
            user: user.to_owned(),
            max_age: Mutex::default(),
            uses: Mutex::default(),
        })
    }

    /// Limits the lifetime of all approvals to `max_age`, even of those that were given for longer.
    pub fn set_max_age(&self, max_age: SignedDuration) {
        *self.max_age.lock() = Some(max_age);
    }

    /// Returns a receiver of the number of changes of approvals and grants.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.mirror.changes()
    }

    /// Returns the revisions of all grants and skill pins, for the detection of changes.
    pub fn grant_revisions(&self) -> Vec<(StateKey, u64)> {
        let entries = self.mirror.list(&self.keys.grants()).into_iter();
        let entries = entries.chain(self.mirror.list(&self.keys.skills()));
        entries.map(|entry| (entry.key, entry.revision)).collect()
    }

    /// Applies the grants and revocations of the cluster to those of this machine: the content of the lock file, and the
    /// ids of the grants that this user has given.
    pub fn apply_grants(&self, lock: &mut ToolsLock, given: &mut BTreeMap<String, String>) {
        for entry in self.mirror.list(&self.keys.grants()) {
            let Some(shared) = decode::<SharedGrant>(&entry) else {
                // It may be a revocation of any plugin.
                given.clear();
                return;
            };
            let location = shared.location;
            match shared.grant {
                Some(grant) => {
                    given.insert(location.clone(), grant.id(&location));
                    lock.plugins.insert(location, grant);
                }
                None => {
                    given.remove(&location);
                    lock.plugins.remove(&location);
                }
            }
        }
    }

    /// Applies the pins of skills that are accepted or revoked in the cluster to those of this machine: the content of the
    /// lock file, and this user's record of consents.
    ///
    /// # Errors
    /// The cluster's changes are not known any more.
    pub fn apply_skills(
        &self,
        lock: &mut ToolsLock,
        consents: &mut BTreeMap<String, String>,
    ) -> Result<(), ApprovalStoreError> {
        if self.mirror.is_closed() {
            return Err(self.error("the connection to the cluster was closed"));
        }
        for entry in self.mirror.list(&self.keys.skills()) {
            let Some(shared) = decode::<SharedSkillPin>(&entry) else {
                // It may be a revocation of any skill.
                lock.skills.clear();
                return Ok(());
            };
            let name = shared.name;
            let key = consent_key(&name);
            match shared.pin {
                Some(pin) => {
                    consents.insert(key, pin.id(&name));
                    lock.skills.insert(name, pin);
                }
                None => {
                    consents.remove(&key);
                }
            }
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, prefix: &StateKey) -> Result<Vec<T>, ApprovalStoreError> {
        if self.mirror.is_closed() {
            return Err(self.error("the connection to the cluster was closed"));
        }
        let entries = self.mirror.list(prefix);
        Ok(entries.iter().filter_map(decode).collect())
    }

    /// Writes a value and waits until it is stored.
    fn write(
        &self,
        key: StateKey,
        value: Vec<u8>,
        lifetime: Option<Duration>,
    ) -> Result<(), ApprovalStoreError> {
        let written = block_on(write_value(&*self.state, &key, value.clone(), lifetime));
        let revision = written
            .map_err(|error| self.error(&error.to_string()))?
            .map_err(|error| self.error(&error.to_string()))?;
        self.mirror.set(StateEntry {
            key,
            value,
            revision,
        });
        Ok(())
    }

    fn error(&self, text: &str) -> ApprovalStoreError {
        ApprovalStoreError {
            location: self.state.location(),
            text: text.to_owned(),
        }
    }
}

/// Sets a value with a lifetime, whatever it was before.
async fn write_value(
    state: &dyn SharedState,
    key: &StateKey,
    value: Vec<u8>,
    lifetime: Option<Duration>,
) -> Result<u64, SharedStateError> {
    let area = StateArea::Approvals;
    loop {
        let written = match state.get(area, key).await? {
            Some(entry) => {
                state
                    .update(area, key, value.clone(), entry.revision, lifetime)
                    .await
            }
            None => state.create(area, key, value.clone(), lifetime).await,
        };
        match written {
            Err(SharedStateError::Conflict) => {}
            written => return written,
        }
    }
}

/// Waits for a future on a thread of its own: the caller may be a task of a runtime, on which the future must not wait.
fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            Ok(runtime.block_on(future))
        });
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(std::io::Error::other("the thread of an access has ended")))
    })
}

impl ApprovalStore for SharedApprovalStore {
    fn approvals(&self) -> Result<Vec<StoredApproval>, ApprovalStoreError> {
        let mut approvals = self.read(&self.keys.approvals())?;
        if let Some(max_age) = *self.max_age.lock() {
            limit_lifetime(&mut approvals, max_age);
        }
        Ok(approvals)
    }

    fn store(&self, approval: StoredApproval) -> Result<(), ApprovalStoreError> {
        self.write(self.keys.approval(&approval.id), encode(&approval), None)
    }

    fn record_use(&self, id: &Fingerprint, at: Timestamp) {
        let mut uses = self.uses.lock();
        let is_recent = |last: &Timestamp| at.duration_since(*last) < USE_INTERVAL;
        if uses.get(id).is_some_and(is_recent) {
            return;
        }
        uses.retain(|_, last| is_recent(last));
        uses.insert(id.clone(), at);
        drop(uses);
        let key = self.keys.approval(id);
        let Some(entry) = self.mirror.get(&key) else {
            return;
        };
        let Some(mut approval) = decode::<StoredApproval>(&entry) else {
            return;
        };
        approval.last_used = Some(at);
        let state = Arc::clone(&self.state);
        let record = async move {
            let value = encode(&approval);
            let area = StateArea::Approvals;
            let update = state.update(area, &key, value, entry.revision, None).await;
            // A conflict: it was used elsewhere, or revoked.
            if let Err(error) = update {
                tracing::debug!(%error, "the use of an approval is not recorded");
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(record);
        }
    }

    fn list_for_session(
        &self,
        session: &str,
        approval: &StoredApproval,
    ) -> Result<(), ApprovalStoreError> {
        let listed = SharedSessionApproval {
            session: session_hash(session),
            approval: approval.clone(),
        };
        let key = self.keys.session_approval(&listed.session, &approval.id);
        self.write(key, encode(&listed), Some(SESSION_LIFETIME))
    }

    fn listed_in_session(&self, session: &str) -> Result<Vec<Fingerprint>, ApprovalStoreError> {
        let prefix = self.keys.session(&session_hash(session));
        let listed = self.read::<SharedSessionApproval>(&prefix)?.into_iter();
        Ok(listed.map(|listed| listed.approval.id).collect())
    }

    fn end_session(&self, session: &str) {
        let prefix = self.keys.session(&session_hash(session));
        let keys: Vec<StateKey> = self
            .mirror
            .list(&prefix)
            .into_iter()
            .map(|entry| entry.key)
            .collect();
        if keys.is_empty() {
            return;
        }
        keys.iter().for_each(|key| self.mirror.remove(key));
        let state = Arc::clone(&self.state);
        let remove = async move {
            for key in keys {
                if let Err(error) = state.remove(StateArea::Approvals, &key, None).await {
                    tracing::debug!(%error, "an approval of an ended session is not removed");
                }
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(remove);
        }
    }

    fn grant(&self, plugin: &[Arc<Tool>], withheld: &[NeedKind]) -> Result<(), ApprovalStoreError> {
        let (Some(tool), Some(grant)) = (plugin.first(), Grant::new(plugin, withheld.to_vec()))
        else {
            return Ok(());
        };
        let shared = SharedGrant {
            location: tool.origin.location.clone(),
            grant: Some(grant),
            by: self.user.clone(),
            at: Timestamp::now(),
        };
        self.write(self.keys.grant(&shared.location), encode(&shared), None)
    }
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Decodes a value. One that a newer version has written, or that is damaged, approves nothing.
fn decode<T: DeserializeOwned>(entry: &StateEntry) -> Option<T> {
    let decoded = serde_json::from_slice(&entry.value);
    decoded
        .inspect_err(|error| tracing::warn!("{} in the cluster is ignored: {error}", entry.key))
        .ok()
}
