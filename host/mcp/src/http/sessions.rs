//! The sessions of the era that has them: whose each is, whether anything goes on in it, and which one ends when there
//! is no room for another.
//!
//! Never here: what is said in a session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::server::Gone;

use super::Principal;

/// All sessions, by their ids.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<Stay>>>);

/// One session.
struct Stay {
    owner: Principal,
    /// Says that it has ended: the calls in it stop, whoever reads along.
    gone: Gone,
    visits: Mutex<Visits>,
}

/// What goes on in a session.
struct Visits {
    /// Requests that are not answered, and streams that are open.
    open: usize,
    /// When there was one last.
    last: Instant,
}

/// A request in a session, until nobody holds it any more: neither what answers it nor the stream of the answer.
pub(crate) struct Visit(Arc<Stay>);

impl Sessions {
    /// A session has begun, with this request.
    pub(super) fn begun(&self, id: String, owner: Principal) -> Visit {
        let stay = Arc::new(Stay {
            owner,
            gone: Gone::default(),
            visits: Mutex::new(Visits {
                open: 0,
                last: Instant::now(),
            }),
        });
        let visit = Visit::of(Arc::clone(&stay));
        lock(&self.0).insert(id, stay);
        visit
    }

    /// A request in this session, if it is this one's.
    pub(super) fn visit(&self, id: &str, by: &Principal) -> Option<Visit> {
        let all = lock(&self.0);
        let stay = all.get(id).filter(|stay| stay.owner == *by)?;
        // While nobody can choose it as the one to end.
        Some(Visit::of(Arc::clone(stay)))
    }

    /// A session has ended: its calls are stopped.
    pub(super) fn ended(&self, id: &str) {
        let ended = lock(&self.0).remove(id);
        if let Some(stay) = ended {
            stay.gone.say();
        }
    }

    /// Forgets those that are not there any more.
    pub(super) fn keep(&self, there: impl Fn(&str) -> bool) {
        lock(&self.0).retain(|id, _| there(id));
    }

    /// Takes out a session in which nothing goes on, if there is one. Whoever has most sessions loses one, so that
    /// nobody can lock others out; of theirs it is the one in which nothing was said for longest.
    pub(super) fn take_idle(&self) -> Option<String> {
        let mut all = lock(&self.0);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for stay in all.values() {
            *counts.entry(&stay.owner.id).or_default() += 1;
        }
        let now = Instant::now();
        let idle = all.iter().filter_map(|(id, stay)| {
            let since = stay.idle_since()?;
            let many = counts.get(stay.owner.id.as_str()).copied();
            Some((many, now.saturating_duration_since(since), id))
        });
        let id = idle.max_by_key(|(many, idle, _)| (*many, *idle))?.2.clone();
        all.remove(&id);
        Some(id)
    }
}

impl Stay {
    /// Since when nothing goes on in it.
    fn idle_since(&self) -> Option<Instant> {
        let visits = lock(&self.visits);
        (visits.open == 0).then_some(visits.last)
    }
}

impl Visit {
    fn of(stay: Arc<Stay>) -> Self {
        lock(&stay.visits).open += 1;
        Self(stay)
    }

    /// Completes when its session has ended.
    pub(crate) async fn over(&self) {
        self.0.gone.said().await;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut visits = lock(&self.0.visits);
        visits.open = visits.open.saturating_sub(1);
        visits.last = Instant::now();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Principal {
        Principal {
            id: name.to_owned(),
            user: None,
        }
    }

    #[test]
    fn the_idle_one_of_whoever_has_most_makes_room() {
        let sessions = Sessions::default();
        sessions.begun("oldest of all".into(), who("other"));
        for id in ["one", "two", "three"] {
            sessions.begun(id.into(), who("many"));
        }
        let one = sessions.visit("one", &who("many"));
        assert!(one.is_some() && sessions.visit("two", &who("other")).is_none());
        assert_eq!(sessions.take_idle().as_deref(), Some("two"));
        drop(one);
        // What was in use until now is not the one that is idle longest.
        assert_eq!(sessions.take_idle().as_deref(), Some("three"));
        let busy = ["one", "oldest of all"].map(|id| {
            let who = who(if id == "one" { "many" } else { "other" });
            sessions.visit(id, &who)
        });
        assert_eq!(sessions.take_idle(), None, "something goes on in each");
        drop(busy);
        assert!(sessions.take_idle().is_some() && sessions.take_idle().is_some());
        assert_eq!(sessions.take_idle(), None, "there is none");
    }
}
