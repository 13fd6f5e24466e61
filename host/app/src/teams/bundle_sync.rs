//! Fetching of a team's newest bundle: everything is verified before it replaces the bundle in force, which otherwise
//! stays as it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{DsseEnvelope, VerifyingKey};
use mimir_registry::team::{AcceptedBundle, TeamBundle, TeamError, TeamFault};

use super::bundle_source::{BundleSource, FetchedEnvelope};
use super::membership::TeamMembership;
use super::team_in_force::{check_team_settings, now};
use super::team_store::{TeamStore, check_error, has_size};
use crate::cluster::ClusterMembership;
use crate::private_files;
use crate::registries::registry_client_for;
use crate::settings::MergedSettings;
use crate::setup::HostSetup;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Requirements of the checks of bundles: the network settings, and the audit log.
#[derive(Clone)]
pub struct SyncContext {
    user_dirs: UserDirs,
    workspace: WorkspaceFolder,
    /// The settings without the bundles of teams, so that a bundle cannot prevent its own replacement, and without the
    /// file of the project, so that a checkout cannot.
    settings: MergedSettings,
    audit: Arc<dyn AuditSink>,
    cluster: Option<Arc<ClusterMembership>>,
}

/// The result of a successful check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The bundle in force is the newest.
    Unchanged {
        /// Its version.
        version: u64,
    },
    /// A newer bundle is in force.
    Updated {
        /// The version before, if there was one.
        from: Option<u64>,
        /// The version now.
        to: u64,
    },
}

impl SyncContext {
    /// Creates the context of a setup, whose settings may be without those of teams.
    ///
    /// # Errors
    /// A config file of the user or an administrator is not valid.
    pub fn new(setup: &HostSetup) -> Result<Self, ToolError> {
        let (user_dirs, workspace) = (setup.user_dirs.clone(), setup.workspace.clone());
        Ok(Self {
            settings: MergedSettings::read_for_sync(&user_dirs, &workspace)?,
            audit: setup.audit(),
            cluster: setup.cluster().cloned(),
            user_dirs,
            workspace,
        })
    }

    /// Returns the memberships of this user.
    ///
    /// # Errors
    /// A block `teams` is not valid.
    pub fn memberships(&self) -> Result<Vec<TeamMembership>, ToolError> {
        super::memberships(&self.settings.files)
    }

    /// Returns the memberships of this user, and those that are ignored because an administrator requires another team.
    ///
    /// # Errors
    /// A block `teams` is not valid.
    pub fn all_memberships(&self) -> Result<(Vec<TeamMembership>, Vec<TeamMembership>), ToolError> {
        super::all_memberships(&self.settings.files)
    }

    /// Returns path and digest of each config file, without the bundles.
    pub(super) fn file_digests(&self) -> Vec<(PathBuf, String)> {
        let files = self.settings.files.iter();
        files
            .map(|file| (file.path.clone(), file.digest()))
            .collect()
    }

    pub(super) fn user_dirs(&self) -> &UserDirs {
        &self.user_dirs
    }

    /// Returns the cluster that this process has joined.
    pub(super) fn cluster(&self) -> Option<&ClusterMembership> {
        self.cluster.as_deref()
    }

    pub(super) fn source(&self, reference: &str) -> Result<BundleSource, ToolError> {
        BundleSource::new(reference, || {
            registry_client_for(&self.settings, self.workspace.root())
        })
    }

    /// Records a change of a team's bundle, or its refusal.
    pub(super) fn record(&self, org_id: &str, detail: &str, refusal: Option<ToolErrorCode>) {
        let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
        let event = event.with_subject(&format!("team {org_id}"));
        let mut event = event.with_detail(detail);
        if let Some(code) = refusal {
            event = event.refused(code);
        }
        if let Err(error) = self.audit.record(&event) {
            crate::interface::warn(error);
        }
    }
}

/// Checks for a newer bundle of a team, and puts it in force. Repairs a damaged store. A failure changes nothing but the
/// note about it.
///
/// # Errors
/// The source is not available, or its bundle is not accepted.
pub async fn sync_team(
    context: &SyncContext,
    membership: &TeamMembership,
) -> Result<SyncOutcome, ToolError> {
    let result = fetch_newest(context, membership).await;
    if let Err(error) = &result {
        note_failure(context, membership, error);
    }
    result
}

async fn fetch_newest(
    context: &SyncContext,
    membership: &TeamMembership,
) -> Result<SyncOutcome, ToolError> {
    let source = context.source(&membership.reference)?;
    sync_from(context, membership, &source).await
}

/// Puts the bundle of this source in force. Does not note a failure.
///
/// # Errors
/// The source is not available, or its bundle is not accepted.
pub(super) async fn sync_from(
    context: &SyncContext,
    membership: &TeamMembership,
    source: &BundleSource,
) -> Result<SyncOutcome, ToolError> {
    let fetched = source.fetch_envelope().await?;
    put_in_force(context, membership, source, &fetched).await
}

