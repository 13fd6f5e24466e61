//! History of a membership: the record of the accepted bundle, and the stored envelopes that prove it.
//!
//! The record is sealed with a key beside it, which protects against accidents and other users, but not against a program
//! of the same user. Therefore a key counts only if the settings name it, or if stored envelopes announce it in a chain
//! that begins with a key of the settings.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::acceptance::{parse_envelope, sorted_pems};
use super::bundle::TeamBundle;
use super::team_record::TeamRecord;
use crate::OciDigest;
use crate::signature::VerifyingKey;

/// The record of the bundle in force with the stored envelopes. They are not verified yet.
#[derive(Debug, Clone)]
pub struct TeamHistory {
    /// The record.
    pub record: TeamRecord,
    /// The envelope of the bundle in force, if it is stored.
    pub envelope: Option<Vec<u8>>,
    /// The envelopes that the record names as predecessors, oldest first.
    pub predecessors: Vec<Vec<u8>>,
}

/// A stored envelope that was verified.
#[derive(Debug)]
pub(super) struct HistoryLink {
    envelope: Vec<u8>,
    bundle: TeamBundle,
    signer: VerifyingKey,
}

impl HistoryLink {
    /// Verifies an envelope of the team `org_id` that one of the keys signed.
    fn verify(envelope: &[u8], org_id: &str, trusted: &[VerifyingKey]) -> Option<Self> {
        let (payload, signer_id) = parse_envelope(envelope).ok()?.verify(trusted).ok()?;
        let bundle = TeamBundle::from_payload(&payload).ok()?;
        let signer = trusted.iter().find(|key| key.id() == signer_id)?.clone();
        (bundle.team.org_id == org_id).then(|| Self {
            envelope: envelope.to_vec(),
            bundle,
            signer,
        })
    }

    /// Returns the keys that may sign the next bundle.
    pub(super) fn announced(&self) -> impl Iterator<Item = VerifyingKey> + '_ {
        let keys = self.bundle.keys.iter();
        keys.filter_map(|pem| VerifyingKey::from_pem(pem.as_bytes()).ok())
    }
}

impl TeamHistory {
    /// Returns the verified predecessors in order, and the bundle in force after them if `with_envelope` is true. Nothing
    /// is returned for a bundle in force that does not verify.
    pub(super) fn proven_links(
        &self,
        org_id: &str,
        joined_with: &[VerifyingKey],
        with_envelope: bool,
    ) -> Vec<HistoryLink> {
        let mut trusted = joined_with.to_vec();
        let mut links = Vec::new();
        for envelope in &self.predecessors {
            if let Some(link) = HistoryLink::verify(envelope, org_id, &trusted) {
                trusted.extend(link.announced());
                links.push(link);
            }
        }
        if with_envelope {
            let envelope = self.envelope.as_ref();
            let envelope =
                envelope.filter(|bytes| OciDigest::of_bytes(bytes) == self.record.digest);
            match envelope.and_then(|bytes| HistoryLink::verify(bytes, org_id, &trusted)) {
                Some(link) => links.push(link),
                // Only the newest bundle says which keys may sign the next one.
                None => links.clear(),
            }
        }
        links
    }

    /// Creates a history from stored envelopes alone, because the record cannot be used: the version and the revoked keys
    /// of those that verify. Returns `None` if none does.
    pub fn recover(
        org_id: &str,
        joined_with: &[VerifyingKey],
        mut envelopes: Vec<Vec<u8>>,
    ) -> Option<Self> {
        let mut trusted = joined_with.to_vec();
        let mut links: Vec<HistoryLink> = Vec::new();
        // Each pass verifies at least one more envelope, or is the last.
        loop {
            let before = links.len();
            envelopes.retain(|envelope| {
                let Some(link) = HistoryLink::verify(envelope, org_id, &trusted) else {
                    return true;
                };
                trusted.extend(link.announced());
                links.push(link);
                false
            });
            if links.len() == before {
                break;
            }
        }
        links.sort_by_key(|link| link.bundle.version);
        let revoked = links
            .iter()
            .flat_map(|link| link.bundle.revoked_keys.clone());
        let revoked: BTreeSet<String> = revoked.collect();
        let newest = links.pop()?;
        let predecessors = links_to(&newest.signer, joined_with, links);
        let digests = predecessors.iter().map(|bytes| OciDigest::of_bytes(bytes));
        Some(Self {
            record: TeamRecord {
                org_id: org_id.to_owned(),
                version: newest.bundle.version,
                digest: OciDigest::of_bytes(&newest.envelope),
                signer: newest.signer.to_pem(),
                joined_with: sorted_pems(joined_with),
                next_keys: newest.bundle.keys,
                revoked: revoked.into_iter().collect(),
                // The time of the last check is not known.
                checked_at: Timestamp::UNIX_EPOCH,
                left: false,
                last_fault: None,
                predecessors: digests.collect(),
            },
            envelope: Some(newest.envelope),
            predecessors,
        })
    }
}

/// Returns the envelopes that prove the key of a signer: those up to the first one that announces it, or none if the member
/// has joined with the key.
pub(super) fn links_to(
    signer: &VerifyingKey,
    joined_with: &[VerifyingKey],
    links: Vec<HistoryLink>,
) -> Vec<Vec<u8>> {
    if joined_with.contains(signer) {
        return Vec::new();
    }
    let announces = |link: &HistoryLink| link.announced().any(|key| key == *signer);
    let last = links.iter().position(announces);
    let needed = last.map_or(0, |last| last + 1);
    let links = links.into_iter().take(needed);
    links.map(|link| link.envelope).collect()
}
