//! Signed decisions of reviewers about one build of a component.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::Grant;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::OciDigest;
use mimir_registry::signature::{DsseEnvelope, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::file_error::{file_error, write_atomically};
use crate::signing_keys::read_public;

use super::authoring_folder::{AuthoredTool, AuthoringFolder, refuse_link};
use super::proposal::ProposalSource;

/// Payload type of the signed envelope.
const PAYLOAD_TYPE: &str = "application/vnd.mimir.team-review.v1+json";

/// Maximum size of a record's file in bytes.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// Beginning of a key in PEM.
const PEM_START: &str = "-----BEGIN";

/// Decision of a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewDecision {
    /// The build may be published.
    Approved,
    /// The build may not be published.
    Rejected,
}

/// Statement of a reviewer about one build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewRecord {
    /// Id of the team: a decision for one team is not valid for another.
    pub org_id: String,
    /// The decision.
    pub decision: ReviewDecision,
    /// Name of the component's file in the bundle.
    pub file: String,
    /// Digest of the component.
    pub digest: OciDigest,
    /// Size of the component in bytes.
    pub size: u64,
    /// Time of the decision.
    pub decided_at: Timestamp,
    /// Reason, as the reviewer wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Origin in a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ProposalSource>,
    /// The rights that members' tools get; only in an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

/// A record with the id of the key that signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedReview {
    /// The record.
    pub record: ReviewRecord,
    /// Id of the reviewer's key.
    pub key_id: String,
}

/// Keys of `team.yml`.
#[derive(Debug, Clone)]
pub struct ReviewKeys {
    /// Keys that may have signed the published bundle, including revoked ones: revoking a key needs a next bundle.
    pub published: Vec<VerifyingKey>,
    /// Keys that may sign the next bundle.
    pub bundle: Vec<VerifyingKey>,
    /// Keys that may approve tools.
    pub review: Vec<VerifyingKey>,
}

impl ReviewKeys {
    /// Reads the keys that `team.yml` names. If it names no key for bundles, `signing` is the only one.
    ///
    /// # Errors
    ///
    /// Fails if a key cannot be read, or if `signing` may not sign.
    pub fn read(folder: &AuthoringFolder, signing: &VerifyingKey) -> Result<Self, ToolError> {
        let manifest = &folder.manifest;
        let is_revoked = |key: &VerifyingKey| manifest.revoked_keys.contains(&key.id());
        if is_revoked(signing) {
            let message = format!(
                "the key {} is in `revokedKeys` of team.yml; sign with another key",
                signing.id()
            );
            return Err(ToolError::new(ToolErrorCode::PermissionDenied, message));
        }
        let mut keys = Self::listed(folder)?;
        if manifest.keys.is_empty() {
            for list in [&mut keys.published, &mut keys.bundle, &mut keys.review] {
                list.push(signing.clone());
            }
        }
        Ok(keys)
    }

    /// Reads the keys that `team.yml` names.
    ///
    /// # Errors
    ///
    /// Fails if a key cannot be read.
    pub fn listed(folder: &AuthoringFolder) -> Result<Self, ToolError> {
        let manifest = &folder.manifest;
        let read = |names: &[String]| -> Result<Vec<VerifyingKey>, ToolError> {
            let keys = names.iter().map(|name| read_key(folder.root(), name));
            keys.collect()
        };
        let published = read(&manifest.keys)?;
        let is_current = |key: &VerifyingKey| !manifest.revoked_keys.contains(&key.id());
        let mut bundle = published.clone();
        bundle.retain(is_current);
        let mut review = read(&manifest.review_keys)?;
        review.retain(is_current);
        review.extend(bundle.iter().cloned());
        Ok(Self {
            published,
            bundle,
            review,
        })
    }

    /// Returns an error if the key may not sign bundles.
    pub fn check_publisher(&self, key: &VerifyingKey) -> Result<(), ToolError> {
        check_listed(&self.bundle, key, "keys")
    }

    /// Returns an error if the key may not approve tools.
    pub fn check_reviewer(&self, key: &VerifyingKey) -> Result<(), ToolError> {
        check_listed(&self.review, key, "keys` or `reviewKeys")
    }
}

