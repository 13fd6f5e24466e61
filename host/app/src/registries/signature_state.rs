//! The state of the signature of an artifact, in the words that all commands use.

use std::fmt;

use mimir_core::text::visible;
use mimir_registry::OciReference;

/// The state of the signature of an artifact from a registry.
///
/// A fourth state does not exist, because artifacts whose signature is required but not trusted are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureState {
    /// A `trust` rule accepts a signature of this signer.
    Signed(String),
    /// There are signatures, but no `trust` rule covers this repository.
    NotChecked(String),
    /// There are no signatures.
    Unsigned,
}

impl SignatureState {
    /// Returns the state of an artifact that may be used: `signer` is the one whom the trust policy accepts.
    pub fn new(signer: Option<String>, has_signatures: bool, reference: &OciReference) -> Self {
        match signer {
            Some(signer) => Self::Signed(signer),
            None if has_signatures => {
                let (registry, repository) = (reference.registry(), reference.repository());
                Self::NotChecked(format!("{registry}/{repository}"))
            }
            None => Self::Unsigned,
        }
    }

    /// Returns the name of the state in JSON.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Signed(_) => "signed",
            Self::NotChecked(_) => "notChecked",
            Self::Unsigned => "unsigned",
        }
    }
}

impl fmt::Display for SignatureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(signer) => write!(f, "signed by {}", visible(signer)),
            Self::NotChecked(registry) => write!(
                f,
                "not checked: it has signatures, but no `trust` rule covers {registry}"
            ),
            Self::Unsigned => f.write_str("unsigned"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_state_tells_unchecked_from_unsigned() {
        let reference: OciReference = "registry.example.com/acme/weather:1".parse().unwrap();
        let state = |signer: Option<&str>, has_signatures| {
            SignatureState::new(signer.map(str::to_owned), has_signatures, &reference)
        };
        assert_eq!(state(Some("acme"), true).to_string(), "signed by acme");
        assert_eq!(
            state(None, true).to_string(),
            "not checked: it has signatures, but no `trust` rule covers registry.example.com/acme/weather"
        );
        assert_eq!(state(None, false).to_string(), "unsigned");
        assert_eq!(state(None, true).as_str(), "notChecked");
    }
}
