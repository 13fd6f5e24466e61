//! A pipeline that follows the files, for commands that serve calls for as long as they run.

use std::time::SystemTime;

use mimir_core::Pipeline;
use mimir_core::audit::{Event, Kind};
use mimir_core::config::Config;

use crate::interface::{note, warn};
use crate::setup::Setup;

use super::{Live, News};

/// Keeps a pipeline up to date.
pub struct Keeper {
    pipeline: Pipeline,
    /// The settings that the pipeline was created with.
    made_with: Config,
}

impl Keeper {
    /// Keeps `pipeline`, which was created from `live`, up to date while [`Live::follow`] runs.
    pub fn new(pipeline: Pipeline, live: &Live) -> Self {
        let made_with = live.setup().settings.config.clone();
        pipeline.refresh_with(live.freshness());
        Self {
            pipeline,
            made_with,
        }
    }

    /// Applies an update, reports it where the person needs to know, and records it in the audit log.
    pub fn take_up(&self, setup: &Setup, news: News) {
        match news {
            News::World { world, mended } => {
                self.pipeline.replace(*world);
                if mended {
                    note("the config files are valid again and in force");
                }
                for key in later(&self.made_with, &setup.settings.config) {
                    warn(format_args!(
                        "the change of `{key}` takes effect at the next start"
                    ));
                }
                setup.record_changes();
            }
            News::Broken(error) => {
                warn(format_args!(
                    "{}; THIS CHANGE IS NOT IN FORCE: the last valid settings are still used",
                    error.message
                ));
                let event = Event::of(Kind::ConfigChange, SystemTime::now()).with_subject("config");
                let event = event
                    .with_detail("the change is not valid; the last valid settings stay in force");
                setup.record(&event.refused(error.code));
            }
        }
    }
}

/// The settings whose changes only take effect at the next start.
pub(super) fn later(old: &Config, now: &Config) -> Vec<&'static str> {
    let differs = [
        ("audit", old.audit != now.audit),
        ("approvals", old.approvals != now.approvals),
        ("sandbox", old.sandbox != now.sandbox),
        ("secrets", old.secrets != now.secrets),
        ("model", old.model != now.model),
        ("providers", old.providers != now.providers),
        ("agent", old.agent != now.agent),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(key, _)| key).collect()
}
