//! Plugins that took too long or too much memory to be compiled, or too long to say what they are: remembered for a
//! while, so that not every call and listing waits for them again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mimir_core::Code;
use serde::{Deserialize, Serialize};

use crate::cache::{self, Cache};
use crate::compile::CompileLimits;
use crate::digest::Hash;

/// How long a plugin is left alone: many listings, and still short enough that what was only a busy
/// machine heals by itself.
const REST: Duration = Duration::from_secs(10 * 60);

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Compiling it within these bounds. With others it is tried at once.
    Compile(CompileLimits),
    /// Its own description.
    Describe,
}

/// What is kept.
#[derive(Serialize, Deserialize)]
struct Note {
    /// When it is asked again, in seconds of the Unix epoch.
    until: u64,
    reason: String,
    #[serde(default = "timeout")]
    code: Code,
}

fn timeout() -> Code {
    Code::Timeout
}

/// Remembers that it was too slow just now.
pub(crate) fn remember(cache: &Cache, digest: &Hash, kind: Kind, code: Code, reason: &str) {
    let note = Note {
        until: now().saturating_add(REST.as_secs()),
        reason: reason.to_owned(),
        code,
    };
    if let Ok(content) = serde_json::to_vec(&note) {
        cache.put(cache::Kind::Description, &key(digest, kind), &content);
    }
}

/// Why it is not asked now, and when it will be; nothing if it may be asked.
pub(crate) fn reason(cache: &Cache, digest: &Hash, kind: Kind) -> Option<(Code, String)> {
    let content = cache.get(cache::Kind::Description, &key(digest, kind))?;
    let note: Note = serde_json::from_slice(&content).ok()?;
    Some((note.code, shown(note, kind, now())?))
}

fn shown(note: Note, kind: Kind, now: u64) -> Option<String> {
    let left = note.until.checked_sub(now).filter(|left| *left > 0)?;
    // Further away than any note was ever made: the clock was set back.
    if left > REST.as_secs() {
        return None;
    }
    let minutes = left.div_ceil(60);
    let again = match kind {
        Kind::Compile(_) => {
            format!("it is tried again in {minutes} min, or at once with another limit")
        }
        Kind::Describe => {
            format!("it is asked again in {minutes} min, or at once by `mimir doctor`")
        }
    };
    Some(format!("{}; {again}", note.reason))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn key(digest: &Hash, kind: Kind) -> String {
    let what = match kind {
        Kind::Compile(limits) => {
            let (time, memory) = (limits.time.as_millis(), limits.memory);
            format!("uncompiled-{time}-{memory}")
        }
        Kind::Describe => "slow".to_owned(),
    };
    format!("{digest}-{}-{what}", crate::describe::FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_good_for_a_while() {
        let note = || Note {
            until: 10_000,
            reason: "too slow".to_owned(),
            code: timeout(),
        };
        let shown = |now| shown(note(), Kind::Describe, now);
        let said = shown(10_000 - 61).unwrap();
        assert!(
            said.starts_with("too slow; ") && said.contains("in 2 min"),
            "{said}"
        );
        assert_eq!(shown(10_000), None, "it is over");
        assert_eq!(shown(20_000), None);
        assert_eq!(
            shown(10_000 - REST.as_secs() - 1),
            None,
            "the clock was set back"
        );
    }
}
