//! Counts of events within a time window, in one value for each key.
//!
//! A process counts all events that wait for the same key in one change, so that many callers of one process cause
//! one write at a time. Windows are measured by the clocks of the processes, which must agree (NTP).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::shared_state::{SharedStateError, StateArea, StateKey};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{BucketValue, StateAccess, StateUpdate, deadline};
use crate::clock::now_ms;

/// Number of slices of a window. Events of a slice are counted together, and until the end of the slice is older than
/// the window. A window of fewer milliseconds is exact.
const SLICES_MAX: u64 = 2000;

/// Longest pause before a change is tried again that another process was faster with.
const CONFLICT_PAUSE_MAX_MS: u64 = 8;

/// The events of this process that wait to be counted, by key.
#[derive(Default)]
pub(super) struct EventCounters {
    waiting: Mutex<HashMap<StateKey, Arc<Mutex<WaitingEvents>>>>,
}

#[derive(Default)]
struct WaitingEvents {
    events: Vec<WaitingEvent>,
    /// True while a task counts events of this key.
    is_counting: bool,
}

struct WaitingEvent {
    max: u32,
    answer: oneshot::Sender<Result<bool, SharedStateError>>,
}

/// The stored value: slices with events, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CountedEvents {
    /// Start of a slice in milliseconds since 1970, and the number of its events.
    slices: Vec<(u64, u32)>,
}

impl CountedEvents {
    /// Counts an event unless `max` are within the window.
    fn count(&mut self, now: u64, window: u64, max: u32) -> bool {
        let width = slice_width(window);
        // The clock of another process may be ahead.
        let now = self.slices.last().map_or(now, |(start, _)| now.max(*start));
        self.slices.retain(|(start, _)| {
            start.saturating_add(width).saturating_add(window) > now.saturating_add(1)
        });
        let total: u64 = self.slices.iter().map(|(_, count)| u64::from(*count)).sum();
        if total >= u64::from(max) {
            return false;
        }
        let start = now - now % width;
        match self.slices.last_mut() {
            Some((last, count)) if *last >= start => *count = count.saturating_add(1),
            _ => self.slices.push((start, 1)),
        }
        true
    }
}

fn slice_width(window: u64) -> u64 {
    window.div_ceil(SLICES_MAX).max(1)
}

impl StateAccess {
    pub(super) async fn count_within(
        self: Arc<Self>,
        key: &StateKey,
        max: u32,
        window: Duration,
    ) -> Result<bool, SharedStateError> {
        if max == 0 {
            return Ok(false);
        }
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        let parts = ["count", &window.to_string(), key.as_str()].map(str::to_owned);
        let key = StateKey::new(parts.iter().map(String::as_str));
        let (answer, answered) = oneshot::channel();
        let waiting = {
            let mut all = self.counters.waiting.lock();
            let waiting = all.entry(key.clone()).or_default().clone();
            let mut events = waiting.lock();
            events.events.push(WaitingEvent { max, answer });
            let is_counting = std::mem::replace(&mut events.is_counting, true);
            drop(events);
            (!is_counting).then_some(waiting)
        };
        if let Some(waiting) = waiting {
            tokio::spawn(self.clone().count_waiting(key, waiting, window));
        }
        let answered = answered.await;
        answered.unwrap_or_else(|_| Err(self.unreachable("the connection was closed")))
    }

    /// Counts the events of a key until none waits.
    async fn count_waiting(
        self: Arc<Self>,
        key: StateKey,
        waiting: Arc<Mutex<WaitingEvents>>,
        window: u64,
    ) {
        loop {
            let events = {
                let mut all = self.counters.waiting.lock();
                let mut waiting = waiting.lock();
                if waiting.events.is_empty() {
                    waiting.is_counting = false;
                    all.remove(&key);
                    return;
                }
                std::mem::take(&mut waiting.events)
            };
            match self.count_events(&key, &events, window).await {
                Ok(counted) => {
                    for (event, counted) in events.into_iter().zip(counted) {
                        let _ = event.answer.send(Ok(counted));
                    }
                }
                Err(error) => {
                    for event in events {
                        let _ = event.answer.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Counts events in one change, and returns for each whether it was counted.
    async fn count_events(
        &self,
        key: &StateKey,
        events: &[WaitingEvent],
        window: u64,
    ) -> Result<Vec<bool>, SharedStateError> {
        let area = StateArea::Limits;
        let deadline = deadline();
        let mut attempts = 0;
        loop {
            let stored = self.read(area, key, deadline).await?;
            let revision = stored.as_ref().map_or(0, |stored| stored.revision);
            let mut counted_events = stored_events(stored);
            let now = now_ms();
            let counted: Vec<bool> = events
                .iter()
                .map(|event| counted_events.count(now, window, event.max))
                .collect();
            if !counted.contains(&true) {
                return Ok(counted);
            }
            let value = serde_json::to_vec(&counted_events);
            let value = value.map_err(|error| self.unreachable(error))?;
            let lifetime = Duration::from_millis(
                window
                    .saturating_add(slice_width(window))
                    .saturating_add(1000),
            );
            let change = StateUpdate::value(value, Some(revision), Some(lifetime));
            match self.write(area, key, &change, deadline).await {
                Ok(_) => return Ok(counted),
                Err(SharedStateError::Conflict) if Instant::now() < deadline => {
                    attempts += 1;
                    let pause = now_ms().wrapping_mul(0x9e37_79b9)
                        % (1 + attempts).min(CONFLICT_PAUSE_MAX_MS);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                Err(SharedStateError::Conflict) => {
                    return Err(self.unreachable("too many processes count the same events"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn stored_events(stored: Option<BucketValue>) -> CountedEvents {
    match stored {
        // A value that is not valid counts as none: it was not written by this program.
        Some(stored) if !stored.is_removed => {
            serde_json::from_slice(&stored.value).unwrap_or_default()
        }
        _ => CountedEvents::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_allows_the_maximum_in_each_window() {
        let mut events = CountedEvents::default();
        for now in [1000, 1000, 1500] {
            assert!(events.count(now, 1000, 3));
        }
        assert!(!events.count(1999, 1000, 3));
        assert!(events.count(2000, 1000, 3), "two are a window old");
        assert!(events.count(2000, 1000, 3));
        assert!(!events.count(2499, 1000, 3));
        assert!(events.count(2500, 1000, 3));
    }

    #[test]
    fn count_of_long_windows_is_bounded_in_size_and_never_above_the_maximum() {
        let mut events = CountedEvents::default();
        let hour = 3_600_000;
        for now in 0..hour {
            if now % 10 == 0 {
                assert!(events.count(now, hour, 360_000));
            }
        }
        assert!(events.slices.len() <= 2001, "{}", events.slices.len());
        assert!(!events.count(hour, hour, 360_000));
        assert!(events.count(hour + slice_width(hour) + 1, hour, 360_000));
    }

    #[test]
    fn count_accepts_clocks_that_go_back() {
        let mut events = CountedEvents::default();
        assert!(events.count(5000, 1000, 2));
        assert!(events.count(4000, 1000, 2));
        assert!(!events.count(4000, 1000, 2));
    }
}