/// Verifies a fetched envelope, fetches its blobs, and puts the bundle in force.
pub(super) async fn put_in_force(
    context: &SyncContext,
    membership: &TeamMembership,
    source: &BundleSource,
    fetched: &FetchedEnvelope,
) -> Result<SyncOutcome, ToolError> {
    let org_id = &membership.org_id;
    let store = TeamStore::new(&context.user_dirs, org_id)?;
    if let Some(note) = store.history(membership).1 {
        context.record(org_id, &note, None);
        crate::interface::warn(note);
    }
    let accepted = check(&store, membership, fetched)?;
    check_team_settings(&accepted.bundle)?;
    fetch_blobs(&store, source, fetched, &accepted.bundle).await?;
    let _lock = store.lock()?;
    // Another process may have put a newer bundle in force meanwhile.
    let mut accepted = check(&store, membership, fetched)?;
    let before = store.record().ok().flatten().filter(|record| !record.left);
    if let Some(checked_at) = source.checked_at() {
        let same = before
            .as_ref()
            .filter(|record| record.digest == accepted.digest);
        let known = same.map_or(Timestamp::MIN, |record| record.checked_at);
        accepted.record.checked_at = checked_at.max(known);
    }
    store.put(&fetched.bytes, &accepted)?;
    let to = accepted.record.version;
    if before
        .as_ref()
        .is_some_and(|before| before.digest == accepted.digest)
    {
        return Ok(SyncOutcome::Unchanged { version: to });
    }
    let from = before.map(|before| before.version);
    let was = from.map_or_else(String::new, |from| format!(" after version {from}"));
    let detail = format!(
        "version {to} of the bundle is in force{was}, sha256 {}, signed by key {}",
        accepted.digest.hex(),
        accepted.signer.id()
    );
    context.record(org_id, &detail, None);
    Ok(SyncOutcome::Updated { from, to })
}

/// Verifies an envelope against what the store has accepted before.
pub(super) fn check(
    store: &TeamStore,
    membership: &TeamMembership,
    fetched: &FetchedEnvelope,
) -> Result<AcceptedBundle, ToolError> {
    let (history, _) = store.history(membership);
    let (org_id, keys) = (&membership.org_id, &membership.keys);
    let checked = AcceptedBundle::check(&fetched.bytes, org_id, keys, history.as_ref(), now());
    let has_bundle = history.is_some_and(|history| !history.record.left);
    checked.map_err(|error| {
        let is_unknown = matches!(error, TeamError::Signer);
        let mut error = check_error(error, org_id, has_bundle);
        if let Some(id) = is_unknown.then(|| unknown_signer(&fetched.bytes)).flatten() {
            let signer = format!(": its key {id} is not among those that you trust");
            error.message.push_str(&signer);
        }
        error
    })
}

/// Returns the id of the key that signed an envelope, if the bundle in it names the key. It is for messages only: nothing
/// proves that the key belongs to the team.
fn unknown_signer(envelope: &[u8]) -> Option<String> {
    let envelope = DsseEnvelope::from_json(envelope).ok()?;
    let bundle = TeamBundle::from_payload(&envelope.unverified_payload().ok()?).ok()?;
    let keys = bundle.keys.iter();
    let keys: Vec<VerifyingKey> = keys
        .filter_map(|pem| VerifyingKey::from_pem(pem.as_bytes()).ok())
        .collect();
    envelope.verify(&keys).ok().map(|(_, id)| id)
}

/// Fetches the blobs that the store lacks or has damaged. Each is verified before it replaces a file.
async fn fetch_blobs(
    store: &TeamStore,
    source: &BundleSource,
    fetched: &FetchedEnvelope,
    bundle: &TeamBundle,
) -> Result<(), ToolError> {
    let folder = store.blob_folder();
    private_files::private_folder(&folder)
        .map_err(|error| crate::file_error::file_error("create", &folder, &error))?;
    let damaged = store.damaged_blobs(bundle);
    for (digest, size) in bundle.blobs() {
        let target = store.blob(&digest);
        if !damaged.contains(&digest) {
            continue;
        }
        source.fetch_blob(fetched, &digest, size, &target).await?;
        if !has_size(&target, size) {
            let message = format!("a part of the team's bundle has another size than {size} bytes");
            return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
        }
    }
    Ok(())
}

/// Notes a failed check in the record, for `mimir team status`, and in the audit log.
pub(super) fn note_failure(context: &SyncContext, membership: &TeamMembership, error: &ToolError) {
    let org_id = &membership.org_id;
    let detail = format!("a bundle was not accepted: {}", error.message);
    context.record(org_id, &detail, Some(error.code));
    let noted = TeamStore::new(&context.user_dirs, org_id).and_then(|store| {
        let _lock = store.lock()?;
        if let Some(mut record) = store.record()? {
            record.last_fault = Some(TeamFault {
                at: now(),
                text: error.message.clone(),
            });
            store.write_record(&record)?;
        }
        Ok(())
    });
    if let Err(error) = noted {
        tracing::debug!(%error, "the fault of a team's bundle is not noted");
    }
}
