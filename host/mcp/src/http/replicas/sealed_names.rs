//! The sealed names of sessions, pending calls and tasks: the id of the replica that holds them, and what another
//! replica needs when that one has ended.

use std::time::Duration;

use mimir_core::RequestId;
use rmcp::model::{ClientCapabilities, Implementation, InitializeRequestParams, ProtocolVersion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::Principal;

use super::sealing_keys::{SealPurpose, SealingKeys, now_ms};

/// Time after which a session id is no longer accepted by a replica that does not hold the session.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum lengths of the facts about a client that a session id contains, in bytes.
const MAX_NAME_LENGTH: usize = 64;
const MAX_CAPABILITY_NAME_LENGTH: usize = 32;
const MAX_SUB_CAPABILITIES: usize = 8;

/// Capabilities of clients with an effect on sessions.
const CAPABILITIES: [&str; 3] = ["elicitation", "sampling", "roots"];

/// The content of a session id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SealedSession {
    /// Id of the session in the pipeline.
    #[serde(rename = "s")]
    pub(crate) session: String,
    /// Id of the replica that created the session.
    #[serde(rename = "n")]
    pub(crate) node: String,
    /// Digest of the principal.
    #[serde(rename = "p")]
    principal: String,
    /// Creation in milliseconds since 1970.
    #[serde(rename = "t")]
    created_ms: u64,
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "c")]
    client: (String, String),
    #[serde(rename = "k")]
    capabilities: Value,
}

/// The content of the name of a pending call or a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedCall {
    /// Makes the name impossible to guess, also for other replicas' clients.
    #[serde(rename = "r")]
    random: String,
    /// Id of the replica that holds the call.
    #[serde(rename = "n")]
    pub(crate) node: String,
    /// Digest of the owner.
    #[serde(rename = "o")]
    owner: String,
    #[serde(rename = "t")]
    pub(crate) created_ms: u64,
    /// True if the call may have taken effect in part when the name was created.
    #[serde(rename = "e")]
    pub(crate) may_have_run: bool,
}

impl SealedSession {
    /// Creates the content for a new session with this handshake.
    pub(super) fn new(
        id: &RequestId,
        node: String,
        principal: &Principal,
        keys: &SealingKeys,
        handshake: &InitializeRequestParams,
    ) -> Self {
        let client = &handshake.client_info;
        Self {
            session: id.to_string(),
            node,
            principal: digests(keys, principal)
                .into_iter()
                .next()
                .unwrap_or_default(),
            created_ms: now_ms(),
            version: handshake.protocol_version.as_str().to_owned(),
            client: (shorten(&client.name), shorten(&client.version)),
            capabilities: relevant_capabilities(&handshake.capabilities),
        }
    }

    /// Returns the session id for the client.
    pub(super) fn seal(&self, keys: &SealingKeys) -> Option<String> {
        let payload = serde_json::to_vec(self).ok()?;
        Some(keys.seal(SealPurpose::Session, &payload))
    }

    /// Returns the content of a session id, if its seal is valid and it has not expired.
    pub(super) async fn open(id: &str, keys: &SealingKeys) -> Option<Self> {
        let payload = keys.open_with_reload(SealPurpose::Session, id).await?;
        Self::parse(&payload)
    }

    /// Returns the content of a session id as [`Self::open`], if its key is known already.
    pub(crate) fn open_now(id: &str, keys: &SealingKeys) -> Option<Self> {
        Self::parse(&keys.open(SealPurpose::Session, id)?)
    }

    fn parse(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    /// Returns true if the session belongs to the principal.
    pub(super) fn belongs_to(&self, principal: &Principal, keys: &SealingKeys) -> bool {
        digests(keys, principal).contains(&self.principal)
    }

    /// Returns true if a replica that does not hold the session may no longer continue it.
    pub(crate) fn is_expired(&self) -> bool {
        now_ms().saturating_sub(self.created_ms) > millis(SESSION_LIFETIME)
    }

    /// Returns the time for which other replicas may still continue the session.
    pub(super) fn remaining_lifetime(&self) -> Duration {
        let age = Duration::from_millis(now_ms().saturating_sub(self.created_ms));
        SESSION_LIFETIME.saturating_sub(age)
    }

    /// Returns the handshake with which the session is continued.
    pub(super) fn handshake(&self) -> Option<InitializeRequestParams> {
        let capabilities: ClientCapabilities =
            serde_json::from_value(self.capabilities.clone()).ok()?;
        let version: ProtocolVersion =
            serde_json::from_value(Value::String(self.version.clone())).ok()?;
        let (name, client_version) = self.client.clone();
        let client = Implementation::new(name, client_version);
        Some(InitializeRequestParams::new(capabilities, client).with_protocol_version(version))
    }
}

impl SealedCall {
    /// Returns a new name, or `None` if the system has no random numbers.
    pub(super) fn new_name(
        purpose: SealPurpose,
        node: String,
        owner: &str,
        may_have_run: bool,
        keys: &SealingKeys,
    ) -> Option<String> {
        let call = Self {
            random: crate::elicitation::random_token()?,
            node,
            owner: keys.digests(owner).into_iter().next()?,
            created_ms: now_ms(),
            may_have_run,
        };
        let payload = serde_json::to_vec(&call).ok()?;
        Some(keys.seal(purpose, &payload))
    }

    /// Returns the content of a name, if its seal is valid.
    pub(super) fn open(purpose: SealPurpose, name: &str, keys: &SealingKeys) -> Option<Self> {
        serde_json::from_slice(&keys.open(purpose, name)?).ok()
    }

    /// Returns true if the name was given to this owner.
    pub(super) fn belongs_to(&self, owner: &str, keys: &SealingKeys) -> bool {
        keys.digests(owner).contains(&self.owner)
    }
}

fn digests(keys: &SealingKeys, principal: &Principal) -> Vec<String> {
    let facts = (&principal.id, &principal.user, &principal.role);
    let facts = serde_json::to_string(&facts).unwrap_or_default();
    keys.digests(&facts)
}

/// Returns the capabilities that matter for a session, without settings of clients that could be long.
fn relevant_capabilities(capabilities: &ClientCapabilities) -> Value {
    let all = serde_json::to_value(capabilities).unwrap_or_default();
    let relevant = CAPABILITIES.iter().filter_map(|name| {
        let members = all.get(name)?.as_object()?.iter();
        let members = members
            .filter(|(name, value)| {
                name.len() <= MAX_CAPABILITY_NAME_LENGTH
                    && (value.is_object() || value.is_boolean())
            })
            .take(MAX_SUB_CAPABILITIES)
            .map(|(name, value)| {
                let value = match value {
                    Value::Bool(value) => Value::Bool(*value),
                    _ => Value::Object(Map::new()),
                };
                (name.clone(), value)
            });
        Some(((*name).to_owned(), Value::Object(members.collect())))
    });
    Value::Object(relevant.collect())
}

fn shorten(text: &str) -> String {
    mimir_core::text::prefix(text, MAX_NAME_LENGTH).to_owned()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
