//! Sessions that several processes share: what a session has read in one process counts in all of them.
//!
//! Each process has a copy of the session. A call first merges the stored record into it, and before the outcome of a
//! call is returned, everything that the call has added is stored. Labels and masks are only ever added, so a process
//! that knows less than the record gets stricter. What would make a session less strict is shared with a bound, or not at
//! all:
//!
//! - Approvals for the session: the newest that fit into [`RECORD_MAX`].
//! - Fetched fragments: up to [`FETCHED_MAX`]. Without them, requests with opaque text are asked about.
//! - Digests of masked values: not shared. In another process, masks of the session are not restored.
//! - Permissions of skills: not shared. In another process, their calls are asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::approval::{StoredApproval, UntrustedRead};
use crate::error::ToolError;
use crate::shared_state::{
    SharedState, SharedStateError, SharedStateHandle, StateArea, StateKey, StateRevision,
};

use super::{
    ContentSource, PipelineSession, SessionAnswer, SessionState, UNTRUSTED_READS_MAX, lock,
};

/// Lifetime of the record of a session that is not used.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Age at which a record is written again, so that it does not end while the session is used.
const RENEWAL_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum size of a record in bytes. If it is exceeded, the oldest approvals are left out first.
const RECORD_MAX: usize = 64 << 10;
/// Maximum number of shared fetched fragments.
const FETCHED_MAX: usize = 1024;
/// Maximum number of attempts to store a record that other processes change at the same time.
const ATTEMPTS_MAX: usize = 64;

/// The shared part of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SessionRecord {
    /// Up to two different sources of untrusted content, with origins.
    untrusted: Vec<(ContentSource, String)>,
    /// The first untrusted results, to name their calls to people. May lack some.
    untrusted_reads: Vec<UntrustedRead>,
    /// The origin of the first sensitive content.
    sensitive: Option<String>,
    /// The rules whose masks were in results, each with the ids of the copies that know digests of the values.
    masked: BTreeMap<String, BTreeSet<String>>,
    /// Hashes of fetched fragments, 8 bytes each, as base64.
    fetched: String,
    /// The approvals for the session, the oldest first.
    approvals: Vec<SharedApproval>,
    /// The time of the last change, in milliseconds since 1970.
    changed_ms: u64,
}

/// An approval for the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SharedApproval {
    approval: StoredApproval,
    /// True if the approval is in the list from which a person can revoke it.
    listed: bool,
}

/// The copy's relation to the stored record.
#[derive(Default)]
pub(super) struct SharedCopy {
    /// Identifies this copy among those of all processes.
    id: String,
    /// The number of changes of the copy, and of those that are stored.
    pub(super) changes: u64,
    stored_changes: u64,
    /// The last known record, with its revision.
    stored: Option<(StateRevision, SessionRecord)>,
    /// The rules whose masks were in results of other processes.
    pub(super) masked_elsewhere: BTreeSet<String>,
}

impl SharedCopy {
    fn has_changes(&self) -> bool {
        self.changes != self.stored_changes
    }

    /// Returns true if this copy knows a newer revision of the record.
    fn knows_newer(&self, revision: StateRevision) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|(known, _)| *known > revision)
    }

    /// Returns the id of this copy, and creates it if needed.
    fn id(&mut self) -> &str {
        if self.id.is_empty() {
            let bits = || RandomState::new().hash_one(0_u8);
            self.id = format!("{:016x}{:016x}", bits(), bits());
        }
        &self.id
    }
}

