//! Targets of a bundle: a reference in a registry, or a folder.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{DsseEnvelope, VerifyingKey};
use mimir_registry::team::{
    BLOB_MEDIA_TYPE, BUNDLE_ARTIFACT_TYPE, BUNDLE_ENVELOPE_FILE, BUNDLE_ENVELOPE_MEDIA_TYPE,
    BUNDLE_PAYLOAD_TYPE, MAX_ENVELOPE_SIZE, TeamBundle, blob_path,
};
use mimir_registry::{
    NewArtifact, NewLayer, OciDigest, OciManifest, OciReference, RegistryClient, RegistryError,
};

use crate::file_error::{file_error, write_atomically};

/// Media type and content of the config of an artifact without one.
const EMPTY_CONFIG: (&str, &[u8]) = ("application/vnd.oci.empty.v1+json", b"{}");

/// Annotation with the version of a bundle, for display in registries.
const VERSION_ANNOTATION: &str = "org.opencontainers.image.version";

/// Annotation with the name of a team, for display in registries.
const TITLE_ANNOTATION: &str = "org.opencontainers.image.title";

/// Target of `mimir team publish`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishTarget {
    /// A tag in a registry.
    Registry(OciReference),
    /// A folder, such as one on a file server.
    Folder(PathBuf),
}

/// The bundle that members get now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedBundle {
    /// The bundle.
    pub bundle: TeamBundle,
    /// Id of the key that signed it.
    pub key_id: String,
    /// Digest of the envelope.
    pub envelope: OciDigest,
}

impl fmt::Display for PublishTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => write!(f, "{reference}"),
            Self::Folder(folder) => f.write_str(&visible(&folder.display().to_string())),
        }
    }
}

impl PublishTarget {
    /// Parses a target. Absolute paths, paths that begin with `./` or `../`, and existing folders are folders.
    ///
    /// # Errors
    ///
    /// Fails if the text is neither, or if the reference names a digest, which a push cannot choose.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        let path = Path::new(text);
        let is_relative = [".", ".."].iter().any(|start| path.starts_with(start));
        if path.is_absolute() || is_relative || path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let reference: OciReference = text.parse().map_err(|error: RegistryError| {
            let remedy = "to publish to a folder, write it as ./FOLDER".to_owned();
            ToolError::from(error).with_remedies([remedy])
        })?;
        if reference.digest().is_some() {
            let message =
                format!("{reference} names a digest; name a tag, which members can follow");
            return Err(ToolError::invalid_input(message));
        }
        Ok(Self::Registry(reference))
    }

    /// Returns the bundle that is published now; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the target cannot be read, or if no key of `keys` has signed the bundle.
    pub async fn published(
        &self,
        client: &RegistryClient,
        keys: &[VerifyingKey],
    ) -> Result<Option<PublishedBundle>, ToolError> {
        let Some(envelope) = self.envelope(client).await? else {
            return Ok(None);
        };
        let parsed = DsseEnvelope::from_json(&envelope).map_err(|error| {
            ToolError::invalid_input(format!("{self} has something other than a bundle: {error}"))
        })?;
        let (payload, key_id) = parsed.verify(keys).map_err(|_| {
            let message = format!(
                "the bundle at {self} is not signed by a key in `keys` of team.yml; nothing was published"
            );
            let remedy = "add the public key that signed it to `keys`, where a revoked key can stay, or publish to another target"
                .to_owned();
            ToolError::new(ToolErrorCode::PermissionDenied, message).with_remedies([remedy])
        })?;
        if parsed.payload_type() != BUNDLE_PAYLOAD_TYPE {
            let message =
                format!("{self} has a signed file of another kind; nothing was published");
            return Err(ToolError::invalid_input(message));
        }
        let bundle = TeamBundle::from_payload(&payload)?;
        Ok(Some(PublishedBundle {
            bundle,
            key_id,
            envelope: OciDigest::of_bytes(&envelope),
        }))
    }

    /// Reads the envelope; `None` if nothing is published.
    async fn envelope(&self, client: &RegistryClient) -> Result<Option<Vec<u8>>, ToolError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(BUNDLE_ENVELOPE_FILE);
                match files::read(&path, LinkPolicy::Refuse, MAX_ENVELOPE_SIZE) {
                    Ok(envelope) => Ok(Some(envelope)),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(file_error("read", &path, &error)),
                }
            }
            Self::Registry(reference) => {
                let manifest = match client.manifest(reference).await {
                    Ok(manifest) => manifest,
                    Err(error) if error.code() == ToolErrorCode::NotFound => return Ok(None),
                    Err(error) => return Err(error.into()),
                };
                let layer = match &manifest.parsed {
                    OciManifest::Image(image) => image.layers.first(),
                    OciManifest::Index(_) => None,
                };
                let layer = layer.filter(|layer| layer.media_type == BUNDLE_ENVELOPE_MEDIA_TYPE);
                let Some(layer) = layer else {
                    let message = format!(
                        "{reference} has an artifact other than a team's bundle; nothing was published"
                    );
                    let remedy = "publish to another repository or tag".to_owned();
                    return Err(ToolError::new(ToolErrorCode::AlreadyExists, message)
                        .with_remedies([remedy]));
                };
                let envelope = client
                    .read_blob(reference, layer, MAX_ENVELOPE_SIZE)
                    .await?;
                Ok(Some(envelope))
            }
        }
    }

    /// Publishes an envelope and the blobs that its bundle names. `before` is the digest of the published envelope that
    /// the bundle was made from. Members see the old bundle or the new one, and nothing in between.
    ///
    /// # Errors
    ///
    /// Fails if another bundle was published in the meantime, or if the target cannot be written. The published bundle
    /// then stays as it was.
    pub async fn publish(
        &self,
        client: &RegistryClient,
        bundle: &TeamBundle,
        envelope: &[u8],
        blobs: &BTreeMap<OciDigest, Vec<u8>>,
        before: Option<OciDigest>,
    ) -> Result<(), ToolError> {
        let now = self.envelope(client).await?;
        if now.as_deref().map(OciDigest::of_bytes) != before {
            let message = format!(
                "another bundle was published to {self} in the meantime; nothing was published, try again"
            );
            return Err(ToolError::new(ToolErrorCode::AlreadyExists, message));
        }
        match self {
            Self::Folder(folder) => write_folder(folder, envelope, blobs),
            Self::Registry(reference) => {
                let artifact = artifact(bundle, envelope, blobs);
                client.push(reference, &artifact).await?;
                Ok(())
            }
        }
    }
}

