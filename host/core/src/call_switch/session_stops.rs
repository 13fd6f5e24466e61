//! Orders to refuse the calls of single sessions, in the memory of the process that runs them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backend::BoxFuture;
use crate::call_monitor::LiveCallEvent;
use crate::text;

use super::{CallSwitch, StopNotice};

/// The sessions of a pipeline whose calls are refused. Consoles know sessions by their shown names, so orders name those.
#[derive(Default)]
pub struct SessionStops {
    /// False while no session is stopped, so that a call costs no more than an atomic load.
    has_orders: AtomicBool,
    orders: Mutex<HashMap<String, SessionOrder>>,
    /// Number of changes so far.
    version: AtomicU64,
    changed: Notify,
}

struct SessionOrder {
    notice: StopNotice,
    /// True if the background commands of the session were killed.
    is_enforced: bool,
}

impl SessionStops {
    /// Maximum number of stopped sessions of a pipeline.
    pub const MAX: usize = 200;

    /// Refuses the calls of the session that the order names. Returns false if too many sessions are stopped already, or
    /// if the order is one for all calls.
    pub fn stop(&self, notice: StopNotice) -> bool {
        let Some(session) = notice.session.clone() else {
            return false;
        };
        let mut orders = self.orders.lock();
        // Not the oldest order is dropped instead: its agent would work again.
        if orders.len() >= Self::MAX && !orders.contains_key(&session) {
            return false;
        }
        let order = SessionOrder {
            notice,
            is_enforced: false,
        };
        orders.insert(session, order);
        self.has_orders.store(true, Ordering::Release);
        drop(orders);
        self.report_change();
        true
    }

    /// Allows the calls of a session again. Returns false if they were allowed already.
    pub fn start(&self, session: &str) -> bool {
        let mut orders = self.orders.lock();
        let was_stopped = orders.remove(&*shown_session(session)).is_some();
        self.has_orders.store(!orders.is_empty(), Ordering::Release);
        drop(orders);
        if was_stopped {
            self.report_change();
        }
        was_stopped
    }

    /// Discards the order for a session that has ended.
    pub(crate) fn end_session(&self, session: &str) {
        if self.has_orders.load(Ordering::Acquire) {
            self.start(session);
        }
    }

    /// Returns the order to refuse the calls of this session, if there is one.
    pub fn stopped(&self, session: &str) -> Option<StopNotice> {
        if !self.has_orders.load(Ordering::Acquire) {
            return None;
        }
        let orders = self.orders.lock();
        let order = orders.get(&*shown_session(session));
        order.map(|order| order.notice.clone())
    }

    /// Returns all orders, oldest first.
    pub fn notices(&self) -> Vec<StopNotice> {
        let orders = self.orders.lock();
        let mut notices: Vec<_> = orders.values().map(|order| order.notice.clone()).collect();
        notices.sort_by(|one, other| (one.at_ms, &one.session).cmp(&(other.at_ms, &other.session)));
        notices
    }

    /// Returns the number of changes so far.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the sessions whose background commands were not killed yet, and counts them as killed.
    pub(crate) fn take_unenforced(&self) -> Vec<String> {
        if !self.has_orders.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut orders = self.orders.lock();
        let new = orders.iter_mut().filter(|(_, order)| !order.is_enforced);
        let taken = new.map(|(session, order)| {
            order.is_enforced = true;
            session.clone()
        });
        taken.collect()
    }

    fn report_change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }
}

/// Returns the name of a session as consoles show it.
pub(crate) fn shown_session(session: &str) -> String {
    let visible = text::visible(session);
    text::prefix_bytes(&visible, LiveCallEvent::MAX_TEXT).to_owned()
}

/// The switch of one session: the order to refuse all calls, or that of the session.
pub(crate) struct SessionSwitch<'a> {
    pub(crate) all: Option<&'a dyn CallSwitch>,
    pub(crate) sessions: &'a SessionStops,
    pub(crate) session: &'a str,
}

impl CallSwitch for SessionSwitch<'_> {
    fn stopped(&self) -> Option<StopNotice> {
        let all = self.all.and_then(CallSwitch::stopped);
        all.or_else(|| self.sessions.stopped(self.session))
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        // Created at once, so that it reports changes from now on.
        let session = self.sessions.changed.notified();
        match self.all {
            None => Box::pin(session),
            Some(all) => {
                let all = all.changed();
                Box::pin(async move {
                    tokio::select! {
                        () = all => {}
                        () = session => {}
                    }
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn notice(session: &str, at_ms: u64) -> StopNotice {
        let notice = StopNotice::new("ada".into(), SystemTime::UNIX_EPOCH, None);
        StopNotice {
            at_ms,
            ..notice.for_session(session)
        }
    }

    #[test]
    fn session_stops_refuse_one_session_until_it_is_started() {
        let stops = SessionStops::default();
        assert_eq!(stops.stopped("one"), None);
        stops.stop(notice("one", 1));
        assert_eq!(stops.stopped("one").unwrap().by, "ada");
        assert_eq!(stops.stopped("two"), None);
        assert_eq!(stops.take_unenforced(), ["one"]);
        assert!(stops.take_unenforced().is_empty());
        assert!(stops.start("one") && !stops.start("one"));
        assert_eq!(stops.stopped("one"), None);
        assert_eq!(stops.version(), 2);
    }

    #[test]
    fn session_stops_know_sessions_by_their_shown_names() {
        let stops = SessionStops::default();
        let raw = "a\u{202e}b\n".to_owned() + &"x".repeat(5_000);
        let shown = shown_session(&raw);
        assert_ne!(raw, shown);
        stops.stop(notice(&shown, 1));
        assert!(stops.stopped(&raw).is_some());
        // The shown name of the shown name is the same.
        assert!(stops.stopped(&shown).is_some());
        stops.end_session(&raw);
        assert!(stops.notices().is_empty());
    }

    #[test]
    fn session_stops_are_bounded() {
        let stops = SessionStops::default();
        let stop = |number: u64| stops.stop(notice(&format!("session {number}"), number));
        assert!((0..200).all(stop));
        assert!(!stop(200), "the first one would work again");
        assert!(stop(7), "it is stopped already");
        assert_eq!(stops.notices().len(), SessionStops::MAX);
    }

    #[test]
    fn session_stops_ignore_orders_for_all_calls() {
        let stops = SessionStops::default();
        assert!(!stops.stop(StopNotice::new("ada".into(), SystemTime::now(), None)));
        assert!(stops.notices().is_empty());
    }
}