impl PipelineSession {
    /// Merges the stored record of the session into this copy.
    pub(in crate::pipeline) async fn load(
        &self,
        state: &dyn SharedState,
        id: &str,
        now: SystemTime,
    ) -> Result<(), ToolError> {
        let key = record_key(id);
        let entry = state.get(StateArea::Sessions, &key).await;
        let entry = entry.map_err(|error| unavailable("the call was not made", &error))?;
        let Some(entry) = entry else {
            let mut session = lock(&self.0);
            if session.shared.stored.take().is_some() {
                // The store has lost the record. The labels of this copy still count.
                session.shared.changes += 1;
            }
            session.approvals.retain(|answer| answer.is_pending);
            return Ok(());
        };
        let record = decode(&entry.value)?;
        let age = millis(now).saturating_sub(record.changed_ms);
        let mut session = lock(&self.0);
        if session.shared.knows_newer(entry.revision) {
            return Ok(());
        }
        session.merge(&record);
        if u128::from(age) >= RENEWAL_AGE.as_millis() {
            session.shared.changes += 1;
        }
        session.shared.stored = Some((entry.revision, record));
        Ok(())
    }

    /// Returns true if something that this copy has added is not stored yet.
    pub(in crate::pipeline) fn has_unstored_changes(&self) -> bool {
        lock(&self.0).shared.has_changes()
    }

    /// Stores what this copy has added. Returns when all other processes can read it.
    pub(in crate::pipeline) async fn store(
        &self,
        state: &dyn SharedState,
        id: &str,
        now: SystemTime,
    ) -> Result<(), SharedStateError> {
        let key = record_key(id);
        for _ in 0..ATTEMPTS_MAX {
            let (changes, stored, record) = {
                let mut session = lock(&self.0);
                if !session.shared.has_changes() {
                    return Ok(());
                }
                let stored = session.shared.stored.as_ref();
                let revision = stored.map(|(revision, _)| *revision);
                let record = session.create_record(now);
                (session.shared.changes, revision, record)
            };
            let (record, value) = encode(record);
            let written = match stored {
                Some(revision) => {
                    let update =
                        state.update(StateArea::Sessions, &key, value, revision, Some(LIFETIME));
                    update.await
                }
                None => {
                    let create = state.create(StateArea::Sessions, &key, value, Some(LIFETIME));
                    create.await
                }
            };
            match written {
                Ok(revision) => {
                    let mut session = lock(&self.0);
                    session.set_stored(changes, revision, record);
                    return Ok(());
                }
                Err(SharedStateError::Conflict) => {}
                Err(error) => return Err(error),
            }
            let entry = state.get(StateArea::Sessions, &key).await?;
            let mut session = lock(&self.0);
            session.shared.stored = match entry {
                Some(entry) => {
                    let record = decode(&entry.value).map_err(|error| unreadable(state, &error))?;
                    session.merge(&record);
                    Some((entry.revision, record))
                }
                None => None,
            };
        }
        Err(SharedStateError::Conflict)
    }
}

