//! Pulling of artifacts: the signature of the manifest is checked first, then the component is downloaded into the
//! user's cache.

use std::path::PathBuf;
use std::time::SystemTime;

use mimir_core::grants::{SourceRecord, SourceSigner};
use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{
    FoundSignature, Provenance, Signer, StoredSignatures, TrustPolicy, find_signatures,
};
use mimir_registry::wasm_artifact::{POLICY_MAX, find_component};
use mimir_registry::{
    Descriptor, OciDigest, OciManifest, OciReference, PulledManifest, RegistryClient,
};

use super::{MAX_COMPONENT_SIZE, SignatureState, download_cache, registry_client};
use crate::file_error::file_error;
use crate::private_files::private_folder;
use crate::setup::HostSetup;
use crate::signing_keys::trust_policy;

/// Maximum length of a version that is stored, in bytes.
const MAX_VERSION: usize = 64;

/// Annotation with the version of an artifact.
const VERSION_ANNOTATION: &str = "org.opencontainers.image.version";

/// The registries of a workspace: their client, the trust policy, and the cache of downloads.
pub struct Registries {
    client: RegistryClient,
    trust: TrustPolicy,
    cache: Option<PathBuf>,
}

/// A manifest that a reference names. The trust policy accepts it.
#[derive(Debug)]
pub struct InspectedArtifact {
    /// The reference as it was named.
    pub reference: OciReference,
    /// The manifest.
    pub manifest: PulledManifest,
    /// The trusted signer; `None` if the trust policy does not cover the artifact.
    pub signer: Option<Signer>,
    signatures: Vec<FoundSignature>,
    provenance: Option<Provenance>,
}

/// A downloaded component.
pub struct PulledComponent {
    /// The component.
    pub bytes: Vec<u8>,
    /// The source for the lock file.
    pub source: SourceRecord,
    /// Text of a policy file of another host that the artifact brings.
    pub policy: Option<String>,
}

impl Registries {
    /// Creates the registries that the settings of a workspace describe.
    pub fn from_setup(setup: &HostSetup) -> Result<Self, ToolError> {
        let cache = setup.user_dirs.cache.as_ref();
        Ok(Self {
            client: registry_client(setup)?,
            trust: trust_policy(setup)?,
            cache: cache.map(|cache| cache.join("registry").join("blobs")),
        })
    }

    /// Returns the client.
    pub fn client(&self) -> &RegistryClient {
        &self.client
    }

    /// Returns registries without their mirrors, for decisions that a mirror must not influence.
    #[must_use]
    pub fn without_mirrors(self) -> Self {
        Self {
            client: self.client.without_mirrors(),
            ..self
        }
    }

    /// Returns the state of the signature of a manifest.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be used. Content that the trust policy refuses counts by its signatures.
    pub async fn signature_state(
        &self,
        reference: &OciReference,
        digest: &OciDigest,
    ) -> Result<SignatureState, ToolError> {
        let digests = std::slice::from_ref(digest);
        let found = self.find_signatures(reference, digests).await?;
        let now = SystemTime::now();
        let signer = self.trust.check_any(reference, digests, &found, now);
        let signer = signer.ok().flatten().map(|signer| signer.to_string());
        let has_signatures = found.iter().any(|found| found.signs_any(digests));
        Ok(SignatureState::new(signer, has_signatures, reference))
    }

    /// Reads the signatures of a manifest, and those of the index with it.
    async fn find_signatures(
        &self,
        reference: &OciReference,
        digests: &[OciDigest],
    ) -> Result<Vec<FoundSignature>, ToolError> {
        let mut found = Vec::new();
        for digest in digests {
            let signatures = find_signatures(&self.client, reference, digest).await;
            found.extend(signatures.map_err(ToolError::from)?);
        }
        Ok(found)
    }

    /// Returns the digest of the manifest that a reference names now.
    pub async fn resolve(&self, reference: &OciReference) -> Result<OciDigest, ToolError> {
        self.client
            .resolve(reference)
            .await
            .map_err(ToolError::from)
    }

