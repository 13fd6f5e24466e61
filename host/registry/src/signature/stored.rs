//! The manifest and the signatures of an installed artifact in a file, for verification without the registry.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bundle::SignatureBundle;
use super::find::{FoundSignature, SignedContent};
use super::trust_policy::{Signer, TrustPolicy};
use super::{MAX_BUNDLE, SignatureError};
use crate::digest::OciDigest;
use crate::manifest::ImageManifest;
use crate::reference::OciReference;

/// The kind of the data in errors.
const STORED: &str = "file with the stored signatures";

/// A manifest with its signatures. Nothing in it is trusted before [`StoredSignatures::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredSignatures {
    /// The manifest as the registry sent it, because its digest is over these bytes.
    manifest: String,
    /// Sigstore bundles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<Value>,
}

impl StoredSignatures {
    /// Maximum size of the file in bytes.
    pub const MAX_SIZE: u64 = MAX_BUNDLE as u64;

    /// Creates the content of the file. Signatures in the older form are left out, because they are no bundles: the
    /// artifact is then verified with its registry only.
    pub fn new(manifest: &[u8], found: &[FoundSignature]) -> Result<Self, SignatureError> {
        let manifest = std::str::from_utf8(manifest)
            .map_err(|_| SignatureError::malformed("manifest", "it is not UTF-8"))?;
        let mut signatures = Vec::new();
        for bundle in found.iter().filter_map(FoundSignature::to_bundle) {
            let bundle = serde_json::from_slice(&bundle.to_json()?);
            signatures.push(bundle.map_err(|error| SignatureError::malformed(STORED, error))?);
        }
        Ok(Self {
            manifest: manifest.to_owned(),
            signatures,
        })
    }

    /// Parses the file.
    pub fn from_json(json: &[u8]) -> Result<Self, SignatureError> {
        serde_json::from_slice(json).map_err(|error| SignatureError::malformed(STORED, error))
    }

    /// Returns the content of the file.
    pub fn to_json(&self) -> Result<Vec<u8>, SignatureError> {
        let json = serde_json::to_vec_pretty(self);
        json.map_err(|error| SignatureError::malformed(STORED, error))
    }

    /// Verifies that the stored manifest has the digest `manifest`, that it contains the component `layer`, and that the
    /// trust policy accepts one of its signatures. Returns the signer as [`TrustPolicy::check`] does.
    pub fn verify(
        &self,
        policy: &TrustPolicy,
        reference: &OciReference,
        manifest: &OciDigest,
        layer: &OciDigest,
        now: SystemTime,
    ) -> Result<Option<Signer>, SignatureError> {
        if OciDigest::of_bytes(self.manifest.as_bytes()) != *manifest {
            return Err(SignatureError::malformed(
                STORED,
                "its manifest has another digest than the lock file",
            ));
        }
        let parsed: ImageManifest = serde_json::from_str(&self.manifest)
            .map_err(|error| SignatureError::malformed("manifest", error))?;
        if !parsed.layers.iter().any(|known| known.digest == *layer) {
            return Err(SignatureError::malformed(
                STORED,
                "its manifest is that of another component",
            ));
        }
        let mut found = Vec::new();
        for bundle in &self.signatures {
            let json = serde_json::to_vec(bundle);
            let json = json.map_err(|error| SignatureError::malformed(STORED, error))?;
            found.push(FoundSignature::from_bundle(
                "stored signature",
                SignatureBundle::from_json(&json)?,
            ));
        }
        policy.check(reference, manifest, &found, now)
    }
}

impl FoundSignature {
    /// Returns the signature as a bundle; `None` for the older form, and for a signature that cannot be read.
    pub fn to_bundle(&self) -> Option<SignatureBundle> {
        let content = self.content.as_ref().ok()?;
        match &content.signed {
            SignedContent::Envelope(envelope) => Some(SignatureBundle {
                envelope: envelope.clone(),
                material: content.material.clone(),
            }),
            SignedContent::Simple { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::config::TrustRule;

    use super::*;
    use crate::signature::{KeyAlgorithm, SigningKey};

    fn policy(key: &SigningKey) -> TrustPolicy {
        let rule = TrustRule {
            registry: "registry.example.com/*".to_owned(),
            keys: vec![key.verifying_key().to_pem()],
            identities: Vec::new(),
            from_team: false,
        };
        TrustPolicy::from_settings(&[rule], None, false, |_| Ok(Vec::new())).unwrap()
    }

    #[test]
    fn stored_signatures_verify_without_the_registry() {
        let layer = OciDigest::of_bytes(b"component");
        let text = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.wasm.config.v0+json","digest":"{layer}","size":2}},
               "layers":[{{"mediaType":"application/wasm","digest":"{layer}","size":9}}]}}"#
        );
        let manifest = OciDigest::of_bytes(text.as_bytes());
        let reference: OciReference = "registry.example.com/acme/weather:1".parse().unwrap();
        let key = SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
        let other = SigningKey::generate(KeyAlgorithm::Ed25519).unwrap();
        let bundle = SignatureBundle::sign_manifest(&manifest, "weather", &key).unwrap();
        let found = [FoundSignature::from_bundle("test", bundle)];
        let stored = StoredSignatures::new(text.as_bytes(), &found).unwrap();
        let stored = StoredSignatures::from_json(&stored.to_json().unwrap()).unwrap();
        let now = SystemTime::now();
        let verify = |stored: &StoredSignatures, key, manifest: &OciDigest, layer: &OciDigest| {
            stored.verify(&policy(key), &reference, manifest, layer, now)
        };
        let signer = verify(&stored, &key, &manifest, &layer).unwrap();
        let expected = key.verifying_key().id();
        assert!(matches!(signer, Some(Signer::Key { id, .. }) if id == expected));
        let elsewhere = OciDigest::of_bytes(b"other");
        for (key, manifest, layer, why) in [
            (&other, &manifest, &layer, "trusted"),
            (&key, &elsewhere, &layer, "another digest"),
            (&key, &manifest, &elsewhere, "another component"),
        ] {
            let error = verify(&stored, key, manifest, layer)
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{error}");
        }
        let changed = StoredSignatures {
            manifest: text.replace("application/wasm", "application/wasn"),
            ..stored.clone()
        };
        assert!(verify(&changed, &key, &manifest, &layer).is_err());
        let unsigned = StoredSignatures::new(text.as_bytes(), &[]).unwrap();
        let error = verify(&unsigned, &key, &manifest, &layer).unwrap_err();
        assert!(matches!(error, SignatureError::Unsigned { .. }), "{error}");
    }
}