impl SessionState {
    /// Adds what the record has and this copy does not.
    fn merge(&mut self, record: &SessionRecord) {
        for (source, origin) in &record.untrusted {
            self.add_untrusted(source, origin);
        }
        for read in &record.untrusted_reads {
            let reads = &mut self.untrusted_reads;
            if reads.len() < UNTRUSTED_READS_MAX
                && reads.iter().all(|known| known.call_id != read.call_id)
            {
                reads.push(read.clone());
            }
        }
        if let Some(origin) = &record.sensitive {
            self.sensitive.get_or_insert_with(|| origin.clone());
        }
        let own = self.shared.id().to_owned();
        for (rule, copies) in &record.masked {
            if copies.iter().any(|copy| *copy != own) {
                self.shared.masked_elsewhere.insert(rule.clone());
            }
        }
        let fetched = STANDARD.decode(&record.fetched).unwrap_or_default();
        let (hashes, _) = fetched.as_chunks::<8>();
        self.fetched
            .extend(hashes.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        // The record decides which approvals there are, except for those that are not stored yet.
        self.approvals.retain(|answer| {
            answer.is_pending
                && record
                    .approvals
                    .iter()
                    .all(|shared| shared.approval.id != answer.approval.id)
        });
        let stored = record.approvals.iter().map(|shared| SessionAnswer {
            approval: shared.approval.clone(),
            listed: shared.listed,
            is_pending: false,
        });
        let pending = std::mem::take(&mut self.approvals);
        self.approvals = stored.chain(pending).collect();
    }

    /// Returns the last known record with everything that this copy adds.
    fn create_record(&mut self, now: SystemTime) -> SessionRecord {
        let own = self.shared.id().to_owned();
        let stored = self.shared.stored.as_ref();
        let mut record = stored.map(|(_, record)| record.clone()).unwrap_or_default();
        record.untrusted.clone_from(&self.untrusted);
        record.untrusted_reads.clone_from(&self.untrusted_reads);
        record.sensitive.clone_from(&self.sensitive);
        for rule in self.masked.keys() {
            let copies = record.masked.entry(rule.clone()).or_default();
            copies.insert(own.clone());
        }
        let hashes: Vec<u8> = self
            .fetched
            .hashes()
            .take(FETCHED_MAX)
            .flat_map(u64::to_le_bytes)
            .collect();
        record.fetched = STANDARD.encode(hashes);
        for answer in self.approvals.iter().filter(|answer| answer.is_pending) {
            record
                .approvals
                .retain(|shared| shared.approval.id != answer.approval.id);
            record.approvals.push(SharedApproval {
                approval: answer.approval.clone(),
                listed: answer.listed,
            });
        }
        record.changed_ms = millis(now);
        record
    }

    /// Notes that a record with the changes up to number `changes` is stored.
    fn set_stored(&mut self, changes: u64, revision: StateRevision, record: SessionRecord) {
        for answer in &mut self.approvals {
            let is_stored = |shared: &SharedApproval| shared.approval == answer.approval;
            answer.is_pending &= !record.approvals.iter().any(is_stored);
        }
        self.shared.stored_changes = self.shared.stored_changes.max(changes);
        if !self.shared.knows_newer(revision) {
            self.shared.stored = Some((revision, record));
        }
    }
}

/// Removes the record of a session that has ended, without waiting for it.
pub(in crate::pipeline) fn remove_record_later(state: SharedStateHandle, id: &str) {
    let key = record_key(id);
    let removal = async move {
        let removed = state.remove(StateArea::Sessions, &key, None).await;
        if let Err(error) = removed {
            tracing::warn!(%error, "the record of an ended session stays until its lifetime ends");
        }
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(removal)),
        Err(_) => tracing::warn!(
            "the record of an ended session stays until its lifetime ends, because no runtime can remove it"
        ),
    }
}

/// Creates the error of a call that needs shared state which cannot be reached.
pub(in crate::pipeline) fn unavailable(consequence: &str, error: &SharedStateError) -> ToolError {
    ToolError::unavailable(format!(
        "{consequence}, because the state that all servers share is not available: {error}"
    ))
}

fn record_key(session: &str) -> StateKey {
    StateKey::new(["session", session])
}

fn decode(value: &[u8]) -> Result<SessionRecord, ToolError> {
    serde_json::from_slice(value).map_err(|error| {
        ToolError::unavailable(format!(
            "the call was not made, because the stored record of the session is not valid: {error}"
        ))
    })
}

fn unreadable(state: &dyn SharedState, error: &ToolError) -> SharedStateError {
    SharedStateError::Unreachable {
        location: state.location(),
        text: error.message.clone(),
    }
}

/// Encodes a record. Leaves out the oldest approvals and the fetched fragments if it is too large.
fn encode(mut record: SessionRecord) -> (SessionRecord, Vec<u8>) {
    loop {
        // Records contain nothing that cannot be serialized.
        let value = serde_json::to_vec(&record).unwrap_or_default();
        if value.len() <= RECORD_MAX {
            return (record, value);
        }
        if !record.approvals.is_empty() {
            record.approvals.remove(0);
        } else if !record.fetched.is_empty() {
            record.fetched.clear();
        } else {
            return (record, value);
        }
    }
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
