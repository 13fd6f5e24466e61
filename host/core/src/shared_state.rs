//! The port to state that all processes of a deployment share: values with revisions, by area and key.
//!
//! One machine keeps it in files, a cluster in NATS. Both adapters pass the same conformance tests
//! (`tests/shared_state`). All changes are compare-and-set, so that of two processes that change a value, one learns of
//! the other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::BoxFuture;

/// A group of keys with the same purpose, access rights and durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StateArea {
    /// Commands to all processes, such as the order to refuse all calls.
    Control,
    /// Labels and approvals of sessions.
    Sessions,
    /// Permanent approvals, and orders to stop single sessions.
    Approvals,
    /// Approval questions and their answers.
    Questions,
    /// Running calls and spent budgets, for limits that all processes share.
    Limits,
    /// The processes of the deployment.
    Nodes,
    /// Background calls and their results.
    Jobs,
    /// The tools and settings in force.
    Deployment,
    /// Keys that only servers of clients may read.
    Keys,
}

impl StateArea {
    /// Every area.
    pub const ALL: [StateArea; 9] = [
        StateArea::Control,
        StateArea::Sessions,
        StateArea::Approvals,
        StateArea::Questions,
        StateArea::Limits,
        StateArea::Nodes,
        StateArea::Jobs,
        StateArea::Deployment,
        StateArea::Keys,
    ];

    /// Returns the name in stores: lower-case ASCII letters.
    pub const fn as_str(self) -> &'static str {
        match self {
            StateArea::Control => "control",
            StateArea::Sessions => "sessions",
            StateArea::Approvals => "approvals",
            StateArea::Questions => "questions",
            StateArea::Limits => "limits",
            StateArea::Nodes => "nodes",
            StateArea::Jobs => "jobs",
            StateArea::Deployment => "deployment",
            StateArea::Keys => "keys",
        }
    }
}

impl fmt::Display for StateArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A key within an area: parts separated by `.`, each of `A-Z a-z 0-9 - _`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateKey(String);

/// Maximum length of a key in bytes. Longer parts are replaced by their digest.
const KEY_PART_MAX: usize = 80;

impl StateKey {
    /// Creates a key from any texts. Equal texts give equal keys, and different texts different keys.
    ///
    /// ```
    /// # use mimir_core::shared_state::StateKey;
    /// assert_eq!(StateKey::new(["calls", "word count"]).as_str(), "calls._776f726420636f756e74");
    /// ```
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let parts = parts.into_iter().map(encode_part);
        Self(parts.collect::<Vec<_>>().join("."))
    }

    /// Returns a key that a store has returned. `None` if the text is not a key.
    pub fn parse(text: &str) -> Option<Self> {
        let is_part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        text.split('.').all(is_part).then(|| Self(text.to_owned()))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the first parts of this key are `prefix`.
    pub fn starts_with(&self, prefix: &StateKey) -> bool {
        self.0
            .strip_prefix(prefix.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl fmt::Display for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Encodes a part of a key: as is if it is plain, else in hex after `_`, else as a digest after `__`.
fn encode_part(part: &str) -> String {
    use sha2::Digest as _;
    let is_plain = part
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        || (part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !part.starts_with('_'));
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    if is_plain && !part.is_empty() && part.len() <= KEY_PART_MAX {
        part.to_owned()
    } else if part.len() * 2 <= KEY_PART_MAX {
        format!("_{}", hex(part.as_bytes()))
    } else {
        format!("__{}", hex(&sha2::Sha256::digest(part.as_bytes())))
    }
}

/// The revision of a value. Higher revisions are newer; revisions of different keys are not comparable.
pub type StateRevision = u64;

/// A stored value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEntry {
    /// The key.
    pub key: StateKey,
    /// The value.
    pub value: Vec<u8>,
    /// The revision, for [`SharedState::update`].
    pub revision: StateRevision,
}

/// An event of a [`StateWatch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// A key has this value.
    Set(StateEntry),
    /// A key was removed, or its lifetime has ended.
    Removed(StateKey),
    /// The values that existed when the watch began have all been reported. Reported once, also after a reconnection
    /// during which changes may have been missed; then all current values are reported again.
    Current,
}

/// A sequence of changes.
pub trait StateWatch: Send {
    /// Returns the next change, or `None` if the store has been closed.
    fn next(&mut self) -> BoxFuture<'_, Option<StateChange>>;
}

/// Error of an access to shared state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedStateError {
    /// The value exists already, or has another revision than expected.
    #[error("another process has changed the value")]
    Conflict,
    /// The value is larger than the store accepts.
    #[error("a value of {size} bytes is larger than the store accepts ({max} bytes)")]
    TooLarge {
        /// Size of the value in bytes.
        size: usize,
        /// Maximum size in bytes.
        max: usize,
    },
    /// The store has no space left.
    #[error("{location} is full: {text}")]
    Full {
        /// The location of the store.
        location: String,
        /// The cause.
        text: String,
    },
    /// This process may not access the area.
    #[error(
        "{location}: this process may not access {area}; in a cluster, that needs the key of another role (--nats-key): \
         commands need keys/admin.nk, servers keys/front.nk, workers keys/worker.nk"
    )]
    Forbidden {
        /// The location of the store.
        location: String,
        /// The area.
        area: StateArea,
    },
    /// The store answers, but is not set up for the area.
    #[error("{location}: {text}")]
    NotPrepared {
        /// The location of the store.
        location: String,
        /// The cause, and what to do.
        text: String,
    },
    /// The store cannot be reached, or does not answer in time.
    #[error("{location} cannot be reached: {text}")]
    Unreachable {
        /// The location of the store.
        location: String,
        /// The cause.
        text: String,
    },
}

