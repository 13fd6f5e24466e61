//! A pipeline that follows the files, for commands that take calls for as long as they run.

use std::time::SystemTime;

use mimir_core::Pipeline;
use mimir_core::audit::{Event, Kind};
use mimir_core::config::Config;

use crate::interface::{note, warn};
use crate::setup::Setup;

use super::{Live, News};

/// Keeps a pipeline up to date: for commands that serve calls for as long as they run.
pub struct Keeper {
    pipeline: Pipeline,
    /// The settings that its parts were made with.
    made_with: Config,
}

impl Keeper {
    /// Keeps `pipeline`, which was made of `live`, up to date while [`Live::follow`] runs.
    pub fn new(pipeline: Pipeline, live: &Live) -> Self {
        let made_with = live.setup().settings.config.clone();
        pipeline.refresh_with(live.freshness());
        Self {
            pipeline,
            made_with,
        }
    }

    /// Puts in force what has changed, says it where a person has to know, and records it.
    pub fn take_up(&self, setup: &Setup, news: News) {
        match news {
            News::World { world, mended } => {
                self.pipeline.replace(*world);
                if mended {
                    note("the config files are in order again, and count as they are now");
                }
                for key in later(&self.made_with, &setup.settings.config) {
                    warn(format_args!(
                        "the change of `{key}` counts from the next start"
                    ));
                }
                setup.record_changes();
            }
            News::Broken(error) => {
                warn(format_args!(
                    "{}; THIS CHANGE DOES NOT COUNT: the last settings that were in order stay in force",
                    error.message
                ));
                let event = Event::of(Kind::ConfigChange, SystemTime::now()).with_subject("config");
                let event = event.with_detail("a change cannot be used; the last good one stays");
                setup.record(&event.refused(error.code));
            }
        }
    }
}

/// The settings whose change does not reach what was made with the old ones.
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
