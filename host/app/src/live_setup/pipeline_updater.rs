//! Updates of a pipeline when files change, for commands that run for a long time.

use std::time::SystemTime;

use mimir_core::Pipeline;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::config::Config;

use crate::interface::{note, warn};
use crate::setup::HostSetup;

use super::{LiveSetup, SetupUpdate};

/// Applies updates of settings, tools and grants to a pipeline.
pub struct PipelineUpdater {
    pipeline: Pipeline,
    /// The settings that the pipeline was created with.
    initial_config: Config,
}

impl PipelineUpdater {
    /// Creates an updater of `pipeline`, which was created from `live`. Also makes calls wait for changed files while
    /// [`LiveSetup::follow`] runs.
    pub fn new(pipeline: Pipeline, live: &LiveSetup) -> Self {
        let initial_config = live.setup().settings.config.clone();
        pipeline.set_refresh(live.freshness());
        Self {
            pipeline,
            initial_config,
        }
    }

    /// Applies an update, reports what the user needs to know, and records changed files in the audit log.
    pub fn apply_update(&self, setup: &HostSetup, update: SetupUpdate) {
        match update {
            SetupUpdate::Snapshot {
                snapshot,
                recovered,
            } => {
                self.pipeline.replace(*snapshot);
                if recovered {
                    note("the config files are valid again, and in force");
                }
                for key in restart_settings(&self.initial_config, &setup.settings.config) {
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
            }
        }
    }
}

/// Returns the changed keys that only take effect at the next start.
pub(super) fn restart_settings(old: &Config, new: &Config) -> Vec<&'static str> {
    let differs = [
        ("audit", old.audit != new.audit),
        ("approvals", old.approvals != new.approvals),
        ("sandbox", old.sandbox != new.sandbox),
        ("secrets", old.secrets != new.secrets),
        ("model", old.model != new.model),
        ("providers", old.providers != new.providers),
        ("agent", old.agent != new.agent),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(key, _)| key).collect()
}