/// Writes a bundle into a folder: the blobs first, so that the envelope never names a missing one.
fn write_folder(
    folder: &Path,
    envelope: &[u8],
    blobs: &BTreeMap<OciDigest, Vec<u8>>,
) -> Result<(), ToolError> {
    let write = |path: PathBuf, content: &[u8]| {
        write_atomically(&path, content).map_err(|error| file_error("write", &path, &error))
    };
    for (digest, content) in blobs {
        let path = folder.join(blob_path(digest));
        let existing = std::fs::read(&path).ok();
        // Written again if it was changed or damaged.
        if existing.as_deref() != Some(content) {
            write(path, content)?;
        }
    }
    write(folder.join(BUNDLE_ENVELOPE_FILE), envelope)
}

fn artifact(
    bundle: &TeamBundle,
    envelope: &[u8],
    blobs: &BTreeMap<OciDigest, Vec<u8>>,
) -> NewArtifact {
    let layer = |media_type: &str, bytes: &[u8]| NewLayer {
        media_type: media_type.to_owned(),
        bytes: bytes.to_vec(),
        annotations: BTreeMap::new(),
    };
    let blobs = blobs
        .values()
        .map(|content| layer(BLOB_MEDIA_TYPE, content));
    let annotations = [
        (VERSION_ANNOTATION, bundle.version.to_string()),
        (TITLE_ANNOTATION, bundle.team.name.clone()),
    ];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value));
    NewArtifact {
        artifact_type: Some(BUNDLE_ARTIFACT_TYPE.to_owned()),
        config: (EMPTY_CONFIG.0.to_owned(), EMPTY_CONFIG.1.to_vec()),
        layers: std::iter::once(layer(BUNDLE_ENVELOPE_MEDIA_TYPE, envelope))
            .chain(blobs)
            .collect(),
        annotations: annotations.into(),
    }
}
