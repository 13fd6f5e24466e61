//! The trust policy: which signers count for the artifacts of a registry.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mimir_core::config::{KeySource, SignerIdentity, TrustLayer, TrustRule};
use serde::{Deserialize, Serialize};

use super::SignatureError;
use super::certificate::{CertificateIdentity, verify_certificate};
use super::find::{FoundContent, FoundSignature, SignedContent};
use super::key::VerifyingKey;
use super::log_entry::LoggedSignature;
use super::pattern::{Wildcard, matches, specificity};
use super::provenance::Provenance;
use super::statement::check_signed_name;
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
        /// The name in the signature, if its tag is not that of the checked reference.
        #[serde(default, rename = "signedAs", skip_serializing_if = "Option::is_none")]
        signed_as: Option<String>,
    },
    /// An identity of the trust settings, from a certificate.
    Identity {
        /// The identity provider.
        issuer: String,
        /// The email address or URI.
        subject: String,
        /// The name in the signature, if its tag is not that of the checked reference.
        #[serde(default, rename = "signedAs", skip_serializing_if = "Option::is_none")]
        signed_as: Option<String>,
    },
}

impl Signer {
    /// Returns the name in the signature, if its tag is not that of the checked reference.
    pub fn signed_as(&self) -> Option<&str> {
        let (Self::Key { signed_as, .. } | Self::Identity { signed_as, .. }) = self;
        signed_as.as_deref()
    }

