//! Reading of the signatures of an artifact from its registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::bundle::{BUNDLE_MEDIA_TYPE, OLD_BUNDLE_MEDIA_TYPE, SignatureBundle, SigningMaterial};
use super::dsse::DsseEnvelope;
use super::log_entry::{DecimalNumber, InclusionPromise, LogEntry, LogEntryKind, LogId};
use super::statement::{InTotoStatement, STATEMENT_PAYLOAD};
use super::{SignatureError, pem};
use crate::client::RegistryClient;
use crate::digest::OciDigest;
use crate::manifest::{Descriptor, OciManifest};
use crate::reference::OciReference;

/// Maximum number of referrers of an artifact that are read, so that a flood of them ends.
const MAX_SIGNATURES: usize = 64;
/// Maximum number of signatures in the older form that are read.
const MAX_OLD_SIGNATURES: usize = 16;
/// Maximum size in bytes of the bundle of one signature or attestation.
pub(super) const MAX_SIGNATURE_SIZE: u64 = 1 << 20;
/// Maximum size in bytes of all bundles of an artifact.
const MAX_TOTAL_SIZE: u64 = 8 << 20;
/// Media type and type of the payload of a signature in the older form.
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIMPLE_SIGNING_TYPE: &str = "cosign container image signature";
/// Maximum size in bytes of such a payload.
const MAX_PAYLOAD: u64 = 64 << 10;
/// Annotations of its layer.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOG_BUNDLE: &str = "dev.sigstore.cosign/bundle";
/// The kind of the data in errors.
const OLD_SIGNATURE: &str = "signature";

/// A signature or attestation from a registry. It is untrusted until [`TrustPolicy::check`](super::TrustPolicy::check)
/// has verified it.
#[derive(Debug, Clone)]
pub struct FoundSignature {
    /// The digest or tag at which it was found.
    location: String,
    /// The signature, or why it cannot be used.
    pub(super) content: Result<FoundContent, String>,
}

/// The content of a signature.
#[derive(Debug, Clone)]
pub(super) struct FoundContent {
    pub signed: SignedContent,
    pub material: SigningMaterial,
}

/// The signed content.
#[derive(Debug, Clone)]
pub(super) enum SignedContent {
    Envelope(DsseEnvelope),
    /// The older form: a payload and its signature.
    Simple {
        payload: Vec<u8>,
        signature: Vec<u8>,
    },
}

impl SignedContent {
    /// Returns the signed bytes and the signature.
    pub fn message_and_signature(&self) -> Result<(Vec<u8>, Vec<u8>), SignatureError> {
        match self {
            Self::Envelope(envelope) => envelope.single_signature(),
            Self::Simple { payload, signature } => Ok((payload.clone(), signature.clone())),
        }
    }

    /// Returns the payload.
    pub fn payload(&self) -> Result<Vec<u8>, SignatureError> {
        match self {
            Self::Envelope(envelope) => envelope.unverified_payload(),
            Self::Simple { payload, .. } => Ok(payload.clone()),
        }
    }

    /// Checks that the content is a signature of this manifest. The signature itself is verified elsewhere.
    pub fn check_signs(&self, manifest: &OciDigest) -> Result<(), SignatureError> {
        match self {
            Self::Envelope(envelope) if envelope.payload_type() != STATEMENT_PAYLOAD => {
                Err(SignatureError::malformed(
                    "signed envelope",
                    format!("its payload is not {STATEMENT_PAYLOAD}"),
                ))
            }
            Self::Envelope(envelope) => {
                InTotoStatement::parse(&envelope.unverified_payload()?)?.check_signs(manifest)
            }
            Self::Simple { payload, .. } => check_simple_payload(payload, manifest),
        }
    }

    /// Checks that the content is a signature of a manifest or index with one of these digests.
    pub fn check_signs_any(&self, digests: &[OciDigest]) -> Result<(), SignatureError> {
        let mut fault = None;
        for digest in digests {
            match self.check_signs(digest) {
                Ok(()) => return Ok(()),
                // That of the manifest, which is first.
                Err(error) => fault.get_or_insert(error),
            };
        }
        Err(fault.unwrap_or_else(|| malformed("it is about another artifact")))
    }

    /// Returns what the signer calls the artifact.
    pub fn signed_name(&self) -> Option<String> {
        match self {
            Self::Envelope(envelope) => {
                let payload = envelope.unverified_payload().ok()?;
                InTotoStatement::parse(&payload).ok()?.into_name()
            }
            Self::Simple { payload, .. } => {
                let payload: SimplePayload = serde_json::from_slice(payload).ok()?;
                payload.critical.identity.reference
            }
        }
    }

    /// Returns true for a statement that is not about signing, such as provenance.
    pub fn is_attestation(&self) -> bool {
        let Self::Envelope(envelope) = self else {
            return false;
        };
        let payload = envelope.unverified_payload().unwrap_or_default();
        envelope.payload_type() == STATEMENT_PAYLOAD
            && InTotoStatement::parse(&payload).is_ok_and(|statement| !statement.is_signing())
    }
}

