//! A component with its source, as every kind of source returns it.

use mimir_core::ToolError;
use mimir_core::grants::SourceRecord;
use mimir_core::paths::windows_name_rule;
use mimir_core::text::visible;
use sha2::{Digest, Sha256};

use crate::exit::{CommandFailure, CommandResult};
use mimir::registries::SignatureState;

/// Maximum size of a component in bytes. The loader also refuses larger ones.
pub const MAX_COMPONENT_SIZE: u64 = 256 << 20;

/// A component that was fetched from a source, and is not installed yet.
pub struct FetchedComponent {
    /// The component.
    pub bytes: Vec<u8>,
    /// Name of the file to install, without the extension.
    pub file_stem: String,
    /// The source for the lock file. `None` for a file of this machine, which others could not fetch again.
    pub source: Option<SourceRecord>,
    /// Text of a policy file of another host that came with the component. It requests rights and grants nothing.
    pub policy: Option<String>,
    /// Content of the file with the manifest and its signatures (see `mimir::registries::StoredSignatures`).
    pub signatures: Option<Vec<u8>>,
    /// State of the signature of a component from a registry.
    pub signature_state: Option<SignatureState>,
    /// Lines about the source for the user, besides those of the record.
    pub notes: Vec<String>,
}

impl FetchedComponent {
    /// Creates a component of a local file.
    pub fn new(bytes: Vec<u8>, file_stem: String) -> Self {
        Self {
            bytes,
            file_stem,
            source: None,
            policy: None,
            signatures: None,
            signature_state: None,
            notes: Vec::new(),
        }
    }

    /// Sets the source.
    #[must_use]
    pub fn with_source(mut self, source: SourceRecord) -> Self {
        self.source = Some(source);
        self
    }

    /// Returns the SHA-256 of the component in lower-case hex.
    pub fn digest(&self) -> String {
        format!("{:x}", Sha256::digest(&self.bytes))
    }

    /// Fails if the component has another digest than the user expects.
    pub fn check_digest(&self, expected: Option<&str>) -> Result<(), ToolError> {
        let digest = self.digest();
        match expected.filter(|expected| *expected != digest) {
            None => Ok(()),
            Some(expected) => Err(ToolError::permission_denied(format!(
                "digest mismatch: the file has {digest}, expected {expected}; nothing was added"
            ))),
        }
    }
}

/// Checks the name of a file to install, without its extension. It must be that of an ordinary file on every system.
pub fn check_stem(stem: Option<&str>) -> CommandResult<String> {
    let is_good = |stem: &&str| {
        !stem.is_empty()
            && !stem.starts_with('.')
            && !stem.contains('/')
            && stem.trim() == *stem
            && visible(stem) == **stem
            && windows_name_rule(stem).is_none()
    };
    match stem.filter(is_good) {
        Some(stem) => Ok(stem.to_owned()),
        None => Err(CommandFailure::usage(
            "the name of the file cannot be used, and the installed file would get the same: it must be valid UTF-8, not \
             begin with a dot or a blank, and have neither control characters nor a form that Windows reads as another \
             name, such as `a:b` or `con`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_files_have_ordinary_names() {
        for stem in [
            "weather",
            "word_count",
            "a.b-2",
            "wörter",
            "con2",
            "two words",
        ] {
            assert_eq!(check_stem(Some(stem)).unwrap(), stem);
        }
        for stem in [
            "",
            ".hidden",
            "a/b",
            "a\\b",
            "a:b",
            " a",
            "a ",
            "a\n",
            "a\u{1b}[1m",
            "a\u{202e}b",
            "con",
            "Aux.x",
            "com1",
            "a*",
        ] {
            assert!(check_stem(Some(stem)).is_err(), "{stem:?}");
        }
        assert!(check_stem(None).is_err());
    }
}
