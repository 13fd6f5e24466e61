//! Errors of keys, signatures and the trust policy.

use mimir_core::{ToolError, ToolErrorCode};

use crate::error::RegistryError;

/// Error of a key, a signature or the trust policy.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// A key cannot be read, or its type is not supported.
    #[error("{0}")]
    Key(String),
    /// The key is encrypted, and no password was given.
    #[error("the private key is encrypted: its password is required")]
    PasswordRequired,
    /// The key cannot be decrypted.
    #[error("the password of the private key is wrong, or the file is damaged")]
    WrongPassword,
    /// A signature, bundle, statement or trust root is not in the expected form.
    #[error("the {what} is not valid: {why}")]
    Malformed {
        /// The kind of the data.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// No given key made a signature of an envelope.
    #[error("none of the trusted keys made the signature")]
    UnknownKey,
    /// No given key made a signature that names its key.
    #[error("none of the trusted keys made the signature; it says that its key is {claimed}")]
    OtherKey {
        /// The ID that the bundle claims. It is not verified.
        claimed: String,
    },
    /// The trust settings are not usable.
    #[error("{0}")]
    Settings(String),
    /// An artifact has no signature, but the trust policy requires one.
    #[error("{artifact} is not signed, but {requirement}")]
    Unsigned {
        /// Reference and digest of the artifact.
        artifact: String,
        /// The setting that requires a signature.
        requirement: String,
    },
    /// A signature is required, and no rule says whose.
    #[error(
        "signatures are required (`enforcement.requireSignature`), and no `trust` rule of the file that requires them, \
         or of one above it, covers {artifact}"
    )]
    NoRule {
        /// Reference and digest of the artifact.
        artifact: String,
    },
    /// An artifact has signatures, none of which is trusted.
    #[error("no signature of {artifact} is trusted: {}", reasons.join("; "))]
    Untrusted {
        /// Reference and digest of the artifact.
        artifact: String,
        /// The reason for each signature.
        reasons: Vec<String>,
    },
    /// A signature names another repository than that of the artifact.
    #[error("it is the signature of {signed}, which is in another repository")]
    OtherRepository {
        /// The signed name.
        signed: String,
    },
    /// The registry failed while signatures were read.
    #[error(transparent)]
    Registry(Box<RegistryError>),
}

impl SignatureError {
    /// Creates an error about malformed data.
    pub(super) fn malformed(what: &'static str, why: impl ToString) -> Self {
        let why = why.to_string();
        let why = mimir_core::text::prefix(&why, MAX_REASON);
        Self::Malformed {
            what,
            why: mimir_core::text::visible(why),
        }
    }

    /// Returns what the user can do.
    fn remedies(&self) -> Vec<String> {
        let remedies: &[&str] = match self {
            Self::PasswordRequired | Self::WrongPassword => {
                &["type the password at the prompt, or set MIMIR_KEY_PASSWORD for one command"]
            }
            Self::Unsigned { .. } => &[
                "ask the author to sign it: mimir tools push --sign KEY",
                "mimir help signatures",
            ],
            Self::NoRule { .. } => &[
                "add a rule with the keys of the registry to `trust`",
                "mimir help signatures",
            ],
            Self::Untrusted { .. } => &[
                "compare the signer with the keys and identities of the `trust` rule",
                "mimir help signatures",
            ],
            _ => &[],
        };
        remedies.iter().map(|&remedy| remedy.to_owned()).collect()
    }
}

/// Maximum length of a reason in bytes.
const MAX_REASON: usize = 300;

impl From<RegistryError> for SignatureError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(Box::new(error))
    }
}

impl From<SignatureError> for ToolError {
    fn from(error: SignatureError) -> Self {
        let error = match error {
            SignatureError::Registry(error) => return (*error).into(),
            other => other,
        };
        let code = match &error {
            SignatureError::Registry(error) => error.code(),
            SignatureError::Unsigned { .. }
            | SignatureError::NoRule { .. }
            | SignatureError::Untrusted { .. }
            | SignatureError::OtherRepository { .. }
            | SignatureError::UnknownKey
            | SignatureError::OtherKey { .. } => ToolErrorCode::PolicyDenied,
            SignatureError::PasswordRequired | SignatureError::WrongPassword => {
                ToolErrorCode::PermissionDenied
            }
            SignatureError::Key(_)
            | SignatureError::Malformed { .. }
            | SignatureError::Settings(_) => ToolErrorCode::InvalidInput,
        };
        let remedies = error.remedies();
        ToolError::new(code, error.to_string()).with_remedies(remedies)
    }
}
