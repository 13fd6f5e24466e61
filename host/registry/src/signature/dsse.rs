//! DSSE envelopes: a payload with its type, and signatures over both.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::key::{SigningKey, VerifyingKey};
use super::{MAX_BUNDLE, SignatureError};

/// Maximum number of signatures of an envelope.
const MAX_SIGNATURES: usize = 16;
/// The kind of the data in errors.
const ENVELOPE: &str = "signed envelope";

/// A signed payload. The payload counts only after [`DsseEnvelope::verify`].
///
/// ```
/// use mimir_registry::signature::{DsseEnvelope, KeyAlgorithm, SigningKey};
///
/// let key = SigningKey::generate(KeyAlgorithm::Ed25519)?;
/// let envelope = DsseEnvelope::sign("text/plain", b"hello", &key)?;
/// let trusted = [key.verifying_key().clone()];
/// let (payload, key_id) = envelope.verify(&trusted)?;
/// assert_eq!((payload.as_slice(), key_id), (&b"hello"[..], trusted[0].id()));
/// assert!(envelope.verify(&[]).is_err());
/// # Ok::<(), mimir_registry::signature::SignatureError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DsseEnvelope {
    /// The payload in Base64.
    payload: String,
    payload_type: String,
    signatures: Vec<DsseSignature>,
}

/// One signature of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DsseSignature {
    /// The signature in Base64.
    sig: String,
    /// A hint that is not signed, and never used.
    #[serde(default)]
    keyid: String,
}

impl DsseEnvelope {
    /// Signs a payload.
    pub fn sign(
        payload_type: &str,
        payload: &[u8],
        key: &SigningKey,
    ) -> Result<Self, SignatureError> {
        let mut envelope = Self {
            payload: STANDARD.encode(payload),
            payload_type: payload_type.to_owned(),
            signatures: Vec::new(),
        };
        envelope.add_signature(key)?;
        Ok(envelope)
    }

    /// Adds the signature of another key.
    pub fn add_signature(&mut self, key: &SigningKey) -> Result<(), SignatureError> {
        let message = pre_authentication_encoding(&self.payload_type, &self.decode_payload()?);
        self.signatures.push(DsseSignature {
            sig: STANDARD.encode(key.sign(&message)?),
            keyid: String::new(),
        });
        Ok(())
    }

    /// Parses an envelope in JSON.
    pub fn from_json(json: &[u8]) -> Result<Self, SignatureError> {
        if json.len() > MAX_BUNDLE {
            let limit = mimir_core::text::bytes(MAX_BUNDLE as u64);
            return Err(SignatureError::malformed(
                ENVELOPE,
                format!("it is larger than {limit}"),
            ));
        }
        serde_json::from_slice(json).map_err(|error| SignatureError::malformed(ENVELOPE, error))
    }

    /// Returns the envelope in JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, SignatureError> {
        serde_json::to_vec(self).map_err(|error| SignatureError::malformed(ENVELOPE, error))
    }

    /// Returns the type of the payload. It is signed, too.
    pub fn payload_type(&self) -> &str {
        &self.payload_type
    }

    /// Returns the payload without verification, for display.
    pub fn unverified_payload(&self) -> Result<Vec<u8>, SignatureError> {
        self.decode_payload()
    }

    /// Verifies the envelope: one of the keys must have made one of the signatures. Returns the payload and the ID of
    /// that key.
    pub fn verify(&self, keys: &[VerifyingKey]) -> Result<(Vec<u8>, String), SignatureError> {
        let payload = self.decode_payload()?;
        let message = pre_authentication_encoding(&self.payload_type, &payload);
        for signature in self.decode_signatures()? {
            let mut keys = keys.iter();
            if let Some(key) = keys.find(|key| key.verifies(&message, &signature)) {
                return Ok((payload, key.id()));
            }
        }
        Err(SignatureError::UnknownKey)
    }

    /// Returns the signed bytes and the signature of an envelope with exactly one signature.
    pub(super) fn single_signature(&self) -> Result<(Vec<u8>, Vec<u8>), SignatureError> {
        let mut signatures = self.decode_signatures()?.into_iter();
        let (Some(signature), None) = (signatures.next(), signatures.next()) else {
            return Err(SignatureError::malformed(
                ENVELOPE,
                "expected exactly one signature",
            ));
        };
        let message = pre_authentication_encoding(&self.payload_type, &self.decode_payload()?);
        Ok((message, signature))
    }

    fn decode_payload(&self) -> Result<Vec<u8>, SignatureError> {
        let payload = STANDARD.decode(&self.payload);
        payload.map_err(|_| SignatureError::malformed(ENVELOPE, "its payload is not Base64"))
    }

    fn decode_signatures(&self) -> Result<Vec<Vec<u8>>, SignatureError> {
        if !(1..=MAX_SIGNATURES).contains(&self.signatures.len()) {
            return Err(SignatureError::malformed(
                ENVELOPE,
                format!(
                    "it has {} signatures: expected 1 to {MAX_SIGNATURES}",
                    self.signatures.len()
                ),
            ));
        }
        let decode = |signature: &DsseSignature| {
            let decoded = STANDARD.decode(&signature.sig);
            decoded.map_err(|_| SignatureError::malformed(ENVELOPE, "a signature is not Base64"))
        };
        self.signatures.iter().map(decode).collect()
    }
}

/// Returns the bytes that are signed: the type and the payload with their lengths.
fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut encoded = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    )
    .into_bytes();
    encoded.extend_from_slice(payload);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dsse_encoding_is_that_of_the_specification() {
        assert_eq!(
            pre_authentication_encoding("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }
}
