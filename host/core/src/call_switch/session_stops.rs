//! Orders to refuse the calls of single sessions, in the memory of the process that runs them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::backend::BoxFuture;
use crate::call_monitor::LiveCallEvent;
use crate::text;

use super::{CallSwitch, StopNotice};

/// The sessions of a pipeline whose calls are refused. Consoles know sessions by their shown names, so orders name those.
///
/// In a cluster, orders hold at all processes of the workspace: see [`Self::share`].
#[derive(Default)]
pub struct SessionStops {
    /// False while no session is stopped, so that a call costs no more than an atomic load.
    has_orders: AtomicBool,
    /// True if the orders are those of all processes of a cluster.
    is_shared: AtomicBool,
    orders: Mutex<HashMap<String, SessionOrder>>,
    /// Number of changes so far.
    version: watch::Sender<u64>,
    changed: Notify,
}

struct SessionOrder {
    notice: StopNotice,
    /// True if the background commands of the session were killed.
    is_enforced: bool,
    /// The change that the other processes do not know yet.
    unshared: Option<UnsharedKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnsharedKind {
    Given,
    Withdrawn,
}

/// A change of an order that the other processes of a cluster do not know yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsharedStop {
    /// The order was given here.
    Given(StopNotice),
    /// The order was withdrawn here. It holds until the others know.
    Withdrawn(StopNotice),
}

impl SessionStops {
    /// Maximum number of stopped sessions of a pipeline.
    pub const MAX: usize = 200;

    /// Refuses the calls of the session that the order names. Returns false if too many sessions are stopped already, or
    /// if the order is one for all calls.
    pub fn stop(&self, mut notice: StopNotice) -> bool {
        let Some(session) = notice.session.clone() else {
            return false;
        };
        notice.unshared = None;
        let mut orders = self.orders.lock();
        // Not the oldest order is dropped instead: its agent would work again.
        if orders.len() >= Self::MAX && !orders.contains_key(&session) {
            return false;
        }
        let order = SessionOrder {
            notice,
            is_enforced: false,
            unshared: self.is_shared().then_some(UnsharedKind::Given),
        };
        orders.insert(session, order);
        self.has_orders.store(true, Ordering::Release);
        drop(orders);
        self.report_change();
        true
    }

    /// Allows the calls of a session again: at once, or once the other processes of the cluster know. Returns false if they
    /// were allowed already.
    pub fn start(&self, session: &str) -> bool {
        let session = shown_session(session);
        let mut orders = self.orders.lock();
        let was_stopped = if self.is_shared() {
            orders.get_mut(&session).is_some_and(|order| {
                order.unshared = Some(UnsharedKind::Withdrawn);
                order.notice.unshared = None;
                true
            })
        } else {
            orders.remove(&session).is_some()
        };
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

    /// Discards the order for a session that this process does not hold any more, unless another one may continue it.
    pub(crate) fn discard_session(&self, session: &str) {
        if !self.is_shared() {
            self.end_session(session);
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
        *self.version.borrow()
    }

    /// Returns a receiver of the number of changes. It is closed when the pipeline was dropped.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
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

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    fn report_change(&self) {
        self.version.send_modify(|version| *version += 1);
        self.changed.notify_waiters();
    }
}

/// The orders of a cluster. One task shares the changes that are made here, and applies those of other processes.
impl SessionStops {
    /// Makes the orders those of all processes of a cluster. Call it before the first order. From now on, each change is
    /// listed in [`Self::unshared`] until [`Self::mark_shared`], and an order that was withdrawn holds until then.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Returns the changes that the other processes do not know yet.
    pub fn unshared(&self) -> Vec<UnsharedStop> {
        let orders = self.orders.lock();
        let unshared = orders.values().filter_map(|order| {
            let kind = order.unshared?;
            let notice = StopNotice {
                unshared: None,
                ..order.notice.clone()
            };
            Some(match kind {
                UnsharedKind::Given => UnsharedStop::Given(notice),
                UnsharedKind::Withdrawn => UnsharedStop::Withdrawn(notice),
            })
        });
        unshared.collect()
    }

    /// Notes that the other processes know a change, unless the order has changed again.
    pub fn mark_shared(&self, change: &UnsharedStop) {
        let mut orders = self.orders.lock();
        let Some(order) = find_unshared(&mut orders, change) else {
            return;
        };
        match change {
            UnsharedStop::Given(_) => {
                order.unshared = None;
                if order.notice.unshared.take().is_none() {
                    return;
                }
            }
            UnsharedStop::Withdrawn(notice) => {
                notice
                    .session
                    .as_ref()
                    .map(|session| orders.remove(session));
                self.has_orders.store(!orders.is_empty(), Ordering::Release);
            }
        }
        drop(orders);
        self.report_change();
    }

    /// Notes why a change cannot be shared at present, for people.
    pub fn mark_unshared(&self, change: &UnsharedStop, why: &str) {
        let text = match change {
            UnsharedStop::Given(_) => {
                format!("other servers may not know the order yet: {why}")
            }
            UnsharedStop::Withdrawn(_) => {
                format!("the order is not withdrawn yet: {why}")
            }
        };
        let text = Some(text::visible(&text));
        let mut orders = self.orders.lock();
        let Some(order) = find_unshared(&mut orders, change) else {
            return;
        };
        if order.notice.unshared == text {
            return;
        }
        order.notice.unshared = text;
        drop(orders);
        self.report_change();
    }

    /// Applies the orders that all processes know: all of them. Changes that are not shared yet stay. More than
    /// [`Self::MAX`] are accepted, because each of them was accepted elsewhere.
    pub fn apply_shared(&self, notices: Vec<StopNotice>) {
        let mut shared: HashMap<String, StopNotice> = notices
            .into_iter()
            .filter_map(|notice| Some((notice.session.clone()?, notice)))
            .collect();
        let mut orders = self.orders.lock();
        let mut has_changed = false;
        orders.retain(|session, order| {
            let notice = shared.remove(session);
            if order.unshared.is_some() {
                return true;
            }
            has_changed |= notice.as_ref() != Some(&order.notice);
            let is_known = notice.is_some();
            if let Some(notice) = notice {
                order.is_enforced &= notice.at_ms == order.notice.at_ms;
                order.notice = notice;
            }
            is_known
        });
        has_changed |= !shared.is_empty();
        orders.extend(shared.into_iter().map(|(session, notice)| {
            let order = SessionOrder {
                notice,
                is_enforced: false,
                unshared: None,
            };
            (session, order)
        }));
        self.has_orders.store(!orders.is_empty(), Ordering::Release);
        drop(orders);
        if has_changed {
            self.report_change();
        }
    }
}

/// Returns the order whose last change this is.
fn find_unshared<'a>(
    orders: &'a mut HashMap<String, SessionOrder>,
    change: &UnsharedStop,
) -> Option<&'a mut SessionOrder> {
    let (notice, kind) = match change {
        UnsharedStop::Given(notice) => (notice, UnsharedKind::Given),
        UnsharedStop::Withdrawn(notice) => (notice, UnsharedKind::Withdrawn),
    };
    let order = orders.get_mut(notice.session.as_ref()?)?;
    let is_last = order.unshared == Some(kind) && order.notice.is_same_order(notice);
    is_last.then_some(order)
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

