//! Settings of cached results: `tools.NAME.cache`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::OutOfRangeError;
use super::limits::check_time;

/// `tools.NAME.cache`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CacheSettings {
    /// Time for which a result is reused, in milliseconds. Only results of tools that change nothing are reused, for
    /// the same arguments in the same session.
    pub ttl_ms: u64,
}

impl CacheSettings {
    /// Returns the time for which a result is reused.
    pub const fn ttl(self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// Checks that the time is in range. `key` is the key of the block.
    pub(super) fn check(self, key: &str) -> Result<(), OutOfRangeError> {
        check_time(&format!("{key}.ttlMs"), Some(self.ttl_ms))
    }
}