fn check_listed(keys: &[VerifyingKey], key: &VerifyingKey, list: &str) -> Result<(), ToolError> {
    if keys.contains(key) {
        return Ok(());
    }
    let message = format!(
        "the key {} is not in `{list}` of team.yml; sign with a key of the list, or add its public key",
        key.id()
    );
    Err(ToolError::new(ToolErrorCode::PermissionDenied, message))
}

/// Reads a public key: a PEM text, or the path of a file relative to `folder`.
pub(super) fn read_key(folder: &Path, name: &str) -> Result<VerifyingKey, ToolError> {
    if name.trim_start().starts_with(PEM_START) {
        return Ok(VerifyingKey::from_pem(name.as_bytes())?);
    }
    read_public(&folder.join(name))
}

impl ReviewRecord {
    /// Signs the record and writes it into the folder, over an earlier decision about the same build. A decision after
    /// the first is also kept in a file of its own, so that putting back the file of an earlier one does not revive it.
    pub fn write(&self, folder: &AuthoringFolder, key: &SigningKey) -> Result<(), ToolError> {
        let payload = serde_json::to_vec(self).map_err(ToolError::internal)?;
        let envelope = DsseEnvelope::sign(PAYLOAD_TYPE, &payload, key)?.to_json()?;
        let path = folder.review_path(&self.file, &self.digest);
        let own = path.with_extension(format!("{}.json", self.decided_at.as_millisecond()));
        let is_first = path.symlink_metadata().is_err();
        for path in [own, path].into_iter().skip(usize::from(is_first)) {
            refuse_link(&path)?;
            write_atomically(&path, &envelope)
                .map_err(|error| file_error("write", &path, &error))?;
        }
        Ok(())
    }
}

/// Returns the files of single decisions about the build whose decision is in the file at `path`.
fn other_decisions(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(stem)) = (path.parent(), path.file_stem()) else {
        return Vec::new();
    };
    let begin = format!("{}.", stem.to_string_lossy());
    let is_decision = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let time = name.strip_prefix(&begin);
        let time = time.and_then(|rest| rest.strip_suffix(".json"));
        time.is_some_and(|time| time.parse::<i64>().is_ok())
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(is_decision).collect()
}

impl SignedReview {
    /// Reads the decision about an entry of the catalog without its signature, for the differences that an author shows in
    /// a proposal. A reviewer compares with [`Self::read`]. `None` if it cannot be read.
    pub fn read_unverified(folder: &AuthoringFolder, tool: &AuthoredTool) -> Option<ReviewRecord> {
        let path = folder.review_path(&tool.file, &tool.digest);
        let json = files::read(&path, LinkPolicy::Refuse, MAX_FILE_SIZE).ok()?;
        let payload = DsseEnvelope::from_json(&json)
            .ok()?
            .unverified_payload()
            .ok()?;
        serde_json::from_slice(&payload).ok()
    }

    /// Reads the newest decision about an entry of the catalog; `None` if there is none. Of two at the same time, the
    /// rejection counts.
    ///
    /// # Errors
    ///
    /// Fails if the record is not signed by one of `keys`, or is about another team or build.
    pub fn read(
        folder: &AuthoringFolder,
        tool: &AuthoredTool,
        keys: &[VerifyingKey],
    ) -> Result<Option<Self>, ToolError> {
        let path = folder.review_path(&tool.file, &tool.digest);
        let current = Self::read_file(folder, tool, keys, &path)?;
        let others = other_decisions(&path).into_iter();
        // An invalid file counts as little as a missing one.
        let others =
            others.filter_map(|path| Self::read_file(folder, tool, keys, &path).ok().flatten());
        Ok(others.chain(current).max_by_key(|review| {
            let record = &review.record;
            let is_rejection = record.decision == ReviewDecision::Rejected;
            (record.decided_at, is_rejection)
        }))
    }

