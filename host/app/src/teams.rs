//! Membership in teams: the stored bundles, their verification, and their refresh.
//!
//! A member stores the newest accepted bundle of each team in the user's own folder. Its settings are a layer above the
//! files of the user and the project, its tools are loaded between the built-in ones and those of servers. A stored
//! bundle is verified each time it is read. If it cannot be verified, no command that needs the settings runs, because
//! the bundle may contain restrictions.

mod bundle_source;
mod bundle_sync;
mod join;
mod local_tools;
mod membership;
mod published_teams;
mod refresh;
mod team_in_force;
mod team_store;

pub use bundle_source::{BundleSource, FetchedEnvelope};
pub use bundle_sync::{SyncContext, SyncOutcome, sync_team};
pub use join::{JoinPlan, leave_team, plan_join};
pub use local_tools::{enforce, refuse_unlisted, signature_checks};
pub use membership::{
    TeamMembership, all_memberships, locations_with_bundles, memberships, read_team_key,
};
pub use published_teams::{BundlePublication, PublishableBundle, PublishedTeams, fetch_published};
pub use refresh::{TeamRefresh, refresh_if_needed, spawn_refresh, sync_and_compare};
pub use team_in_force::{
    LOCATION_PREFIX, TeamInForce, allowed_lines, enforced_lines, enforced_settings_lines,
};
pub use team_store::{StoredTeam, TeamStore};

pub(crate) use team_in_force::check_team_settings;
pub(crate) use team_store::stamp_path;
