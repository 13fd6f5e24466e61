//! The stored bundles of this user's teams, below `teams` in the user's own folder:
//!
//! - `ORG_ID/HEX.json`: the envelope, named by its digest, and earlier ones that announced its key;
//!   `ORG_ID/blobs/sha256/HEX`: the blobs.
//! - `ORG_ID.record.json`: the sealed record, which names the envelope. Replacing it puts a bundle in force.
//! - `record.key`: the key that seals the records. `stamp`: changes with every record.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::OciDigest;
use mimir_registry::team::{
    AcceptedBundle, BundledFile, MAX_ENVELOPE_SIZE, RECORD_KEY_LENGTH, TeamBundle, TeamError,
    TeamHistory, TeamRecord, blob_path, new_record_key,
};

use super::membership::TeamMembership;
use crate::file_error::file_error;
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;

/// Maximum number of stored envelopes that are read to repair a record.
const MAX_ENVELOPES: usize = 64;

/// Store of one team's bundle.
#[derive(Debug, Clone)]
pub struct TeamStore {
    folder: PathBuf,
    org_id: String,
}

/// A stored bundle that was verified.
#[derive(Debug)]
pub struct StoredTeam {
    /// The bundle, with its signer and digest.
    pub accepted: AcceptedBundle,
    /// The record of the bundle.
    pub record: TeamRecord,
}

/// Returns the path of the file that changes with every stored bundle and record.
pub(crate) fn stamp_path(user_dirs: &UserDirs) -> Option<PathBuf> {
    Some(user_dirs.config.as_ref()?.join("teams").join("stamp"))
}

