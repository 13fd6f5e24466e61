//! A fake identity provider: keys of each kind, and tokens signed with them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};

use crate::logins::{Answer, Site};

/// A signing key.
pub enum Key {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A key for tests only. Generating one takes seconds.
const RSA: &str = include_str!("rsa.txt");

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn components(key: &RsaKeyPair) -> ring::rsa::PublicKeyComponents<Vec<u8>> {
    key.public().into()
}

impl Key {
    pub fn rsa() -> Self {
        let text: String = RSA.split_whitespace().collect();
        let der = STANDARD.decode(text).unwrap();
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(&der).unwrap()))
    }

    pub fn ec() -> Self {
        let random = SystemRandom::new();
        let by = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(by, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(by, der.as_ref(), &random).unwrap())
    }

    pub fn ed() -> Self {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap())
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::Ec(_) => "ES256",
            Self::Ed(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let random = SystemRandom::new();
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Self::Ec(key) => {
                let signature = key.sign(&SystemRandom::new(), message).unwrap();
                signature.as_ref().to_vec()
            }
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// Returns the public key as bytes.
    pub fn public(&self) -> Vec<u8> {
        match self {
            Self::Rsa(key) => components(key).n,
            Self::Ec(key) => key.public_key().as_ref().to_vec(),
            Self::Ed(key) => key.public_key().as_ref().to_vec(),
        }
    }

    /// Returns the public key as a JWK with this id.
    pub fn jwk(&self, kid: &str) -> Value {
        let public = self.public();
        let mut jwk = match self {
            Self::Rsa(key) => {
                json!({"kty": "RSA", "n": encode(public), "e": encode(components(key).e)})
            }
            Self::Ec(_) => json!({"kty": "EC", "crv": "P-256",
                "x": encode(&public[1..33]), "y": encode(&public[33..])}),
            Self::Ed(_) => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(public)}),
        };
        jwk["kid"] = kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// Returns a token with these claims, signed with this key.
    pub fn token(&self, kid: &str, claims: &Value) -> String {
        self.token_as("at+jwt", kid, claims)
    }

    /// Returns a token of this type.
    pub fn token_as(&self, kind: &str, kid: &str, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm(), "typ": kind, "kid": kid});
        let message = unsigned(&header, claims);
        format!("{message}.{}", encode(self.sign(message.as_bytes())))
    }
}

/// Returns the signed part of a token.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!(
        "{}.{}",
        encode(header.to_string()),
        encode(claims.to_string())
    )
}

/// Returns a token signed with a shared secret.
pub fn hmac(secret: &[u8], kid: &str, claims: &Value) -> String {
    let message = unsigned(&json!({"alg": "HS256", "kid": kid}), claims);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", encode(signature))
}

/// Returns the current time in seconds since 1970, plus an offset.
pub fn at(more: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + more
}

/// A provider with a replaceable list of keys; without a list, it is down.
pub struct Provider {
    pub site: Site,
    pub keys: Arc<Mutex<Option<Vec<Value>>>>,
}

impl Provider {
    pub async fn new(keys: Vec<Value>) -> Self {
        let keys = Arc::new(Mutex::new(Some(keys)));
        let has = Arc::clone(&keys);
        let site = Site::open(move |own_url, request| {
            let keys = has.lock().clone();
            match (request.path.as_str(), keys) {
                (_, None) => Answer::empty(503),
                ("/.well-known/openid-configuration", _) => {
                    let about = json!({"issuer": own_url, "jwks_uri": format!("{own_url}/keys")});
                    Answer::json(200, &about)
                }
                ("/keys", Some(keys)) => Answer::json(200, &json!({ "keys": keys })),
                _ => Answer::empty(404),
            }
        })
        .await;
        Self { site, keys }
    }

    /// Returns valid claims, with `over` merged in; null removes one.
    pub fn claims(&self, over: &Value) -> Value {
        let mut claims = json!({"iss": self.site.url, "sub": "alice", "aud": super::RESOURCE,
            "exp": at(60), "scope": "mimir other"});
        for (key, value) in over.as_object().unwrap() {
            claims[key] = value.clone();
        }
        claims
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        claims
    }
}
