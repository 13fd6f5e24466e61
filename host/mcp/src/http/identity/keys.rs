//! Cache for the keys of an identity provider. Keys are fetched when needed, at a limited rate even if clients send
//! tokens with unknown keys.
//!
//! Out of scope: the use of the keys.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use mimir_core::ToolError;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{HttpClientFactory, provider_keys};

/// Lifetime of cached keys, and their longer lifetime while the provider is unavailable.
const CACHE_LIFETIME: Duration = Duration::from_secs(10 * 60);
const MAX_CACHE_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Minimum time between two requests to the provider.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of keys of a provider.
const MAX_KEYS: usize = 64;

/// Time for which a request waits for the keys. The fetch itself continues.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Cache of a provider's keys.
pub(super) struct ProviderKeys(Arc<KeyCache>);

struct KeyCache {
    issuer: String,
    clients: Arc<HttpClientFactory>,
    cached: Mutex<CachedKeys>,
}

#[derive(Default)]
struct CachedKeys {
    keys: Arc<Vec<Jwk>>,
    since: Option<Instant>,
    /// Time at which the last request was answered or failed.
    last_fetch: Option<Instant>,
    /// Request in progress: it has ended when the sender is gone.
    fetching: Option<watch::Receiver<()>>,
}

/// Reason why a key is missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyLookupError {
    /// The provider has no such key with this algorithm.
    Unknown,
    /// The provider could not be reached.
    Unavailable,
}

#[derive(Deserialize)]
struct JwksDocument {
    keys: Vec<Value>,
}

impl ProviderKeys {
    pub(super) fn new(issuer: String, clients: Arc<HttpClientFactory>) -> Self {
        Self(Arc::new(KeyCache {
            issuer,
            clients,
            cached: Mutex::default(),
        }))
    }

    /// Returns the key with this id and algorithm, or, without an id, the only key with this algorithm.
    pub(super) async fn get(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, KeyLookupError> {
        let key_set = &self.0;
        if let Some(key) = key_set.find_key(CACHE_LIFETIME, kid, algorithm) {
            return key;
        }
        let fetching = key_set.start_fetch();
        // Tokens with a known key do not wait, neither for other fetches nor for a provider that hangs.
        if let Some(key) = key_set.find_key(MAX_CACHE_LIFETIME, kid, algorithm) {
            return key;
        }
        if let Some(mut fetching) = fetching {
            // The channel closes when the fetch ends; a request that waits too long continues without it.
            let _ = tokio::time::timeout(FETCH_TIMEOUT, fetching.changed()).await;
        }
        match key_set.find_key(MAX_CACHE_LIFETIME, kid, algorithm) {
            Some(key) => key,
            None if key_set.has_keys(MAX_CACHE_LIFETIME) => Err(KeyLookupError::Unknown),
            None => Err(KeyLookupError::Unavailable),
        }
    }
}

impl KeyCache {
    /// Returns a cached key that is not older than the given age.
    fn find_key(
        &self,
        age: Duration,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Option<Result<DecodingKey, KeyLookupError>> {
        let keys = {
            let cached = self.cached.lock();
            cached.since.filter(|since| since.elapsed() < age)?;
            Arc::clone(&cached.keys)
        };
        let mut matching = keys.iter().filter(|key| {
            let has_id = kid.is_none() || key.common.key_id.as_deref() == kid;
            has_id && signs(key, algorithm)
        });
        let key = matching.next()?;
        if matching.next().is_some() {
            // Several keys fit, and the token does not name one.
            return Some(Err(KeyLookupError::Unknown));
        }
        Some(DecodingKey::from_jwk(key).map_err(|_| KeyLookupError::Unknown))
    }

    fn has_keys(&self, age: Duration) -> bool {
        let cached = self.cached.lock();
        cached.since.is_some_and(|since| since.elapsed() < age)
    }

    /// Returns the fetch in progress, or starts one. Returns `None` if the last fetch was too recent. The fetch
    /// survives its caller, because otherwise disconnecting clients could keep it from ever completing.
    fn start_fetch(self: &Arc<Self>) -> Option<watch::Receiver<()>> {
        let mut cached = self.cached.lock();
        if let Some(fetching) = cached
            .fetching
            .as_ref()
            .filter(|fetching| fetching.has_changed().is_ok())
        {
            return Some(fetching.clone());
        }
        if cached
            .last_fetch
            .is_some_and(|last_fetch| last_fetch.elapsed() < MIN_FETCH_INTERVAL)
        {
            return None;
        }
        let (done, fetching) = watch::channel(());
        cached.fetching = Some(fetching.clone());
        let key_set = Arc::clone(self);
        tokio::spawn(async move {
            let keys = key_set.fetch().await;
            key_set.store(keys);
            drop(done);
        });
        Some(fetching)
    }

    fn store(&self, keys: Result<Vec<Jwk>, ToolError>) {
        let mut cached = self.cached.lock();
        cached.last_fetch = Some(Instant::now());
        match keys {
            Ok(keys) => {
                cached.keys = Arc::new(keys);
                cached.since = cached.last_fetch;
            }
            Err(error) => {
                tracing::warn!(issuer = self.issuer, %error, "the keys of the identity provider cannot be fetched");
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<Jwk>, ToolError> {
        let document: JwksDocument =
            provider_keys::fetch_keys(&self.issuer, &*self.clients).await?;
        let keys = document.keys.into_iter().take(MAX_KEYS);
        // A key of an unknown kind does not invalidate the others.
        Ok(keys
            .filter_map(|key| serde_json::from_value(key).ok())
            .collect())
    }
}

/// Returns true if a key supports this algorithm and is meant for signatures.
fn signs(key: &Jwk, algorithm: Algorithm) -> bool {
    let common = &key.common;
    let signs = !matches!(&common.public_key_use, Some(other) if *other != PublicKeyUse::Signature);
    let (named, kind) = match (&key.algorithm, algorithm) {
        (AlgorithmParameters::RSA(_), Algorithm::RS256) => (KeyAlgorithm::RS256, true),
        (AlgorithmParameters::EllipticCurve(curve), Algorithm::ES256) => {
            (KeyAlgorithm::ES256, curve.curve == EllipticCurve::P256)
        }
        (AlgorithmParameters::OctetKeyPair(pair), Algorithm::EdDSA) => {
            (KeyAlgorithm::EdDSA, pair.curve == EllipticCurve::Ed25519)
        }
        _ => return false,
    };
    let fits = common
        .key_algorithm
        .as_ref()
        .is_none_or(|known| *known == named);
    signs && kind && fits
}
