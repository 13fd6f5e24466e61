//! The record of the newest bundle that this user has accepted from a team: version, signer and trusted keys. It is
//! sealed with a key of the user, so that an older record or one of another user does not lift the protection against
//! old bundles.

use jiff::Timestamp;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

use super::acceptance::TeamError;
use crate::OciDigest;

/// Length of the key that seals records, in bytes.
pub const RECORD_KEY_LENGTH: usize = 32;

/// The newest accepted bundle of a team, and what counts for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TeamRecord {
    /// The id of the team.
    pub org_id: String,
    /// The highest accepted version.
    pub version: u64,
    /// Digest of the envelope of that version.
    pub digest: OciDigest,
    /// The key that signed it, in PEM.
    pub signer: String,
    /// The keys that the member had joined with, in PEM.
    pub joined_with: Vec<String>,
    /// Further keys that may sign the next bundle, in PEM.
    pub next_keys: Vec<String>,
    /// Ids of keys that are never trusted again.
    pub revoked: Vec<String>,
    /// The time of the last check that found no fault.
    pub checked_at: Timestamp,
    /// True if the user has left the team. The version still counts if the user joins again.
    pub left: bool,
    /// The fault of the last check, if it failed.
    pub last_fault: Option<TeamFault>,
    /// Digests of the earlier envelopes that announced the signer, oldest first. Empty if the member had joined with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predecessors: Vec<OciDigest>,
}

/// A failed check of a team's bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamFault {
    /// The time of the check.
    pub at: Timestamp,
    /// The message.
    pub text: String,
}

/// A record with its authentication code.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedRecord {
    record: TeamRecord,
    mac: String,
}

/// Creates a key that seals records.
///
/// # Errors
/// The random generator of the system fails.
pub fn new_record_key() -> Result<[u8; RECORD_KEY_LENGTH], TeamError> {
    let mut key = [0; RECORD_KEY_LENGTH];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| TeamError::Record("the system has no random numbers"))?;
    Ok(key)
}

impl TeamRecord {
    /// Returns the record as JSON, sealed with `key`.
    ///
    /// # Errors
    /// The record cannot be written as JSON.
    pub fn seal(&self, key: &[u8; RECORD_KEY_LENGTH]) -> Result<Vec<u8>, TeamError> {
        let body = self.body()?;
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &body);
        let mut mac = [0; 32];
        mac.copy_from_slice(&tag.as_ref()[..32]);
        let sealed = SealedRecord {
            record: self.clone(),
            mac: OciDigest::from_sha256(mac).hex(),
        };
        serde_json::to_vec_pretty(&sealed)
            .map_err(|_| TeamError::Record("the record cannot be written"))
    }

    /// Reads a sealed record of the team `org_id`.
    ///
    /// # Errors
    /// The record is damaged, of another team, or sealed with another key.
    pub fn open(
        text: &[u8],
        org_id: &str,
        key: &[u8; RECORD_KEY_LENGTH],
    ) -> Result<Self, TeamError> {
        let sealed: SealedRecord =
            serde_json::from_slice(text).map_err(|_| TeamError::Record("the record is damaged"))?;
        let mac: OciDigest = format!("sha256:{}", sealed.mac)
            .parse()
            .map_err(|_| TeamError::Record("the record is damaged"))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::verify(&key, &sealed.record.body()?, mac.as_bytes())
            .map_err(|_| TeamError::Record("the record was changed by another program"))?;
        if sealed.record.org_id != org_id {
            return Err(TeamError::Record("the record is of another team"));
        }
        Ok(sealed.record)
    }

    /// Returns the authenticated bytes. Fields have a fixed order.
    fn body(&self) -> Result<Vec<u8>, TeamError> {
        serde_json::to_vec(self).map_err(|_| TeamError::Record("the record cannot be written"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> TeamRecord {
        TeamRecord {
            org_id: "acme".to_owned(),
            version: 3,
            digest: OciDigest::of_bytes(b"envelope"),
            signer: "PEM".to_owned(),
            joined_with: vec!["PEM".to_owned()],
            next_keys: Vec::new(),
            revoked: Vec::new(),
            checked_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            left: false,
            last_fault: None,
            predecessors: Vec::new(),
        }
    }

    #[test]
    fn team_record_that_was_changed_is_refused() {
        let key = new_record_key().unwrap();
        let sealed = record().seal(&key).unwrap();
        assert_eq!(TeamRecord::open(&sealed, "acme", &key).unwrap(), record());
        let text = String::from_utf8(sealed.clone()).unwrap();
        for (from, to) in [
            ("\"version\": 3", "\"version\": 2"),
            ("\"left\": false", "\"left\": true"),
            ("2026-01-01", "2027-01-01"),
            ("\"acme\"", "\"acm\""),
            ("\"mac\": \"", "\"mac\": \"0"),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            assert!(
                TeamRecord::open(changed.as_bytes(), "acme", &key).is_err(),
                "{to}"
            );
        }
        assert!(TeamRecord::open(&sealed, "other", &key).is_err());
        let other_key = new_record_key().unwrap();
        assert!(TeamRecord::open(&sealed, "acme", &other_key).is_err());
    }
}