impl FoundSignature {
    /// Creates a signature from a bundle that was not read from a registry, such as one in a file.
    pub fn from_bundle(location: impl Into<String>, bundle: SignatureBundle) -> Self {
        let content = FoundContent {
            signed: SignedContent::Envelope(bundle.envelope),
            material: bundle.material,
        };
        Self::from_content(location, content)
    }

    pub(super) fn from_content(location: impl Into<String>, content: FoundContent) -> Self {
        Self {
            location: location.into(),
            content: Ok(content),
        }
    }

    /// Creates a signature in the older form: a payload, its signature in Base64, and no certificate.
    #[cfg(test)]
    pub(super) fn from_simple(payload: Vec<u8>, annotations: &[(&str, &str)]) -> Self {
        let annotations = annotations.iter();
        let annotations = annotations.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Self {
            location: "test".to_owned(),
            content: simple_signature(payload, &annotations.collect())
                .map_err(|error| error.to_string()),
        }
    }

    /// Returns true if this is a signature of a manifest or index with one of these digests, whoever made it.
    /// Attestations, such as provenance, are not signatures.
    pub fn signs_any(&self, digests: &[OciDigest]) -> bool {
        let content = self.content.as_ref().map(|content| &content.signed);
        content
            .is_ok_and(|signed| !signed.is_attestation() && signed.check_signs_any(digests).is_ok())
    }

    /// Returns the digest or tag at which the signature was found.
    pub fn location(&self) -> &str {
        &self.location
    }
}

/// Reads the signatures and attestations of a manifest: bundles that refer to it, and the older form in a tag. A
/// signature that cannot be read is returned as such, and counts as invalid.
pub async fn find_signatures(
    client: &RegistryClient,
    reference: &OciReference,
    manifest: &OciDigest,
) -> Result<Vec<FoundSignature>, SignatureError> {
    let mut found = Vec::new();
    let mut referrers = client.referrers(reference, manifest).await?;
    referrers.retain(may_be_bundle);
    // Those that say what they are first.
    referrers.sort_by_key(|referrer| referrer.artifact_type.is_none());
    let mut budget = MAX_TOTAL_SIZE;
    for referrer in referrers.iter().take(MAX_SIGNATURES) {
        let bundle = read_bundle(client, reference, referrer, &mut budget).await;
        match bundle {
            Ok(None) => {}
            Ok(Some(bundle)) => found.push(FoundSignature::from_bundle(
                referrer.digest.to_string(),
                bundle,
            )),
            Err(error) => found.push(FoundSignature {
                location: referrer.digest.to_string(),
                content: Err(error.to_string()),
            }),
        }
    }
    found.extend(old_signatures(client, reference, manifest).await?);
    Ok(found)
}

/// Lists of referrers need not have the type.
fn may_be_bundle(referrer: &Descriptor) -> bool {
    referrer
        .artifact_type
        .as_deref()
        .is_none_or(is_bundle_media_type)
}

fn is_bundle_media_type(media_type: &str) -> bool {
    [BUNDLE_MEDIA_TYPE, OLD_BUNDLE_MEDIA_TYPE].contains(&media_type)
}

async fn read_bundle(
    client: &RegistryClient,
    reference: &OciReference,
    referrer: &Descriptor,
    budget: &mut u64,
) -> Result<Option<SignatureBundle>, SignatureError> {
    let reference = reference.with_digest(referrer.digest);
    let OciManifest::Image(manifest) = client.manifest(&reference).await?.parsed else {
        return Ok(None);
    };
    let mut layers = manifest.layers.iter();
    let Some(layer) = layers.find(|layer| is_bundle_media_type(&layer.media_type)) else {
        return Ok(None);
    };
    take_from_budget(layer.size, budget)?;
    let json = client
        .read_blob(&reference, layer, MAX_SIGNATURE_SIZE)
        .await?;
    SignatureBundle::from_json(&json).map(Some)
}

/// Takes the size of a bundle from the number of bytes that may still be read.
fn take_from_budget(size: u64, budget: &mut u64) -> Result<(), SignatureError> {
    let too_large = |what: &str, limit| {
        let limit = mimir_core::text::bytes(limit);
        Err(malformed(&format!("{what} larger than {limit}")))
    };
    if size > MAX_SIGNATURE_SIZE {
        return too_large("it is", MAX_SIGNATURE_SIZE);
    }
    let Some(rest) = budget.checked_sub(size) else {
        return too_large("with those before it, the signatures are", MAX_TOTAL_SIZE);
    };
    *budget = rest;
    Ok(())
}

