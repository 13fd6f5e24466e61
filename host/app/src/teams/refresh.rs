//! Refresh of bundles: in the background of long-running commands, when an administrator publishes one in the cluster, and
//! before a single call only if the bundle is too old or missing.

use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mimir_core::{ToolError, ToolErrorCode};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::bundle_sync::{SyncContext, SyncOutcome, note_failure, sync_team};
use super::membership::TeamMembership;
use super::published_teams::team_in_use;
use super::team_in_force::{TeamInForce, now};
use super::team_store::TeamStore;
use crate::interface::{note, warn};
use crate::setup::HostSetup;
use crate::team_authoring::BundleDifference;

/// Time after which a failed check in the background is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);

/// Time after which a published bundle is read again that could not be read.
const PUBLISHED_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time for which a command waits for a bundle that it needs.
const FOREGROUND_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of changes of a bundle that are shown without being asked for.
const MAX_CHANGES: usize = 50;

/// Background refresh of all teams. Dropping it stops the refresh.
#[must_use]
#[derive(Default)]
pub struct TeamRefresh {
    tasks: Vec<AbortHandle>,
    /// Path and digest of each config file that the tasks were started for.
    files: Vec<(PathBuf, String)>,
}

impl Drop for TeamRefresh {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the refresh of the bundles of all teams in the background. The changed store is noticed like a changed config
/// file.
pub fn spawn_refresh(setup: &HostSetup) -> TeamRefresh {
    let mut refresh = TeamRefresh::default();
    // Without a team, no file is read again.
    if setup.settings.files.iter().any(|file| file.sets("teams")) {
        refresh.follow(setup);
    }
    refresh
}

impl TeamRefresh {
    /// Starts the refresh of teams that were joined meanwhile, and stops that of teams that were left. Also fetches a
    /// bundle that is missing or damaged, with which the settings cannot be read.
    pub fn follow(&mut self, setup: &HostSetup) {
        // Config files that are not valid are reported with the settings.
        let Ok(context) = SyncContext::new(setup) else {
            return;
        };
        let Ok(memberships) = context.memberships() else {
            return;
        };
        let files = context.file_digests();
        if files == self.files {
            return;
        }
        if let Some(cluster) = context.cluster() {
            let is_member = |org_id: &str| {
                let mut memberships = memberships.iter();
                memberships.any(|membership| membership.org_id == org_id)
            };
            cluster.condition().retain_teams(is_member);
        }
        self.stop();
        self.files = files;
        for membership in memberships {
            let team = TeamInForce::read(context.user_dirs(), membership.clone());
            let first = team.map_or(Duration::ZERO, |team| time_to_check(&team, now()));
            let task = tokio::spawn(refresh(context.clone(), membership, first));
            self.tasks.push(task.abort_handle());
        }
    }

    fn stop(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}

/// Returns the time until the next check of a team's bundle.
fn time_to_check(team: &TeamInForce, now: Timestamp) -> Duration {
    let age = now.duration_since(team.checked_at);
    // After the clock was set back, the bundle is checked at once.
    let age = Duration::try_from(age).unwrap_or(Duration::MAX);
    team.membership.refresh.saturating_sub(age)
}

/// Checks for a newer bundle of a team as [`sync_team`] does. Returns what a newer one changes for this member, and records
/// it in the audit log.
///
/// # Errors
/// Those of [`sync_team`].
pub async fn sync_and_compare(
    context: &SyncContext,
    membership: &TeamMembership,
) -> Result<(SyncOutcome, BundleDifference), ToolError> {
    let before = stored_team(context, membership);
    let outcome = sync_team(context, membership).await?;
    let changes = record_changes(context, membership, before, &outcome);
    Ok((outcome, changes))
}

/// Returns the stored bundle, if it can be used.
fn stored_team(context: &SyncContext, membership: &TeamMembership) -> Option<TeamInForce> {
    TeamInForce::read(context.user_dirs(), membership.clone()).ok()
}

/// Records in the audit log what a newer bundle changes, and returns it. Without a bundle before, everything is new.
fn record_changes(
    context: &SyncContext,
    membership: &TeamMembership,
    before: Option<TeamInForce>,
    outcome: &SyncOutcome,
) -> BundleDifference {
    let mut changes = BundleDifference::default();
    if let SyncOutcome::Updated { to, .. } = outcome
        && let Some(after) = stored_team(context, membership)
    {
        let before = before.as_ref().map(|team| &*team.bundle);
        changes = BundleDifference::between(before, &after.bundle);
        let mut lines = changes.lines.clone();
        let more = lines.len().saturating_sub(MAX_CHANGES);
        lines.truncate(MAX_CHANGES);
        if more > 0 {
            lines.push(format!("{more} more changes"));
        }
        let changed = if lines.is_empty() {
            "none".to_owned()
        } else {
            lines.join("; ")
        };
        let detail = format!("changes in version {to}: {changed}");
        context.record(&membership.org_id, &detail, None);
    }
    changes
}

/// Shows the version that is in force now, and what it changes.
fn note_update(membership: &TeamMembership, outcome: &SyncOutcome, changes: &BundleDifference) {
    let SyncOutcome::Updated { to, .. } = outcome else {
        return;
    };
    let org_id = &membership.org_id;
    note(format_args!("team {org_id}: version {to} is in force"));
    for line in changes.lines.iter().take(MAX_CHANGES) {
        note(format_args!("  {line}"));
    }
    let more = changes.lines.len().saturating_sub(MAX_CHANGES);
    if more > 0 {
        note(format_args!("  and {more} more changes"));
    }
}

async fn refresh(context: SyncContext, membership: TeamMembership, first: Duration) {
    let mut next_check = Instant::now() + first;
    let mut last_fault = String::new();
    let mut publications = context.cluster().map(|cluster| cluster.teams().changes());
    let mut published = PublishedBundleFollower::new(context.clone(), membership.clone());
    loop {
        // Before the first wait, for those that were published while this process was not running.
        let retry = published.update().await;
        let retry_time = retry.map(|pause| Instant::now() + pause);
        tokio::select! {
            () = next_publication(publications.as_mut()) => continue,
            () = sleep_until(retry_time.unwrap_or(next_check)), if retry.is_some() => continue,
            () = sleep_until(next_check) => {}
        }
        let pause = match sync_and_compare(&context, &membership).await {
            Ok((outcome, changes)) => {
                note_update(&membership, &outcome, &changes);
                last_fault.clear();
                membership.refresh
            }
            Err(error) => {
                if error.message != last_fault {
                    warn(&error.message);
                    last_fault.clone_from(&error.message);
                }
                membership.refresh.min(RETRY_INTERVAL)
            }
        };
        next_check = Instant::now() + pause;
    }
}

/// Completes at the next publication in the cluster. Never without a cluster.
async fn next_publication(publications: Option<&mut watch::Receiver<u64>>) {
    let changed = match publications {
        Some(publications) => publications.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending::<()>().await;
    }
}

/// Puts the published bundles of a team in force, and reports the bundle that this process uses.
struct PublishedBundleFollower {
    context: SyncContext,
    membership: TeamMembership,
    /// The envelope that could not be put in force, and the cause.
    failed: Option<(String, ToolError)>,
}

impl PublishedBundleFollower {
    fn new(context: SyncContext, membership: TeamMembership) -> Self {
        Self {
            context,
            membership,
            failed: None,
        }
    }