    fn read_file(
        folder: &AuthoringFolder,
        tool: &AuthoredTool,
        keys: &[VerifyingKey],
        path: &Path,
    ) -> Result<Option<Self>, ToolError> {
        let shown = visible(&path.display().to_string());
        let json = match files::read(path, LinkPolicy::Refuse, MAX_FILE_SIZE) {
            Ok(json) => json,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("read", path, &error)),
        };
        let fault = |why: &str| {
            let message = format!("{shown}: {why}");
            let approve = folder.approve_command(&tool.file);
            let remedy = format!("review the tool again: `{approve}`");
            ToolError::new(ToolErrorCode::PermissionDenied, message).with_remedies([remedy])
        };
        let envelope = DsseEnvelope::from_json(&json).map_err(|error| fault(&error.to_string()))?;
        let (payload, key_id) = envelope.verify(keys).map_err(|_| {
            fault("the decision is not signed by a key in `keys` or `reviewKeys` of team.yml")
        })?;
        if envelope.payload_type() != PAYLOAD_TYPE {
            return Err(fault("the file is not a decision of a reviewer"));
        }
        let record: ReviewRecord = serde_json::from_slice(&payload)
            .map_err(|error| fault(&visible(&error.to_string())))?;
        let is_same = record.org_id == folder.manifest.org_id
            && record.file == tool.file
            && record.digest == tool.digest;
        if !is_same {
            return Err(fault("the decision is about another build or team"));
        }
        Ok(Some(Self { record, key_id }))
    }
}

#[cfg(test)]
mod tests {
    use mimir_registry::signature::KeyAlgorithm;

    use super::*;

    struct ReviewFixture {
        dir: tempfile::TempDir,
        folder: AuthoringFolder,
        tool: AuthoredTool,
    }

    fn key() -> SigningKey {
        SigningKey::generate(KeyAlgorithm::Ed25519).unwrap()
    }

    fn fixture() -> ReviewFixture {
        let dir = tempfile::tempdir().unwrap();
        AuthoringFolder::create(dir.path(), "acme", "Acme").unwrap();
        let tool = AuthoredTool {
            file: "a.wasm".to_owned(),
            digest: OciDigest::of_bytes(b"a"),
            reference: None,
            enforced: false,
        };
        let folder = AuthoringFolder::open(dir.path()).unwrap();
        ReviewFixture { dir, folder, tool }
    }

    impl ReviewFixture {
        fn record(&self) -> ReviewRecord {
            ReviewRecord {
                org_id: "acme".to_owned(),
                decision: ReviewDecision::Approved,
                file: self.tool.file.clone(),
                digest: self.tool.digest,
                size: 1,
                decided_at: "2026-01-01T00:00:00Z".parse().unwrap(),
                reason: None,
                source: None,
                grant: None,
            }
        }

        fn read(&self, keys: &[VerifyingKey]) -> Result<Option<SignedReview>, ToolError> {
            SignedReview::read(&self.folder, &self.tool, keys)
        }

        fn write_manifest(&mut self, text: &str) {
            let text = format!("orgId: acme\nname: Acme\n{text}");
            std::fs::write(self.dir.path().join("team.yml"), text).unwrap();
            self.folder = AuthoringFolder::open(self.dir.path()).unwrap();
        }
    }

    #[test]
    fn review_counts_only_with_a_known_key_and_for_its_build() {
        let fixture = fixture();
        let (own, other) = (key(), key());
        let keys = [own.verifying_key().clone()];
        assert_eq!(fixture.read(&keys).unwrap(), None);
        let record = fixture.record();
        record.write(&fixture.folder, &own).unwrap();
        let read = fixture.read(&keys).unwrap().unwrap();
        assert_eq!((read.record, read.key_id), (record.clone(), keys[0].id()));

        record.write(&fixture.folder, &other).unwrap();
        let error = fixture.read(&keys).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PermissionDenied);
        assert!(
            error.message.contains("not signed by a key"),
            "{}",
            error.message
        );

