//! Pushes: blobs first, then the manifest that names them.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use mimir_core::network::RequestTarget;

use super::{COMPONENT_MAX, CONTENT_DIGEST, MANIFEST_MAX, RegistryClient, RegistryEndpoint};
use crate::auth::RegistryAction;
use crate::digest::OciDigest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, IMAGE_MANIFEST, ImageManifest};
use crate::reference::OciReference;
use crate::transport::RegistryResponse;

/// Media type of the config of an artifact that needs none.
const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";

/// An artifact to push.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// The type of the artifact; `None` if the media type of the config is the type.
    pub artifact_type: Option<String>,
    /// Media type and content of the config.
    pub config: (String, Vec<u8>),
    /// The layers.
    pub layers: Vec<NewLayer>,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

/// A layer to push.
#[derive(Debug, Clone)]
pub struct NewLayer {
    /// The media type.
    pub media_type: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl NewArtifact {
    /// Returns the config of an artifact that needs none.
    pub fn empty_config() -> (String, Vec<u8>) {
        (EMPTY_CONFIG.to_owned(), b"{}".to_vec())
    }

    /// Returns the digest of the manifest that [`RegistryClient::push`] writes.
    pub fn digest(&self) -> Result<OciDigest, RegistryError> {
        Ok(OciDigest::of_bytes(&manifest_bytes(&self.manifest(None))?))
    }

    /// Returns the manifest of the artifact.
    pub(super) fn manifest(&self, subject: Option<Descriptor>) -> ImageManifest {
        let (config_type, config) = &self.config;
        ImageManifest {
            schema_version: 2,
            media_type: Some(IMAGE_MANIFEST.to_owned()),
            artifact_type: self.artifact_type.clone(),
            config: Descriptor::of_bytes(config_type, config),
            layers: self
                .layers
                .iter()
                .map(|layer| Descriptor {
                    annotations: layer.annotations.clone(),
                    ..Descriptor::of_bytes(&layer.media_type, &layer.bytes)
                })
                .collect(),
            subject,
            annotations: self.annotations.clone(),
        }
    }
}

/// Returns a manifest as it is stored.
fn manifest_bytes(manifest: &ImageManifest) -> Result<Vec<u8>, RegistryError> {
    serde_json::to_vec(manifest).map_err(|error| RegistryError::Artifact {
        why: error.to_string(),
    })
}

/// A manifest in the registry.
pub(super) struct StoredManifest {
    pub(super) manifest: ImageManifest,
    pub(super) digest: OciDigest,
    pub(super) size: u64,
    /// True if the registry lists the manifest among the referrers of its subject.
    pub(super) is_listed: bool,
}

impl RegistryClient {
    /// Pushes an artifact and returns the digest of its manifest. Blobs that the registry has are not sent again.
    pub async fn push(
        &self,
        reference: &OciReference,
        artifact: &NewArtifact,
    ) -> Result<OciDigest, RegistryError> {
        let stored = self.push_with_subject(reference, artifact, None).await?;
        Ok(stored.digest)
    }

    /// Pushes blobs and manifest. Without a tag in `reference`, the manifest is stored by its digest.
    pub(super) async fn push_with_subject(
        &self,
        reference: &OciReference,
        artifact: &NewArtifact,
        subject: Option<Descriptor>,
    ) -> Result<StoredManifest, RegistryError> {
        let endpoint = RegistryEndpoint::of(reference)?;
        let manifest = artifact.manifest(subject);
        let bytes = manifest_bytes(&manifest)?;
        let digest = OciDigest::of_bytes(&bytes);
        if let Some(pinned) = reference.digest()
            && pinned != digest
        {
            return Err(RegistryError::Artifact {
                why: format!(
                    "its digest is {digest}, but the reference names {pinned}; push to a tag"
                ),
            });
        }
        self.check_artifact(&endpoint, artifact, bytes.len() as u64)?;
        let (_, config) = &artifact.config;
        self.push_blob(&endpoint, config).await?;
        for layer in &artifact.layers {
            self.push_blob(&endpoint, &layer.bytes).await?;
        }
        let version = match (reference.tag(), reference.digest()) {
            (Some(tag), None) => tag.to_owned(),
            _ => digest.to_string(),
        };
        let size = bytes.len() as u64;
        let response = self
            .put_manifest(&endpoint, &version, IMAGE_MANIFEST, bytes)
            .await?;
        let is_listed = manifest.subject.as_ref().is_some_and(|subject| {
            let listed = response.headers.get("oci-subject");
            listed.is_some_and(|listed| listed.as_bytes() == subject.digest.to_string().as_bytes())
        });
        Ok(StoredManifest {
            manifest,
            digest,
            size,
            is_listed,
        })
    }

