//! Collects the events of running calls of all processes, and passes them on.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use mimir_core::call_monitor::{LiveCallEvent, LiveProcess};
use mimir_core::call_switch::StopNotice;
use mimir_core::{RequestId, ToolError};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{broadcast, watch};

use super::live_call::LiveCall;

/// Maximum number of kept calls. Ended ones are dropped first.
const MAX_CALLS: usize = 2_000;

/// Number of calls that are left when some must be dropped, so that not every further call drops one.
const CALLS_LEFT: usize = 1_900;

/// Maximum size of all kept calls, in bytes.
const MAX_SIZE: usize = 64 << 20;

/// Number of batches of events that a slow reader may be behind.
const BATCHES: usize = 128;

/// Collects the events of running calls. Clones share one hub.
#[derive(Clone, Default)]
pub struct LiveCallHub(Arc<Inner>);

struct Inner {
    state: Mutex<HubState>,
    updates: broadcast::Sender<Arc<[LiveCallEvent]>>,
    /// Notified when sessions were stopped or started.
    stops: watch::Sender<()>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            updates: broadcast::channel(BATCHES).0,
            stops: watch::Sender::default(),
        }
    }
}

#[derive(Default)]
pub(super) struct HubState {
    calls: HashMap<RequestId, TrackedCall>,
    /// The ids of all calls, in the order of their arrival.
    order: VecDeque<RequestId>,
    sources: HashMap<u64, ConnectedSource>,
    next_source: u64,
    /// The sum of the sizes of all calls.
    size: usize,
    dropped: u64,
}

struct ConnectedSource {
    source: Arc<dyn LiveCallSource>,
    /// The sessions of the process whose calls are refused.
    stops: Vec<StopNotice>,
}

struct TrackedCall {
    call: LiveCall,
    /// The process that has reported the call first, and thus reports its output and end.
    source: u64,
    /// Other processes that report the call: the one that runs it for the first.
    others: Vec<u64>,
    size: usize,
}

/// A process whose calls the hub shows.
pub trait LiveCallSource: Send + Sync {
    /// Returns the process.
    fn process(&self) -> LiveProcess;

    /// Cancels a running call of the process. `by` names the person. Returns false if the process cannot be reached.
    fn cancel(&self, id: &RequestId, by: &str) -> bool;

    /// Refuses the calls of the session that the order names. Returns false if the process cannot be reached.
    fn stop_session(&self, notice: &StopNotice) -> bool;

    /// Accepts the calls of a session again. Returns false if the process cannot be reached.
    fn start_session(&self, session: &str) -> bool;
}

/// All running and recent calls, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveCallSnapshot {
    /// The calls.
    pub calls: Vec<LiveCall>,
    /// The number of calls and events that were dropped so far, because there were too many.
    pub dropped: u64,
}

/// A batch of events.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveUpdate {
    /// The next events, in order.
    Events(Arc<[LiveCallEvent]>),
    /// The reader was too slow and has missed events. Take a snapshot again.
    Missed,
}

/// The events after a snapshot.
pub struct LiveCallUpdates(broadcast::Receiver<Arc<[LiveCallEvent]>>);

