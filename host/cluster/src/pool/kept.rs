//! Calls of this process that become background calls: their worker keeps them if this process is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mimir_core::{RequestId, ToolError};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::WorkerPool;
use crate::frames::{ControlMessage, KeepOrder};

/// Maximum time until a worker has stored a background call. A call may still wait for a worker.
const KEEP_TIMEOUT: Duration = Duration::from_secs(3);

/// Time after which the order is sent again, and the maximum number of orders to one worker.
const ORDER_INTERVAL: Duration = Duration::from_millis(500);
const MAX_ORDERS: u32 = 20;

/// The way of a call to a background call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeepPhase {
    /// The call ends with this process.
    NotOrdered,
    /// A worker is to keep the call.
    Ordered(KeepOrder),
    /// A worker keeps the call.
    Kept(KeepOrder),
    /// The worker has refused the order, because the background call has ended or belongs to another owner.
    Refused,
    /// The call has ended.
    Ended,
}

impl KeepPhase {
    fn order(&self) -> Option<&KeepOrder> {
        match self {
            KeepPhase::Ordered(order) | KeepPhase::Kept(order) => Some(order),
            _ => None,
        }
    }
}

/// A call that may become a background call.
pub(super) struct CallKeeper {
    phase: watch::Sender<KeepPhase>,
    /// True if dropping the call does not cancel it.
    is_released: AtomicBool,
}

impl CallKeeper {
    /// Returns true if the worker goes on with the call when this process drops it.
    pub(super) fn is_left_to_worker(&self) -> bool {
        self.is_released.load(Ordering::Acquire)
            && matches!(*self.phase.borrow(), KeepPhase::Kept(_))
    }
}

/// The calls of this process, by the request id with which it has begun them.
#[derive(Default)]
pub(super) struct KeeperTable(Mutex<HashMap<String, Arc<CallKeeper>>>);

/// A call in the table. Dropping it removes the call.
pub(super) struct KeeperRegistration<'a> {
    table: &'a KeeperTable,
    request_id: String,
    pub(super) keeper: Arc<CallKeeper>,
}

impl KeeperTable {
    pub(super) fn register(&self, request_id: &RequestId) -> KeeperRegistration<'_> {
        let keeper = Arc::new(CallKeeper {
            phase: watch::Sender::new(KeepPhase::NotOrdered),
            is_released: AtomicBool::new(false),
        });
        let request_id = request_id.as_str().to_owned();
        let mut calls = self.0.lock();
        calls.insert(request_id.clone(), Arc::clone(&keeper));
        drop(calls);
        KeeperRegistration {
            table: self,
            request_id,
            keeper,
        }
    }

    fn get(&self, request_id: &RequestId) -> Option<Arc<CallKeeper>> {
        self.0.lock().get(request_id.as_str()).cloned()
    }
}

impl Drop for KeeperRegistration<'_> {
    fn drop(&mut self) {
        self.table.0.lock().remove(&self.request_id);
        self.keeper.phase.send_if_modified(|phase| {
            let is_waiting = !matches!(phase, KeepPhase::Kept(_));
            if is_waiting {
                *phase = KeepPhase::Ended;
            }
            is_waiting
        });
    }
}

impl WorkerPool {
    /// Makes a call of this process a background call. Fails if no worker keeps it within some seconds, or if it is one
    /// already.
    pub(crate) async fn keep(
        &self,
        request_id: &RequestId,
        order: KeepOrder,
    ) -> Result<(), ToolError> {
        let not_kept = |text: &str| Err(ToolError::unavailable(text));
        let Some(keeper) = self.0.parts.keepers.get(request_id) else {
            return not_kept("the call has not been sent to a worker, or has ended");
        };
        let is_ordered = keeper.phase.send_if_modified(|phase| {
            let is_new = *phase == KeepPhase::NotOrdered;
            if is_new {
                *phase = KeepPhase::Ordered(order);
            }
            is_new
        });
        if !is_ordered {
            return not_kept("the call is a background call already");
        }
        let mut phase = keeper.phase.subscribe();
        let decided = phase.wait_for(|phase| !matches!(phase, KeepPhase::Ordered(_)));
        match timeout(KEEP_TIMEOUT, decided).await {
            Ok(Ok(phase)) if matches!(*phase, KeepPhase::Kept(_)) => Ok(()),
            Ok(_) => not_kept("the call has ended"),
            // The order goes on, so that a worker may still keep the call.
            Err(_) => not_kept("no worker has stored the call in time"),
        }
    }

