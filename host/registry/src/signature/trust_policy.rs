//! The trust policy: which signers count for the artifacts of a registry.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mimir_core::config::{KeySource, SignerIdentity, TrustRule};
use serde::{Deserialize, Serialize};

use super::SignatureError;
use super::certificate::{CertificateIdentity, verify_certificate};
use super::find::{FoundContent, FoundSignature, SignedContent};
use super::key::VerifyingKey;
use super::log_entry::LoggedSignature;
use super::pattern::{Wildcard, matches, specificity};
use super::provenance::Provenance;
use super::trust_root::TrustRoot;
use crate::digest::OciDigest;
use crate::reference::OciReference;

/// Difference of the clocks of this machine and of a log that is accepted.
const CLOCK_SKEW: Duration = Duration::from_secs(300);
/// Maximum number of reasons in an error.
const MAX_REASONS: usize = 5;
/// Digits of a key ID that are shown.
const SHORT_ID: usize = 12;

/// The signer of an artifact, after verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signer {
    /// A key of the trust settings.
    Key {
        /// The SHA-256 of the key.
        id: String,
        /// Its name in the settings.
        name: String,
    },
    /// An identity of the trust settings, from a certificate.
    Identity {
        /// The identity provider.
        issuer: String,
        /// The email address or URI.
        subject: String,
    },
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { id, name } => {
                let id = id.get(..SHORT_ID).unwrap_or(id);
                write!(f, "{} (key {id})", mimir_core::text::visible(name))
            }
            Self::Identity { issuer, subject } => write!(
                f,
                "{} ({})",
                mimir_core::text::visible(subject),
                mimir_core::text::visible(issuer)
            ),
        }
    }
}

/// A trusted key with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// The name, for display.
    pub name: String,
    /// The key.
    pub key: VerifyingKey,
}

/// The trust rules of the settings, with their keys.
#[derive(Debug, Clone, Default)]
pub struct TrustPolicy {
    rules: Vec<KeyedRule>,
    root: Option<TrustRoot>,
    requires_signature: bool,
    revoked: BTreeSet<String>,
}

/// A rule with its keys.
#[derive(Debug, Clone)]
struct KeyedRule {
    registry: String,
    from_team: bool,
    keys: Vec<NamedKey>,
    identities: Vec<SignerIdentity>,
}

impl TrustPolicy {
    /// Creates the policy from the settings. `load_keys` returns the keys of an entry of `keys` that is a name or a
    /// file. With `requires_signature` (`enforcement.requireSignature`), artifacts that no rule covers are refused.
    ///
    /// Rules of teams cannot use names, because a user chooses which key has a name.
    pub fn from_settings(
        rules: &[TrustRule],
        root: Option<TrustRoot>,
        requires_signature: bool,
        mut load_keys: impl FnMut(&str) -> Result<Vec<NamedKey>, SignatureError>,
    ) -> Result<Self, SignatureError> {
        let mut keyed = Vec::new();
        for rule in rules {
            let mut keys = Vec::new();
            for key in &rule.keys {
                let added = match KeySource::classify(key) {
                    KeySource::Pem => VerifyingKey::from_pem(key.as_bytes()).map(unnamed_key),
                    KeySource::Name if rule.from_team => Err(SignatureError::Settings(format!(
                        "a team's rule cannot use `{}`, the name of a user's key: use PEM text or a file",
                        mimir_core::text::visible(key)
                    ))),
                    KeySource::Name | KeySource::File => load_keys(key),
                };
                keys.extend(added.map_err(|error| {
                    SignatureError::Settings(format!(
                        "the trust rule of `{}`: {error}",
                        rule.registry
                    ))
                })?);
            }
            keyed.push(KeyedRule {
                registry: rule.registry.to_ascii_lowercase(),
                from_team: rule.from_team,
                keys,
                identities: rule.identities.clone(),
            });
        }
        Ok(Self {
            rules: keyed,
            root,
            requires_signature,
            revoked: BTreeSet::new(),
        })
    }

    /// Revokes keys by their IDs: their signatures do not count, whatever the rules say.
    #[must_use]
    pub fn revoke(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.revoked.extend(ids);
        self
    }

    /// Returns true if artifacts of this repository must be signed.
    pub fn requires_signature(&self, reference: &OciReference) -> bool {
        self.requires_signature || self.rule_for(reference).is_some()
    }

    /// Checks the signatures of a manifest. Returns the first trusted signer; `None` if no rule covers the artifact, and
    /// it may be used without a signature. Fails if a signature is required, and none is trusted.
    pub fn check(
        &self,
        reference: &OciReference,
        manifest: &OciDigest,
        found: &[FoundSignature],
        now: SystemTime,
    ) -> Result<Option<Signer>, SignatureError> {
        let artifact = || reference.with_digest(*manifest).to_string();
        let Some(rule) = self.rule_for(reference) else {
            if self.requires_signature {
                return Err(SignatureError::NoRule {
                    artifact: artifact(),
                });
            }
            return Ok(None);
        };
        let mut reasons = Vec::new();
        for signature in found {
            match self.check_signature(rule, signature, manifest, now) {
                Ok(Some(signer)) => return Ok(Some(signer)),
                Ok(None) => {}
                Err(reason) if reasons.len() < MAX_REASONS => {
                    reasons.push(format!("{}: {reason}", signature.location()));
                }
                Err(_) => {}
            }
        }
        if reasons.is_empty() {
            return Err(SignatureError::Unsigned {
                artifact: artifact(),
                requirement: format!("the trust rule of `{}` requires a signature", rule.registry),
            });
        }
        Err(SignatureError::Untrusted {
            artifact: artifact(),
            reasons,
        })
    }

