//! Sources of installed components: the block `sources` of the lock file. A source grants nothing; it pins a reference
//! to the bytes that were installed from it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The source of an installed component, by the location of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecord {
    /// The reference as it was named: `registry.example.com/acme/weather:1.2`, `npm:weather@1.2.0`, or an https URL.
    pub reference: String,
    /// Digest of the manifest in the registry: `sha256:` and 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Digest of the index with the manifest, if the signature is that of the index: `sha256:` and 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Digest of the component, which is a layer of the manifest: `sha256:` and 64 hex digits.
    pub layer: String,
    /// The signer of the manifest. Unsigned if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<SourceSigner>,
    /// The version in the annotations of the manifest, or of the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version range or tag of an npm package that was asked for, or its exact version. `latest` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// The builder that the provenance names. It is shown only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// Digest of the policy file of another host that came with the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// The signer of an installed component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SourceSigner {
    /// A key.
    Key {
        /// SHA-256 of the public key in lower-case hex.
        key: String,
        /// Name of the key on the machine that installed the component, for display.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// An identity in a certificate.
    Identity {
        /// The identity provider.
        issuer: String,
        /// The identity: an email address or a workflow.
        subject: String,
    },
}

impl SourceRecord {
    /// Creates the record of a source that is not a registry.
    pub fn new(reference: impl Into<String>, digest_hex: &str) -> Self {
        Self {
            reference: reference.into(),
            manifest: None,
            index: None,
            layer: format!("sha256:{digest_hex}"),
            signer: None,
            version: None,
            requested: None,
            provenance: None,
            policy: None,
        }
    }

    /// Returns the digest of the component in lower-case hex; the whole text if it has no algorithm.
    pub fn layer_hex(&self) -> &str {
        self.layer.strip_prefix("sha256:").unwrap_or(&self.layer)
    }
}

impl SourceSigner {
    /// Returns true for the same key or identity. Names of keys differ between machines.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key { key, .. }, Self::Key { key: other, .. }) => key == other,
            (own, other) => own == other,
        }
    }
}

impl fmt::Display for SourceSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key {
                key,
                name: Some(name),
            } => write!(f, "key {name} ({key})"),
            Self::Key { key, name: None } => write!(f, "key {key}"),
            Self::Identity { issuer, subject } => write!(f, "{subject} (by {issuer})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::ToolsLock;

    #[test]
    fn source_records_of_the_lock_are_optional_and_round_trip() {
        let empty = serde_json::to_value(ToolsLock::default()).unwrap();
        assert!(empty.get("sources").is_none());
        let mut lock = ToolsLock::default();
        let mut record = SourceRecord::new("registry.example.com/acme/weather:1.2", "ab");
        record.manifest = Some("sha256:cd".to_owned());
        for signer in [
            SourceSigner::Key {
                key: "ef".to_owned(),
                name: Some("acme".to_owned()),
            },
            SourceSigner::Identity {
                issuer: "https://login.example.com".to_owned(),
                subject: "dev@example.com".to_owned(),
            },
        ] {
            record.signer = Some(signer);
            let location = ".mimir/tools/weather.wasm".to_owned();
            lock.sources.insert(location, record.clone());
            let text = serde_json::to_string(&lock).unwrap();
            assert_eq!(serde_json::from_str::<ToolsLock>(&text).unwrap(), lock);
        }
        assert_eq!(record.layer_hex(), "ab");
    }

    #[test]
    fn source_signer_is_known_by_its_key_alone() {
        let key = |key: &str, name: Option<&str>| SourceSigner::Key {
            key: key.to_owned(),
            name: name.map(str::to_owned),
        };
        assert!(key("a", Some("one")).is_same(&key("a", None)));
        assert!(!key("a", Some("one")).is_same(&key("b", Some("one"))));
        let identity = SourceSigner::Identity {
            issuer: "i".to_owned(),
            subject: "s".to_owned(),
        };
        assert!(identity.is_same(&identity.clone()) && !identity.is_same(&key("a", None)));
    }
}
