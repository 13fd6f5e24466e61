//! References to artifacts: registry, repository, tag and digest.

use std::fmt;
use std::str::FromStr;

use crate::digest::OciDigest;
use crate::error::RegistryError;

/// Reference to an artifact in a registry. The registry is part of every reference: names are never completed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OciReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<OciDigest>,
}

impl OciReference {
    /// Returns the host of the registry, with its port if the reference has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository, such as `team/tool`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag. A reference without tag and digest has the tag `latest`.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, if the reference is pinned.
    pub fn digest(&self) -> Option<OciDigest> {
        self.digest
    }

    /// Returns the reference pinned to `digest`. The tag is kept for display.
    #[must_use]
    pub fn with_digest(&self, digest: OciDigest) -> Self {
        Self {
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// Returns the reference with another tag and no digest.
    pub fn with_tag(&self, tag: &str) -> Result<Self, RegistryError> {
        Ok(Self {
            tag: Some(tag.to_owned()),
            digest: None,
            ..self.clone()
        })
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for OciReference {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        Err(RegistryError::Reference {
            text: mimir_core::text::visible(text),
            why: "not built yet",
        })
    }
}