impl TeamStore {
    /// Creates the store of a team. Reads nothing.
    ///
    /// # Errors
    /// The platform has no folder for the user's settings.
    pub fn new(user_dirs: &UserDirs, org_id: &str) -> Result<Self, ToolError> {
        let config = user_dirs.config.as_ref().ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings, where bundles of teams are stored; set MIMIR_CONFIG_DIR",
            )
        })?;
        Ok(Self {
            folder: config.join("teams"),
            org_id: org_id.to_owned(),
        })
    }

    /// Returns the folder of the bundle.
    pub fn folder(&self) -> PathBuf {
        self.folder.join(&self.org_id)
    }

    /// Returns the path of the record.
    pub fn record_path(&self) -> PathBuf {
        self.folder.join(format!("{}.record.json", self.org_id))
    }

    fn key_path(&self) -> PathBuf {
        self.folder.join("record.key")
    }

    fn envelope_path(&self, digest: &OciDigest) -> PathBuf {
        self.folder().join(format!("{}.json", digest.hex()))
    }

    /// Returns the path of a blob, which may not exist.
    pub fn blob(&self, digest: &OciDigest) -> PathBuf {
        self.folder().join(blob_path(digest))
    }

    /// Reads the record; `None` if no bundle was ever accepted.
    ///
    /// # Errors
    /// The record or its key is damaged, or other users can change it.
    pub fn record(&self) -> Result<Option<TeamRecord>, ToolError> {
        let path = self.record_path();
        let text = private_files::read(&path, OwnerOnly::Writing)
            .map_err(|error| self.damaged(&format!("{}: {error}", path.display())))?;
        let Some(text) = text else {
            // Without the record, old bundles would be accepted again. Blobs alone are of a bundle that was not joined.
            return match self.stored_envelopes().as_slice() {
                [] => Ok(None),
                _ => Err(self.damaged("its record is missing")),
            };
        };
        let key = self
            .read_key()?
            .ok_or_else(|| self.damaged("the key of its record is missing"))?;
        let record = TeamRecord::open(text.as_bytes(), &self.org_id, &key);
        record
            .map(Some)
            .map_err(|error| self.damaged(&error.to_string()))
    }

    fn read_key(&self) -> Result<Option<[u8; RECORD_KEY_LENGTH]>, ToolError> {
        let path = self.key_path();
        let text = private_files::read(&path, OwnerOnly::Reading)
            .map_err(|error| self.damaged(&format!("{}: {error}", path.display())))?;
        let Some(text) = text else {
            return Ok(None);
        };
        let digest: OciDigest = format!("sha256:{}", text.trim())
            .parse()
            .map_err(|_| self.damaged("the key of its record is damaged"))?;
        Ok(Some(*digest.as_bytes()))
    }

    /// Reads and verifies the stored bundle of a membership.
    ///
    /// # Errors
    /// No bundle is stored, or it is damaged or not signed by a key of the membership.
    pub fn load(&self, membership: &TeamMembership) -> Result<StoredTeam, ToolError> {
        let record = self.record()?.filter(|record| !record.left);
        let record = record.ok_or_else(|| self.missing())?;
        let path = self.envelope_path(&record.digest);
        let envelope = match files::read(&path, LinkPolicy::Refuse, MAX_ENVELOPE_SIZE) {
            Ok(envelope) => envelope,
            Err(error) => {
                return Err(self.damaged(&format!("{} cannot be read: {error}", path.display())));
            }
        };
        let history = self.history_of(record.clone());
        let accepted = AcceptedBundle::of_history(&envelope, &history, &membership.keys)
            .map_err(|error| self.damaged(&error.to_string()))?;
        Ok(StoredTeam { accepted, record })
    }

    /// Returns what was accepted before from a team. If the record cannot be used, takes it from the stored envelopes that
    /// a key of the membership proves, and also returns a note for the user and the audit log.
    pub(super) fn history(
        &self,
        membership: &TeamMembership,
    ) -> (Option<TeamHistory>, Option<String>) {
        let error = match self.record() {
            Ok(record) => return (record.map(|record| self.history_of(record)), None),
            Err(error) => error,
        };
        let paths = self.stored_envelopes().into_iter();
        let envelopes =
            paths.filter_map(|path| files::read(&path, LinkPolicy::Refuse, MAX_ENVELOPE_SIZE).ok());
        let history = TeamHistory::recover(&self.org_id, &membership.keys, envelopes.collect());
        let kept = match &history {
            Some(history) => format!(
                "versions before {} and revoked keys are refused because of the stored bundle",
                history.record.version
            ),
            None => "the protection against older bundles starts anew".to_owned(),
        };
        (history, Some(format!("{}; {kept}", error.message)))
    }

    /// Returns the history of a record, with the stored envelopes that it names.
    fn history_of(&self, record: TeamRecord) -> TeamHistory {
        let read = |digest: &OciDigest| {
            let path = self.envelope_path(digest);
            files::read(&path, LinkPolicy::Refuse, MAX_ENVELOPE_SIZE).ok()
        };
        TeamHistory {
            envelope: read(&record.digest),
            predecessors: record.predecessors.iter().filter_map(read).collect(),
            record,
        }
    }

    /// Returns the paths of the stored envelopes.
    fn stored_envelopes(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let mut paths: Vec<PathBuf> = paths
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .collect();
        paths.sort();
        paths.truncate(MAX_ENVELOPES);
        paths
    }

    /// Removes what a failed first join has left. A failure only leaves files behind.
    pub(super) fn remove_incomplete(&self) {
        if matches!(self.record(), Ok(None)) {
            let _ = fs::remove_dir_all(self.folder());
        }
    }

    /// Reads a file of the bundle, and checks its digest.
    ///
    /// # Errors
    /// The file is missing or was changed.
    pub fn read_file(&self, file: &BundledFile) -> Result<Vec<u8>, ToolError> {
        let bytes = files::read(&self.blob(&file.digest), LinkPolicy::Refuse, file.size)
            .map_err(|error| self.damaged(&format!("{} cannot be read: {error}", file.path)))?;
        if OciDigest::of_bytes(&bytes) != file.digest {
            return Err(self.damaged(&format!("{} was changed", file.path)));
        }
        Ok(bytes)
    }

    /// Reads a blob of a stored bundle, and checks its digest.
    ///
    /// # Errors
    /// The blob is missing or was changed.
    pub(super) fn read_blob(&self, digest: &OciDigest, size: u64) -> Result<Vec<u8>, ToolError> {
        let bytes = files::read(&self.blob(digest), LinkPolicy::Refuse, size)
            .map_err(|error| self.damaged(&format!("{digest} cannot be read: {error}")))?;
        if OciDigest::of_bytes(&bytes) != *digest {
            return Err(self.damaged(&format!("{digest} was changed")));
        }
        Ok(bytes)
    }

    /// Reads a stored envelope. The caller has verified it with [`Self::load`].
    ///
    /// # Errors
    /// The envelope is missing or was changed.
    pub(super) fn read_envelope(&self, digest: &OciDigest) -> Result<Vec<u8>, ToolError> {
        let path = self.envelope_path(digest);
        let bytes = files::read(&path, LinkPolicy::Refuse, MAX_ENVELOPE_SIZE);
        let bytes = bytes.map_err(|error| {
            self.damaged(&format!("{} cannot be read: {error}", path.display()))
        })?;
        if OciDigest::of_bytes(&bytes) != *digest {
            return Err(self.damaged("its envelope was changed"));
        }
        Ok(bytes)
    }

    /// Returns the digests of the blobs that are missing or damaged. Reads all blobs.
    pub fn damaged_blobs(&self, bundle: &TeamBundle) -> BTreeSet<OciDigest> {
        let blobs = bundle.blobs().into_iter();
        let is_damaged = |(digest, size): &(OciDigest, u64)| {
            let bytes = files::read(&self.blob(digest), LinkPolicy::Refuse, *size);
            bytes.map_or(true, |bytes| OciDigest::of_bytes(&bytes) != *digest)
        };
        blobs.filter(is_damaged).map(|(digest, _)| digest).collect()
    }

    /// Acquires the inter-process lock for changes of the store.
    pub(super) fn lock(&self) -> Result<fs::File, ToolError> {
        let path = self.record_path();
        private_files::lock_for_change(&path).map_err(|error| file_error("lock", &path, &error))
    }

    /// Puts a bundle in force whose blobs are in the store. The caller holds the lock.
    pub(super) fn put(&self, envelope: &[u8], accepted: &AcceptedBundle) -> Result<(), ToolError> {
        let path = self.envelope_path(&accepted.digest);
        if let Some(folder) = path.parent() {
            private_files::private_folder(folder)
                .map_err(|error| file_error("create", folder, &error))?;
        }
        let replace = |path: &Path, bytes: &[u8]| {
            private_files::replace(path, bytes, FileReaders::Owner)
                .map_err(|error| file_error("write", path, &error))
        };
        replace(&path, envelope)?;
        for predecessor in &accepted.predecessors {
            let digest = OciDigest::of_bytes(predecessor);
            replace(&self.envelope_path(&digest), predecessor)?;
        }
        self.write_record(&accepted.record)?;
        self.remove_unused(accepted);
        Ok(())
    }

    /// Replaces the record. The caller holds the lock.
    pub(super) fn write_record(&self, record: &TeamRecord) -> Result<(), ToolError> {
        let key = match self.read_key() {
            Ok(Some(key)) => key,
            // A damaged key is replaced: the records that it sealed are damaged, too.
            Ok(None) | Err(_) => {
                let key = new_record_key()?;
                let text = OciDigest::from_sha256(key).hex();
                let path = self.key_path();
                private_files::replace(&path, text.as_bytes(), FileReaders::Owner)
                    .map_err(|error| file_error("write", &path, &error))?;
                key
            }
        };
        let path = self.record_path();
        private_files::replace(&path, &record.seal(&key)?, FileReaders::Owner)
            .map_err(|error| file_error("write", &path, &error))?;
        let stamp = self.folder.join("stamp");
        let text = format!("{} {}\n", record.version, record.checked_at);
        private_files::replace(&stamp, text.as_bytes(), FileReaders::Owner)
            .map_err(|error| file_error("write", &stamp, &error))
    }

    /// Notes that the team's source had the bundle in force at this time. Returns false if a later time is noted.
    pub(super) fn note_check(&self, digest: &OciDigest, at: Timestamp) -> Result<bool, ToolError> {
        let is_later = |record: &TeamRecord| {
            record.digest == *digest && !record.left && record.checked_at < at
        };
        if self.record()?.filter(is_later).is_none() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let Some(mut record) = self.record()?.filter(is_later) else {
            return Ok(false);
        };
        record.checked_at = at;
        self.write_record(&record)?;
        Ok(true)
    }

    /// Removes the envelopes and blobs of earlier bundles. A failure only leaves files behind.
    fn remove_unused(&self, accepted: &AcceptedBundle) {
        let predecessors = accepted.record.predecessors.iter();
        let digests = predecessors.chain([&accepted.digest]);
        let envelopes: BTreeSet<PathBuf> =
            digests.map(|digest| self.envelope_path(digest)).collect();
        let blobs = accepted.bundle.blobs();
        let used: BTreeSet<PathBuf> = blobs.keys().map(|digest| self.blob(digest)).collect();
        for (folder, keeps) in [(self.folder(), &envelopes), (self.blob_folder(), &used)] {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                if path.is_file() && !keeps.contains(&path) {
                    let _ = fs::remove_file(path);
                }
            }
        }
    }

    /// Returns the folder of the blobs.
    pub(super) fn blob_folder(&self) -> PathBuf {
        let mut folder = self.blob(&OciDigest::from_sha256([0; 32]));
        folder.pop();
        folder
    }

    /// Removes the bundle, and notes in the record that the user has left, so that no older bundle is accepted later.
    pub(super) fn leave(&self) -> Result<(), ToolError> {
        let _lock = self.lock()?;
        if let Ok(Some(mut record)) = self.record() {
            record.left = true;
            self.write_record(&record)?;
        }
        match fs::remove_dir_all(self.folder()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(file_error("remove", &self.folder(), &error))
            }
            _ => Ok(()),
        }
    }

    fn damaged(&self, why: &str) -> ToolError {
        let why = mimir_core::text::visible(why);
        let message = format!(
            "the stored bundle of the team `{}` cannot be used: {why}; no call runs without its rules",
            self.org_id
        );
        let remedy = "`mimir team sync` fetches it again".to_owned();
        ToolError::new(ToolErrorCode::Unavailable, message).with_remedies([remedy])
    }

    fn missing(&self) -> ToolError {
        let message = format!(
            "the bundle of the team `{}` was not fetched yet; no call runs without its rules",
            self.org_id
        );
        let remedy = "`mimir team sync` fetches it".to_owned();
        ToolError::new(ToolErrorCode::Unavailable, message).with_remedies([remedy])
    }
}

