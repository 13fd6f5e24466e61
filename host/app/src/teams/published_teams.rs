//! The bundles of teams that an administrator has published in the cluster: how they are published, and how the nodes of
//! members put them in force. Each node verifies them like those of a registry, with the keys of its own membership.

use std::time::SystemTime;

use mimir_cluster::{
    ClusterConnection, ComponentStore, NatsState, PublishedBundle, TeamBundles, TeamInUse,
};
use mimir_core::shared_state::{SharedStateError, SharedStateHandle, StateArea};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::OciDigest;
use tokio::sync::watch;

use super::bundle_source::BundleSource;
use super::bundle_sync::{SyncContext, SyncOutcome, sync_from};
use super::membership::TeamMembership;
use super::team_in_force::TeamInForce;
use super::team_store::TeamStore;
use crate::deployments::deployment_error;
use crate::interface::warn;
use crate::process_identity::publisher;
use crate::setup::HostSetup;
use crate::shared_state::StateMirror;

/// The published bundles, which follow each publication.
pub struct PublishedTeams {
    mirror: StateMirror,
    store: ComponentStore,
}

impl PublishedTeams {
    /// Reads the published bundles, and follows them on the current runtime.
    pub async fn start(
        connection: &ClusterConnection,
        state: &SharedStateHandle,
    ) -> Result<Self, SharedStateError> {
        Ok(Self {
            mirror: StateMirror::start(state, StateArea::Deployment).await?,
            store: ComponentStore::new(connection.clone()),
        })
    }

    /// Returns the published bundle of a team. `None` if none is published, or if its entry is not valid.
    pub(super) fn bundle(&self, org_id: &str) -> Option<PublishedBundle> {
        let entry = self.mirror.get(&PublishedBundle::key(org_id))?;
        let bundle = PublishedBundle::parse(&entry);
        bundle
            .inspect_err(|error| tracing::warn!("the published bundle of {org_id}: {error}"))
            .ok()
    }

    /// Returns a receiver of the number of publications so far.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.mirror.changes()
    }

    /// Puts the published bundle of a team in force, if it is newer than the stored one. Returns `None` if there is nothing
    /// to do.
    ///
    /// # Errors
    /// The bundle cannot be read, or it is not accepted.
    pub(super) async fn put_in_force(
        &self,
        context: &SyncContext,
        membership: &TeamMembership,
    ) -> Result<Option<SyncOutcome>, ToolError> {
        let Some(published) = self.bundle(&membership.org_id) else {
            return Ok(None);
        };
        if is_superseded(context, membership, &published)? {
            return Ok(None);
        }
        let source = BundleSource::Cluster {
            envelope: published.envelope,
            store: self.store.clone(),
        };
        sync_from(context, membership, &source).await.map(Some)
    }
}

/// Returns true if the stored bundle is the published one or a newer one, and can be used.
fn is_superseded(
    context: &SyncContext,
    membership: &TeamMembership,
    published: &PublishedBundle,
) -> Result<bool, ToolError> {
    let store = TeamStore::new(context.user_dirs(), &membership.org_id)?;
    let Ok(stored) = store.load(membership) else {
        return Ok(false);
    };
    let is_same = stored.record.digest.hex() == published.envelope;
    Ok(stored.record.version > published.version
        || is_same && store.damaged_blobs(&stored.accepted.bundle).is_empty())
}

/// Returns the bundle of a membership that is in force, for the report of a node.
pub(super) fn team_in_use(
    context: &SyncContext,
    membership: &TeamMembership,
    error: Option<String>,
) -> TeamInUse {
    let team = TeamInForce::read(context.user_dirs(), membership.clone());
    TeamInUse {
        version: team.ok().map(|team| team.bundle.version),
        error,
    }
}

/// Puts the published bundles of this user's teams in force, before the settings are read for the first time. A failure is
/// shown, and reading the settings decides what it means.
///
/// # Errors
/// A config file is not valid, or the cluster cannot be read.
pub async fn fetch_published(
    connection: &ClusterConnection,
    setup: &HostSetup,
) -> Result<(), ToolError> {
    let context = SyncContext::new(setup)?;
    let memberships = context.memberships()?;
    if memberships.is_empty() {
        return Ok(());
    }
    let state: SharedStateHandle = std::sync::Arc::new(NatsState::new(connection.clone()));
    let teams = PublishedTeams::start(connection, &state).await;
    let teams = teams.map_err(|error| crate::cluster::state_error(&error))?;
    for membership in memberships {
        if let Err(error) = teams.put_in_force(&context, &membership).await {
            warn(&error.message);
        }
    }
    Ok(())
}

