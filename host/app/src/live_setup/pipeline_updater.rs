//! Updates of a pipeline when files change, for commands that run for a long time.

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::Pipeline;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::config::Config;
use parking_lot::Mutex;

use crate::interface::{note, warn};
use crate::setup::HostSetup;
use crate::skills::SkillResourceSource;
use crate::teams::TeamRefresh;

use super::{LiveSetup, SetupUpdate};

/// Applies updates of settings, tools and grants to a pipeline.
pub struct PipelineUpdater {
    pipeline: Pipeline,
    restart: RestartSettings,
    skills: Option<Arc<SkillResourceSource>>,
    teams: Option<Mutex<TeamRefresh>>,
}

impl PipelineUpdater {
    /// Creates an updater of `pipeline`, which was created from `live`. Also makes calls wait for changed files while
    /// [`LiveSetup::follow`] runs.
    pub fn new(pipeline: Pipeline, live: &LiveSetup) -> Self {
        let restart = RestartSettings::new(live.setup().settings.config.clone());
        pipeline.set_refresh(live.freshness());
        Self {
            pipeline,
            restart,
            skills: None,
            teams: None,
        }
    }

    /// Also refreshes the bundles of teams that are joined, and no longer those of teams that are left.
    pub fn refresh_teams(&mut self, refresh: TeamRefresh) {
        self.teams = Some(Mutex::new(refresh));
    }

    /// Also updates the skills that a server offers.
    #[must_use]
    pub fn with_skills(mut self, skills: Arc<SkillResourceSource>) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Applies an update, reports what the user needs to know, and records changed files in the audit log.
    pub fn apply_update(&self, setup: &HostSetup, update: SetupUpdate) {
        match update {
            SetupUpdate::Snapshot {
                snapshot,
                recovered,
            } => {
                self.pipeline.replace(*snapshot);
                self.follow_teams(setup);
                if let Some(skills) = &self.skills {
                    skills.replace(setup.skills());
                }
                if recovered {
                    note("the config files are valid again, and in force");
                }
                for key in self.restart.take_new(&setup.settings.config) {
                    warn(format_args!(
                        "the change of `{key}` takes effect at the next start"
                    ));
                }
                setup.record_changes();
            }
            SetupUpdate::Broken(error) => {
                warn(format_args!(
                    "{}; THIS CHANGE IS NOT IN FORCE: the last valid settings are still used",
                    error.message
                ));
                let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now())
                    .with_subject("config");
                let event = event
                    .with_detail("the change is not valid; the last valid settings stay in force");
                setup.record_event(&event.refused(error.code));
                // The reason may be that the bundle of a new team was not fetched yet.
                self.follow_teams(setup);
            }
        }
    }

    fn follow_teams(&self, setup: &HostSetup) {
        if let Some(refresh) = &self.teams {
            refresh.lock().follow(setup);
        }
    }
}

/// The settings whose changes only take effect at the next start.
pub(super) struct RestartSettings {
    /// The settings that the pipeline was created with.
    initial: Config,
    /// The changed keys that were returned already.
    reported: Mutex<Vec<&'static str>>,
}

impl RestartSettings {
    pub(super) fn new(initial: Config) -> Self {
        Self {
            initial,
            reported: Mutex::default(),
        }
    }

    /// Returns the keys that differ from the initial settings and were not returned before. A key whose initial value
    /// was restored meanwhile is returned again.
    pub(super) fn take_new(&self, current: &Config) -> Vec<&'static str> {
        let initial = &self.initial;
        let differs = [
            ("audit", initial.audit != current.audit),
            ("approvals", initial.approvals != current.approvals),
            ("sandbox", initial.sandbox != current.sandbox),
            ("model", initial.model != current.model),
            ("providers", initial.providers != current.providers),
            ("agent", initial.agent != current.agent),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        let changed: Vec<_> = differs.map(|(key, _)| key).collect();
        let reported = std::mem::replace(&mut *self.reported.lock(), changed.clone());
        let changed = changed.into_iter();
        changed.filter(|key| !reported.contains(key)).collect()
    }
}