    /// Leaves a background call to its worker: dropping it no longer cancels it.
    pub(crate) fn release(&self, request_id: &RequestId) {
        if let Some(keeper) = self.0.parts.keepers.get(request_id) {
            keeper.is_released.store(true, Ordering::Release);
        }
    }
}

/// The order to one worker to keep a call.
pub(super) struct WorkerOrder<'a> {
    keeper: &'a CallKeeper,
    phase: watch::Receiver<KeepPhase>,
    /// The reply subject of the call.
    call: String,
    recorded: u64,
    is_answered: bool,
    sent: u32,
    next: Instant,
}

impl<'a> WorkerOrder<'a> {
    pub(super) fn new(keeper: &'a CallKeeper, call: &str, recorded: u64) -> Self {
        Self {
            keeper,
            phase: keeper.phase.subscribe(),
            call: call.to_owned(),
            recorded,
            is_answered: false,
            sent: 0,
            next: Instant::now(),
        }
    }

    /// Returns the next message to the worker, once the call is to become a background call. Never completes otherwise.
    pub(super) async fn next_message(&mut self) -> ControlMessage {
        if self.is_answered || self.sent >= MAX_ORDERS {
            return std::future::pending().await;
        }
        let ordered = self.phase.wait_for(|phase| phase.order().is_some()).await;
        let order = ordered.ok().and_then(|phase| phase.order().cloned());
        let Some(order) = order else {
            return std::future::pending().await;
        };
        sleep_until(self.next).await;
        (self.sent, self.next) = (self.sent + 1, Instant::now() + ORDER_INTERVAL);
        ControlMessage::Keep {
            call: self.call.clone(),
            order,
            recorded: self.recorded,
        }
    }

    /// Applies the answer of the worker.
    pub(super) fn apply_answer(&mut self, stored: bool) {
        self.is_answered = true;
        self.keeper.phase.send_modify(|phase| {
            if let Some(order) = phase.order().cloned() {
                *phase = match stored {
                    true => KeepPhase::Kept(order),
                    false => KeepPhase::Refused,
                };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn order() -> KeepOrder {
        KeepOrder {
            id: "id".to_owned(),
            owner: "owner".to_owned(),
            tool: "tool".to_owned(),
            created_ms: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn orders_are_sent_until_the_worker_answers() {
        let table = KeeperTable::default();
        let call = table.register(&RequestId::new(SystemTime::now()));
        let mut sent = WorkerOrder::new(&call.keeper, "reply", 7);
        let silent = timeout(Duration::from_secs(60), sent.next_message()).await;
        assert!(silent.is_err(), "nothing was ordered");
        call.keeper.phase.send_replace(KeepPhase::Ordered(order()));
        for _ in 0..2 {
            let message = sent.next_message().await;
            assert!(matches!(message, ControlMessage::Keep { recorded: 7, .. }));
        }
        assert!(!call.keeper.is_left_to_worker());
        call.keeper.is_released.store(true, Ordering::Release);
        assert!(!call.keeper.is_left_to_worker(), "no worker keeps it");
        sent.apply_answer(true);
        assert!(call.keeper.is_left_to_worker());
        let answered = timeout(Duration::from_secs(60), sent.next_message()).await;
        assert!(answered.is_err());
        // The next worker gets the order, too.
        let mut next = WorkerOrder::new(&call.keeper, "other", 9);
        let message = next.next_message().await;
        assert!(matches!(message, ControlMessage::Keep { recorded: 9, .. }));
        next.apply_answer(false);
        assert!(!call.keeper.is_left_to_worker());
    }

    #[test]
    fn calls_leave_the_table_with_their_end() {
        let table = KeeperTable::default();
        let id = RequestId::new(SystemTime::now());
        let call = table.register(&id);
        let keeper = table.get(&id).unwrap();
        drop(call);
        assert!(table.get(&id).is_none());
        assert_eq!(*keeper.phase.borrow(), KeepPhase::Ended);
    }
}
