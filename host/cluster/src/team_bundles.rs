//! The bundles of teams that an administrator has published for all nodes.
//!
//! An entry names the envelope and the version of a team's newest bundle; the envelope and the files are objects. An entry
//! proves nothing: each node verifies the envelope with the keys of its own membership.

use mimir_core::shared_state::{SharedStateHandle, StateArea, StateEntry, StateKey, StateRevision};
use serde::{Deserialize, Serialize};

use crate::deployment::DeploymentError;
use crate::objects::{ComponentStore, ObjectError};

/// First part of the keys of bundles.
const TEAM_KEYS: &str = "team";

/// The format version of entries that this release reads and writes.
const ENTRY_VERSION: u32 = 1;

/// A published bundle of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterBundle {
    /// The format version.
    pub format: u32,
    /// The id of the team.
    pub org_id: String,
    /// The version of the bundle.
    pub version: u64,
    /// SHA-256 of the envelope in lower-case hex.
    pub envelope: String,
    /// The user who has published it.
    pub published_by: String,
    /// The time, in milliseconds since 1970.
    pub published_at_ms: u64,
    /// The time at which the publisher has found the bundle in the team's own source, in milliseconds since 1970.
    pub checked_at_ms: u64,
}

impl ClusterBundle {
    /// Creates the entry of a bundle that its publisher has just found in the team's own source.
    pub fn new(org_id: &str, version: u64, envelope: String, by: String, at_ms: u64) -> Self {
        Self {
            format: ENTRY_VERSION,
            org_id: org_id.to_owned(),
            version,
            envelope,
            published_by: by,
            published_at_ms: at_ms,
            checked_at_ms: at_ms,
        }
    }

    /// Sets the time at which the publisher has found the bundle in the team's own source.
    #[must_use]
    pub const fn checked_at(mut self, at_ms: u64) -> Self {
        self.checked_at_ms = at_ms;
        self
    }

    /// Returns the key of a team's entry in [`StateArea::Deployment`].
    pub fn key(org_id: &str) -> StateKey {
        StateKey::new([TEAM_KEYS, org_id])
    }

    /// Reads an entry.
    pub fn parse(entry: &StateEntry) -> Result<Self, DeploymentError> {
        let bundle: Self = serde_json::from_slice(&entry.value)
            .map_err(|error| DeploymentError::Invalid(error.to_string()))?;
        if bundle.format != ENTRY_VERSION {
            return Err(DeploymentError::Invalid(format!(
                "its format version is {}: expected {ENTRY_VERSION}; update mimir",
                bundle.format
            )));
        }
        if Self::key(&bundle.org_id) != entry.key {
            return Err(DeploymentError::Invalid(
                "it names another team than its key".to_owned(),
            ));
        }
        Ok(bundle)
    }
}

/// The entry of a team in the shared state.
#[derive(Debug)]
pub struct ClusterBundleEntry {
    /// The revision, for the next publication.
    pub revision: StateRevision,
    /// The bundle, or why the entry is not valid.
    pub bundle: Result<ClusterBundle, DeploymentError>,
}

/// Access to the published bundles of teams.
#[derive(Clone)]
pub struct TeamBundles {
    state: SharedStateHandle,
    store: ComponentStore,
}

impl TeamBundles {
    /// Creates access to the bundles in this state and store.
    pub fn new(state: SharedStateHandle, store: ComponentStore) -> Self {
        Self { state, store }
    }

    /// Returns the entry of a team.
    pub async fn current(
        &self,
        org_id: &str,
    ) -> Result<Option<ClusterBundleEntry>, DeploymentError> {
        let key = ClusterBundle::key(org_id);
        let entry = self.state.get(StateArea::Deployment, &key).await?;
        Ok(entry.map(|entry| ClusterBundleEntry {
            revision: entry.revision,
            bundle: ClusterBundle::parse(&entry),
        }))
    }

    /// Returns all published bundles that are valid.
    pub async fn list(&self) -> Result<Vec<ClusterBundle>, DeploymentError> {
        let prefix = StateKey::new([TEAM_KEYS]);
        let entries = self
            .state
            .list(StateArea::Deployment, Some(&prefix))
            .await?;
        let bundles = entries.iter().map(ClusterBundle::parse);
        Ok(bundles.filter_map(Result::ok).collect())
    }

    /// Returns the envelope of a published bundle, which proves nothing before it is verified. `None` if it is missing or was
    /// changed.
    pub async fn envelope(
        &self,
        bundle: &ClusterBundle,
    ) -> Result<Option<Vec<u8>>, DeploymentError> {
        match self.store.get(&bundle.envelope).await {
            Ok(envelope) => Ok(Some(envelope)),
            Err(ObjectError::Cluster(error)) => Err(ObjectError::Cluster(error).into()),
            Err(_) => Ok(None),
        }
    }

    /// Stores an envelope or a file, and returns its digest.
    pub async fn store_file(&self, content: Vec<u8>) -> Result<String, DeploymentError> {
        Ok(self.store.put(content.into()).await?)
    }

    /// Publishes a bundle whose envelope and files are stored. `replaced` is the revision that was read before.
    pub async fn publish(
        &self,
        bundle: &ClusterBundle,
        replaced: Option<StateRevision>,
    ) -> Result<StateRevision, DeploymentError> {
        let value = serde_json::to_vec(bundle)
            .map_err(|error| DeploymentError::Invalid(error.to_string()))?;
        let (area, key) = (StateArea::Deployment, ClusterBundle::key(&bundle.org_id));
        let revision = match replaced {
            Some(revision) => self.state.update(area, &key, value, revision, None).await?,
            None => self.state.create(area, &key, value, None).await?,
        };
        Ok(revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bundle: &ClusterBundle, key: &str) -> StateEntry {
        StateEntry {
            key: ClusterBundle::key(key),
            value: serde_json::to_vec(bundle).unwrap(),
            revision: 1,
        }
    }

    #[test]
    fn team_entry_is_read_if_it_is_of_this_format_and_team() {
        let mut bundle = ClusterBundle::new("acme", 3, "0".repeat(64), "ada on host".to_owned(), 1);
        let parsed = ClusterBundle::parse(&entry(&bundle, "acme")).unwrap();
        assert_eq!(parsed, bundle);
        assert!(ClusterBundle::parse(&entry(&bundle, "other")).is_err());
        bundle.format = 2;
        let error = ClusterBundle::parse(&entry(&bundle, "acme")).unwrap_err();
        assert!(error.to_string().contains("update mimir"), "{error}");
        let damaged = StateEntry {
            key: ClusterBundle::key("acme"),
            value: b"{}".to_vec(),
            revision: 1,
        };
        assert!(ClusterBundle::parse(&damaged).is_err());
    }
}
