//! The keys with which the replicas of a server seal names that they give to clients, so that any replica can check
//! them. All replicas share the keys; nothing else can read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mimir_core::shared_state::{
    SharedStateError, SharedStateHandle, StateArea, StateKey, StateRevision,
};
use parking_lot::{Mutex, RwLock};
use ring::hmac;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Name of the keys in the shared state.
const KEY_NAME: &str = "sealing";

/// Size of a key in bytes.
const KEY_SIZE: usize = 32;

/// Number of bytes of a seal.
const SEAL_SIZE: usize = 16;

/// Age at which a key is replaced. The previous key is still accepted.
const KEY_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Minimum interval between two reads of the keys because of a seal of an unknown key, which anyone can write.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum length of a sealed text, which clients send in a header.
const MAX_SEALED_LENGTH: usize = 2_048;

/// Number of attempts to store a key while other replicas do the same.
const MAX_ATTEMPTS: usize = 5;

/// The purpose of a seal. A text that was sealed for one purpose is not valid for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealPurpose {
    Session,
    PendingCall,
    Task,
    /// The message to another replica.
    Message,
    /// The digest of a principal.
    Principal,
}

impl SealPurpose {
    const fn as_str(self) -> &'static str {
        match self {
            SealPurpose::Session => "s",
            SealPurpose::PendingCall => "c",
            SealPurpose::Task => "t",
            SealPurpose::Message => "m",
            SealPurpose::Principal => "p",
        }
    }
}

/// Error of the keys in the shared state.
#[derive(Debug, thiserror::Error)]
pub enum SealingKeyError {
    /// The shared state cannot be accessed.
    #[error("the keys of the session ids cannot be loaded: {0}")]
    State(#[from] SharedStateError),
    /// The stored keys are not valid.
    #[error(
        "the keys of the session ids at {0} are not valid: remove the key `{KEY_NAME}` of the area `keys` to create new ones, which ends all sessions"
    )]
    Invalid(String),
    /// The system has no random numbers.
    #[error(
        "the keys of the session ids cannot be created: the system's random source does not work"
    )]
    Random,
}

