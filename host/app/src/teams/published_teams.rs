//! The bundles of teams that an administrator has published in the cluster: how they are published, and how the nodes of
//! members put them in force. Each node verifies them like those of a registry, with the keys of its own membership.

use jiff::Timestamp;
use mimir_cluster::{
    ClusterBundle, ClusterConnection, ComponentStore, NatsState, TeamBundles, TeamInUse,
};
use mimir_core::shared_state::{SharedStateError, SharedStateHandle, StateArea};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::OciDigest;
use mimir_registry::team::{AcceptedBundle, TeamError};
use tokio::sync::watch;

use super::bundle_source::BundleSource;
use super::bundle_sync::{SyncContext, SyncOutcome, sync_from};
use super::membership::TeamMembership;
use super::team_in_force::{TeamInForce, now};
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
    pub(super) fn bundle(&self, org_id: &str) -> Option<ClusterBundle> {
        let entry = self.mirror.get(&ClusterBundle::key(org_id))?;
        let bundle = ClusterBundle::parse(&entry);
        bundle
            .inspect_err(|error| tracing::warn!("the published bundle of {org_id}: {error}"))
            .ok()
    }

    /// Returns a receiver of the number of publications so far.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.mirror.changes()
    }

    /// Puts the published bundle of a team in force, if it is newer than the stored one. If it is the stored one, notes when
    /// its publisher has checked it. Returns `None` if there is nothing to do.
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
        let checked_at = time_of_check(&published);
        let store = TeamStore::new(context.user_dirs(), &membership.org_id)?;
        if let Ok(stored) = store.load(membership) {
            let (version, digest) = (stored.record.version, stored.record.digest);
            if version > published.version {
                return Ok(None);
            }
            let is_same = digest.hex() == published.envelope;
            if is_same && store.damaged_blobs(&stored.accepted.bundle).is_empty() {
                let is_noted = store.note_check(&digest, checked_at)?;
                return Ok(is_noted.then_some(SyncOutcome::Unchanged { version }));
            }
        }
        let source = BundleSource::Cluster {
            envelope: published.envelope,
            checked_at,
            store: self.store.clone(),
        };
        sync_from(context, membership, &source).await.map(Some)
    }
}

/// Returns the time at which the publisher has found the bundle in the team's own source; now if its clock is ahead.
fn time_of_check(published: &ClusterBundle) -> Timestamp {
    let since = i64::try_from(published.checked_at_ms).ok();
    let at = since.and_then(|since| Timestamp::from_millisecond(since).ok());
    at.map_or_else(now, |at| at.min(now()))
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
    membership: TeamMembership,
    store: TeamStore,
    version: u64,
    digest: OciDigest,
    /// The time at which this user has found it in the team's own source, in milliseconds since 1970.
    checked_at_ms: u64,
    envelope: Vec<u8>,
    files: Vec<Vec<u8>>,
}

/// A bundle that differs from the published one.
pub struct BundlePublication {
    bundle: PublishableBundle,
    replaced: Option<u64>,
    /// True if the bundle is published already, and only the time of its last check is older.
    pub is_renewal: bool,
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
                checked_at_ms: milliseconds(stored.record.checked_at),
                store,
                membership,
            })
        });
        bundles.collect()
    }

    /// Compares the bundle with the published one. `None` if it is published already, with the same time of its last check.
    /// A bundle that a foreign key has signed does not count as published.
    ///
    /// # Errors
    /// A newer one is published, or the cluster cannot be read.
    pub async fn compare(
        self,
        bundles: &TeamBundles,
    ) -> Result<Option<BundlePublication>, ToolError> {
        let current = bundles.current(&self.membership.org_id).await;
        let current = current.map_err(|error| deployment_error(&error))?;
        let (org_id, version) = (visible(&self.membership.org_id).to_string(), self.version);
        let mut is_renewal = false;
        let replaced = current.as_ref().map(|current| current.revision);
        let change = match current.map(|current| current.bundle) {
            None => format!("new: version {version} of the bundle of the team {org_id}"),
            Some(Err(error)) => format!(
                "replaces the published bundle of the team {org_id}, version {version}: {error}"
            ),
            Some(Ok(published)) if published.envelope == self.digest.hex() => {
                if published.checked_at_ms >= self.checked_at_ms {
                    return Ok(None);
                }
                is_renewal = true;
                format!("checked again: version {version} of the bundle of the team {org_id}")
            }
            Some(Ok(published)) => match self.proven_version(bundles, &published).await? {
                Some(found) if found >= version => {
                    let message = format!(
                        "the cluster has version {found} of the bundle of the team `{org_id}`, and you have version {version}: expected a newer one"
                    );
                    let remedy = "`mimir team sync` fetches the newest bundle".to_owned();
                    let error = ToolError::new(ToolErrorCode::PolicyDenied, message);
                    return Err(error.with_remedies([remedy]));
                }
                Some(found) => format!(
                    "changed: version {found} of the bundle of the team {org_id} to version {version}"
                ),
                None => format!(
                    "replaces a published bundle that the team {org_id} has not signed, version {version}"
                ),
            },
        };
        Ok(Some(BundlePublication {
            bundle: self,
            replaced,
            is_renewal,
            change,
        }))
    }

    /// Returns the version of a published bundle. `None` if it is not a bundle that the team has signed, whatever version its
    /// entry claims.
    async fn proven_version(
        &self,
        bundles: &TeamBundles,
        published: &ClusterBundle,
    ) -> Result<Option<u64>, ToolError> {
        let envelope = bundles.envelope(published).await;
        let Some(envelope) = envelope.map_err(|error| deployment_error(&error))? else {
            return Ok(None);
        };
        let (history, _) = self.store.history(&self.membership);
        let (org_id, keys) = (&self.membership.org_id, &self.membership.keys);
        let checked = AcceptedBundle::check(&envelope, org_id, keys, history.as_ref(), now());
        Ok(match checked {
            Ok(accepted) => Some(accepted.bundle.version),
            Err(TeamError::Rollback { found, .. } | TeamError::SameVersion(found)) => Some(found),
            Err(TeamError::Expired(_) | TeamError::NotYetValid(_)) => Some(published.version),
            Err(_) => None,
        })
    }
}

/// Returns the milliseconds since 1970 at a time.
fn milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}

impl BundlePublication {
    /// Returns the id of the team.
    pub fn org_id(&self) -> &str {
        &self.bundle.membership.org_id
    }

    /// Returns the version of the bundle.
    pub fn version(&self) -> u64 {
        self.bundle.version
    }

    /// Returns true if no bundle of the team was ever published in this cluster.
    pub fn is_first(&self) -> bool {
        self.replaced.is_none()
    }

    /// Stores the files, and publishes the bundle to all nodes.
    ///
    /// # Errors
    /// Another bundle was published in the meantime, or the cluster refuses the access.
    pub async fn publish(self, bundles: &TeamBundles) -> Result<(), ToolError> {
        let PublishableBundle {
            membership,
            version,
            checked_at_ms,
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
        let (org_id, at_ms) = (&membership.org_id, milliseconds(now()));
        let entry = ClusterBundle::new(org_id, version, envelope, publisher(), at_ms);
        let entry = entry.checked_at(checked_at_ms);
        let published = bundles.publish(&entry, self.replaced).await;
        published.map_err(|error| failed(&error)).map(drop)
    }
}