/// A bundle in force that can be published in a cluster.
pub struct PublishableBundle {
    org_id: String,
    version: u64,
    digest: OciDigest,
    envelope: Vec<u8>,
    files: Vec<Vec<u8>>,
}

/// A bundle that differs from the published one.
pub struct BundlePublication {
    bundle: PublishableBundle,
    replaced: Option<u64>,
    /// The change, for people.
    pub change: String,
}

impl PublishableBundle {
    /// Reads the bundles in force of this user's teams.
    ///
    /// # Errors
    /// A config file is not valid, or a stored bundle is damaged.
    pub fn read_all(setup: &HostSetup) -> Result<Vec<Self>, ToolError> {
        let context = SyncContext::new(setup)?;
        let memberships = context.memberships()?.into_iter();
        let bundles = memberships.map(|membership| {
            let store = TeamStore::new(context.user_dirs(), &membership.org_id)?;
            let stored = store.load(&membership)?;
            let files = stored.accepted.bundle.blobs().into_iter();
            let files = files.map(|(digest, size)| store.read_blob(&digest, size));
            Ok(Self {
                version: stored.record.version,
                digest: stored.record.digest,
                envelope: store.read_envelope(&stored.record.digest)?,
                files: files.collect::<Result<_, ToolError>>()?,
                org_id: membership.org_id,
            })
        });
        bundles.collect()
    }

    /// Compares the bundle with the published one. `None` if it is published already.
    ///
    /// # Errors
    /// A newer one is published, or the cluster cannot be read.
    pub async fn compare(
        self,
        bundles: &TeamBundles,
    ) -> Result<Option<BundlePublication>, ToolError> {
        let current = bundles.current(&self.org_id).await;
        let current = current.map_err(|error| deployment_error(&error))?;
        let (org_id, version) = (visible(&self.org_id), self.version);
        let replaced = current.as_ref().map(|current| current.revision);
        let change = match current.map(|current| current.bundle) {
            None => format!("new: version {version} of the bundle of the team {org_id}"),
            Some(Err(error)) => format!(
                "replaces the published bundle of the team {org_id}, version {version}: {error}"
            ),
            Some(Ok(published)) if published.envelope == self.digest.hex() => return Ok(None),
            Some(Ok(published)) if published.version >= version => {
                let message = format!(
                    "the cluster has version {} of the bundle of the team `{org_id}`, and you have version {version}: expected a newer one",
                    published.version
                );
                let remedy = "`mimir team sync` fetches the newest bundle".to_owned();
                let error = ToolError::new(ToolErrorCode::PolicyDenied, message);
                return Err(error.with_remedies([remedy]));
            }
            Some(Ok(published)) => format!(
                "changed: version {} of the bundle of the team {org_id} to version {version}",
                published.version
            ),
        };
        Ok(Some(BundlePublication {
            bundle: self,
            replaced,
            change,
        }))
    }
}

impl BundlePublication {
    /// Returns the id of the team.
    pub fn org_id(&self) -> &str {
        &self.bundle.org_id
    }

    /// Returns the version of the bundle.
    pub fn version(&self) -> u64 {
        self.bundle.version
    }

    /// Stores the files, and publishes the bundle to all nodes.
    ///
    /// # Errors
    /// Another bundle was published in the meantime, or the cluster refuses the access.
    pub async fn publish(self, bundles: &TeamBundles) -> Result<(), ToolError> {
        let PublishableBundle {
            org_id,
            version,
            envelope,
            files,
            ..
        } = self.bundle;
        let failed = |error: &_| deployment_error(error);
        for file in files {
            let stored = bundles.store_file(file).await;
            stored.map_err(|error| failed(&error))?;
        }
        let envelope = bundles.store_file(envelope).await;
        let envelope = envelope.map_err(|error| failed(&error))?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        let entry = PublishedBundle::new(&org_id, version, envelope, publisher(), now);
        let published = bundles.publish(&entry, self.replaced).await;
        published.map_err(|error| failed(&error)).map(drop)
    }
}
