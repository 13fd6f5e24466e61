//! The rules by which a member accepts a bundle: signer, team, expiry, and no older version than before.

use jiff::{SignedDuration, Timestamp};
use mimir_core::{ToolError, ToolErrorCode};

use super::bundle::{BUNDLE_PAYLOAD_TYPE, MAX_ENVELOPE_SIZE, TeamBundle};
use super::bundle_checks::BundleError;
use super::team_history::{HistoryLink, TeamHistory, links_to};
use super::team_record::TeamRecord;
use crate::OciDigest;
use crate::signature::{DsseEnvelope, SignatureError, VerifyingKey};

/// A bundle of a team that is not accepted, or a stored one that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// The bundle has another format.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The envelope or its keys cannot be read.
    #[error("the envelope of the team's bundle: {0}")]
    Envelope(SignatureError),
    /// No trusted key signed the bundle.
    #[error("the bundle is not signed by a trusted key of the team")]
    Signer,
    /// A revoked key signed the bundle.
    #[error("the bundle is signed by a key that the team has revoked: {0}")]
    Revoked(String),
    /// The bundle is of another team.
    #[error("the bundle is of the team `{found}`, not of `{expected}`")]
    OtherTeam {
        /// The id in the bundle.
        found: String,
        /// The expected id.
        expected: String,
    },
    /// The bundle is older than one that was accepted before.
    #[error(
        "the bundle has version {found}, but version {seen} was already in force: an older bundle is not accepted"
    )]
    Rollback {
        /// The version of the bundle.
        found: u64,
        /// The highest version so far.
        seen: u64,
    },
    /// Two bundles have the same version.
    #[error(
        "the bundle has version {0} like the one in force, but another content: the team must publish changes with a higher version"
    )]
    SameVersion(u64),
    /// The bundle has expired.
    #[error("the bundle has expired at {0}")]
    Expired(Timestamp),
    /// The bundle is from the future.
    #[error(
        "the bundle was signed at {0}, which is in the future; check the clock of this machine"
    )]
    NotYetValid(Timestamp),
    /// The record of the accepted bundle cannot be used.
    #[error("{0}")]
    Record(&'static str),
}

impl TeamError {
    /// Returns the stable code for clients.
    pub fn code(&self) -> ToolErrorCode {
        match self {
            Self::Bundle(_) | Self::Envelope(_) => ToolErrorCode::InvalidInput,
            Self::Record(_) | Self::Expired(_) | Self::NotYetValid(_) => ToolErrorCode::Unavailable,
            Self::Signer
            | Self::Revoked(_)
            | Self::OtherTeam { .. }
            | Self::Rollback { .. }
            | Self::SameVersion(_) => ToolErrorCode::PolicyDenied,
        }
    }
}

impl From<TeamError> for ToolError {
    fn from(error: TeamError) -> Self {
        Self::new(error.code(), mimir_core::text::visible(&error.to_string()))
    }
}

/// Difference between the clocks of the signer and the member that is accepted.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(10);

/// A bundle that may be put in force.
#[derive(Debug, Clone)]
pub struct AcceptedBundle {
    /// The bundle.
    pub bundle: TeamBundle,
    /// Digest of the envelope.
    pub digest: OciDigest,
    /// The key that signed it.
    pub signer: VerifyingKey,
    /// False if it is the bundle that is already in force.
    pub is_new: bool,
    /// The record to store with it.
    pub record: TeamRecord,
    /// The envelopes to store with it: earlier bundles, which prove its key if the member has not joined with it.
    pub predecessors: Vec<Vec<u8>>,
}