/// Reads the signatures in the tag `sha256-<hex>.sig`.
async fn old_signatures(
    client: &RegistryClient,
    reference: &OciReference,
    manifest: &OciDigest,
) -> Result<Vec<FoundSignature>, SignatureError> {
    let tag = format!("sha256-{}.sig", manifest.hex());
    let reference = reference.with_tag(&tag)?;
    let signatures = match client.manifest(&reference).await {
        Ok(signatures) => signatures,
        Err(error) if error.code() == mimir_core::ToolErrorCode::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let OciManifest::Image(signatures) = signatures.parsed else {
        return Ok(Vec::new());
    };
    let layers = signatures.layers.iter();
    let layers = layers.filter(|layer| layer.media_type == SIMPLE_SIGNING);
    let mut found = Vec::new();
    for layer in layers.take(MAX_OLD_SIGNATURES) {
        let payload = client.read_blob(&reference, layer, MAX_PAYLOAD).await;
        let content = payload.map_err(SignatureError::from);
        let content = content.and_then(|payload| simple_signature(payload, &layer.annotations));
        found.push(FoundSignature {
            location: tag.clone(),
            content: content.map_err(|error| error.to_string()),
        });
    }
    Ok(found)
}

fn malformed(why: &str) -> SignatureError {
    SignatureError::malformed(OLD_SIGNATURE, why)
}

fn simple_signature(
    payload: Vec<u8>,
    annotations: &std::collections::BTreeMap<String, String>,
) -> Result<FoundContent, SignatureError> {
    let signature = annotations
        .get(SIGNATURE)
        .ok_or_else(|| malformed("its layer has no signature"))?;
    let signature = STANDARD
        .decode(signature)
        .map_err(|_| malformed("it is not Base64"))?;
    let mut material = SigningMaterial::default();
    if let Some(certificate) = annotations.get(CERTIFICATE).filter(|text| !text.is_empty()) {
        let block =
            pem::parse(certificate).ok_or_else(|| malformed("its certificate is not PEM"))?;
        material.certificate = Some(block.content);
        let chain = annotations.get(CHAIN).map_or("", String::as_str);
        material.chain = pem::parse_certificates(chain)
            .ok_or_else(|| malformed("its certificate chain is not PEM"))?;
    }
    if let Some(bundle) = annotations.get(LOG_BUNDLE).filter(|text| !text.is_empty()) {
        let bundle: OldLogBundle =
            serde_json::from_str(bundle).map_err(|_| malformed("its log entry is not valid"))?;
        material.log_entries.push(bundle.into());
    }
    Ok(FoundContent {
        signed: SignedContent::Simple { payload, signature },
        material,
    })
}

/// A log entry in an annotation.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OldLogBundle {
    signed_entry_timestamp: String,
    payload: OldLogPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldLogPayload {
    body: String,
    integrated_time: u64,
    log_index: u64,
}

impl From<OldLogBundle> for LogEntry {
    fn from(bundle: OldLogBundle) -> Self {
        Self {
            log_index: DecimalNumber(bundle.payload.log_index),
            log_id: LogId::default(),
            kind_version: LogEntryKind::default(),
            integrated_time: DecimalNumber(bundle.payload.integrated_time),
            inclusion_promise: Some(InclusionPromise {
                signed_entry_timestamp: bundle.signed_entry_timestamp,
            }),
            inclusion_proof: None,
            canonicalized_body: bundle.payload.body,
        }
    }
}

/// The payload of the older form, as far as it is signed content that counts.
#[derive(Deserialize)]
struct SimplePayload {
    critical: CriticalPart,
}

#[derive(Deserialize)]
struct CriticalPart {
    image: CriticalImage,
    #[serde(default)]
    identity: CriticalIdentity,
    #[serde(rename = "type")]
    payload_type: String,
}

#[derive(Default, Deserialize)]
struct CriticalIdentity {
    #[serde(rename = "docker-reference")]
    reference: Option<String>,
}

#[derive(Deserialize)]
struct CriticalImage {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

fn check_simple_payload(payload: &[u8], manifest: &OciDigest) -> Result<(), SignatureError> {
    let payload: SimplePayload =
        serde_json::from_slice(payload).map_err(|error| malformed(&error.to_string()))?;
    if payload.critical.payload_type != SIMPLE_SIGNING_TYPE {
        return Err(malformed("its payload has another type"));
    }
    if payload.critical.image.digest != manifest.to_string() {
        return Err(malformed("it is about another artifact"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_are_limited_one_by_one_and_together() {
        let mut budget = MAX_TOTAL_SIZE;
        let error = take_from_budget(u64::MAX, &mut budget).unwrap_err();
        assert!(error.to_string().contains("it is larger than"), "{error}");
        let mut taken = 0;
        let error = loop {
            match take_from_budget(MAX_SIGNATURE_SIZE, &mut budget) {
                Ok(()) => taken += MAX_SIGNATURE_SIZE,
                Err(error) => break error,
            }
        };
        assert_eq!(taken, MAX_TOTAL_SIZE);
        assert!(
            error.to_string().contains("with those before it"),
            "{error}"
        );
    }
}