impl LiveCallUpdates {
    /// Waits for the next batch. `None` when the hub is gone.
    pub async fn next(&mut self) -> Option<LiveUpdate> {
        match self.0.recv().await {
            Ok(events) => Some(LiveUpdate::Events(events)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(LiveUpdate::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl LiveCallHub {
    /// Returns all calls.
    pub fn snapshot(&self) -> LiveCallSnapshot {
        self.0.state.lock().snapshot()
    }

    /// Returns a call.
    pub fn call(&self, id: &RequestId) -> Option<LiveCall> {
        let state = self.0.state.lock();
        state.calls.get(id).map(|tracked| tracked.call.clone())
    }

    /// Returns what `map` makes of each call, oldest first, without a copy of the calls.
    pub fn map_calls<T>(&self, mut map: impl FnMut(&LiveCall) -> T) -> Vec<T> {
        let state = self.0.state.lock();
        let calls = state.order.iter().filter_map(|id| state.calls.get(id));
        calls.map(|tracked| map(&tracked.call)).collect()
    }

    /// Returns the number of calls and events that were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.0.state.lock().dropped
    }

    /// Returns all calls, and the events after that.
    pub fn snapshot_and_updates(&self) -> (LiveCallSnapshot, LiveCallUpdates) {
        let state = self.0.state.lock();
        // Under the lock, so that no event is missed or counted twice.
        let updates = LiveCallUpdates(self.0.updates.subscribe());
        (state.snapshot(), updates)
    }

    /// Returns the events from now on.
    pub fn subscribe(&self) -> LiveCallUpdates {
        LiveCallUpdates(self.0.updates.subscribe())
    }

    /// Cancels a running call. `by` names the person who cancels it. Returns when the order was sent; the end of the call
    /// arrives as an event.
    pub fn cancel(&self, id: &RequestId, by: &str) -> Result<(), ToolError> {
        let sources = self.0.state.lock().sources_of(id)?;
        // Every process that knows the call: the one that runs it for another one does not know who has asked.
        let is_sent = sources
            .iter()
            .fold(false, |is_sent, source| source.cancel(id, by) | is_sent);
        if is_sent {
            Ok(())
        } else {
            Err(ToolError::unavailable(
                "the process of the call cannot be reached; `mimir stop` stops all calls",
            ))
        }
    }

    /// Adds a process. Returns its number, for [`Self::apply`].
    pub fn add_source(&self, source: Arc<dyn LiveCallSource>) -> u64 {
        let mut state = self.0.state.lock();
        let number = state.next_source;
        state.next_source += 1;
        let stops = Vec::new();
        state
            .sources
            .insert(number, ConnectedSource { source, stops });
        number
    }

    /// Removes a process. Its running calls are lost.
    pub fn remove_source(&self, source: u64) {
        let mut state = self.0.state.lock();
        let removed = state.sources.remove(&source);
        if removed.is_some_and(|removed| !removed.stops.is_empty()) {
            self.0.stops.send_replace(());
        }
        let is_of_source =
            |tracked: &&TrackedCall| tracked.source == source && !tracked.call.is_over();
        let running = state.calls.values().filter(is_of_source);
        let lost: Vec<_> = running
            .map(|tracked| LiveCallEvent::Lost {
                id: tracked.call.id().clone(),
            })
            .collect();
        self.apply_locked(&mut state, source, lost);
    }

    /// Adds events of a process.
    pub fn apply(&self, source: u64, events: Vec<LiveCallEvent>) {
        self.apply_locked(&mut self.0.state.lock(), source, events);
    }

    /// Takes the sessions of a process whose calls are refused.
    pub fn set_stops(&self, source: u64, stops: Vec<StopNotice>) {
        let mut state = self.0.state.lock();
        if let Some(source) = state.sources.get_mut(&source)
            && source.stops != stops
        {
            source.stops = stops;
            self.0.stops.send_replace(());
        }
    }

    /// Returns a receiver that is notified when sessions were stopped or started.
    pub fn stop_changes(&self) -> watch::Receiver<()> {
        self.0.stops.subscribe()
    }

    pub(super) fn with_state<T>(&self, read: impl FnOnce(&HubState) -> T) -> T {
        read(&self.0.state.lock())
    }

    /// Counts events that a process has dropped.
    pub fn add_dropped(&self, count: u64) {
        let mut state = self.0.state.lock();
        state.dropped = state.dropped.saturating_add(count);
    }

    fn apply_locked(&self, state: &mut HubState, source: u64, mut events: Vec<LiveCallEvent>) {
        events.retain(|event| state.apply(source, event));
        state.drop_excess();
        if !events.is_empty() {
            // Fails if no reader is connected, which is not an error. Under the lock, so that batches stay in order.
            let _ = self.0.updates.send(events.into());
        }
    }
}

impl HubState {
    fn snapshot(&self) -> LiveCallSnapshot {
        let calls = self.order.iter().filter_map(|id| self.calls.get(id));
        LiveCallSnapshot {
            calls: calls.map(|tracked| tracked.call.clone()).collect(),
            dropped: self.dropped,
        }
    }

    fn sources_of(&self, id: &RequestId) -> Result<Vec<Arc<dyn LiveCallSource>>, ToolError> {
        let tracked = self.calls.get(id).ok_or_else(|| {
            let message =
                format!("the call {id} is not known here: expected the id of a running call");
            ToolError::new(mimir_core::ToolErrorCode::NotFound, message)
        })?;
        if tracked.call.is_over() {
            return Err(ToolError::unavailable(format!(
                "the call {id} has ended already"
            )));
        }
        let numbers = std::iter::once(&tracked.source).chain(&tracked.others);
        Ok(numbers
            .filter_map(|number| self.sources.get(number))
            .map(|connected| Arc::clone(&connected.source))
            .collect())
    }

    /// Returns the pipelines of a process.
    pub(super) fn sources_of_process(&self, pid: u32) -> Vec<Arc<dyn LiveCallSource>> {
        let sources = self.sources.values().map(|connected| &connected.source);
        let sources = sources.filter(|source| source.process().pid == pid);
        sources.cloned().collect()
    }

    /// Returns the calls of processes that are connected, oldest first.
    pub(super) fn calls_of_connected(&self) -> impl Iterator<Item = &LiveCall> {
        let calls = self.order.iter().filter_map(|id| self.calls.get(id));
        let connected = calls.filter(|tracked| self.sources.contains_key(&tracked.source));
        connected.map(|tracked| &tracked.call)
    }

    /// Returns the sessions whose calls are refused, with their processes.
    pub(super) fn session_stops(&self) -> impl Iterator<Item = (LiveProcess, StopNotice)> {
        self.sources.values().flat_map(|connected| {
            let process = connected.source.process();
            let stops = connected.stops.iter().cloned();
            stops.map(move |notice| (process.clone(), notice))
        })
    }

    /// Adds an event. Returns false if it is not passed on.
    fn apply(&mut self, source: u64, event: &LiveCallEvent) -> bool {
        if let LiveCallEvent::Started(started) = event {
            if let Some(known) = self.calls.get_mut(&started.id) {
                if known.source != source && !known.others.contains(&source) {
                    known.others.push(source);
                }
                return false;
            }
            let call = LiveCall::new((**started).clone());
            let size = call.size();
            self.size += size;
            self.order.push_back(started.id.clone());
            let tracked = TrackedCall {
                call,
                source,
                others: Vec::new(),
                size,
            };
            self.calls.insert(started.id.clone(), tracked);
            return true;
        }
        let Some(tracked) = self.calls.get_mut(event.id()) else {
            // A call that was dropped.
            return false;
        };
        // In a cluster, the process that runs a call for another one knows its decision and effects. Output and the end
        // come from both.
        let is_passed_on = tracked.source == source
            || matches!(
                event,
                LiveCallEvent::Decided { .. }
                    | LiveCallEvent::Edited { .. }
                    | LiveCallEvent::Effect { .. }
            );
        if is_passed_on {
            tracked.call.apply(event);
            self.size -= tracked.size;
            tracked.size = tracked.call.size();
            self.size += tracked.size;
        }
        is_passed_on
    }

    /// Drops calls until the limits are kept: first those that have ended, oldest first.
    fn drop_excess(&mut self) {
        for drops_running in [false, true] {
            if self.calls.len() <= MAX_CALLS && self.size <= MAX_SIZE {
                return;
            }
            let ids = std::mem::take(&mut self.order);
            for id in ids {
                let is_over = self
                    .calls
                    .get(&id)
                    .is_some_and(|tracked| tracked.call.is_over());
                let is_excess = self.calls.len() > CALLS_LEFT || self.size > MAX_SIZE;
                if is_excess && (is_over || drops_running) {
                    if let Some(tracked) = self.calls.remove(&id) {
                        self.size -= tracked.size;
                        self.dropped = self.dropped.saturating_add(1);
                    }
                } else {
                    self.order.push_back(id);
                }
            }
        }
    }
}