    fn set_signed_as(&mut self, name: Option<String>) {
        let (Self::Key { signed_as, .. } | Self::Identity { signed_as, .. }) = self;
        *signed_as = name;
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { id, name, .. } => {
                let id = id.get(..SHORT_ID).unwrap_or(id);
                write!(f, "{} (key {id})", mimir_core::text::visible(name))?;
            }
            Self::Identity {
                issuer, subject, ..
            } => write!(
                f,
                "{} ({})",
                mimir_core::text::visible(subject),
                mimir_core::text::visible(issuer)
            )?,
        }
        match self.signed_as() {
            Some(name) => write!(f, ", signed as {}", mimir_core::text::visible(name)),
            None => Ok(()),
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
    root: Option<(TrustRoot, TrustLayer)>,
    required_by: Option<TrustLayer>,
    revoked: BTreeSet<String>,
}

/// A rule with its keys.
#[derive(Debug, Clone)]
struct KeyedRule {
    registry: String,
    layer: TrustLayer,
    keys: Vec<NamedKey>,
    identities: Vec<SignerIdentity>,
}

impl TrustPolicy {
    /// Creates the policy from the settings. `load_keys` returns the keys of an entry of `keys` that is a name or a
    /// file. `required_by` is the highest layer that requires signatures (`enforcement.requireSignature`): artifacts that
    /// no rule of it or of a layer above covers are refused. A trust root counts for rules of its own layer and of layers
    /// below, so that nobody replaces the authorities of a rule above.
    ///
    /// Rules of teams cannot use names, because a user chooses which key has a name.
    pub fn from_settings(
        rules: &[TrustRule],
        root: Option<(TrustRoot, TrustLayer)>,
        required_by: Option<TrustLayer>,
        mut load_keys: impl FnMut(&str) -> Result<Vec<NamedKey>, SignatureError>,
    ) -> Result<Self, SignatureError> {
        let mut keyed = Vec::new();
        for rule in rules {
            let mut keys = Vec::new();
            for key in &rule.keys {
                let added = match KeySource::classify(key) {
                    KeySource::Pem => VerifyingKey::from_pem(key.as_bytes()).map(unnamed_key),
                    KeySource::Name if rule.layer.is_team() => {
                        Err(SignatureError::Settings(format!(
                            "a team's rule cannot use `{}`, the name of a user's key: use PEM text or a file",
                            mimir_core::text::visible(key)
                        )))
                    }
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
                layer: rule.layer,
                keys,
                identities: rule.identities.clone(),
            });
        }
        Ok(Self {
            rules: keyed,
            root,
            required_by,
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
        self.required_by.is_some() || self.rule_for(reference).is_some()
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
        self.check_any(reference, std::slice::from_ref(manifest), found, now)
    }

    /// Checks the signatures of an artifact that has several digests, each of which binds its content: that of its
    /// manifest first, and that of an index with the manifest ([`PulledManifest::signed_digests`]).
    ///
    /// [`PulledManifest::signed_digests`]: crate::PulledManifest::signed_digests
    pub fn check_any(
        &self,
        reference: &OciReference,
        digests: &[OciDigest],
        found: &[FoundSignature],
        now: SystemTime,
    ) -> Result<Option<Signer>, SignatureError> {
        let artifact = || match digests.first() {
            Some(manifest) => reference.with_digest(*manifest).to_string(),
            None => reference.to_string(),
        };
        let Some(rule) = self.rule_for(reference) else {
            if self.required_by.is_some() {
                return Err(SignatureError::NoRule {
                    artifact: artifact(),
                });
            }
            return Ok(None);
        };
        let (mut reasons, mut other_tag) = (Vec::new(), None);
        for signature in found {
            match self.check_signature(rule, signature, reference, digests, now) {
                Ok(Some(signer)) if signer.signed_as().is_none() => return Ok(Some(signer)),
                Ok(Some(signer)) => {
                    other_tag.get_or_insert(signer);
                }
                Ok(None) => {}
                Err(reason) if reasons.len() < MAX_REASONS => {
                    reasons.push(format!("{}: {reason}", signature.location()));
                }
                Err(_) => {}
            }
        }
        if other_tag.is_some() {
            return Ok(other_tag);
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

    /// Returns the signatures that are worth keeping with the artifact: those that [`TrustPolicy::check_any`] accepts, or
    /// all if no rule covers the artifact.
    pub fn keep_accepted(
        &self,
        reference: &OciReference,
        digests: &[OciDigest],
        mut found: Vec<FoundSignature>,
        now: SystemTime,
    ) -> Vec<FoundSignature> {
        if let Some(rule) = self.rule_for(reference) {
            found.retain(|signature| {
                let checked = self.check_signature(rule, signature, reference, digests, now);
                matches!(checked, Ok(Some(_)))
            });
        }
        found
    }

    /// Reads the provenance among the attestations of an artifact, with the signers that the rules trust.
    pub fn provenance(
        &self,
        reference: &OciReference,
        digests: &[OciDigest],
        found: &[FoundSignature],
        now: SystemTime,
    ) -> Vec<Provenance> {
        let rule = self.rule_for(reference);
        let contents = found.iter().filter_map(|found| found.content.as_ref().ok());
        let provenance = contents.filter_map(|content| {
            let payload = content.signed.payload().ok()?;
            let mut digests = digests.iter();
            let provenance = digests.find_map(|digest| Provenance::read(&payload, digest))?;
            let signer = rule.and_then(|rule| self.verify(rule, content, now).ok());
            Some(Provenance {
                signer,
                ..provenance
            })
        });
        provenance.collect()
    }

    /// Returns the rule for an artifact: among those that cover it, the most specific one of the highest layer. A layer
    /// below that which requires signatures cannot say whose count.
    fn rule_for(&self, reference: &OciReference) -> Option<&KeyedRule> {
        let name = format!("{}/{}", reference.registry(), reference.repository());
        let name = name.to_ascii_lowercase();
        let covers = |rule: &&KeyedRule| {
            self.required_by.is_none_or(|layer| rule.layer >= layer)
                && matches(&rule.registry, &name, Wildcard::Everything)
        };
        let rules = self.rules.iter().filter(covers);
        rules.max_by_key(|rule| (rule.layer, specificity(&rule.registry)))
    }

    /// Returns the trusted signer; `None` for attestations, which do not sign the artifact.
    fn check_signature(
        &self,
        rule: &KeyedRule,
        signature: &FoundSignature,
        reference: &OciReference,
        digests: &[OciDigest],
        now: SystemTime,
    ) -> Result<Option<Signer>, String> {
        let content = signature.content.as_ref().map_err(Clone::clone)?;
        if content.signed.is_attestation() {
            return Ok(None);
        }
        let check = || {
            let mut signer = self.verify(rule, content, now)?;
            content.signed.check_signs_any(digests)?;
            if let Some(name) = content.signed.signed_name() {
                signer.set_signed_as(check_signed_name(&name, reference)?);
            }
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
        let unknown = || match content.material.claimed_key() {
            Some(claimed) => SignatureError::OtherKey { claimed },
            None => SignatureError::UnknownKey,
        };
        let NamedKey { name, key } = signing_key.ok_or_else(unknown)?;
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
            signed_as: None,
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
        let root = self.root.as_ref();
        let root = root.filter(|(_, layer)| *layer >= rule.layer);
        let (root, _) = root.ok_or_else(|| {
            SignatureError::Settings(
                "it is keyless, and `trustRoot` is not set in the file of the trust rule or above it"
                    .to_owned(),
            )
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
        let missing = if content.material.has_authority_time {
            "it has only a time of a timestamp authority (RFC 3161), which is not supported: expected an entry of a log \
             with a signed time and an inclusion proof"
        } else {
            "it has a certificate, but no entry of a log"
        };
        let mut result = Err(SignatureError::malformed("signature", missing));
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
        Ok(Signer::Identity {
            issuer,
            subject,
            signed_as: None,
        })
    }
}

/// Returns a key of the settings without a name: it is named by its ID.
fn unnamed_key(key: VerifyingKey) -> Vec<NamedKey> {
    let id = key.id();
    let name = id.get(..SHORT_ID).unwrap_or(&id).to_owned();
    vec![NamedKey { name, key }]
}