impl AcceptedBundle {
    /// Checks an envelope that was fetched for a member of the team `org_id`, who has joined with the keys
    /// `joined_with`. `history` is what was accepted before. With other keys in the settings, revoked keys stay revoked, and
    /// older versions stay refused unless none of the keys belongs to the earlier trust.
    ///
    /// # Errors
    /// The envelope is not signed by a trusted key, of another team, expired, older than an accepted one, or not valid.
    pub fn check(
        envelope: &[u8],
        org_id: &str,
        joined_with: &[VerifyingKey],
        history: Option<&TeamHistory>,
        now: Timestamp,
    ) -> Result<Self, TeamError> {
        let digest = OciDigest::of_bytes(envelope);
        let record = history.map(|history| &history.record);
        let parsed = parse_envelope(envelope)?;
        let revoked = record.map_or(&[][..], |record| &record.revoked);
        let in_force = record.filter(|record| record.digest == digest);
        // The record alone proves no key: who can write it could name any key as signer or successor.
        let links = history.map_or_else(Vec::new, |history| {
            history.proven_links(org_id, joined_with, in_force.is_none())
        });
        let mut trusted = joined_with.to_vec();
        match in_force {
            // The key that signed the bundle in force may since have been replaced, or have revoked itself.
            Some(_) => trusted.extend(links.iter().flat_map(HistoryLink::announced)),
            None => trusted.extend(links.last().into_iter().flat_map(HistoryLink::announced)),
        }
        let (payload, signer_id) = parsed.verify(&trusted).map_err(|error| match error {
            SignatureError::UnknownKey => TeamError::Signer,
            error => TeamError::Envelope(error),
        })?;
        if in_force.is_none() && revoked.contains(&signer_id) {
            return Err(TeamError::Revoked(signer_id));
        }
        let signer = trusted.into_iter().find(|key| key.id() == signer_id);
        let signer = signer.ok_or(TeamError::Signer)?;
        let bundle = TeamBundle::from_payload(&payload)?;
        if bundle.team.org_id != org_id {
            return Err(TeamError::OtherTeam {
                found: bundle.team.org_id,
                expected: org_id.to_owned(),
            });
        }
        let same_trust = |record: &&TeamRecord| has_same_trust(record, joined_with, &bundle);
        if let Some(record) = record.filter(|_| in_force.is_none()).filter(same_trust) {
            let (found, seen) = (bundle.version, record.version);
            if found < seen {
                return Err(TeamError::Rollback { found, seen });
            }
            if found == seen {
                return Err(TeamError::SameVersion(found));
            }
        }
        // After leaving, the known bundle is put in force anew.
        let stays = in_force.is_some_and(|record| !record.left);
        if !stays && now >= bundle.expires_at {
            return Err(TeamError::Expired(bundle.expires_at));
        }
        let latest = now.checked_add(CLOCK_TOLERANCE).unwrap_or(now);
        if !stays && bundle.issued_at > latest {
            return Err(TeamError::NotYetValid(bundle.issued_at));
        }
        for key in &bundle.keys {
            VerifyingKey::from_pem(key.as_bytes()).map_err(TeamError::Envelope)?;
        }
        let mut all_revoked = revoked.to_vec();
        all_revoked.extend(bundle.revoked_keys.iter().cloned());
        all_revoked.sort();
        all_revoked.dedup();
        let predecessors = links_to(&signer, joined_with, links);
        Ok(Self {
            record: TeamRecord {
                org_id: org_id.to_owned(),
                version: bundle.version,
                digest,
                signer: signer.to_pem(),
                joined_with: sorted_pems(joined_with),
                next_keys: bundle.keys.clone(),
                revoked: all_revoked,
                checked_at: now,
                left: false,
                last_fault: None,
                predecessors: predecessors
                    .iter()
                    .map(|it| OciDigest::of_bytes(it))
                    .collect(),
            },
            predecessors,
            is_new: !stays,
            bundle,
            digest,
            signer,
        })
    }

    /// Returns the id of the team in an envelope that one of the keys signed.
    ///
    /// # Errors
    /// None of the keys signed it, or it is not valid.
    pub fn org_id(envelope: &[u8], keys: &[VerifyingKey]) -> Result<String, TeamError> {
        let verified = parse_envelope(envelope)?.verify(keys);
        let (payload, _) = verified.map_err(|error| match error {
            SignatureError::UnknownKey => TeamError::Signer,
            error => TeamError::Envelope(error),
        })?;
        Ok(TeamBundle::from_payload(&payload)?.team.org_id)
    }

    /// Checks the stored envelope of the bundle in force against its history. Its age is for the caller to judge.
    ///
    /// # Errors
    /// The envelope was changed, no key of the member proves its signer, or the member has other keys than those that it
    /// was accepted with.
    pub fn of_history(
        envelope: &[u8],
        history: &TeamHistory,
        joined_with: &[VerifyingKey],
    ) -> Result<Self, TeamError> {
        let record = &history.record;
        if OciDigest::of_bytes(envelope) != record.digest {
            return Err(TeamError::Record(
                "the stored bundle was changed by another program",
            ));
        }
        if sorted_pems(joined_with) != record.joined_with {
            return Err(TeamError::Record("the keys in `teams.keys` have changed"));
        }
        let accepted = Self::check(
            envelope,
            &record.org_id,
            joined_with,
            Some(history),
            record.checked_at,
        )?;
        if accepted.bundle.version != record.version {
            return Err(TeamError::Record(
                "the record names another version than the bundle",
            ));
        }
        Ok(accepted)
    }
}

/// Returns true if the versions that a record has seen count for a bundle: the keys of the member belong to the trust of
/// the record, or the bundle announces the signer of the record.
fn has_same_trust(record: &TeamRecord, joined_with: &[VerifyingKey], bundle: &TeamBundle) -> bool {
    let earlier = record.joined_with.iter().chain(&record.next_keys);
    let earlier: Vec<String> = earlier
        .chain([&record.signer])
        .filter_map(|pem| key_id(pem))
        .collect();
    let announces_signer = || {
        let signer = key_id(&record.signer);
        bundle.keys.iter().any(|pem| key_id(pem) == signer)
    };
    joined_with.iter().any(|key| earlier.contains(&key.id())) || announces_signer()
}

fn key_id(pem: &str) -> Option<String> {
    Some(VerifyingKey::from_pem(pem.as_bytes()).ok()?.id())
}

/// Returns the keys in PEM, in the order of a record.
pub(super) fn sorted_pems(keys: &[VerifyingKey]) -> Vec<String> {
    let mut pems: Vec<String> = keys.iter().map(VerifyingKey::to_pem).collect();
    pems.sort();
    pems
}

pub(super) fn parse_envelope(envelope: &[u8]) -> Result<DsseEnvelope, TeamError> {
    if envelope.len() as u64 > MAX_ENVELOPE_SIZE {
        let why = "larger than the maximum for an envelope".to_owned();
        return Err(BundleError::Format(why).into());
    }
    let parsed = DsseEnvelope::from_json(envelope).map_err(TeamError::Envelope)?;
    if parsed.payload_type() != BUNDLE_PAYLOAD_TYPE {
        let why = format!("its payload type is not {BUNDLE_PAYLOAD_TYPE}");
        return Err(BundleError::Format(why).into());
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests;