    #[test]
    fn session_stops_of_a_cluster_hold_until_the_others_know_their_end() {
        let stops = SessionStops::default();
        stops.share();
        let given = notice("one", 1);
        stops.stop(given.clone());
        assert_eq!(stops.unshared(), [UnsharedStop::Given(given.clone())]);
        // The orders of the others do not contain it yet.
        stops.apply_shared(Vec::new());
        assert!(stops.stopped("one").is_some());
        stops.mark_unshared(&stops.unshared()[0], "it is\u{202e} gone");
        let unshared = stops.stopped("one").unwrap().unshared.unwrap();
        assert!(
            unshared.starts_with("other servers may not know"),
            "{unshared}"
        );
        assert!(!unshared.contains('\u{202e}'), "{unshared}");
        stops.mark_shared(&stops.unshared()[0]);
        assert!(stops.unshared().is_empty());
        assert_eq!(stops.stopped("one"), Some(given));
        assert!(stops.start("one"));
        stops.mark_unshared(&stops.unshared()[0], "it is gone");
        assert!(stops.stopped("one").unwrap().unshared.is_some());
        stops.mark_shared(&UnsharedStop::Withdrawn(notice("one", 1)));
        assert_eq!(stops.stopped("one"), None);
        assert!(!stops.start("one"));
    }

    #[test]
    fn session_stops_apply_the_orders_of_other_processes() {
        let stops = SessionStops::default();
        stops.share();
        let changes = stops.changes();
        stops.apply_shared(vec![notice("one", 1), notice("two", 2)]);
        assert_eq!(stops.take_unenforced().len(), 2);
        assert_eq!(stops.version(), 1);
        stops.apply_shared(vec![notice("one", 1), notice("two", 2)]);
        assert_eq!(stops.version(), 1, "nothing has changed");
        stops.apply_shared(vec![notice("two", 3)]);
        assert_eq!(stops.stopped("one"), None);
        assert_eq!(stops.take_unenforced(), ["two"], "the order is a new one");
        stops.discard_session("two");
        assert!(
            stops.stopped("two").is_some(),
            "another process continues it"
        );
        stops.end_session("two");
        assert_eq!(
            stops.unshared(),
            [UnsharedStop::Withdrawn(notice("two", 3))]
        );
        stops.apply_shared(Vec::new());
        assert!(stops.stopped("two").is_some(), "not yet");
        drop(stops);
        assert!(changes.has_changed().is_err());
    }

    #[test]
    fn session_stops_share_the_last_change_only() {
        let stops = SessionStops::default();
        stops.share();
        stops.stop(notice("one", 1));
        let first = stops.unshared().remove(0);
        stops.stop(notice("one", 2));
        stops.mark_shared(&first);
        let second = stops.unshared().remove(0);
        assert_eq!(second, UnsharedStop::Given(notice("one", 2)));
        stops.start("one");
        stops.mark_shared(&second);
        assert_eq!(
            stops.unshared(),
            [UnsharedStop::Withdrawn(notice("one", 2))]
        );
        stops.stop(notice("one", 3));
        stops.mark_shared(&UnsharedStop::Withdrawn(notice("one", 2)));
        assert!(stops.stopped("one").is_some(), "it was stopped again");
    }
}
