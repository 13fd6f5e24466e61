//! Sigstore bundles, version 0.3: an envelope, and what verifies it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::dsse::DsseEnvelope;
use super::key::SigningKey;
use super::log_entry::LogEntry;
use super::statement::{STATEMENT_PAYLOAD, signing_statement};
use super::{MAX_BUNDLE, SignatureError};
use crate::client::{NewArtifact, NewLayer};
use crate::digest::OciDigest;

/// Media type of a bundle, also the artifact type of its manifest in a registry.
pub const BUNDLE_MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The older spelling of the same version.
pub(super) const OLD_BUNDLE_MEDIA_TYPE: &str =
    "application/vnd.dev.sigstore.bundle+json;version=0.3";
/// Media type of the empty config, and its content.
const EMPTY_CONFIG: (&str, &[u8]) = ("application/vnd.oci.empty.v1+json", b"{}");
/// The kind of the data in errors.
const BUNDLE: &str = "signature bundle";

/// A signature with what verifies it, in the format of sigstore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureBundle {
    pub(super) envelope: DsseEnvelope,
    pub(super) material: SigningMaterial,
}

/// Data beside a signature. None of it is trusted before the trust policy has verified it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SigningMaterial {
    /// Hint of the key. Only displayed.
    pub key_hint: Option<String>,
    /// Certificate of the key in DER.
    pub certificate: Option<Vec<u8>>,
    /// Intermediate certificates in DER.
    pub chain: Vec<Vec<u8>>,
    /// Entries of transparency logs.
    pub log_entries: Vec<LogEntry>,
    /// True if there is a time of a timestamp authority, which is not verified. Only for errors.
    pub has_authority_time: bool,
}

impl SigningMaterial {
    /// Returns the ID of the key that the bundle names. Only the signature tells whether that key has made it.
    pub fn claimed_key(&self) -> Option<String> {
        let fingerprint = STANDARD.decode(self.key_hint.as_ref()?).ok()?;
        let fingerprint = fingerprint.try_into().ok()?;
        Some(OciDigest::from_sha256(fingerprint).hex())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BundleFile {
    media_type: String,
    verification_material: VerificationMaterial,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dsse_envelope: Option<DsseEnvelope>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VerificationMaterial {
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<KeyHint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<RawCertificate>,
    tlog_entries: Vec<LogEntry>,
    #[serde(skip_serializing)]
    timestamp_verification_data: Option<AuthorityTimes>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuthorityTimes {
    rfc3161_timestamps: Vec<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct KeyHint {
    #[serde(default)]
    hint: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCertificate {
    raw_bytes: String,
}

impl SignatureBundle {
    /// Signs the manifest with this digest. If `name` is a reference, the signature counts in this repository only.
    ///
    /// ```
    /// use mimir_registry::OciDigest;
    /// use mimir_registry::signature::{KeyAlgorithm, SignatureBundle, SigningKey};
    ///
    /// let key = SigningKey::generate(KeyAlgorithm::EcdsaP256)?;
    /// let bundle = SignatureBundle::sign_manifest(&OciDigest::of_bytes(b"{}"), "weather", &key)?;
    /// assert_eq!(SignatureBundle::from_json(&bundle.to_json()?)?, bundle);
    /// # Ok::<(), mimir_registry::signature::SignatureError>(())
    /// ```
    pub fn sign_manifest(
        manifest: &OciDigest,
        name: &str,
        key: &SigningKey,
    ) -> Result<Self, SignatureError> {
        let statement = signing_statement(manifest, name);
        let hint = STANDARD.encode(key.verifying_key().fingerprint());
        Ok(Self {
            envelope: DsseEnvelope::sign(STATEMENT_PAYLOAD, &statement, key)?,
            material: SigningMaterial {
                key_hint: Some(hint),
                ..SigningMaterial::default()
            },
        })
    }

    /// Parses a bundle in JSON.
    pub fn from_json(json: &[u8]) -> Result<Self, SignatureError> {
        let malformed = |why: String| SignatureError::malformed(BUNDLE, why);
        if json.len() > MAX_BUNDLE {
            let limit = mimir_core::text::bytes(MAX_BUNDLE as u64);
            return Err(malformed(format!("it is larger than {limit}")));
        }
        let file: BundleFile =
            serde_json::from_slice(json).map_err(|error| malformed(error.to_string()))?;
        if ![BUNDLE_MEDIA_TYPE, OLD_BUNDLE_MEDIA_TYPE].contains(&file.media_type.as_str()) {
            let media_type = mimir_core::text::prefix(&file.media_type, 100);
            return Err(malformed(format!(
                "unsupported media type `{media_type}`: expected {BUNDLE_MEDIA_TYPE}"
            )));
        }
        let envelope = file
            .dsse_envelope
            .ok_or_else(|| malformed("it has no `dsseEnvelope`".to_owned()))?;
        let material = file.verification_material;
        let certificate = material.certificate.map(|certificate| {
            let certificate = STANDARD.decode(certificate.raw_bytes);
            certificate.map_err(|_| malformed("its certificate is not Base64".to_owned()))
        });
        let times = material.timestamp_verification_data.as_ref();
        Ok(Self {
            envelope,
            material: SigningMaterial {
                has_authority_time: times.is_some_and(|times| !times.rfc3161_timestamps.is_empty()),
                key_hint: material.public_key.map(|key| key.hint),
                certificate: certificate.transpose()?,
                chain: Vec::new(),
                log_entries: material.tlog_entries,
            },
        })
    }

    /// Returns the bundle in JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, SignatureError> {
        let material = &self.material;
        let certificate = material.certificate.as_ref();
        let file = BundleFile {
            media_type: BUNDLE_MEDIA_TYPE.to_owned(),
            verification_material: VerificationMaterial {
                public_key: material.key_hint.clone().map(|hint| KeyHint { hint }),
                certificate: certificate.map(|certificate| RawCertificate {
                    raw_bytes: STANDARD.encode(certificate),
                }),
                tlog_entries: material.log_entries.clone(),
                timestamp_verification_data: None,
            },
            dsse_envelope: Some(self.envelope.clone()),
        };
        serde_json::to_vec(&file).map_err(|error| SignatureError::malformed(BUNDLE, error))
    }

    /// Returns the artifact that stores the bundle in a registry, as a referrer of the signed manifest.
    pub fn to_artifact(&self) -> Result<NewArtifact, SignatureError> {
        Ok(NewArtifact {
            artifact_type: Some(BUNDLE_MEDIA_TYPE.to_owned()),
            config: (EMPTY_CONFIG.0.to_owned(), EMPTY_CONFIG.1.to_vec()),
            layers: vec![NewLayer {
                media_type: BUNDLE_MEDIA_TYPE.to_owned(),
                bytes: self.to_json()?,
                annotations: BTreeMap::new(),
            }],
            annotations: BTreeMap::new(),
        })
    }
}