/// State that all processes of a deployment share. An access that has returned is visible to all processes.
pub trait SharedState: Send + Sync {
    /// Returns a value.
    fn get<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
    ) -> BoxFuture<'a, Result<Option<StateEntry>, SharedStateError>>;

    /// Creates a value, which is removed after `lifetime`. Lifetimes have a resolution of one second. Fails with
    /// [`SharedStateError::Conflict`] if the key exists.
    fn create<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>>;

    /// Replaces the value of this revision, with a new lifetime. Fails with [`SharedStateError::Conflict`] if the key has
    /// another revision or was removed.
    fn update<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        revision: StateRevision,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>>;

    /// Removes a key, whatever its value, or only if it has this revision. Removing a missing key succeeds, unless a
    /// revision is given.
    fn remove<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        revision: Option<StateRevision>,
    ) -> BoxFuture<'a, Result<(), SharedStateError>>;

    /// Returns all values of an area whose key starts with `prefix`, sorted by key.
    fn list<'a>(
        &'a self,
        area: StateArea,
        prefix: Option<&'a StateKey>,
    ) -> BoxFuture<'a, Result<Vec<StateEntry>, SharedStateError>>;

    /// Watches the values of an area: first all existing ones, then [`StateChange::Current`], then each change. Changes
    /// that follow each other quickly may be reported as one.
    fn watch(
        &self,
        area: StateArea,
    ) -> BoxFuture<'_, Result<Box<dyn StateWatch>, SharedStateError>>;

    /// Counts an event of this key, unless `max` events were counted within the last `window`. Returns false if the
    /// event was not counted.
    fn count_within<'a>(
        &'a self,
        key: &'a StateKey,
        max: u32,
        window: Duration,
    ) -> BoxFuture<'a, Result<bool, SharedStateError>>;

    /// Returns the location for messages: a folder, or the address of a server.
    fn location(&self) -> String;
}

/// The shared state of a deployment, as ports hold it.
pub type SharedStateHandle = Arc<dyn SharedState>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_give_different_keys() {
        let long = "x".repeat(200);
        let texts = ["", "a", "_", "_61", "__", "a.b", "a b", "ä", "A", &long];
        let keys: std::collections::BTreeSet<StateKey> =
            texts.iter().map(|text| StateKey::new([*text])).collect();
        assert_eq!(keys.len(), texts.len());
        for key in keys {
            assert_eq!(StateKey::parse(key.as_str()), Some(key.clone()), "{key}");
        }
    }
}