    fn check_artifact(
        &self,
        endpoint: &RegistryEndpoint,
        artifact: &NewArtifact,
        manifest_bytes: u64,
    ) -> Result<(), RegistryError> {
        let too_large = |what: &str, limit: u64| RegistryError::Limit {
            registry: endpoint.host.clone(),
            what: format!("{what} for `{}`", endpoint.repository),
            limit: mimir_core::text::bytes(limit),
        };
        if manifest_bytes > MANIFEST_MAX {
            return Err(too_large("the manifest", MANIFEST_MAX));
        }
        let mut layers = artifact.layers.iter();
        if layers.any(|layer| layer.bytes.len() as u64 > COMPONENT_MAX) {
            return Err(too_large("a layer", COMPONENT_MAX));
        }
        Ok(())
    }

    /// Stores a manifest or index under a tag or digest.
    pub(super) async fn put_manifest(
        &self,
        endpoint: &RegistryEndpoint,
        version: &str,
        media_type: &'static str,
        bytes: Vec<u8>,
    ) -> Result<RegistryResponse, RegistryError> {
        let digest = OciDigest::of_bytes(&bytes);
        let target = endpoint.join(&format!("manifests/{version}"))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        let response = self
            .request_with_body(
                endpoint,
                RegistryAction::Push,
                Method::PUT,
                target,
                headers,
                bytes.into(),
            )
            .await?;
        if !matches!(response.status, StatusCode::CREATED | StatusCode::OK) {
            return Err(push_error(endpoint, response, "the stored manifest").await);
        }
        let claimed = response.header(&CONTENT_DIGEST);
        if let Some(claimed) = claimed.filter(|claimed| *claimed != digest.to_string()) {
            return Err(RegistryError::DigestMismatch {
                registry: endpoint.host.clone(),
                what: "the stored manifest".to_owned(),
                found: mimir_core::text::visible(mimir_core::text::prefix(claimed, 100)),
                expected: digest.to_string(),
            });
        }
        Ok(response)
    }

    /// Uploads a blob in one piece, unless the registry has it.
    async fn push_blob(
        &self,
        endpoint: &RegistryEndpoint,
        bytes: &[u8],
    ) -> Result<(), RegistryError> {
        let digest = OciDigest::of_bytes(bytes);
        let action = RegistryAction::Push;
        let target = endpoint.join(&format!("blobs/{digest}"))?;
        let existing = self
            .request(endpoint, action, Method::HEAD, target, HeaderMap::new())
            .await?;
        if existing.status == StatusCode::OK {
            return Ok(());
        }
        let target = endpoint.join("blobs/uploads/")?;
        let started = self
            .request(endpoint, action, Method::POST, target, HeaderMap::new())
            .await?;
        if started.status != StatusCode::ACCEPTED {
            return Err(push_error(endpoint, started, "the start of an upload").await);
        }
        let location = started
            .location()
            .ok_or_else(|| endpoint.malformed("the start of an upload", "its URL is missing"))?;
        let location = location.map_err(|error| RegistryError::http(&endpoint.host, error))?;
        let target = with_digest(&location, &digest);
        let target = target.map_err(|error| RegistryError::http(&endpoint.host, error))?;
        let mut headers = HeaderMap::new();
        let octets = HeaderValue::from_static("application/octet-stream");
        headers.insert(header::CONTENT_TYPE, octets);
        let body = Bytes::copy_from_slice(bytes);
        let stored = self
            .request_with_body(endpoint, action, Method::PUT, target, headers, body)
            .await?;
        if stored.status != StatusCode::CREATED {
            return Err(push_error(endpoint, stored, "the end of an upload").await);
        }
        Ok(())
    }
}

impl Descriptor {
    /// Returns the descriptor of some content.
    pub fn of_bytes(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: OciDigest::of_bytes(bytes),
            size: bytes.len() as u64,
            annotations: BTreeMap::new(),
            artifact_type: None,
            platform: None,
        }
    }
}

/// Adds the digest of the content to the URL of an upload.
fn with_digest(
    location: &RequestTarget,
    digest: &OciDigest,
) -> Result<RequestTarget, mimir_net::Error> {
    let mut url = location.url().clone();
    url.query_pairs_mut()
        .append_pair("digest", &digest.to_string());
    Ok(RequestTarget::parse(url.as_str())?)
}

async fn push_error(
    endpoint: &RegistryEndpoint,
    response: RegistryResponse,
    expected: &'static str,
) -> RegistryError {
    let what = format!("the repository `{}`", endpoint.repository);
    endpoint
        .status_error(response, &what, expected, RegistryAction::Push)
        .await
}
