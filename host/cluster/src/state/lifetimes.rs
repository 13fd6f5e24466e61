//! The end of short lifetimes that the servers have forgotten.
//!
//! After a crash, a NATS server can have values again whose lifetime had ended before, and then keeps them for good: a node
//! or a running call that ended long ago would seem to live. So each process notes when it has first seen a revision of a
//! short-lived value, and removes a revision that is still there after several lifetimes. The revision makes sure that a
//! value which was renewed meanwhile stays. Only the process's own monotonic clock counts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mimir_core::shared_state::{StateArea, StateKey, StateRevision};
use parking_lot::Mutex;

use crate::node::lease::LEASE_LIFETIME;
use crate::node::view::{id_of, node_keys};

/// Longest lifetime that counts as short.
const LIFETIME_MAX: Duration = Duration::from_secs(60);

/// Number of lifetimes after which a value that was not renewed is removed. The servers remove it after one.
const LIFETIMES: u32 = 3;

/// Number of noted values from which those that are no longer read are forgotten.
const NOTED_MAX: usize = 1024;

/// The short-lived values that this process has seen.
#[derive(Default)]
pub(super) struct SeenLifetimes(Mutex<HashMap<(StateArea, StateKey), SeenRevision>>);

/// A revision of a value, and the time at which it was first seen.
struct SeenRevision {
    revision: StateRevision,
    at: Instant,
}

impl SeenLifetimes {
    /// Notes a value. `lifetime` is the header with which it was stored. Returns true if its lifetime has ended.
    pub(super) fn has_ended(
        &self,
        area: StateArea,
        key: &StateKey,
        revision: StateRevision,
        lifetime: Option<&str>,
    ) -> bool {
        self.has_ended_at(area, key, revision, lifetime, Instant::now())
    }

    fn has_ended_at(
        &self,
        area: StateArea,
        key: &StateKey,
        revision: StateRevision,
        lifetime: Option<&str>,
        now: Instant,
    ) -> bool {
        let Some(lifetime) = short_lifetime(area, key, lifetime) else {
            return false;
        };
        let mut seen = self.0.lock();
        if seen.len() >= NOTED_MAX {
            let is_recent = |noted: &SeenRevision| {
                now.saturating_duration_since(noted.at) < LIFETIME_MAX * LIFETIMES * 2
            };
            seen.retain(|_, noted| is_recent(noted));
        }
        let new = SeenRevision { revision, at: now };
        let noted = seen.entry((area, key.clone())).or_insert(new);
        if noted.revision != revision {
            *noted = SeenRevision { revision, at: now };
        }
        now.saturating_duration_since(noted.at) > lifetime * LIFETIMES
    }

    /// Forgets a value, because it was removed.
    pub(super) fn forget(&self, area: StateArea, key: &StateKey) {
        self.0.lock().remove(&(area, key.clone()));
    }
}

/// Returns the lifetime of a value if it is short. That of a node's entry does not depend on who has stored it.
fn short_lifetime(area: StateArea, key: &StateKey, header: Option<&str>) -> Option<Duration> {
    if area == StateArea::Nodes && id_of(key, &node_keys()).is_some() {
        return Some(LEASE_LIFETIME);
    }
    let seconds = header?.strip_suffix('s')?.parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|lifetime| *lifetime <= LIFETIME_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lifetime_ends_if_a_revision_stays() {
        let seen = SeenLifetimes::default();
        let key = StateKey::new(["running", "plugin", "1"]);
        let start = Instant::now();
        let ended = |revision, lifetime, second| {
            let now = start + Duration::from_secs(second);
            seen.has_ended_at(StateArea::Limits, &key, revision, lifetime, now)
        };
        assert!(!ended(1, Some("5s"), 0));
        assert!(!ended(1, Some("5s"), 15));
        assert!(ended(1, Some("5s"), 16));
        assert!(!ended(2, Some("5s"), 17), "it was renewed");
        assert!(!ended(2, Some("5s"), 32));
        assert!(ended(2, Some("5s"), 33));
        seen.forget(StateArea::Limits, &key);
        assert!(!ended(2, Some("5s"), 34));
        for lifetime in [None, Some("61s"), Some("never"), Some("s")] {
            assert!(!ended(3, lifetime, 100));
            assert!(!ended(3, lifetime, 100_000), "{lifetime:?}");
        }
    }

    #[test]
    fn short_lifetime_of_a_node_is_its_lease() {
        let lifetime = |key: &[&str], header| {
            let key = StateKey::new(key.iter().copied());
            short_lifetime(StateArea::Nodes, &key, header)
        };
        assert_eq!(lifetime(&["node", "a"], None), Some(LEASE_LIFETIME));
        assert_eq!(lifetime(&["node", "a"], Some("60s")), Some(LEASE_LIFETIME));
        assert_eq!(lifetime(&["writer", "a"], None), None);
    }

    #[test]
    fn seen_lifetimes_do_not_grow_without_limit() {
        let seen = SeenLifetimes::default();
        let start = Instant::now();
        for number in 0..5000_u64 {
            let key = StateKey::new(["node", &number.to_string()]);
            let now = start + Duration::from_secs(number);
            seen.has_ended_at(StateArea::Nodes, &key, 1, None, now);
        }
        let noted = seen.0.lock().len();
        assert!(noted <= NOTED_MAX, "{noted}");
    }
}
