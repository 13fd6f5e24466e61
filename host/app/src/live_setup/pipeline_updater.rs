//! Updates of a pipeline when files change, for commands that run for a long time.

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::config::Config;
use mimir_core::policy::PolicyHalt;
use mimir_core::{Pipeline, Quarantined, ToolErrorCode};
use parking_lot::Mutex;
use serde_yaml::Value;

use crate::interface::{note, warn};
use crate::settings::MergedSettings;
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
        let restart = RestartSettings::new(live.setup().settings.clone());
        pipeline.set_refresh(live.freshness());
        report_left_out(live.setup(), pipeline.snapshot().registry.quarantined());
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
                let mut snapshot = *snapshot;
                let of_team = self.restart.of_team(&setup.settings);
                if let Some(halt) = &of_team {
                    snapshot.policy = snapshot.policy.halted(halt.clone());
                }
                report_left_out(setup, snapshot.registry.quarantined());
                self.pipeline.replace(snapshot);
                self.follow_teams(setup);
                if let Some(skills) = &self.skills {
                    skills.replace(setup.skills());
                }
                if recovered {
                    note("the config files are valid again, and in force");
                }
                if let Some(cluster) = setup.cluster() {
                    let keys = self.restart.changed(&setup.settings.config);
                    cluster.condition().set_needs_restart(&keys);
                }
                for key in self.restart.take_new(&setup.settings.config) {
                    warn(format_args!(
                        "the change of `{key}` takes effect at the next start"
                    ));
                }
                if let Some(halt) = self.restart.take_new_halt(of_team) {
                    warn(format_args!("{}; CALLS ARE REFUSED until then", halt.text));
                    let detail = format!("{}; calls are refused until then", halt.text);
                    record_refused_change(setup, &detail, ToolErrorCode::PolicyDenied);
                }
                setup.record_changes();
            }
            SetupUpdate::Broken(error) => {
                warn(format_args!(
                    "{}; THIS CHANGE IS NOT IN FORCE: the last valid settings are still used",
                    error.message
                ));
                let detail = "the change is not valid; the last valid settings stay in force";
                record_refused_change(setup, detail, error.code);
                self.follow_teams(setup);
            }
            SetupUpdate::Halted(error) => {
                warn(format_args!(
                    "{}; CALLS ARE REFUSED until the rules of teams and administrators can be read",
                    error.message
                ));
                error.remedies.iter().for_each(note);
                let detail = "the rules of a team or an administrator cannot be read; calls are refused until they can";
                record_refused_change(setup, detail, error.code);
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

/// Reports tools that cannot be used, in a process of a cluster: the people who use it do not see its files.
fn report_left_out(setup: &HostSetup, left_out: &[Quarantined]) {
    let Some(cluster) = setup.cluster() else {
        return;
    };
    for line in cluster.condition().set_left_out(left_out) {
        warn(format_args!("left out: {line}"));
    }
}

/// Records a change of config files that is not in force.
fn record_refused_change(setup: &HostSetup, detail: &str, code: ToolErrorCode) {
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject("config");
    setup.record_event(&event.with_detail(detail).refused(code));
}

/// The settings whose changes only take effect at the next start.
pub(super) struct RestartSettings {
    /// The settings that the pipeline was created with.
    initial: MergedSettings,
    /// The reason to refuse calls that was returned already.
    reported_halt: Mutex<Option<PolicyHalt>>,
    /// The changed keys that were returned already.
    reported: Mutex<Vec<&'static str>>,
}

impl RestartSettings {
    pub(super) fn new(initial: MergedSettings) -> Self {
        Self {
            initial,
            reported_halt: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Returns the keys that differ from the initial settings and were not returned before. A key whose initial value
    /// was restored meanwhile is returned again.
    pub(super) fn take_new(&self, current: &Config) -> Vec<&'static str> {
        let changed = self.changed(current);
        let reported = std::mem::replace(&mut *self.reported.lock(), changed.clone());
        let changed = changed.into_iter();
        changed.filter(|key| !reported.contains(key)).collect()
    }

    /// Returns the reason to refuse calls, if a team's layer has changed one of the settings: what a team requires is not
    /// optional until the next start.
    pub(super) fn of_team(&self, current: &MergedSettings) -> Option<PolicyHalt> {
        let changed = self.changed(&current.config).into_iter();
        // These restrict no call.
        let mut changed = changed.filter(|key| !matches!(*key, "telemetry" | "alerts"));
        changed.find_map(|key| {
            let (before, now) = (self.initial.team_blocks(key), current.team_blocks(key));
            let values = |blocks: &[(&str, &Value)]| -> Vec<Value> {
                blocks.iter().map(|(_, block)| (*block).clone()).collect()
            };
            if values(&before) == values(&now) {
                return None;
            }
            let mut new = now.iter().chain(&before);
            let team = new.find(|block| !before.contains(block) || !now.contains(block));
            let team = team.map_or("a team", |(shown, _)| shown);
            Some(PolicyHalt {
                source: team.to_owned(),
                rule: key.to_owned(),
                text: format!("restart mimir: {team} has changed `{key}`, which takes effect at the next start"),
                remedy: "restart mimir, or the agent that runs it".to_owned(),
            })
        })
    }

    /// Returns the reason if it was not returned before.
    pub(super) fn take_new_halt(&self, halt: Option<PolicyHalt>) -> Option<PolicyHalt> {
        let reported = std::mem::replace(&mut *self.reported_halt.lock(), halt.clone());
        halt.filter(|halt| reported.as_ref() != Some(halt))
    }

    fn changed(&self, current: &Config) -> Vec<&'static str> {
        let initial = &self.initial.config;
        let differs = [
            ("audit", initial.audit != current.audit),
            ("approvals", initial.approvals != current.approvals),
            ("sandbox", initial.sandbox != current.sandbox),
            ("model", initial.model != current.model),
            ("providers", initial.providers != current.providers),
            ("agent", initial.agent != current.agent),
            ("telemetry", initial.telemetry != current.telemetry),
            ("alerts", initial.alerts != current.alerts),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(key, _)| key).collect()
    }
}