/// Returns true if a file exists with this size.
pub(super) fn has_size(path: &Path, size: u64) -> bool {
    path.symlink_metadata()
        .is_ok_and(|meta| meta.is_file() && meta.len() == size)
}

/// Converts an error of a check into the error of a command, with a remedy. `has_bundle` is true if an accepted bundle
/// is in force.
pub(super) fn check_error(error: TeamError, org_id: &str, has_bundle: bool) -> ToolError {
    let code = error.code();
    let message = format!("the bundle of the team `{org_id}` is not accepted: {error}");
    let mut converted = ToolError::new(code, mimir_core::text::visible(&message));
    let stays = if has_bundle {
        "the last accepted bundle stays in force; "
    } else {
        ""
    };
    let remedy = match &error {
        TeamError::Signer | TeamError::Revoked(_) => {
            "ask the team's administrator for the current key, and join again: mimir team join REF --key KEY"
                .to_owned()
        }
        TeamError::Rollback { .. } | TeamError::SameVersion(_) | TeamError::Expired(_) => {
            format!("{stays}ask the team's administrator to publish a new one")
        }
        TeamError::NotYetValid(_) => "set the clock of this machine".to_owned(),
        _ => format!("{stays}ask the team's administrator"),
    };
    converted.remedies = Box::new([remedy]);
    converted
}
