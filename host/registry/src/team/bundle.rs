//! The format of a team's bundle: the signed JSON document.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use mimir_core::grants::{Grant, SourceSigner};
use serde::{Deserialize, Serialize};

use super::bundle_checks::{self, BundleError};
use crate::OciDigest;

/// Payload type of the signed envelope.
pub const BUNDLE_PAYLOAD_TYPE: &str = "application/vnd.mimir.team.v1+json";

/// Artifact type of a bundle in a registry.
pub const BUNDLE_ARTIFACT_TYPE: &str = "application/vnd.mimir.team.v1";

/// Media type of the envelope, which is the first layer in a registry.
pub const BUNDLE_ENVELOPE_MEDIA_TYPE: &str = "application/vnd.mimir.team.v1+dsse";

/// Media type of the other layers in a registry: the blobs that the bundle names.
pub const BLOB_MEDIA_TYPE: &str = "application/octet-stream";

/// Name of the envelope in a folder.
pub const BUNDLE_ENVELOPE_FILE: &str = "team.json";

/// Maximum size of an envelope in bytes.
pub const MAX_ENVELOPE_SIZE: u64 = 4 << 20;

/// Maximum size of a blob in bytes.
pub const MAX_BLOB_SIZE: u64 = 128 << 20;

/// Time before the expiry in which members and administrators are warned.
const EXPIRY_WARNING: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Returns true if the time of expiry is past, or within seven days from `now`.
pub fn expires_soon(expires_at: Timestamp, now: Timestamp) -> bool {
    expires_at.duration_since(now) < EXPIRY_WARNING
}

/// Returns the path of a blob below the folder of a bundle, with `/` between components.
pub fn blob_path(digest: &OciDigest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// A team's bundle: the payload of the signed envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TeamBundle {
    /// The version, from 1. Each bundle of a team has a higher one than the bundle before.
    pub version: u64,
    /// The team.
    pub team: TeamIdentity,
    /// The time of signing.
    pub issued_at: Timestamp,
    /// The time until which the bundle is valid.
    pub expires_at: Timestamp,
    /// The team's settings: the text of a config file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// The shared tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<BundledTool>,
    /// Files of workers: `NAME.yml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<BundledFile>,
    /// Files of prompts: `NAME.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<BundledFile>,
    /// Files of skills: `NAME/SKILL.md` and the files beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<BundledFile>,
    /// Public keys in PEM that may sign the next bundle, besides the keys that a member joined with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Ids of keys that are never trusted again for this team: sha256 of the public key in lower-case hex.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked_keys: Vec<String>,
    /// Patterns of the models that may be used, such as `anthropic/*`. All, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

/// The identity of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TeamIdentity {
    /// The id: 1 to 64 characters of `a-z`, `0-9` and `-`.
    pub org_id: String,
    /// The display name.
    pub name: String,
}

/// A shared tool of a team: one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BundledTool {
    /// The file name, which ends in `.wasm`.
    pub file: String,
    /// Digest of the component.
    pub digest: OciDigest,
    /// Size of the component in bytes.
    pub size: u64,
    /// The reference that the component came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The signer of the component in its registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<SourceSigner>,
    /// True if users cannot disable the tool.
    #[serde(default)]
    pub enforced: bool,
    /// The rights that the team grants to the component. Without it, each call needs approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

/// A file of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BundledFile {
    /// The relative path, with `/` between components.
    pub path: String,
    /// Digest of the file.
    pub digest: OciDigest,
    /// Size of the file in bytes.
    pub size: u64,
}

impl TeamBundle {
    /// Parses and checks the payload of a verified envelope.
    ///
    /// # Errors
    /// Unknown fields, values out of range, unsafe or repeated paths.
    pub fn from_payload(payload: &[u8]) -> Result<Self, BundleError> {
        let bundle: Self = serde_json::from_slice(payload)
            .map_err(|error| BundleError::Format(error.to_string()))?;
        bundle.check()?;
        Ok(bundle)
    }

    /// Returns true if the bundle revokes the key of a signer.
    pub fn revokes(&self, signer: &SourceSigner) -> bool {
        match signer {
            SourceSigner::Key { key, .. } => self.revoked_keys.contains(key),
            SourceSigner::Identity { .. } => false,
        }
    }

    /// Creates a bundle without settings, tools, files, keys and models.
    pub fn new(
        version: u64,
        team: TeamIdentity,
        issued_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        Self {
            version,
            team,
            issued_at,
            expires_at,
            settings: String::new(),
            tools: Vec::new(),
            workers: Vec::new(),
            prompts: Vec::new(),
            skills: Vec::new(),
            keys: Vec::new(),
            revoked_keys: Vec::new(),
            models: Vec::new(),
        }
    }

    /// Returns true if the bundle has expired, or expires within seven days.
    pub fn expires_soon(&self, now: Timestamp) -> bool {
        expires_soon(self.expires_at, now)
    }

    /// Checks the bundle, and returns the payload to sign.
    ///
    /// ```
    /// use mimir_registry::team::{TeamBundle, TeamIdentity};
    ///
    /// let team = TeamIdentity { org_id: "acme".into(), name: "Acme".into() };
    /// let (issued_at, expires_at) = ("2026-01-01T00:00:00Z".parse()?, "2027-01-01T00:00:00Z".parse()?);
    /// let bundle = TeamBundle {
    ///     settings: "policy: {deny: [web_fetch]}\n".into(),
    ///     ..TeamBundle::new(1, team, issued_at, expires_at)
    /// };
    /// assert_eq!(TeamBundle::from_payload(&bundle.to_payload()?)?, bundle);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::from_payload`], so that no invalid bundle is signed.
    pub fn to_payload(&self) -> Result<Vec<u8>, BundleError> {
        self.check()?;
        serde_json::to_vec(self).map_err(|error| BundleError::Format(error.to_string()))
    }

    fn check(&self) -> Result<(), BundleError> {
        bundle_checks::check(self)
    }

    /// Returns all files besides the tools.
    pub fn files(&self) -> impl Iterator<Item = &BundledFile> {
        self.workers.iter().chain(&self.prompts).chain(&self.skills)
    }

    /// Returns the size of each blob by its digest.
    pub fn blobs(&self) -> BTreeMap<OciDigest, u64> {
        let tools = self.tools.iter().map(|tool| (tool.digest, tool.size));
        tools
            .chain(self.files().map(|file| (file.digest, file.size)))
            .collect()
    }
}