    /// Puts the published bundle in force. Returns the time after which this should be tried again, if it has failed
    /// because a part could not be read.
    async fn update(&mut self) -> Option<Duration> {
        let cluster = self.context.cluster()?;
        let org_id = &self.membership.org_id;
        let published = cluster.teams().bundle(org_id);
        let envelope = published.map(|bundle| bundle.envelope).unwrap_or_default();
        let failed = self.failed.take().filter(|(failed, _)| *failed == envelope);
        let is_refused = |(_, error): &(String, ToolError)| !is_temporary(error);
        if failed.as_ref().is_some_and(is_refused) {
            self.failed = failed;
        } else {
            let before = stored_team(&self.context, &self.membership);
            let put = cluster
                .teams()
                .put_in_force(&self.context, &self.membership);
            match put.await {
                Ok(None) => {}
                Ok(Some(outcome)) => {
                    let changes = record_changes(&self.context, &self.membership, before, &outcome);
                    note_update(&self.membership, &outcome, &changes);
                    cluster.condition().announce_settings();
                }
                Err(error) => {
                    if failed.is_none() {
                        note_failure(&self.context, &self.membership, &error);
                        warn(&error.message);
                    }
                    self.failed = Some((envelope, error));
                }
            }
        }
        let error = self.failed.as_ref().map(|(_, error)| error);
        let in_use = team_in_use(
            &self.context,
            &self.membership,
            error.map(|error| error.message.clone()),
        );
        cluster.condition().set_team(org_id, in_use);
        error.filter(|error| is_temporary(error))?;
        Some(PUBLISHED_RETRY_INTERVAL)
    }
}

/// Returns true if a part of a bundle could not be read, which may succeed later.
fn is_temporary(error: &ToolError) -> bool {
    error.code == ToolErrorCode::Unavailable
}

/// Fetches the bundles that are missing or damaged, and those that are too old if `renews` is true. A failure is shown,
/// and reading the settings decides what it means. Returns true if a bundle was fetched.
///
/// # Errors
/// A config file is not valid.
pub async fn refresh_if_needed(setup: &HostSetup, renews: bool) -> Result<bool, ToolError> {
    let context = SyncContext::new(setup)?;
    let mut any = false;
    for membership in context.memberships()? {
        if !needs_refresh(&context, &membership, renews) {
            continue;
        }
        let synced = sync_and_compare(&context, &membership);
        match tokio::time::timeout(FOREGROUND_TIMEOUT, synced).await {
            Ok(Ok((outcome, changes))) => {
                note_update(&membership, &outcome, &changes);
                any = true;
            }
            Ok(Err(error)) => warn(&error.message),
            Err(_) => {
                let seconds = FOREGROUND_TIMEOUT.as_secs();
                let org_id = &membership.org_id;
                warn(format_args!(
                    "the bundle of the team `{org_id}` was not fetched within {seconds} s; `mimir team sync` waits longer"
                ));
            }
        }
    }
    Ok(any)
}

fn needs_refresh(context: &SyncContext, membership: &TeamMembership, renews: bool) -> bool {
    let store = TeamStore::new(context.user_dirs(), &membership.org_id);
    let Ok(loaded) = store.and_then(|store| store.load(membership)) else {
        return true;
    };
    let expires = loaded.accepted.bundle.expires_at;
    let latest = loaded.record.checked_at.checked_add(membership.max_age);
    let deadline = latest.map_or(expires, |latest| latest.min(expires));
    // Without a connection, not every call waits for the registry.
    let pause = SignedDuration::try_from(RETRY_INTERVAL).unwrap_or(SignedDuration::MAX);
    let last_fault = loaded.record.last_fault.as_ref();
    let failed_recently = last_fault.is_some_and(|fault| now().duration_since(fault.at) < pause);
    renews && now() >= deadline && !failed_recently
}

#[cfg(test)]
mod tests;
