//! Limits that hold for all processes of a deployment together.
//!
//! | Limit | Holds for |
//! |---|---|
//! | `limits.callsPerMinute`, `roles.NAME.budget.callsPerMinute` | all processes |
//! | `limits.concurrent`, if it is set | all processes |
//! | the default of `limits.concurrent`, and the total of concurrent calls | each process |
//! | time, fuel, memory and output | each call |
//!
//! A running call has a lease on a slot in the shared state. If its process ends or is cut off, the lease ends after
//! [`LEASE_LIFETIME`]. A process that was paused for longer goes on without its lease, so for the rest of its call one more
//! call may run.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::error::ToolError;
use crate::pipeline::session::unavailable;
use crate::shared_state::{
    SharedState, SharedStateError, SharedStateHandle, StateArea, StateKey, StateRevision,
};

/// Lifetime of the lease of a slot. Lifetimes have a resolution of one second.
const LEASE_LIFETIME: Duration = Duration::from_secs(5);
/// Interval at which leases are renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_millis(1500);
/// Range of the delay between attempts to get a slot.
const DELAY_MIN: Duration = Duration::from_millis(20);
const DELAY_MAX: Duration = Duration::from_millis(320);

/// The window of limits of calls per minute.
const MINUTE: Duration = Duration::from_secs(60);

/// Counts a call of this key. Returns false if there were `max` calls within the last minute.
pub(super) async fn count_call(
    state: &dyn SharedState,
    kind: &str,
    name: &str,
    max: u32,
) -> Result<bool, ToolError> {
    let key = StateKey::new(["calls", kind, name]);
    let counted = state.count_within(&key, max, MINUTE).await;
    counted.map_err(|error| unavailable("the call was not made", &error))
}

/// The slot of a running call. Dropping it releases the slot.
pub(super) struct SharedSlot {
    /// Closed when the call has ended.
    _running: oneshot::Sender<()>,
}

/// A place for one of the concurrent calls of a plugin.
struct SlotLease {
    state: SharedStateHandle,
    key: StateKey,
    revision: StateRevision,
}

/// Takes one of `max` slots of a plugin. With `may_wait`, waits for a free slot; returns `None` else.
pub(super) async fn take_slot(
    state: &SharedStateHandle,
    clock: &Arc<dyn Clock>,
    plugin: &str,
    max: usize,
    may_wait: bool,
) -> Result<Option<SharedSlot>, ToolError> {
    let failed = |error| unavailable("the call was not made", &error);
    let prefix = StateKey::new(["running", plugin]);
    let key = |number: usize| StateKey::new(["running", plugin, &number.to_string()]);
    // If few calls run, most slots are free.
    let any = RandomState::new().hash_one(0_u8) as usize % max.max(1);
    if let Some(lease) = SlotLease::create(state, key(any)).await.map_err(failed)? {
        return Ok(Some(lease.renew_while_running(Arc::clone(clock))));
    }
    let mut delay = DELAY_MIN;
    loop {
        let taken = state.list(StateArea::Limits, Some(&prefix)).await;
        let taken = taken.map_err(failed)?;
        let is_free = |key: &StateKey| taken.iter().all(|entry| entry.key != *key);
        for key in (0..max).map(key).filter(is_free) {
            if let Some(lease) = SlotLease::create(state, key).await.map_err(failed)? {
                return Ok(Some(lease.renew_while_running(Arc::clone(clock))));
            }
        }
        if !may_wait {
            return Ok(None);
        }
        clock.sleep_until(clock.instant() + delay).await;
        delay = (delay * 2).min(DELAY_MAX);
    }
}

impl SlotLease {
    /// Creates the lease of a slot. `None` if the slot is taken.
    async fn create(
        state: &SharedStateHandle,
        key: StateKey,
    ) -> Result<Option<Self>, SharedStateError> {
        let created = state.create(StateArea::Limits, &key, Vec::new(), Some(LEASE_LIFETIME));
        match created.await {
            Ok(revision) => Ok(Some(Self {
                state: Arc::clone(state),
                key,
                revision,
            })),
            Err(SharedStateError::Conflict) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews the lease until the returned slot is dropped, and then removes it.
    fn renew_while_running(self, clock: Arc<dyn Clock>) -> SharedSlot {
        let (running, ended) = oneshot::channel();
        tokio::spawn(self.renew_until(ended, clock));
        SharedSlot { _running: running }
    }

    async fn renew_until(mut self, mut ended: oneshot::Receiver<()>, clock: Arc<dyn Clock>) {
        loop {
            let sleep = clock.sleep_until(clock.instant() + RENEWAL_INTERVAL);
            tokio::select! {
                _ = &mut ended => break,
                () = sleep => {}
            }
            let renewed = self.state.update(
                StateArea::Limits,
                &self.key,
                Vec::new(),
                self.revision,
                Some(LEASE_LIFETIME),
            );
            match renewed.await {
                Ok(revision) => self.revision = revision,
                // Another call may have the slot now.
                Err(SharedStateError::Conflict) => return,
                Err(error) => tracing::warn!(%error, "the slot of a call could not be renewed"),
            }
        }
        let removed = self
            .state
            .remove(StateArea::Limits, &self.key, Some(self.revision));
        match removed.await {
            Ok(()) | Err(SharedStateError::Conflict) => {}
            Err(error) => {
                tracing::warn!(%error, "the slot of a call stays taken for a few seconds")
            }
        }
    }
}
