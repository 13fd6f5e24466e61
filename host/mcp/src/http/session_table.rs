//! Sessions of the older protocol generation: their owners, their activity, and the choice of the session to end when
//! the limit is reached.
//!
//! Out of scope: the messages of a session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::server::CloseSignal;

use super::Principal;

/// All sessions by id.
#[derive(Default)]
pub(super) struct SessionTable(Mutex<HashMap<String, Arc<SessionEntry>>>);

/// A session.
struct SessionEntry {
    owner: Principal,
    /// Signals the end of the session, which stops its calls.
    close_signal: CloseSignal,
    activity: Mutex<SessionActivity>,
}

/// Activity of a session.
struct SessionActivity {
    /// Number of unanswered requests and open streams.
    open: usize,
    /// Time of the last activity.
    last: Instant,
}

/// Keeps a session in use until the lease is dropped. Held by the handler of a request and by the response body.
pub(crate) struct SessionLease(Arc<SessionEntry>);

impl SessionTable {
    /// Adds a session, in use by the request that created it.
    pub(super) fn insert(&self, id: String, owner: Principal) -> SessionLease {
        let entry = Arc::new(SessionEntry::new(owner));
        let lease = SessionLease::new(Arc::clone(&entry));
        lock(&self.0).insert(id, entry);
        lease
    }

    /// Marks a session as in use. Returns `None` if it does not exist or belongs to another principal.
    pub(super) fn lease(&self, id: &str, principal: &Principal) -> Option<SessionLease> {
        let all = lock(&self.0);
        let entry = all.get(id).filter(|entry| entry.owner == *principal)?;
        // Created while the table is locked, so that the session cannot be chosen to be ended.
        Some(SessionLease::new(Arc::clone(entry)))
    }

    /// Marks a session as in use that this server continues for another one, and adds it if necessary. Returns `None` if
    /// it belongs to another principal.
    pub(super) fn lease_or_insert(&self, id: &str, principal: &Principal) -> Option<SessionLease> {
        let mut all = lock(&self.0);
        let entry = all.entry(id.to_owned()).or_insert_with(|| {
            let owner = principal.clone();
            Arc::new(SessionEntry::new(owner))
        });
        (entry.owner == *principal).then(|| SessionLease::new(Arc::clone(entry)))
    }

    /// Returns true if the session exists.
    pub(super) fn contains(&self, id: &str) -> bool {
        lock(&self.0).contains_key(id)
    }

    /// Removes a session that has ended, and stops its calls.
    pub(super) fn remove(&self, id: &str) {
        let ended = lock(&self.0).remove(id);
        if let Some(entry) = ended {
            entry.close_signal.close();
        }
    }

    /// Removes sessions that no longer exist. A session in use may be about to exist again.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        lock(&self.0).retain(|id, entry| exists(id) || entry.idle_since().is_none());
    }

    /// Removes and returns the longest idle session of the principal with the most sessions, so that no principal can
    /// lock out others. Returns `None` if no session is idle.
    pub(super) fn take_idle(&self) -> Option<String> {
        let mut sessions = lock(&self.0);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for entry in sessions.values() {
            *counts.entry(&entry.owner.id).or_default() += 1;
        }
        let now = Instant::now();
        let idle = sessions.iter().filter_map(|(id, entry)| {
            let since = entry.idle_since()?;
            let count = counts.get(entry.owner.id.as_str()).copied();
            Some((count, now.saturating_duration_since(since), id))
        });
        let id = idle
            .max_by_key(|(count, idle, _)| (*count, *idle))?
            .2
            .clone();
        sessions.remove(&id);
        Some(id)
    }
}

impl SessionEntry {
    fn new(owner: Principal) -> Self {
        Self {
            owner,
            close_signal: CloseSignal::default(),
            activity: Mutex::new(SessionActivity {
                open: 0,
                last: Instant::now(),
            }),
        }
    }

    /// Returns the time since which the session has been idle, or `None` if it is in use.
    fn idle_since(&self) -> Option<Instant> {
        let activity = lock(&self.activity);
        (activity.open == 0).then_some(activity.last)
    }
}

impl SessionLease {
    fn new(entry: Arc<SessionEntry>) -> Self {
        lock(&entry.activity).open += 1;
        Self(entry)
    }

    /// Completes when the session has ended.
    pub(crate) async fn session_closed(&self) {
        self.0.close_signal.closed().await;
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        let mut activity = lock(&self.0.activity);
        activity.open = activity.open.saturating_sub(1);
        activity.last = Instant::now();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(name: &str) -> Principal {
        Principal {
            id: name.to_owned(),
            user: None,
            role: None,
        }
    }

    #[test]
    fn sessions_end_the_idlest_of_the_largest_owner() {
        let sessions = SessionTable::default();
        sessions.insert("oldest of all".into(), principal("other"));
        for id in ["one", "two", "three"] {
            sessions.insert(id.into(), principal("many"));
        }
        let one = sessions.lease("one", &principal("many"));
        assert!(one.is_some() && sessions.lease("two", &principal("other")).is_none());
        let other_role = Principal {
            role: Some("viewer".to_owned()),
            ..principal("many")
        };
        assert!(sessions.lease("two", &other_role).is_none());
        assert_eq!(sessions.take_idle().as_deref(), Some("two"));
        drop(one);
        // A session that was in use until now is not the one that has been idle longest.
        assert_eq!(sessions.take_idle().as_deref(), Some("three"));
        let busy = ["one", "oldest of all"].map(|id| {
            let principal = principal(if id == "one" { "many" } else { "other" });
            sessions.lease(id, &principal)
        });
        assert_eq!(sessions.take_idle(), None, "every session is in use");
        drop(busy);
        assert!(sessions.take_idle().is_some() && sessions.take_idle().is_some());
        assert_eq!(sessions.take_idle(), None, "no session is idle");
    }
}
