//! The keys of an identity provider: asked for when they are needed, kept for a while, and not asked for more often
//! because somebody sends tokens of unknown keys.
//!
//! Never here: what a key is used for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use mimir_core::ToolError;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{Clients, provider};

/// How long keys are good, and how long where no others can be had.
const FRESH: Duration = Duration::from_secs(10 * 60);
const GOOD: Duration = Duration::from_secs(60 * 60);

/// The shortest time between two questions.
const PACE: Duration = Duration::from_secs(10);

/// Keys of a provider. None has more.
const KEYS_MOST: usize = 64;

/// How long a request waits for keys that are asked for. Who asks goes on.
const WAIT: Duration = Duration::from_secs(10);

/// Keeps the keys of a provider.
pub(super) struct Keys(Arc<Shelf>);

struct Shelf {
    issuer: String,
    clients: Arc<Clients>,
    now: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: Arc<Vec<Jwk>>,
    since: Option<Instant>,
    /// When the last question had its answer, or none.
    asked: Option<Instant>,
    /// The question that is under way: it is over when the other end is gone.
    asking: Option<watch::Receiver<()>>,
}

/// Why there is no key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    /// The provider has none of this name that signs in this way.
    Unknown,
    /// It could not be asked.
    Later,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl Keys {
    pub(super) fn new(issuer: String, clients: Arc<Clients>) -> Self {
        Self(Arc::new(Shelf {
            issuer,
            clients,
            now: Mutex::default(),
        }))
    }

    /// The key of this name that signs in this way; the only one that does where no name is given.
    pub(super) async fn get(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, NoKey> {
        let shelf = &self.0;
        if let Some(key) = shelf.known(FRESH, kid, algorithm) {
            return key;
        }
        let asking = shelf.ask();
        // Those with a key that is good do not wait, neither for others' keys nor for a provider that hangs.
        if let Some(key) = shelf.known(GOOD, kid, algorithm) {
            return key;
        }
        if let Some(mut asking) = asking {
            // It is over when it ends, and who waits too long does without.
            let _ = tokio::time::timeout(WAIT, asking.changed()).await;
        }
        match shelf.known(GOOD, kid, algorithm) {
            Some(key) => key,
            None if shelf.are_there(GOOD) => Err(NoKey::Unknown),
            None => Err(NoKey::Later),
        }
    }
}

impl Shelf {
    /// A key that is there, and is not older than this.
    fn known(
        &self,
        age: Duration,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Option<Result<DecodingKey, NoKey>> {
        let keys = {
            let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            now.since.filter(|since| since.elapsed() < age)?;
            Arc::clone(&now.keys)
        };
        let mut fit = keys.iter().filter(|key| {
            let named = kid.is_none() || key.common.key_id.as_deref() == kid;
            named && signs(key, algorithm)
        });
        let key = fit.next()?;
        if fit.next().is_some() {
            // Which of them it is nobody has said.
            return Some(Err(NoKey::Unknown));
        }
        Some(DecodingKey::from_jwk(key).map_err(|_| NoKey::Unknown))
    }

    fn are_there(&self, age: Duration) -> bool {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.since.is_some_and(|since| since.elapsed() < age)
    }

    /// The question that is under way, or begins now; none where it is too early for another. It goes on when whoever
    /// has asked goes away: else somebody without a token could keep the keys from ever being there.
    fn ask(self: &Arc<Self>) -> Option<watch::Receiver<()>> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asking) = now.asking.as_ref().filter(|one| one.has_changed().is_ok()) {
            return Some(asking.clone());
        }
        if now.asked.is_some_and(|asked| asked.elapsed() < PACE) {
            return None;
        }
        let (over, asking) = watch::channel(());
        now.asking = Some(asking.clone());
        let shelf = Arc::clone(self);
        tokio::spawn(async move {
            let keys = shelf.fetch().await;
            shelf.put(keys);
            drop(over);
        });
        Some(asking)
    }

    fn put(&self, keys: Result<Vec<Jwk>, ToolError>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.asked = Some(Instant::now());
        match keys {
            Ok(keys) => {
                now.keys = Arc::new(keys);
                now.since = now.asked;
            }
            Err(error) => {
                tracing::warn!(issuer = self.issuer, %error, "the keys of the identity provider cannot be had");
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<Jwk>, ToolError> {
        let document: Document = provider::keys(&self.issuer, &*self.clients).await?;
        let keys = document.keys.into_iter().take(KEYS_MOST);
        // One of a kind that is not known here says nothing against the others.
        Ok(keys
            .filter_map(|key| serde_json::from_value(key).ok())
            .collect())
    }
}

/// Whether a key signs in this way, and is there for that.
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
