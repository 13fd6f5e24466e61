//! Keys that sign and verify: ECDSA over P-256 with SHA-256, and Ed25519.

use std::fmt;
use std::str::FromStr;

use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, UnparsedPublicKey,
};
use sha2::{Digest as _, Sha256};

use super::SignatureError;
use super::encrypted_key;
use super::pem;
use crate::digest::OciDigest;

/// Label of a public key in PEM.
const PUBLIC: &str = "PUBLIC KEY";
/// Label of an unencrypted private key in PEM.
const PRIVATE: &str = "PRIVATE KEY";
/// Labels of encrypted private keys in PEM; the first one is written.
const ENCRYPTED: [&str; 2] = [
    "ENCRYPTED SIGSTORE PRIVATE KEY",
    "ENCRYPTED COSIGN PRIVATE KEY",
];

/// Maximum size in bytes of a file with a key.
pub const MAX_KEY_FILE: usize = 64 << 10;

/// DER of a `SubjectPublicKeyInfo` up to the key: a P-256 point without compression.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Size of an uncompressed point, and its first byte.
const P256_POINT: (usize, u8) = (65, 4);
/// DER of a `SubjectPublicKeyInfo` up to the key: Ed25519.
const ED25519_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// DER of a PKCS #8 document of version 1 up to the seed. Version 2, which ring writes, is unknown to many programs.
const ED25519_PRIVATE_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// Size of an Ed25519 key and of its seed.
const ED25519_KEY: usize = 32;

/// Algorithm of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyAlgorithm {
    /// ECDSA over P-256 with SHA-256, which all sigstore clients support.
    #[default]
    EcdsaP256,
    /// Ed25519.
    Ed25519,
}

impl KeyAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 2] = [Self::EcdsaP256, Self::Ed25519];

    /// Returns the name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ecdsa-p256",
            Self::Ed25519 => "ed25519",
        }
    }
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for KeyAlgorithm {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let all = Self::ALL.into_iter();
        let mut same = all.filter(|algorithm| algorithm.as_str() == text);
        same.next().ok_or_else(|| {
            SignatureError::Key(format!(
                "unknown algorithm `{}`: expected ecdsa-p256 or ed25519",
                mimir_core::text::visible(text)
            ))
        })
    }
}

/// A public key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    algorithm: KeyAlgorithm,
    /// DER of the `SubjectPublicKeyInfo`.
    spki: Vec<u8>,
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({} {})", self.algorithm, self.id())
    }
}

impl VerifyingKey {
    /// Parses a public key in PEM.
    pub fn from_pem(text: &[u8]) -> Result<Self, SignatureError> {
        let text = key_text(text)?;
        let block = pem::parse(text).ok_or_else(|| not_pem("public"))?;
        if block.label != PUBLIC {
            return Err(SignatureError::Key(format!(
                "expected a public key (`BEGIN {PUBLIC}`), found `{}`",
                mimir_core::text::visible(mimir_core::text::prefix(&block.label, 60))
            )));
        }
        Self::from_spki(&block.content)
    }

    /// Parses the DER of a `SubjectPublicKeyInfo`. Only the usual encoding is accepted, so that a key has one ID.
    pub fn from_spki(spki: &[u8]) -> Result<Self, SignatureError> {
        let algorithm = match (
            spki.strip_prefix(&P256_PREFIX),
            spki.strip_prefix(&ED25519_PREFIX),
        ) {
            (Some(point), _)
                if point.len() == P256_POINT.0 && point.first() == Some(&P256_POINT.1) =>
            {
                KeyAlgorithm::EcdsaP256
            }
            (_, Some(key)) if key.len() == ED25519_KEY => KeyAlgorithm::Ed25519,
            _ => {
                return Err(SignatureError::Key(
                    "unsupported public key: expected ECDSA over P-256 or Ed25519".to_owned(),
                ));
            }
        };
        Ok(Self {
            algorithm,
            spki: spki.to_vec(),
        })
    }

    /// Returns the key in PEM.
    pub fn to_pem(&self) -> String {
        pem::write(PUBLIC, &self.spki)
    }

    /// Returns the DER of the `SubjectPublicKeyInfo`.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Returns the algorithm.
    pub const fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// Returns the ID: the SHA-256 of the DER as lower-case hexadecimal digits.
    pub fn id(&self) -> String {
        OciDigest::from_sha256(self.fingerprint()).hex()
    }

