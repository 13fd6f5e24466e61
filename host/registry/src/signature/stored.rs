//! The manifest and the signatures of an installed artifact in a file, for verification without the registry.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bundle::{SignatureBundle, SigningMaterial};
use super::find::{FoundContent, FoundSignature, SignedContent};
use super::log_entry::LogEntry;
use super::trust_policy::{Signer, TrustPolicy};
use super::{MAX_BUNDLE, SignatureError};
use crate::digest::OciDigest;
use crate::manifest::{ImageManifest, OciManifest};
use crate::reference::OciReference;

/// The kind of the data in errors.
const STORED: &str = "file with the stored signatures";
/// Maximum number of signatures in the file. Few are needed: one that the trust policy accepts is enough.
const MAX_STORED: usize = 8;
/// Location of its signatures in errors.
const LOCATION: &str = "stored signature";

/// A manifest with its signatures. Nothing in it is trusted before [`StoredSignatures::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StoredSignatures {
    /// The manifest as the registry sent it, because its digest is over these bytes.
    manifest: String,
    /// The index that names the manifest, if the signatures are those of the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<String>,
    /// Sigstore bundles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<Value>,
    /// Signatures in the older form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    older_signatures: Vec<OlderSignature>,
}

/// A signature in the older form, with what verifies it. All bytes are in Base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OlderSignature {
    payload: String,
    signature: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chain: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log_entries: Vec<LogEntry>,
}

impl OlderSignature {
    fn new(payload: &[u8], signature: &[u8], material: &SigningMaterial) -> Self {
        let certificate = material.certificate.as_ref();
        Self {
            payload: STANDARD.encode(payload),
            signature: STANDARD.encode(signature),
            certificate: certificate.map(|certificate| STANDARD.encode(certificate)),
            chain: material
                .chain
                .iter()
                .map(|it| STANDARD.encode(it))
                .collect(),
            log_entries: material.log_entries.clone(),
        }
    }

    fn to_found(&self) -> Result<FoundSignature, SignatureError> {
        let decode = |text: &String| {
            let bytes = STANDARD.decode(text);
            bytes.map_err(|_| SignatureError::malformed(STORED, "a signature is not Base64"))
        };
        let content = FoundContent {
            signed: SignedContent::Simple {
                payload: decode(&self.payload)?,
                signature: decode(&self.signature)?,
            },
            material: SigningMaterial {
                key_hint: None,
                certificate: self.certificate.as_ref().map(decode).transpose()?,
                chain: self.chain.iter().map(decode).collect::<Result<_, _>>()?,
                log_entries: self.log_entries.clone(),
                has_authority_time: false,
            },
        };
        Ok(FoundSignature::from_content(LOCATION, content))
    }
}

impl StoredSignatures {
    /// Maximum size of the file in bytes.
    pub const MAX_SIZE: u64 = MAX_BUNDLE as u64;

    /// Creates the content of the file, with the first signatures of the manifest that fit into it. Anybody who may push
    /// can add signatures, so callers pass those that the trust policy accepts.
    ///
    /// # Errors
    /// The manifest is not text, or neither it nor one of its signatures fits into the file.
    pub fn new(manifest: &[u8], found: &[FoundSignature]) -> Result<Self, SignatureError> {
        Self::with_index(manifest, None, found)
    }

