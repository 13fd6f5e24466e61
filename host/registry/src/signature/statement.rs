//! In-toto statements: what is said about an artifact.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::SignatureError;
use crate::digest::OciDigest;
use crate::reference::OciReference;

/// Payload type of a statement in an envelope.
pub(super) const STATEMENT_PAYLOAD: &str = "application/vnd.in-toto+json";
/// Type of a statement.
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The older type, which provenance may have.
const OLD_STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v0.1";
/// Type of the statement that signs an artifact.
const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
/// The kind of the data in errors.
const STATEMENT: &str = "signed statement";

/// A statement about artifacts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InTotoStatement<'a> {
    #[serde(rename = "_type")]
    statement_type: String,
    subject: Vec<StatementSubject>,
    pub predicate_type: String,
    #[serde(borrow, default)]
    pub predicate: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StatementSubject {
    name: Option<String>,
    digest: SubjectDigest,
}

/// Digests of a subject. A struct and not a map, so that a repeated algorithm is an error.
#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

impl<'a> InTotoStatement<'a> {
    pub fn parse(payload: &'a [u8]) -> Result<Self, SignatureError> {
        let statement: Self = serde_json::from_slice(payload)
            .map_err(|error| SignatureError::malformed(STATEMENT, error))?;
        if ![STATEMENT_TYPE, OLD_STATEMENT_TYPE].contains(&statement.statement_type.as_str()) {
            return Err(SignatureError::malformed(
                STATEMENT,
                format!("unknown type `{}`", statement.statement_type),
            ));
        }
        Ok(statement)
    }

    /// Returns true if one of the subjects has this digest.
    pub fn is_about(&self, manifest: &OciDigest) -> bool {
        let hex = manifest.hex();
        let mut digests = self.subject.iter().map(|subject| &subject.digest.sha256);
        digests.any(|digest| digest.as_ref() == Some(&hex))
    }

    /// Returns the name of the only subject.
    pub fn into_name(self) -> Option<String> {
        self.subject.into_iter().next()?.name
    }

    /// Returns true if the statement signs artifacts, and says nothing else about them.
    pub fn is_signing(&self) -> bool {
        self.predicate_type == SIGN_PREDICATE
    }

    /// Checks that this is a signature of exactly this manifest.
    pub fn check_signs(&self, manifest: &OciDigest) -> Result<(), SignatureError> {
        if self.statement_type != STATEMENT_TYPE || !self.is_signing() {
            return Err(SignatureError::malformed(
                STATEMENT,
                format!(
                    "expected the type {SIGN_PREDICATE}, found {}",
                    self.predicate_type
                ),
            ));
        }
        if self.subject.len() != 1 || !self.is_about(manifest) {
            return Err(SignatureError::malformed(
                STATEMENT,
                "it is about another artifact",
            ));
        }
        Ok(())
    }
}

/// Compares a signed name with the reference of the artifact. A signature of another tag of the repository counts, and its
/// name is returned. A name that is not a reference says nothing about the place of the artifact.
pub(super) fn check_signed_name(
    name: &str,
    reference: &OciReference,
) -> Result<Option<String>, SignatureError> {
    let Ok(signed) = name.parse::<OciReference>() else {
        return Ok(None);
    };
    let place = |reference: &OciReference| {
        let (registry, repository) = (reference.registry(), reference.repository());
        format!("{registry}/{repository}")
    };
    if place(&signed) != place(reference) {
        return Err(SignatureError::OtherRepository {
            signed: signed.to_string(),
        });
    }
    // Parsing completes a missing tag.
    let tagged = name.split_once('@').map_or(name, |(name, _)| name);
    let has_tag = tagged.rsplit('/').next().is_some_and(|it| it.contains(':'));
    match (signed.tag(), reference.tag()) {
        (Some(signed), Some(tag)) if has_tag && signed != tag => {
            Ok(Some(format!("{}:{signed}", place(reference))))
        }
        _ => Ok(None),
    }
}

/// Returns the statement that signs a manifest.
pub(super) fn signing_statement(manifest: &OciDigest, name: &str) -> Vec<u8> {
    let statement = serde_json::json!({
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": manifest.hex()}}],
        "predicateType": SIGN_PREDICATE,
        "predicate": {},
    });
    statement.to_string().into_bytes()
}
