//! Client of a registry: manifests, blobs, pushes, referrers and tags.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mimir_net::HttpClient;

use crate::credentials::Credentials;
use crate::digest::OciDigest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, PulledManifest};
use crate::reference::OciReference;

/// Mirrors of registries: host of the registry to hosts that are tried first. Never used for pushes.
pub type Mirrors = BTreeMap<String, Vec<String>>;

/// An artifact to push.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// The type of the artifact; `None` if the media type of the config says it.
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

/// Client of all registries, for one command or background task.
#[derive(Debug, Clone)]
pub struct RegistryClient {
    http: Arc<HttpClient>,
    credentials: Credentials,
    mirrors: Mirrors,
}

impl RegistryClient {
    /// Creates a client that sends its requests through `http`.
    pub fn new(http: Arc<HttpClient>, credentials: Credentials, mirrors: Mirrors) -> Self {
        Self {
            http,
            credentials,
            mirrors,
        }
    }

    /// Returns the digest of the manifest that a reference names now.
    pub async fn resolve(&self, reference: &OciReference) -> Result<OciDigest, RegistryError> {
        Err(self.unfinished(reference))
    }

    /// Fetches the manifest of a reference.
    pub async fn manifest(
        &self,
        reference: &OciReference,
    ) -> Result<PulledManifest, RegistryError> {
        Err(self.unfinished(reference))
    }

    /// Downloads a blob to `target`, at most `max` bytes. The digest is checked before `target` is replaced. A partial
    /// download is kept beside `target` and continued by the next call.
    pub async fn pull_blob(
        &self,
        reference: &OciReference,
        blob: &Descriptor,
        target: &Path,
        max: u64,
    ) -> Result<(), RegistryError> {
        let _ = (blob, target, max);
        Err(self.unfinished(reference))
    }

    /// Downloads a small blob into memory, at most `max` bytes.
    pub async fn read_blob(
        &self,
        reference: &OciReference,
        blob: &Descriptor,
        max: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let _ = (blob, max);
        Err(self.unfinished(reference))
    }

    /// Pushes an artifact and returns the digest of its manifest.
    pub async fn push(
        &self,
        reference: &OciReference,
        artifact: &NewArtifact,
    ) -> Result<OciDigest, RegistryError> {
        let _ = artifact;
        Err(self.unfinished(reference))
    }

    /// Lists the artifacts that refer to `subject`.
    pub async fn referrers(
        &self,
        reference: &OciReference,
        subject: &OciDigest,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        let _ = subject;
        Err(self.unfinished(reference))
    }

    /// Pushes an artifact that refers to `subject`, such as a signature, and returns the digest of its manifest.
    pub async fn push_referrer(
        &self,
        reference: &OciReference,
        subject: &OciDigest,
        artifact: &NewArtifact,
    ) -> Result<OciDigest, RegistryError> {
        let _ = (subject, artifact);
        Err(self.unfinished(reference))
    }

    /// Lists the tags of the repository.
    pub async fn tags(&self, reference: &OciReference) -> Result<Vec<String>, RegistryError> {
        Err(self.unfinished(reference))
    }

    fn unfinished(&self, reference: &OciReference) -> RegistryError {
        let _ = (&self.http, &self.credentials, &self.mirrors);
        RegistryError::Reference {
            text: reference.to_string(),
            why: "not built yet",
        }
    }
}