    /// Reads the provenance among the attestations of a manifest, with the signers that the rules trust.
    pub fn provenance(
        &self,
        reference: &OciReference,
        manifest: &OciDigest,
        found: &[FoundSignature],
        now: SystemTime,
    ) -> Vec<Provenance> {
        let rule = self.rule_for(reference);
        let contents = found.iter().filter_map(|found| found.content.as_ref().ok());
        let provenance = contents.filter_map(|content| {
            let payload = content.signed.payload().ok()?;
            let provenance = Provenance::read(&payload, manifest)?;
            let signer = rule.and_then(|rule| self.verify(rule, content, now).ok());
            Some(Provenance {
                signer,
                ..provenance
            })
        });
        provenance.collect()
    }

    /// Returns the rule for an artifact: the most specific of the team's rules that cover it, else of the user's.
    fn rule_for(&self, reference: &OciReference) -> Option<&KeyedRule> {
        let name = format!("{}/{}", reference.registry(), reference.repository());
        let name = name.to_ascii_lowercase();
        let covers = |rule: &&KeyedRule| matches(&rule.registry, &name, Wildcard::Everything);
        let rules = self.rules.iter().filter(covers);
        rules.max_by_key(|rule| (rule.from_team, specificity(&rule.registry)))
    }

    /// Returns the trusted signer; `None` for attestations, which do not sign the artifact.
    fn check_signature(
        &self,
        rule: &KeyedRule,
        signature: &FoundSignature,
        manifest: &OciDigest,
        now: SystemTime,
    ) -> Result<Option<Signer>, String> {
        let content = signature.content.as_ref().map_err(Clone::clone)?;
        if content.signed.is_attestation() {
            return Ok(None);
        }
        let check = || {
            let signer = self.verify(rule, content, now)?;
            content.signed.check_signs(manifest)?;
            Ok(signer)
        };
        check()
            .map(Some)
            .map_err(|error: SignatureError| error.to_string())
    }

    /// Verifies a signature and returns its signer, whatever was signed.
    fn verify(
        &self,
        rule: &KeyedRule,
        content: &FoundContent,
        now: SystemTime,
    ) -> Result<Signer, SignatureError> {
        if let Some(certificate) = &content.material.certificate {
            return self.verify_keyless(rule, content, certificate, now);
        }
        let (message, signature) = content.signed.message_and_signature()?;
        let mut keys = rule.keys.iter();
        let signing_key = keys.find(|named| named.key.verifies(&message, &signature));
        let NamedKey { name, key } = signing_key.ok_or(SignatureError::UnknownKey)?;
        let id = key.id();
        if self.revoked.contains(&id) {
            return Err(SignatureError::Key(format!(
                "its key `{}` is revoked",
                mimir_core::text::visible(name)
            )));
        }
        Ok(Signer::Key {
            id,
            name: name.clone(),
        })
    }

    fn verify_keyless(
        &self,
        rule: &KeyedRule,
        content: &FoundContent,
        certificate: &[u8],
        now: SystemTime,
    ) -> Result<Signer, SignatureError> {
        if rule.identities.is_empty() {
            return Err(SignatureError::Settings(
                "it is keyless, and the trust rule has no `identities`".to_owned(),
            ));
        }
        let root = self.root.as_ref().ok_or_else(|| {
            SignatureError::Settings("it is keyless, and `trustRoot` is not set".to_owned())
        })?;
        let (message, signature) = content.signed.message_and_signature()?;
        let payload = content.signed.payload()?;
        let envelope = match &content.signed {
            SignedContent::Envelope(envelope) => Some(envelope),
            SignedContent::Simple { .. } => None,
        };
        let logged = LoggedSignature {
            envelope,
            payload: &payload,
            signature: &signature,
            certificate,
        };
        let mut result = Err(SignatureError::malformed(
            "signature",
            "it has a certificate, but no entry of a log",
        ));
        for entry in &content.material.log_entries {
            result = entry.verify(root, &logged, envelope.is_some());
            if result.is_ok() {
                break;
            }
        }
        let time = result?;
        let latest = Timestamp::try_from(now + CLOCK_SKEW)
            .map_err(|error| SignatureError::malformed("time", error))?;
        if time > latest {
            return Err(SignatureError::malformed(
                "log entry of the signature",
                format!("its time {time} is in the future"),
            ));
        }
        let chain = &content.material.chain;
        let CertificateIdentity { issuer, subject } =
            verify_certificate(certificate, chain, root, time, (&message, &signature))?;
        let mut identities = rule.identities.iter();
        if !identities.any(|identity| {
            matches(&identity.issuer, &issuer, Wildcard::Segment)
                && matches(&identity.subject, &subject, Wildcard::Segment)
        }) {
            return Err(SignatureError::Settings(format!(
                "the trust rule does not have its identity {} of {}",
                mimir_core::text::visible(&subject),
                mimir_core::text::visible(&issuer)
            )));
        }
        Ok(Signer::Identity { issuer, subject })
    }
}

/// Returns a key of the settings without a name: it is named by its ID.
fn unnamed_key(key: VerifyingKey) -> Vec<NamedKey> {
    let id = key.id();
    let name = id.get(..SHORT_ID).unwrap_or(&id).to_owned();
    vec![NamedKey { name, key }]
}
