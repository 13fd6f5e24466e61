//! Referrers: artifacts that refer to another one, such as signatures. Registries list them by an API; for those without
//! it, the list is an index under a tag (`sha256-<hex>`), which clients maintain.

use std::collections::HashSet;

use http::header::HeaderMap;
use http::{Method, StatusCode};

use super::{MANIFEST_MAX, NewArtifact, RegistryClient, RegistryEndpoint, tags};
use crate::auth::RegistryAction;
use crate::digest::OciDigest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, IMAGE_INDEX, IMAGE_MANIFEST, ImageIndex, OciManifest};
use crate::reference::OciReference;

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 20;
/// Maximum number of referrers of one artifact.
const MAX_REFERRERS: usize = 1000;
/// Maximum number of attempts to change the list of a registry without the API.
const MAX_WRITES: usize = 4;

impl RegistryClient {
    /// Lists the artifacts that refer to `subject`, of every type. The list is the claim of the registry.
    pub async fn referrers(
        &self,
        reference: &OciReference,
        subject: &OciDigest,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        self.list_referrers(reference, subject, None).await
    }

    /// Lists the artifacts of one type that refer to `subject`.
    pub async fn referrers_of_type(
        &self,
        reference: &OciReference,
        subject: &OciDigest,
        artifact_type: &str,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        let mut found = self
            .list_referrers(reference, subject, Some(artifact_type))
            .await?;
        // Registries may ignore the filter.
        found.retain(|entry| entry.artifact_type.as_deref() == Some(artifact_type));
        Ok(found)
    }

    async fn list_referrers(
        &self,
        reference: &OciReference,
        subject: &OciDigest,
        artifact_type: Option<&str>,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        let (mirrors, registry) = self.endpoints(reference)?;
        for mirror in &mirrors {
            let found = self
                .referrers_from(mirror, reference, subject, artifact_type)
                .await;
            match found {
                // A mirror may have the artifact without its signatures.
                Ok(found) if found.is_empty() => {}
                Ok(found) => return Ok(found),
                Err(error) => mirror.warn_skipped(&error),
            }
        }
        self.referrers_from(&registry, reference, subject, artifact_type)
            .await
    }

    async fn referrers_from(
        &self,
        endpoint: &RegistryEndpoint,
        reference: &OciReference,
        subject: &OciDigest,
        artifact_type: Option<&str>,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        let listed = self.api_referrers(endpoint, subject, artifact_type).await?;
        if let Some(found) = listed {
            return Ok(found);
        }
        let index = self.fallback_index(endpoint, reference, subject).await?;
        Ok(index.map(|index| index.manifests).unwrap_or_default())
    }

    /// Pushes an artifact that refers to `subject`, such as a signature, and returns the digest of its manifest. If the
    /// registry does not have the referrers API, the list under the fallback tag is updated.
    pub async fn push_referrer(
        &self,
        reference: &OciReference,
        subject: &OciDigest,
        artifact: &NewArtifact,
    ) -> Result<OciDigest, RegistryError> {
        let endpoint = RegistryEndpoint::of(reference)?;
        let pinned = reference.with_digest(*subject);
        // Not from a mirror: the subject must exist where the referrer is pushed.
        let found = self.manifest_from(&endpoint, &pinned).await?;
        let media_type = match found.parsed {
            OciManifest::Image(_) => IMAGE_MANIFEST,
            OciManifest::Index(_) => IMAGE_INDEX,
        };
        let subject = Descriptor::of_bytes(media_type, &found.bytes);
        let untagged = reference.without_version();
        let stored = self
            .push_with_subject(&untagged, artifact, Some(subject.clone()))
            .await?;
        if !stored.is_listed {
            let entry = Descriptor {
                media_type: IMAGE_MANIFEST.to_owned(),
                digest: stored.digest,
                size: stored.size,
                artifact_type: Some(stored.manifest.kind().to_owned()),
                annotations: stored.manifest.annotations,
                platform: None,
            };
            self.add_to_fallback(&endpoint, reference, &subject.digest, entry)
                .await?;
        }
        Ok(stored.digest)
    }

