//! The keys of an identity provider: fetched when needed, cached for a while, and fetched at a limited rate even if
//! clients send tokens with unknown keys.
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

/// Lifetime of cached keys, and the longer one that applies while the provider is unavailable.
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
    now: Mutex<CachedKeys>,
}

#[derive(Default)]
struct CachedKeys {
    keys: Arc<Vec<Jwk>>,
    since: Option<Instant>,
    /// Time at which the last request was answered or failed.
    asked: Option<Instant>,
    /// Request in progress: it has ended when the sender is gone.
    asking: Option<watch::Receiver<()>>,
}

/// The reason for a missing key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyLookupError {
    /// The provider has no such key with this algorithm.
    Unknown,
    /// The provider could not be reached.
    Later,
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
            now: Mutex::default(),
        }))
    }

    /// Returns the key with this id and algorithm; without an id, the only key with this algorithm.
    pub(super) async fn get(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, KeyLookupError> {
        let key_set = &self.0;
        if let Some(key) = key_set.known(CACHE_LIFETIME, kid, algorithm) {
            return key;
        }
        let asking = key_set.ask();
        // Tokens with a known key do not wait, neither for other fetches nor for a provider that hangs.
        if let Some(key) = key_set.known(MAX_CACHE_LIFETIME, kid, algorithm) {
            return key;
        }
        if let Some(mut asking) = asking {
            // The channel closes when the fetch ends; a request that waits too long continues without it.
            let _ = tokio::time::timeout(FETCH_TIMEOUT, asking.changed()).await;
        }
        match key_set.known(MAX_CACHE_LIFETIME, kid, algorithm) {
            Some(key) => key,
            None if key_set.are_there(MAX_CACHE_LIFETIME) => Err(KeyLookupError::Unknown),
            None => Err(KeyLookupError::Later),
        }
    }
}

impl KeyCache {
    /// Returns a cached key that is not older than the given age.
    fn known(
        &self,
        age: Duration,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Option<Result<DecodingKey, KeyLookupError>> {
        let keys = {
            let now = self.now.lock();
            now.since.filter(|since| since.elapsed() < age)?;
            Arc::clone(&now.keys)
        };
        let mut fit = keys.iter().filter(|key| {
            let named = kid.is_none() || key.common.key_id.as_deref() == kid;
            named && signs(key, algorithm)
        });
        let key = fit.next()?;
        if fit.next().is_some() {
            // Several keys fit, and the token does not name one.
            return Some(Err(KeyLookupError::Unknown));
        }
        Some(DecodingKey::from_jwk(key).map_err(|_| KeyLookupError::Unknown))
    }

    fn are_there(&self, age: Duration) -> bool {
        let now = self.now.lock();
        now.since.is_some_and(|since| since.elapsed() < age)
    }

    /// Returns the fetch in progress, or starts one; none if it is too early for another. The fetch continues after
    /// its caller has gone: otherwise a client without a token could keep it from ever completing.
    fn ask(self: &Arc<Self>) -> Option<watch::Receiver<()>> {
        let mut now = self.now.lock();
        if let Some(asking) = now.asking.as_ref().filter(|one| one.has_changed().is_ok()) {
            return Some(asking.clone());
        }
        if now
            .asked
            .is_some_and(|asked| asked.elapsed() < MIN_FETCH_INTERVAL)
        {
            return None;
        }
        let (over, asking) = watch::channel(());
        now.asking = Some(asking.clone());
        let key_set = Arc::clone(self);
        tokio::spawn(async move {
            let keys = key_set.fetch().await;
            key_set.put(keys);
            drop(over);
        });
        Some(asking)
    }

    fn put(&self, keys: Result<Vec<Jwk>, ToolError>) {
        let mut now = self.now.lock();
        now.asked = Some(Instant::now());
        match keys {
            Ok(keys) => {
                now.keys = Arc::new(keys);
                now.since = now.asked;
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