    /// Fetches the manifest of a reference, and checks its signatures.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be used, or if the trust policy refuses the artifact.
    pub async fn inspect(&self, reference: &OciReference) -> Result<InspectedArtifact, ToolError> {
        let manifest = self.client.manifest(reference).await;
        let manifest = manifest.map_err(ToolError::from)?;
        let (digests, now) = (manifest.signed_digests(), SystemTime::now());
        let found = match self.find_signatures(reference, &digests).await {
            Ok(found) => found,
            // Without a requirement, a registry that cannot list signatures is like one without them.
            Err(error) if !self.trust.requires_signature(reference) => {
                tracing::debug!(%error, "the signatures cannot be read");
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let signer = self.trust.check_any(reference, &digests, &found, now);
        let provenance = self.trust.provenance(reference, &digests, &found, now);
        Ok(InspectedArtifact {
            reference: reference.clone(),
            signer: signer.map_err(ToolError::from)?,
            // Signed provenance first.
            provenance: provenance.into_iter().max_by_key(|it| it.signer.is_some()),
            signatures: self.trust.keep_accepted(reference, &digests, found, now),
            manifest,
        })
    }

    /// Downloads the component of an artifact.
    pub async fn download(
        &self,
        artifact: &InspectedArtifact,
    ) -> Result<PulledComponent, ToolError> {
        let layers = find_component(&artifact.manifest).map_err(ToolError::from)?;
        let digest = artifact.manifest.digest;
        let reference = artifact.reference.with_digest(digest);
        let bytes = self.download_blob(&reference, &layers.component).await?;
        let policy = match layers.policies.first() {
            Some(policy) => Some(self.read_policy(&reference, policy).await?),
            None => None,
        };
        let mut source = SourceRecord::new(
            artifact.reference.to_string(),
            &layers.component.digest.hex(),
        );
        source.manifest = Some(digest.to_string());
        source.index = artifact.signed_index().map(|digest| digest.to_string());
        source.signer = artifact.signer.clone().map(source_signer);
        source.version = artifact.version();
        source.provenance = artifact.provenance_text();
        source.policy = policy
            .as_ref()
            .map(|text| OciDigest::of_bytes(text.as_bytes()).to_string());
        Ok(PulledComponent {
            bytes,
            source,
            policy,
        })
    }

    /// Downloads the component that a lock entry names, from the cache if it has it.
    pub async fn download_pinned(
        &self,
        source: &SourceRecord,
    ) -> Result<PulledComponent, ToolError> {
        let layer: OciDigest = source.layer.parse().map_err(ToolError::from)?;
        if source.policy.is_none()
            && let Some(bytes) = self.cached_blob(&layer)
        {
            return Ok(PulledComponent {
                bytes,
                source: source.clone(),
                policy: None,
            });
        }
        let pulled = self.download(&self.inspect_pinned(source).await?).await?;
        if pulled.source.layer != source.layer {
            return Err(ToolError::permission_denied(format!(
                "the component of {} has the digest {}, expected {}",
                visible(&source.reference),
                pulled.source.layer,
                visible(&source.layer)
            )));
        }
        if let Some(expected) = &source.policy
            && pulled.source.policy.as_ref() != Some(expected)
        {
            return Err(ToolError::permission_denied(format!(
                "the policy file of {} has the digest {}, expected {}",
                visible(&source.reference),
                pulled.source.policy.as_deref().unwrap_or("of nothing"),
                visible(expected)
            )));
        }
        Ok(PulledComponent {
            bytes: pulled.bytes,
            source: source.clone(),
            policy: pulled.policy.filter(|_| source.policy.is_some()),
        })
    }

    /// Fetches exactly the manifest of a lock entry, wherever its tag points now, and checks its signatures.
    pub async fn inspect_pinned(
        &self,
        source: &SourceRecord,
    ) -> Result<InspectedArtifact, ToolError> {
        let reference: OciReference = source.reference.parse().map_err(ToolError::from)?;
        let Some(manifest) = &source.manifest else {
            return Err(ToolError::invalid_input(format!(
                "the lock entry of {reference} has no digest of a manifest"
            )));
        };
        let manifest: OciDigest = manifest.parse().map_err(ToolError::from)?;
        let index = source.index.as_ref().map(|index| index.parse());
        let index: Option<OciDigest> = index.transpose().map_err(ToolError::from)?;
        // The signature may be that of the index.
        let pinned = reference.with_digest(index.unwrap_or(manifest));
        let mut artifact = self.inspect(&pinned).await?;
        if artifact.manifest.digest != manifest {
            return Err(ToolError::permission_denied(format!(
                "{pinned} names the manifest {}, expected {manifest}",
                artifact.manifest.digest
            )));
        }
        artifact.reference = reference;
        Ok(artifact)
    }

    /// Returns a blob of the cache; `None` if it is missing or was changed.
    pub fn cached_blob(&self, digest: &OciDigest) -> Option<Vec<u8>> {
        let path = self.cache.as_ref()?.join(digest.hex());
        let bytes = mimir_core::files::read(
            &path,
            mimir_core::files::LinkPolicy::Refuse,
            MAX_COMPONENT_SIZE,
        );
        let bytes = bytes
            .ok()
            .filter(|bytes| OciDigest::of_bytes(bytes) == *digest)?;
        download_cache::mark_used(&path);
        Some(bytes)
    }

    async fn download_blob(
        &self,
        reference: &OciReference,
        blob: &Descriptor,
    ) -> Result<Vec<u8>, ToolError> {
        if let Some(bytes) = self.cached_blob(&blob.digest) {
            return Ok(bytes);
        }
        let temporary;
        let folder = match &self.cache {
            Some(cache) => {
                private_folder(cache).map_err(|error| file_error("create", cache, &error))?;
                cache.as_path()
            }
            None => {
                let system = std::env::temp_dir();
                temporary = tempfile::tempdir()
                    .map_err(|error| file_error("create a folder in", &system, &error))?;
                temporary.path()
            }
        };
        let path = folder.join(blob.digest.hex());
        let pulled = self
            .client
            .pull_blob(reference, blob, &path, MAX_COMPONENT_SIZE)
            .await;
        pulled.map_err(ToolError::from)?;
        let bytes = mimir_core::files::read(
            &path,
            mimir_core::files::LinkPolicy::Refuse,
            MAX_COMPONENT_SIZE,
        )
        .map_err(|error| file_error("read", &path, &error))?;
        // Another process could have replaced the file.
        if OciDigest::of_bytes(&bytes) != blob.digest {
            let message = format!(
                "{} was changed while it was read",
                visible(&path.display().to_string())
            );
            return Err(ToolError::new(ToolErrorCode::Unavailable, message));
        }
        // After the download, so that commands without one never wait for it.
        if let Some(cache) = &self.cache {
            download_cache::prune(cache);
        }
        Ok(bytes)
    }

    async fn read_policy(
        &self,
        reference: &OciReference,
        policy: &Descriptor,
    ) -> Result<String, ToolError> {
        let text = self.client.read_blob(reference, policy, POLICY_MAX).await;
        String::from_utf8(text.map_err(ToolError::from)?).map_err(|_| {
            ToolError::invalid_input(format!("the policy file of {reference} is not UTF-8 text"))
        })
    }
}

impl InspectedArtifact {
    /// Returns the version in the annotations.
    pub fn version(&self) -> Option<String> {
        let OciManifest::Image(manifest) = &self.manifest.parsed else {
            return None;
        };
        let version = manifest.annotations.get(VERSION_ANNOTATION)?.trim();
        (!version.is_empty()).then(|| visible(prefix(version, MAX_VERSION)))
    }

    /// Returns the state of its signature.
    pub fn signature_state(&self) -> SignatureState {
        let signer = self.signer.as_ref().map(ToString::to_string);
        let digests = self.manifest.signed_digests();
        let has_signatures = self
            .signatures
            .iter()
            .any(|found| found.signs_any(&digests));
        SignatureState::new(signer, has_signatures, &self.reference)
    }

    /// Returns the digest of the index with the manifest, if a signature is that of the index.
    fn signed_index(&self) -> Option<OciDigest> {
        let index = self.manifest.index.as_ref()?.digest;
        let mut signatures = self.signatures.iter();
        signatures
            .any(|found| found.signs_any(&[index]))
            .then_some(index)
    }

    /// Returns the provenance for the user.
    pub fn provenance_text(&self) -> Option<String> {
        let provenance = self.provenance.as_ref()?;
        let mut text = match &provenance.builder {
            Some(builder) => format!("built by {builder}"),
            None => "built by an unnamed builder".to_owned(),
        };
        if let Some(source) = &provenance.source {
            text.push_str(&format!(" from {source}"));
        }
        if let Some(commit) = &provenance.commit {
            text.push_str(&format!(" at {commit}"));
        }
        text.push_str(if provenance.signer.is_some() {
            " (signed)"
        } else {
            " (says a statement without a trusted signature)"
        });
        Some(text)
    }

    /// Returns the content of the file with the manifest and its signatures.
    pub fn stored_signatures(&self) -> Result<Vec<u8>, ToolError> {
        let index = self.manifest.index.as_ref();
        let index = index.map(|index| index.bytes.as_slice());
        let stored = StoredSignatures::with_index(&self.manifest.bytes, index, &self.signatures);
        let json = stored.and_then(|stored| stored.to_json());
        json.map_err(ToolError::from)
    }
}

/// Describes a signer with its whole key ID, and the name in the signature if its tag is another.
pub fn describe_signer(signer: &Signer) -> String {
    let recorded = source_signer(signer.clone());
    match signer.signed_as() {
        Some(name) => format!("{recorded}, signed as {}", visible(name)),
        None => recorded.to_string(),
    }
}

/// Returns a signer in the form of the lock file.
pub fn source_signer(signer: Signer) -> SourceSigner {
    match signer {
        Signer::Key { id, name, .. } => SourceSigner::Key {
            key: id,
            name: Some(name),
        },
        Signer::Identity {
            issuer, subject, ..
        } => SourceSigner::Identity { issuer, subject },
    }
}