    /// Returns the SHA-256 of the DER.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(&self.spki).into()
    }

    /// Returns true if this key made the signature of the message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self.algorithm {
            KeyAlgorithm::EcdsaP256 => {
                let key = &self.spki[P256_PREFIX.len()..];
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(message, signature)
            }
            KeyAlgorithm::Ed25519 => {
                let key = &self.spki[ED25519_PREFIX.len()..];
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// A private key that signs.
pub struct SigningKey {
    pair: KeyPair,
    /// PKCS #8 document in DER.
    pkcs8: Vec<u8>,
    public: VerifyingKey,
}

enum KeyPair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({:?})", self.public)
    }
}

impl SigningKey {
    /// Generates a key with random numbers of the operating system.
    pub fn generate(algorithm: KeyAlgorithm) -> Result<Self, SignatureError> {
        let random = SystemRandom::new();
        let failed =
            |_| SignatureError::Key("the operating system returned no random numbers".to_owned());
        let pkcs8 = match algorithm {
            KeyAlgorithm::EcdsaP256 => {
                let document =
                    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
                document.map_err(failed)?.as_ref().to_vec()
            }
            KeyAlgorithm::Ed25519 => {
                let mut seed = [0; ED25519_KEY];
                random.fill(&mut seed).map_err(failed)?;
                [&ED25519_PRIVATE_PREFIX[..], &seed].concat()
            }
        };
        Self::from_pkcs8(pkcs8)
    }

    /// Parses a private key in PEM: encrypted as cosign does it, or a PKCS #8 document. The password is only used if
    /// the key is encrypted.
    pub fn from_pem(text: &[u8], password: Option<&[u8]>) -> Result<Self, SignatureError> {
        let block = pem::parse(key_text(text)?).ok_or_else(|| not_pem("private"))?;
        if ENCRYPTED.contains(&block.label.as_str()) {
            let password = password.ok_or(SignatureError::PasswordRequired)?;
            return Self::from_pkcs8(encrypted_key::decrypt(&block.content, password)?);
        }
        if block.label != PRIVATE {
            let label = mimir_core::text::prefix(&block.label, 60);
            return Err(SignatureError::Key(format!(
                "unsupported private key `{}`: expected `{}` or `{PRIVATE}` (PKCS #8; \
                 `openssl pkcs8 -topk8 -nocrypt` converts others)",
                mimir_core::text::visible(label),
                ENCRYPTED[0],
            )));
        }
        Self::from_pkcs8(block.content)
    }

    /// Returns true if the PEM contains a private key that is encrypted as cosign does it.
    pub fn is_encrypted(text: &[u8]) -> bool {
        let text = std::str::from_utf8(text).unwrap_or_default();
        ENCRYPTED
            .iter()
            .any(|label| text.contains(&format!("-----BEGIN {label}-----")))
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> Result<Self, SignatureError> {
        let random = SystemRandom::new();
        let ecdsa = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8, &random);
        let pair = match ecdsa {
            Ok(pair) => KeyPair::Ecdsa(pair),
            // Most programs write version 1 of PKCS #8, which has no public key to check.
            Err(_) => Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8)
                .map(KeyPair::Ed25519)
                .map_err(|_| {
                    SignatureError::Key(
                        "unsupported private key: expected ECDSA over P-256 or Ed25519".to_owned(),
                    )
                })?,
        };
        let spki = match &pair {
            KeyPair::Ecdsa(pair) => [&P256_PREFIX[..], pair.public_key().as_ref()].concat(),
            KeyPair::Ed25519(pair) => [&ED25519_PREFIX[..], pair.public_key().as_ref()].concat(),
        };
        Ok(Self {
            public: VerifyingKey::from_spki(&spki)?,
            pair,
            pkcs8,
        })
    }

    /// Returns the key in PEM, encrypted with a password as cosign does it.
    pub fn to_encrypted_pem(&self, password: &[u8]) -> Result<String, SignatureError> {
        let content = encrypted_key::encrypt(&self.pkcs8, password)?;
        Ok(pem::write(ENCRYPTED[0], &content))
    }

    /// Returns the public key.
    pub const fn verifying_key(&self) -> &VerifyingKey {
        &self.public
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignatureError> {
        match &self.pair {
            KeyPair::Ecdsa(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(|_| {
                    SignatureError::Key(
                        "the operating system returned no random numbers".to_owned(),
                    )
                })?;
                Ok(signature.as_ref().to_vec())
            }
            KeyPair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

fn key_text(text: &[u8]) -> Result<&str, SignatureError> {
    if text.len() > MAX_KEY_FILE {
        return Err(SignatureError::Key(format!(
            "a key file has at most {} KB; this one is larger",
            MAX_KEY_FILE >> 10
        )));
    }
    std::str::from_utf8(text).map_err(|_| not_pem("public or private"))
}

fn not_pem(kind: &str) -> SignatureError {
    SignatureError::Key(format!(
        "expected a {kind} key in PEM (`-----BEGIN …-----`)"
    ))
}
