//! Events within a period, counted by all processes of this machine.

use std::path::Path;
use std::time::Duration;

use mimir_core::shared_state::{SharedStateError, StateKey};
use mimir_core::text::visible;
use sha2::{Digest as _, Sha256};

use super::area_files::lock_folder;
use super::stored_value::{millis, now_ms};
use crate::private_files::{self, FileReaders, OwnerOnly};

/// Folder of the counts.
const FOLDER: &str = "counts";

/// Counts an event of this key, unless `max` events were counted within `window`.
pub(super) fn count_within(
    root: &Path,
    key: &StateKey,
    max: u32,
    window: Duration,
) -> Result<bool, SharedStateError> {
    let folder = root.join(FOLDER);
    let failed = |error: std::io::Error| SharedStateError::Unreachable {
        location: visible(&folder.display().to_string()),
        text: error.to_string(),
    };
    let _lock = lock_folder(&folder).map_err(failed)?;
    let path = folder.join(format!("{:x}.count", Sha256::digest(key.as_str())));
    let stored = private_files::read(&path, OwnerOnly::Writing).map_err(failed)?;
    let now = now_ms();
    let mut times = read_times(stored.as_deref().unwrap_or_default(), now, millis(window));
    if times.len() >= usize::try_from(max).unwrap_or(usize::MAX) {
        return Ok(false);
    }
    times.push(now);
    let lines: String = times.iter().map(|time| format!("{time}\n")).collect();
    private_files::replace(&path, lines.as_bytes(), FileReaders::Owner).map_err(failed)?;
    Ok(true)
}

/// Reads the times of the events within the period. A time in the future counts as now, because the clock was set back.
fn read_times(text: &str, now: u64, window: u64) -> Vec<u64> {
    let times = text.lines().filter_map(|line| line.parse::<u64>().ok());
    let times = times.map(|time| time.min(now));
    times.filter(|time| now - time < window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_count_ignores_events_before_the_period() {
        assert_eq!(read_times("1\n5\nx\n9\n99\n", 10, 5), [9, 10]);
        assert!(read_times("", 10, 5).is_empty());
    }
}