        // A valid decision about another build, copied to this one.
        for stolen in [
            ReviewRecord {
                digest: OciDigest::of_bytes(b"b"),
                ..record.clone()
            },
            ReviewRecord {
                org_id: "other".to_owned(),
                ..record.clone()
            },
            ReviewRecord {
                file: "b.wasm".to_owned(),
                ..record
            },
        ] {
            let payload = serde_json::to_vec(&stolen).unwrap();
            let envelope = DsseEnvelope::sign(PAYLOAD_TYPE, &payload, &own).unwrap();
            let path = fixture
                .folder
                .review_path(&fixture.tool.file, &fixture.tool.digest);
            std::fs::write(&path, envelope.to_json().unwrap()).unwrap();
            let error = fixture.read(&keys).unwrap_err();
            assert!(
                error.message.contains("another build or team"),
                "{}",
                error.message
            );
        }
        // An envelope of another kind with the same payload.
        let payload = serde_json::to_vec(&fixture.record()).unwrap();
        let envelope = DsseEnvelope::sign("text/plain", &payload, &own).unwrap();
        let path = fixture
            .folder
            .review_path(&fixture.tool.file, &fixture.tool.digest);
        std::fs::write(&path, envelope.to_json().unwrap()).unwrap();
        assert!(fixture.read(&keys).is_err());
    }

    #[test]
    fn review_that_is_put_back_does_not_replace_a_newer_one() {
        let fixture = fixture();
        let key = key();
        let keys = [key.verifying_key().clone()];
        let path = fixture
            .folder
            .review_path(&fixture.tool.file, &fixture.tool.digest);
        let decide = |decision, day: u8| {
            let record = ReviewRecord {
                decision,
                decided_at: format!("2026-01-0{day}T00:00:00Z").parse().unwrap(),
                ..fixture.record()
            };
            record.write(&fixture.folder, &key).unwrap();
            std::fs::read(&path).unwrap()
        };
        let decision = || fixture.read(&keys).unwrap().unwrap().record.decision;
        let approved = decide(ReviewDecision::Approved, 1);
        assert_eq!(other_decisions(&path), Vec::<PathBuf>::new());
        decide(ReviewDecision::Rejected, 2);
        std::fs::write(&path, &approved).unwrap();
        assert_eq!(decision(), ReviewDecision::Rejected);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(decision(), ReviewDecision::Rejected);
        std::fs::write(&path, &approved).unwrap();
        // A new review counts, and a decision that none of the keys signed does not.
        decide(ReviewDecision::Approved, 3);
        assert_eq!(decision(), ReviewDecision::Approved);
        let forged = path.with_extension("4102444800000.json");
        std::fs::write(&forged, "{}").unwrap();
        assert_eq!(decision(), ReviewDecision::Approved);
        decide(ReviewDecision::Rejected, 3);
        std::fs::write(&path, &approved).unwrap();
        assert_eq!(decision(), ReviewDecision::Rejected);
    }

    #[test]
    fn review_keys_separate_reviewers_from_publishers() {
        let mut fixture = fixture();
        let (publisher, reviewer, stranger) = (key(), key(), key());
        let alone = ReviewKeys::read(&fixture.folder, stranger.verifying_key()).unwrap();
        assert!(alone.check_publisher(stranger.verifying_key()).is_ok());

        let write = |name: &str, key: &SigningKey| {
            let pem = key.verifying_key().to_pem();
            std::fs::write(fixture.dir.path().join(name), pem).unwrap();
        };
        write("one.pub", &publisher);
        write("two.pub", &reviewer);
        fixture.write_manifest("keys: [one.pub]\nreviewKeys: [two.pub]\n");
        let keys = ReviewKeys::read(&fixture.folder, publisher.verifying_key()).unwrap();
        assert!(keys.check_publisher(publisher.verifying_key()).is_ok());
        assert!(keys.check_publisher(reviewer.verifying_key()).is_err());
        assert!(keys.check_reviewer(reviewer.verifying_key()).is_ok());
        assert!(keys.check_reviewer(stranger.verifying_key()).is_err());

        let id = reviewer.verifying_key().id();
        fixture.write_manifest(&format!(
            "keys: [one.pub]\nreviewKeys: [two.pub]\nrevokedKeys: ['{id}']\n"
        ));
        let keys = ReviewKeys::read(&fixture.folder, publisher.verifying_key()).unwrap();
        assert!(keys.check_reviewer(reviewer.verifying_key()).is_err());
        assert!(ReviewKeys::read(&fixture.folder, reviewer.verifying_key()).is_err());
        fixture.write_manifest("keys: [missing.pub]\n");
        let error = ReviewKeys::read(&fixture.folder, publisher.verifying_key()).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::FileNotFound);
    }
}