    /// Creates the content of the file for a manifest that was chosen from an index. The index is stored only if one of
    /// the signatures is that of the index.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn with_index(
        manifest: &[u8],
        index: Option<&[u8]>,
        found: &[FoundSignature],
    ) -> Result<Self, SignatureError> {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(SignatureError::malformed("manifest", "it is not UTF-8")),
        };
        let index = index.filter(|index| {
            let digest = [OciDigest::of_bytes(index)];
            found.iter().any(|found| found.signs_any(&digest))
        });
        let mut digests = vec![OciDigest::of_bytes(manifest)];
        digests.extend(index.map(OciDigest::of_bytes));
        let mut stored = Self {
            manifest: text(manifest)?,
            index: index.map(text).transpose()?,
            signatures: Vec::new(),
            older_signatures: Vec::new(),
        };
        stored.to_json()?;
        let contents = found.iter().filter_map(|found| found.content.as_ref().ok());
        let contents = contents.filter(|content| content.signed.check_signs_any(&digests).is_ok());
        let mut too_large = None;
        for content in contents {
            if stored.count() >= MAX_STORED {
                break;
            }
            let before = stored.clone();
            stored.add(content)?;
            if let Err(error) = stored.to_json() {
                stored = before;
                too_large.get_or_insert(error);
            }
        }
        match too_large {
            Some(error) if stored.count() == 0 => Err(error),
            _ => Ok(stored),
        }
    }

    fn count(&self) -> usize {
        self.signatures.len() + self.older_signatures.len()
    }

    fn add(&mut self, content: &FoundContent) -> Result<(), SignatureError> {
        let material = &content.material;
        match &content.signed {
            SignedContent::Envelope(envelope) => {
                let bundle = SignatureBundle {
                    envelope: envelope.clone(),
                    material: material.clone(),
                };
                let bundle = serde_json::from_slice(&bundle.to_json()?);
                let bundle = bundle.map_err(|error| SignatureError::malformed(STORED, error))?;
                self.signatures.push(bundle);
            }
            SignedContent::Simple { payload, signature } => {
                let older = OlderSignature::new(payload, signature, material);
                self.older_signatures.push(older);
            }
        }
        Ok(())
    }

    /// Parses the file.
    pub fn from_json(json: &[u8]) -> Result<Self, SignatureError> {
        serde_json::from_slice(json).map_err(|error| SignatureError::malformed(STORED, error))
    }

    /// Returns the content of the file. Fails if it is larger than [`Self::MAX_SIZE`], because it could not be read again.
    pub fn to_json(&self) -> Result<Vec<u8>, SignatureError> {
        let json = serde_json::to_vec_pretty(self);
        let json = json.map_err(|error| SignatureError::malformed(STORED, error))?;
        if json.len() as u64 > Self::MAX_SIZE {
            let limit = mimir_core::text::bytes(Self::MAX_SIZE);
            let why = format!("with this manifest and signature, it is larger than {limit}");
            return Err(SignatureError::malformed(STORED, why));
        }
        Ok(json)
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
        policy.check_any(reference, &self.signed_digests()?, &self.found()?, now)
    }

    /// Returns the digest of the manifest, and that of the index if there is one.
    ///
    /// # Errors
    /// The index is not valid, or does not name the manifest, so that its signature says nothing about the manifest.
    fn signed_digests(&self) -> Result<Vec<OciDigest>, SignatureError> {
        let manifest = OciDigest::of_bytes(self.manifest.as_bytes());
        let Some(index) = &self.index else {
            return Ok(vec![manifest]);
        };
        let fault = |why: &str| SignatureError::malformed(STORED, why);
        // A manifest with a key `manifests`, for example, is not an index.
        let parsed = OciManifest::parse(index.as_bytes(), None);
        let Ok(OciManifest::Index(parsed)) = parsed else {
            return Err(fault("its index is not valid"));
        };
        if !parsed
            .manifests
            .iter()
            .any(|entry| entry.digest == manifest)
        {
            return Err(fault("its index does not name the manifest"));
        }
        Ok(vec![manifest, OciDigest::of_bytes(index.as_bytes())])
    }

    /// Returns true if there is a signature of the stored manifest or index, whoever made it. Damaged ones do not count.
    pub fn has_signatures(&self) -> bool {
        let digests = self.signed_digests().unwrap_or_default();
        let found = self.found().unwrap_or_default();
        found.iter().any(|found| found.signs_any(&digests))
    }

    /// Returns the stored signatures.
    pub(super) fn found(&self) -> Result<Vec<FoundSignature>, SignatureError> {
        let mut found = Vec::new();
        for bundle in &self.signatures {
            let json = serde_json::to_vec(bundle);
            let json = json.map_err(|error| SignatureError::malformed(STORED, error))?;
            found.push(FoundSignature::from_bundle(
                LOCATION,
                SignatureBundle::from_json(&json)?,
            ));
        }
        for older in &self.older_signatures {
            found.push(older.to_found()?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::config::{TrustLayer, TrustRule};

    use super::*;
    use crate::manifest::{IMAGE_INDEX, IMAGE_MANIFEST};
    use crate::signature::{KeyAlgorithm, SigningKey};

    fn policy(key: &SigningKey) -> TrustPolicy {
        let rule = TrustRule {
            registry: "registry.example.com/*".to_owned(),
            keys: vec![key.verifying_key().to_pem()],
            identities: Vec::new(),
            layer: TrustLayer::default(),
        };
        TrustPolicy::from_settings(&[rule], None, None, |_| Ok(Vec::new())).unwrap()
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

    #[test]
    fn stored_signature_of_an_index_covers_only_manifests_in_it() {
        let layer = OciDigest::of_bytes(b"component");
        let text = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.wasm.config.v0+json","digest":"{layer}","size":2}},
               "layers":[{{"mediaType":"application/wasm","digest":"{layer}","size":9}}]}}"#
        );
        let manifest = OciDigest::of_bytes(text.as_bytes());
        let index_of = |media_type: &str, digest: &OciDigest| {
            format!(
                r#"{{"schemaVersion":2,"mediaType":"{media_type}",
                   "manifests":[{{"mediaType":"{IMAGE_MANIFEST}","digest":"{digest}","size":1}}]}}"#
            )
        };
        let index = index_of(IMAGE_INDEX, &manifest);
        let reference: OciReference = "registry.example.com/acme/weather:1".parse().unwrap();
        let key = SigningKey::generate(KeyAlgorithm::Ed25519).unwrap();
        let signed = |content: &str| {
            let digest = OciDigest::of_bytes(content.as_bytes());
            let bundle = SignatureBundle::sign_manifest(&digest, "weather", &key).unwrap();
            [FoundSignature::from_bundle("test", bundle)]
        };
        let store = |index: &str, found: &[FoundSignature]| {
            let index = Some(index.as_bytes());
            let stored = StoredSignatures::with_index(text.as_bytes(), index, found).unwrap();
            StoredSignatures::from_json(&stored.to_json().unwrap()).unwrap()
        };
        let verify = |stored: &StoredSignatures| {
            let now = SystemTime::now();
            stored.verify(&policy(&key), &reference, &manifest, &layer, now)
        };
        let stored = store(&index, &signed(&index));
        assert!(stored.has_signatures());
        assert!(matches!(verify(&stored), Ok(Some(_))));
        // A signature of the manifest needs no index.
        let direct = store(&index, &signed(&text));
        assert!(direct.index.is_none() && verify(&direct).is_ok());
        // The signed index of other content, one that is changed, and a signed file that is not an index.
        let other = index_of(IMAGE_INDEX, &layer);
        let both = format!("{{\"config\":{{}},{}", &index[1..]);
        for (planted, found) in [
            (other.clone(), signed(&other)),
            (index.replace("\"size\":1", "\"size\":2"), signed(&index)),
            (both.clone(), signed(&both)),
        ] {
            let stored = StoredSignatures {
                index: Some(planted),
                ..store(&index, &found)
            };
            assert!(verify(&stored).is_err(), "{stored:?}");
        }
    }

    #[test]
    fn stored_signatures_are_few_and_those_of_strangers_are_left_out() {
        let text = br#"{"schemaVersion":2}"#;
        let manifest = OciDigest::of_bytes(text);
        let reference: OciReference = "registry.example.com/acme/weather:1".parse().unwrap();
        let [key, stranger] =
            [(); 2].map(|()| SigningKey::generate(KeyAlgorithm::Ed25519).unwrap());
        let signed = |key, name: &str| {
            let bundle = SignatureBundle::sign_manifest(&manifest, name, key).unwrap();
            FoundSignature::from_bundle("test", bundle)
        };
        let padding = "x".repeat(600_000);
        let mut found: Vec<_> = (0..9).map(|_| signed(&stranger, &padding)).collect();
        found.push(signed(&key, "weather"));
        let now = SystemTime::now();
        let kept = policy(&key).keep_accepted(&reference, &[manifest], found.clone(), now);
        assert_eq!(kept.len(), 1);
        let stored = StoredSignatures::new(text, &kept).unwrap();
        assert_eq!(stored.signatures.len(), 1);
        // Without a rule, everything is kept that fits.
        let none = TrustPolicy::default();
        let kept = none.keep_accepted(&reference, &[manifest], found, now);
        assert_eq!(kept.len(), 10);
        let stored = StoredSignatures::new(text, &kept).unwrap();
        let json = stored.to_json().unwrap();
        assert!(json.len() as u64 <= StoredSignatures::MAX_SIZE);
        assert!((2..=MAX_STORED).contains(&stored.count()));
        // Nor a manifest that could not be read again.
        let large = "x".repeat(StoredSignatures::MAX_SIZE as usize);
        let error = StoredSignatures::new(large.as_bytes(), &[]).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
    }

    #[test]
    fn stored_signatures_in_the_older_form_verify() {
        let layer = OciDigest::of_bytes(b"component");
        let text = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.wasm.config.v0+json","digest":"{layer}","size":2}},
               "layers":[{{"mediaType":"application/wasm","digest":"{layer}","size":9}}]}}"#
        );
        let manifest = OciDigest::of_bytes(text.as_bytes());
        let reference: OciReference = "registry.example.com/acme/weather:1".parse().unwrap();
        let [key, other] = [(); 2].map(|()| SigningKey::generate(KeyAlgorithm::EcdsaP256).unwrap());
        let payload = serde_json::json!({"critical": {
            "identity": {"docker-reference": "registry.example.com/acme/weather"},
            "image": {"docker-manifest-digest": manifest.to_string()},
            "type": "cosign container image signature",
        }})
        .to_string();
        let signature = STANDARD.encode(key.sign(payload.as_bytes()).unwrap());
        let annotations = [("dev.cosignproject.cosign/signature", signature.as_str())];
        let found = FoundSignature::from_simple(payload.into_bytes(), &annotations);
        let stored = StoredSignatures::new(text.as_bytes(), &[found]).unwrap();
        let stored = StoredSignatures::from_json(&stored.to_json().unwrap()).unwrap();
        let verify = |key, reference: &OciReference| {
            stored.verify(
                &policy(key),
                reference,
                &manifest,
                &layer,
                SystemTime::now(),
            )
        };
        assert!(matches!(verify(&key, &reference), Ok(Some(_))));
        assert!(verify(&other, &reference).is_err());
        let elsewhere = "registry.example.com/acme/mail:1".parse().unwrap();
        let error = verify(&key, &elsewhere).unwrap_err().to_string();
        assert!(error.contains("in another repository"), "{error}");
    }
}