    /// Lists referrers by the API; `None` if the registry does not have it.
    async fn api_referrers(
        &self,
        endpoint: &RegistryEndpoint,
        subject: &OciDigest,
        artifact_type: Option<&str>,
    ) -> Result<Option<Vec<Descriptor>>, RegistryError> {
        let mut target = endpoint.join(&format!("referrers/{subject}"))?;
        if let Some(artifact_type) = artifact_type {
            let mut url = target.url().clone();
            url.query_pairs_mut()
                .append_pair("artifactType", artifact_type);
            target = tags::parse_target(endpoint, url.as_str())?;
        }
        let mut found = Vec::new();
        for page in 0..MAX_PAGES {
            let action = RegistryAction::Pull;
            let response = self
                .request(endpoint, action, Method::GET, target, HeaderMap::new())
                .await?;
            if page == 0 && matches!(response.status.as_u16(), 404 | 405 | 501) {
                return Ok(None);
            }
            if response.status != StatusCode::OK {
                let what = format!("the referrers of {subject}");
                return Err(endpoint
                    .status_error(response, &what, "a list of referrers", action)
                    .await);
            }
            if response.media_type().as_deref() != Some(IMAGE_INDEX) {
                let found = response.media_type().unwrap_or_default();
                return Err(RegistryError::MediaType {
                    registry: endpoint.host.clone(),
                    what: "the list of referrers".to_owned(),
                    found: mimir_core::text::visible(mimir_core::text::prefix(&found, 100)),
                    expected: "an OCI image index",
                });
            }
            let next = tags::next_page(endpoint, &response)?;
            let what = "the list of referrers";
            let bytes = response.read(&endpoint.host, what, MANIFEST_MAX).await?;
            let parsed = OciManifest::parse(&bytes, Some(IMAGE_INDEX));
            let Ok(OciManifest::Index(index)) = parsed else {
                return Err(endpoint.malformed(what, "it is not a valid index"));
            };
            found.extend(index.manifests);
            if found.len() > MAX_REFERRERS {
                break;
            }
            match next {
                Some(next) => target = next,
                None => return Ok(Some(found)),
            }
        }
        Err(RegistryError::Limit {
            registry: endpoint.host.clone(),
            what: format!("the list of referrers of {subject}"),
            limit: format!("{MAX_REFERRERS} entries on {MAX_PAGES} pages"),
        })
    }

    /// Fetches the index under the fallback tag; `None` if it does not exist.
    async fn fallback_index(
        &self,
        endpoint: &RegistryEndpoint,
        reference: &OciReference,
        subject: &OciDigest,
    ) -> Result<Option<ImageIndex>, RegistryError> {
        let tagged = reference.with_tag(&fallback_tag(subject))?;
        let found = match self.manifest_from(endpoint, &tagged).await {
            Err(error) if error.is_not_found() => return Ok(None),
            found => found?,
        };
        match found.parsed {
            OciManifest::Index(index) => Ok(Some(index)),
            OciManifest::Image(_) => Err(RegistryError::MediaType {
                registry: endpoint.host.clone(),
                what: format!("the list of referrers `{tagged}`"),
                found: IMAGE_MANIFEST.to_owned(),
                expected: "an OCI image index",
            }),
        }
    }

    /// Adds an entry to the index under the fallback tag. Another client may write at the same time, so the result is
    /// read again.
    async fn add_to_fallback(
        &self,
        endpoint: &RegistryEndpoint,
        reference: &OciReference,
        subject: &OciDigest,
        entry: Descriptor,
    ) -> Result<(), RegistryError> {
        for _ in 0..MAX_WRITES {
            let index = self.fallback_index(endpoint, reference, subject).await?;
            let mut index = index.unwrap_or_else(|| ImageIndex {
                schema_version: 2,
                media_type: Some(IMAGE_INDEX.to_owned()),
                manifests: Vec::new(),
                annotations: Default::default(),
            });
            let known: HashSet<OciDigest> =
                index.manifests.iter().map(|entry| entry.digest).collect();
            if known.contains(&entry.digest) {
                return Ok(());
            }
            if known.len() >= MAX_REFERRERS {
                return Err(RegistryError::Limit {
                    registry: endpoint.host.clone(),
                    what: format!("the list of referrers of {subject}"),
                    limit: format!("{MAX_REFERRERS} entries"),
                });
            }
            index.media_type = Some(IMAGE_INDEX.to_owned());
            index.manifests.push(entry.clone());
            let bytes = serde_json::to_vec(&index).map_err(|error| RegistryError::Artifact {
                why: error.to_string(),
            })?;
            self.put_manifest(endpoint, &fallback_tag(subject), IMAGE_INDEX, bytes)
                .await?;
        }
        Err(endpoint.malformed(
            "a list of referrers",
            "other clients change it all the time; try again later",
        ))
    }
}

/// Returns the tag with the list of referrers in registries without the API.
fn fallback_tag(subject: &OciDigest) -> String {
    format!("sha256-{}", subject.hex())
}
