//! Errors of registries: each with the registry, the expectation and a remedy.

use mimir_core::{ToolError, ToolErrorCode};

/// A reference, a registry's response or a credential file that cannot be used.
///
/// No message contains a secret, a query or a token.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The reference is not valid.
    #[error(
        "`{text}` is not a valid reference: {why}; write it as `registry.example.com/team/tool:1.2` or with `@sha256:…`"
    )]
    Reference {
        /// The reference.
        text: String,
        /// The fault.
        why: &'static str,
    },
    /// The digest is not valid or not supported.
    #[error(
        "`{text}` is not a valid digest: {why}; write it as `sha256:` and 64 hexadecimal digits"
    )]
    Digest {
        /// The digest.
        text: String,
        /// The fault.
        why: &'static str,
    },
}

impl RegistryError {
    /// Returns the stable code for clients.
    pub fn code(&self) -> ToolErrorCode {
        match self {
            Self::Reference { .. } | Self::Digest { .. } => ToolErrorCode::InvalidInput,
        }
    }
}

impl From<RegistryError> for ToolError {
    fn from(error: RegistryError) -> Self {
        ToolError::new(error.code(), error.to_string())
    }
}
