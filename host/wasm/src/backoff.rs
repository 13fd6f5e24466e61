//! Backoff for plugins that exceeded the time or memory limit for compiling, or the time limit for describing
//! themselves, so that not every call and listing waits for the same failure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mimir_core::ToolErrorCode;
use serde::{Deserialize, Serialize};

use crate::cache::{self, ComponentCache};
use crate::compile::CompileLimits;
use crate::digest::Sha256Digest;

/// Duration of the backoff: long enough to spare many listings, short enough to recover soon if the machine was just
/// busy.
const BACKOFF: Duration = Duration::from_secs(10 * 60);

/// The step that exceeded a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackoffKind {
    /// Compiling within these limits. With other limits, compiling is tried at once.
    Compile(CompileLimits),
    /// The plugin's description of itself.
    Describe,
}

/// The cached record of a failure.
#[derive(Serialize, Deserialize)]
struct BackoffNote {
    /// End of the backoff, in seconds since the Unix epoch.
    until: u64,
    reason: String,
    #[serde(default = "timeout")]
    code: ToolErrorCode,
}

fn timeout() -> ToolErrorCode {
    ToolErrorCode::Timeout
}

/// Records a failure and begins the backoff.
pub(crate) fn remember_failure(
    cache: &ComponentCache,
    digest: &Sha256Digest,
    kind: BackoffKind,
    code: ToolErrorCode,
    reason: &str,
) {
    let note = BackoffNote {
        until: now().saturating_add(BACKOFF.as_secs()),
        reason: reason.to_owned(),
        code,
    };
    if let Ok(content) = serde_json::to_vec(&note) {
        cache.put(
            cache::CacheEntryKind::Description,
            &key(digest, kind),
            &content,
        );
    }
}

/// Returns the error code and a message with the reason and the remaining time, or `None` without an active backoff.
pub(crate) fn active_failure(
    cache: &ComponentCache,
    digest: &Sha256Digest,
    kind: BackoffKind,
) -> Option<(ToolErrorCode, String)> {
    let content = cache.get(cache::CacheEntryKind::Description, &key(digest, kind))?;
    let note: BackoffNote = serde_json::from_slice(&content).ok()?;
    Some((note.code, note_reason(note, kind, now())?))
}

fn note_reason(note: BackoffNote, kind: BackoffKind, now: u64) -> Option<String> {
    let left = note.until.checked_sub(now).filter(|left| *left > 0)?;
    // If more than the full duration is left, the clock was set back.
    if left > BACKOFF.as_secs() {
        return None;
    }
    let minutes = left.div_ceil(60);
    let retry = match kind {
        BackoffKind::Compile(_) => {
            format!("it is tried again in {minutes} min, or at once with another limit")
        }
        BackoffKind::Describe => {
            format!("it is queried again in {minutes} min, or at once by `mimir doctor`")
        }
    };
    Some(format!("{}; {retry}", note.reason))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn key(digest: &Sha256Digest, kind: BackoffKind) -> String {
    let step = match kind {
        BackoffKind::Compile(limits) => {
            let (time, memory) = (limits.time.as_millis(), limits.memory);
            format!("uncompiled-{time}-{memory}")
        }
        BackoffKind::Describe => "slow".to_owned(),
    };
    format!("{digest}-{}-{step}", crate::describe::FORMAT_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_lasts_for_a_while() {
        let note = || BackoffNote {
            until: 10_000,
            reason: "too slow".to_owned(),
            code: timeout(),
        };
        let reason_at = |now| note_reason(note(), BackoffKind::Describe, now);
        let reason = reason_at(10_000 - 61).unwrap();
        assert!(
            reason.starts_with("too slow; ") && reason.contains("in 2 min"),
            "{reason}"
        );
        assert_eq!(reason_at(10_000), None, "the backoff has ended");
        assert_eq!(reason_at(20_000), None);
        assert_eq!(
            reason_at(10_000 - BACKOFF.as_secs() - 1),
            None,
            "the clock was set back"
        );
    }
}
