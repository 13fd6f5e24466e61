//! Sources of bundles: a reference of a registry, a folder, or a cluster.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mimir_cluster::{ComponentStore, ObjectError};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::team::{
    BUNDLE_ARTIFACT_TYPE, BUNDLE_ENVELOPE_FILE, BUNDLE_ENVELOPE_MEDIA_TYPE, MAX_BLOB_SIZE,
    MAX_ENVELOPE_SIZE, blob_path,
};
use mimir_registry::{
    Descriptor, ImageManifest, OciDigest, OciManifest, OciReference, RegistryClient,
};

use crate::file_error::file_error;
use crate::private_files::{self, FileReaders};

/// A source of a team's bundle.
pub enum BundleSource {
    /// A folder with `team.json` and `blobs`.
    Folder(PathBuf),
    /// A repository of a registry.
    Registry {
        /// The reference of the bundle.
        reference: OciReference,
        /// The client of the registry.
        client: Box<RegistryClient>,
    },
    /// The objects of a cluster.
    Cluster {
        /// SHA-256 of the published envelope in hex.
        envelope: String,
        /// The time at which the publisher has found the bundle in the team's own source.
        checked_at: Timestamp,
        /// The objects.
        store: ComponentStore,
    },
}

/// An envelope that was fetched and not verified yet, with the layers beside it.
pub struct FetchedEnvelope {
    /// The envelope.
    pub bytes: Vec<u8>,
    layers: Vec<Descriptor>,
    /// The reference with the digest of the manifest, so that all blobs come from the same push.
    pinned: Option<OciReference>,
}

impl BundleSource {
    /// Creates the source of a reference. `client` is called for references of registries only.
    ///
    /// # Errors
    /// The reference is neither an absolute path nor valid.
    pub fn new(
        reference: &str,
        client: impl FnOnce() -> Result<RegistryClient, ToolError>,
    ) -> Result<Self, ToolError> {
        if Path::new(reference).is_absolute() {
            return Ok(Self::Folder(PathBuf::from(reference)));
        }
        Ok(Self::Registry {
            reference: reference.parse()?,
            client: Box::new(client()?),
        })
    }

    /// Returns the time at which the team's own source had the bundle. `None` if this is that source.
    pub(super) const fn checked_at(&self) -> Option<Timestamp> {
        match self {
            Self::Cluster { checked_at, .. } => Some(*checked_at),
            Self::Folder(_) | Self::Registry { .. } => None,
        }
    }

    /// Fetches the envelope. Nothing in it may be used before it is verified.
    ///
    /// # Errors
    /// The folder or registry is not available, or has another artifact there.
    pub async fn fetch_envelope(&self) -> Result<FetchedEnvelope, ToolError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(BUNDLE_ENVELOPE_FILE);
                let bytes = files::read(&path, LinkPolicy::Follow, MAX_ENVELOPE_SIZE)
                    .map_err(|error| file_error("read the team's bundle", &path, &error))?;
                Ok(FetchedEnvelope {
                    bytes,
                    layers: Vec::new(),
                    pinned: None,
                })
            }
            Self::Registry { reference, client } => {
                let pulled = client.manifest(reference).await?;
                let OciManifest::Image(manifest) = pulled.parsed else {
                    return Err(other_artifact(reference));
                };
                let pinned = reference.with_digest(pulled.digest);
                let envelope =
                    envelope_layer(&manifest).ok_or_else(|| other_artifact(reference))?;
                let bytes = client
                    .read_blob(&pinned, envelope, MAX_ENVELOPE_SIZE)
                    .await?;
                Ok(FetchedEnvelope {
                    bytes,
                    layers: manifest.layers,
                    pinned: Some(pinned),
                })
            }
            Self::Cluster {
                envelope, store, ..
            } => {
                let size = store.size(envelope).await.map_err(object_error)?;
                if size.is_some_and(|size| size > MAX_ENVELOPE_SIZE) {
                    let message = format!(
                        "the published bundle of the team is too large: expected at most {MAX_ENVELOPE_SIZE} bytes"
                    );
                    return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
                }
                Ok(FetchedEnvelope {
                    bytes: store.get(envelope).await.map_err(object_error)?,
                    layers: Vec::new(),
                    pinned: None,
                })
            }
        }
    }

    /// Fetches a blob of a verified bundle into the file `target`. Its digest and size are checked.
    ///
    /// # Errors
    /// The blob is missing, has another content, or cannot be written.
    pub async fn fetch_blob(
        &self,
        envelope: &FetchedEnvelope,
        digest: &OciDigest,
        size: u64,
        target: &Path,
    ) -> Result<(), ToolError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(blob_path(digest));
                let bytes = files::read(&path, LinkPolicy::Follow, size).map_err(|error| {
                    file_error("read a part of the team's bundle", &path, &error)
                })?;
                if OciDigest::of_bytes(&bytes) != *digest {
                    let message = format!(
                        "a part of the team's bundle was changed: {} has another content than the bundle names",
                        mimir_core::text::visible(&path.display().to_string())
                    );
                    return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
                }
                private_files::replace(target, &bytes, FileReaders::Owner)
                    .map_err(|error| file_error("write", target, &error))
            }
            Self::Registry { client, .. } => {
                let mut layers = envelope.layers.iter();
                let layer = layers.find(|layer| layer.digest == *digest);
                let (Some(layer), Some(pinned)) = (layer, &envelope.pinned) else {
                    let message =
                        format!("the bundle names {digest}, which was not pushed with it");
                    return Err(ToolError::new(ToolErrorCode::NotFound, message));
                };
                if layer.size != size {
                    let message = format!(
                        "the registry states {} bytes for {digest}, but the bundle {size}",
                        layer.size
                    );
                    return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
                }
                client
                    .pull_blob(pinned, layer, target, size.min(MAX_BLOB_SIZE))
                    .await?;
                Ok(())
            }
            // The caller checks the size.
            Self::Cluster { store, .. } => {
                let read = store.get_file(&digest.hex(), target).await;
                read.map_err(object_error)
            }
        }
    }
}

fn object_error(error: ObjectError) -> ToolError {
    match error {
        ObjectError::Cluster(error) => crate::cluster::cluster_error(error),
        error => ToolError::unavailable(error),
    }
}

/// Returns the layer of the envelope, which is the first.
fn envelope_layer(manifest: &ImageManifest) -> Option<&Descriptor> {
    let has_type = manifest.artifact_type.as_deref() == Some(BUNDLE_ARTIFACT_TYPE)
        || manifest.config.media_type == BUNDLE_ARTIFACT_TYPE;
    let first = manifest.layers.first()?;
    (has_type && first.media_type == BUNDLE_ENVELOPE_MEDIA_TYPE).then_some(first)
}

fn other_artifact(reference: &OciReference) -> ToolError {
    let message = format!("{reference} is not a bundle of a team: expected {BUNDLE_ARTIFACT_TYPE}");
    ToolError::invalid_input(message)
}