/// The keys as stored.
#[derive(Clone, Serialize, Deserialize)]
struct StoredKeys {
    /// Random id of the deployment, which stays when the keys are replaced.
    deployment: String,
    current: StoredSealingKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<StoredSealingKey>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredSealingKey {
    id: String,
    /// The key in base64.
    key: String,
    created_ms: u64,
}

/// The keys in use, the current one first.
struct KeyRing(Vec<(String, hmac::Key)>);

/// The keys of all replicas.
pub(crate) struct SealingKeys {
    deployment: String,
    state: SharedStateHandle,
    ring: RwLock<KeyRing>,
    reloaded: Mutex<Option<Instant>>,
}

impl SealingKeys {
    /// Loads the keys, and creates or replaces them if necessary.
    pub(crate) async fn load(state: SharedStateHandle) -> Result<Self, SealingKeyError> {
        for _ in 0..MAX_ATTEMPTS {
            let stored = read_keys(&state).await?;
            let replacement = match &stored {
                Some((keys, _)) if !keys.current.is_outdated() => {
                    return Ok(Self {
                        deployment: keys.deployment.clone(),
                        ring: RwLock::new(keys.ring().ok_or_else(|| invalid(&state))?),
                        state,
                        reloaded: Mutex::default(),
                    });
                }
                Some((keys, _)) => StoredKeys {
                    deployment: keys.deployment.clone(),
                    current: StoredSealingKey::create()?,
                    previous: Some(keys.current.clone()),
                },
                None => StoredKeys {
                    deployment: random_hex::<16>()?,
                    current: StoredSealingKey::create()?,
                    previous: None,
                },
            };
            let value = serde_json::to_vec(&replacement).map_err(|_| invalid(&state))?;
            let (area, key) = (StateArea::Keys, StateKey::new([KEY_NAME]));
            let written = match &stored {
                Some((_, revision)) => state.update(area, &key, value, *revision, None).await,
                None => state.create(area, &key, value, None).await,
            };
            match written {
                Ok(_) | Err(SharedStateError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(SharedStateError::Conflict.into())
    }

    /// Returns a payload with its seal: printable ASCII without spaces.
    pub(crate) fn seal(&self, purpose: SealPurpose, payload: &[u8]) -> String {
        let ring = self.ring.read();
        let Some((id, key)) = ring.0.first() else {
            return String::new();
        };
        let seal = sign(key, purpose, payload);
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let seal = URL_SAFE_NO_PAD.encode(&seal.as_ref()[..SEAL_SIZE]);
        format!("{}-{id}.{payload}.{seal}", purpose.as_str())
    }

    /// Returns the payload of a sealed text, or `None` if the seal is not valid or of an unknown key.
    pub(crate) fn open(&self, purpose: SealPurpose, sealed: &str) -> Option<Vec<u8>> {
        let parts = SealedParts::parse(purpose, sealed)?;
        let ring = self.ring.read();
        let (_, key) = ring.0.iter().find(|(id, _)| id == parts.key)?;
        let payload = URL_SAFE_NO_PAD.decode(parts.payload).ok()?;
        let seal = URL_SAFE_NO_PAD.decode(parts.seal).ok()?;
        matches(key, purpose, &payload, &seal).then_some(payload)
    }

    /// Returns the payload of a sealed text as [`Self::open`], after reading the keys again if the key is unknown.
    pub(crate) async fn open_with_reload(
        &self,
        purpose: SealPurpose,
        sealed: &str,
    ) -> Option<Vec<u8>> {
        if let Some(parts) = SealedParts::parse(purpose, sealed)
            && !self.has_key(parts.key)
        {
            self.reload().await;
        }
        self.open(purpose, sealed)
    }

    /// Returns the seal of a message.
    pub(crate) fn sign_message(&self, message: &[u8]) -> Vec<u8> {
        let ring = self.ring.read();
        let seal = ring
            .0
            .first()
            .map(|(_, key)| sign(key, SealPurpose::Message, message));
        seal.map(|seal| seal.as_ref().to_vec()).unwrap_or_default()
    }

    /// Returns true if the seal of a message is valid.
    pub(crate) fn verifies_message(&self, message: &[u8], seal: &[u8]) -> bool {
        let ring = self.ring.read();
        let mut keys = ring.0.iter();
        keys.any(|(_, key)| matches(key, SealPurpose::Message, message, seal))
    }

    /// Reads the keys again if they were not read just now, because a message has a seal of an unknown key.
    pub(crate) async fn reload(&self) {
        if self.may_reload()
            && let Ok(Some((keys, _))) = read_keys(&self.state).await
            && let Some(ring) = keys.ring()
        {
            *self.ring.write() = ring;
        }
    }

    /// Returns the digests of a principal, one for each key, the current one first: 64 bits in hex.
    pub(crate) fn digests(&self, principal: &str) -> Vec<String> {
        let ring = self.ring.read();
        let digests = ring.0.iter().map(|(_, key)| {
            let seal = sign(key, SealPurpose::Principal, principal.as_bytes());
            let bytes = seal.as_ref()[..8].iter();
            bytes.map(|byte| format!("{byte:02x}")).collect()
        });
        digests.collect()
    }

    /// Returns the id of the deployment.
    pub(crate) fn deployment(&self) -> &str {
        &self.deployment
    }

    /// Returns the shared state.
    pub(crate) fn state(&self) -> &SharedStateHandle {
        &self.state
    }

    fn has_key(&self, id: &str) -> bool {
        self.ring.read().0.iter().any(|(known, _)| known == id)
    }

    fn may_reload(&self) -> bool {
        let mut last = self.reloaded.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= RELOAD_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// The parts of a sealed text.
struct SealedParts<'a> {
    key: &'a str,
    payload: &'a str,
    seal: &'a str,
}

impl<'a> SealedParts<'a> {
    fn parse(purpose: SealPurpose, sealed: &'a str) -> Option<Self> {
        if sealed.len() > MAX_SEALED_LENGTH {
            return None;
        }
        let rest = sealed.strip_prefix(purpose.as_str())?.strip_prefix('-')?;
        let mut parts = rest.split('.');
        let (key, payload, seal) = (parts.next()?, parts.next()?, parts.next()?);
        parts
            .next()
            .is_none()
            .then_some(Self { key, payload, seal })
    }
}

impl StoredKeys {
    fn ring(&self) -> Option<KeyRing> {
        let keys = [Some(&self.current), self.previous.as_ref()];
        let keys = keys.into_iter().flatten().map(|stored| {
            let key = STANDARD.decode(&stored.key).ok()?;
            (key.len() == KEY_SIZE).then(|| {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
                (stored.id.clone(), key)
            })
        });
        keys.collect::<Option<Vec<_>>>().map(KeyRing)
    }
}

impl StoredSealingKey {
    fn create() -> Result<Self, SealingKeyError> {
        let mut key = [0; KEY_SIZE];
        getrandom::fill(&mut key).map_err(|_| SealingKeyError::Random)?;
        Ok(Self {
            id: random_hex::<4>()?,
            key: STANDARD.encode(key),
            created_ms: now_ms(),
        })
    }

    fn is_outdated(&self) -> bool {
        let age = Duration::from_millis(now_ms().saturating_sub(self.created_ms));
        age > KEY_LIFETIME
    }
}

fn random_hex<const N: usize>() -> Result<String, SealingKeyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| SealingKeyError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn read_keys(
    state: &SharedStateHandle,
) -> Result<Option<(StoredKeys, StateRevision)>, SealingKeyError> {
    let stored = state
        .get(StateArea::Keys, &StateKey::new([KEY_NAME]))
        .await?;
    let Some(entry) = stored else {
        return Ok(None);
    };
    let keys = serde_json::from_slice(&entry.value).map_err(|_| invalid(state))?;
    Ok(Some((keys, entry.revision)))
}

fn invalid(state: &SharedStateHandle) -> SealingKeyError {
    SealingKeyError::Invalid(state.location())
}

fn sign(key: &hmac::Key, purpose: SealPurpose, payload: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(b"mimir-seal-1\0");
    context.update(purpose.as_str().as_bytes());
    context.update(b"\0");
    context.update(payload);
    context.sign()
}

/// Compares in constant time.
fn matches(key: &hmac::Key, purpose: SealPurpose, payload: &[u8], seal: &[u8]) -> bool {
    use subtle::ConstantTimeEq as _;
    let expected = sign(key, purpose, payload);
    let expected = expected.as_ref();
    let length = match purpose {
        SealPurpose::Message => expected.len(),
        _ => SEAL_SIZE,
    };
    bool::from(expected[..length].ct_eq(seal))
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
