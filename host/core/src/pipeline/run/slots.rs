//! Limits the number of concurrent calls, and the calls per minute of each tool.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::pipeline::Approved;

mod queue;

use queue::{PluginQueue, QueueSlot};

/// The slots for concurrent calls, and the times of recent calls.
pub(in crate::pipeline) struct CallSlots {
    total: Arc<Semaphore>,
    assessments: Semaphore,
    plugins: Mutex<HashMap<String, Arc<PluginQueue>>>,
    recent_calls: Mutex<HashMap<String, VecDeque<Instant>>>,
}

/// The slots of one call. Dropping the guard releases them.
pub(super) struct CallSlotGuard {
    _plugin: QueueSlot,
    _total: OwnedSemaphorePermit,
}

impl Default for CallSlots {
    fn default() -> Self {
        Self {
            total: Arc::new(Semaphore::new(Limits::CONCURRENT_TOTAL)),
            assessments: Semaphore::new(Limits::CONCURRENT_TOTAL),
            plugins: Mutex::default(),
            recent_calls: Mutex::default(),
        }
    }
}

impl CallSlots {
    /// Waits for a slot. A nested call does not wait, but fails without a free slot: otherwise two calls could wait for
    /// each other.
    pub(super) async fn take(&self, call: &Approved) -> Result<CallSlotGuard, ToolError> {
        let plugin = self.plugin_queue(call);
        let max = call.limits().concurrent_per_plugin;
        if call.checked.parent.is_some() {
            let busy = || {
                ToolError::new(
                    ToolErrorCode::LimitExceeded,
                    "too many calls are running to start a nested call; try again later",
                )
            };
            let total = Arc::clone(&self.total).try_acquire_owned();
            return Ok(CallSlotGuard {
                _plugin: plugin.try_take(max).ok_or_else(busy)?,
                _total: total.map_err(|_| busy())?,
            });
        }
        let closed = || ToolError::new(ToolErrorCode::Internal, "the slots are closed");
        let slot = plugin.take(max).await.ok_or_else(closed)?;
        let total = Arc::clone(&self.total).acquire_owned().await;
        Ok(CallSlotGuard {
            _plugin: slot,
            _total: total.map_err(|_| closed())?,
        })
    }

    /// Waits for a slot for an assessment, which needs as much memory as a call. `None` if the semaphore is closed,
    /// which never happens; the assessment would then run without a slot.
    pub(in crate::pipeline) async fn take_assessment_slot(&self) -> Option<SemaphorePermit<'_>> {
        self.assessments.acquire().await.ok()
    }

    fn plugin_queue(&self, call: &Approved) -> Arc<PluginQueue> {
        let location = call.tool().origin.location.as_str();
        let mut plugins = self.plugins.lock();
        if let Some(queue) = plugins.get(location) {
            return Arc::clone(queue);
        }
        let queue = Arc::<PluginQueue>::default();
        plugins.insert(location.to_owned(), Arc::clone(&queue));
        queue
    }

    /// Counts the call. Fails if the tool has reached its limit of calls per minute.
    pub(super) fn count_call(&self, call: &Approved, now: Instant) -> Result<(), ToolError> {
        let Some(max) = call.limits().calls_per_minute else {
            return Ok(());
        };
        let name = call.tool().name();
        let mut recent_calls = self.recent_calls.lock();
        let times = recent_calls.entry(name.to_string()).or_default();
        while times
            .front()
            .is_some_and(|at| now.duration_since(*at) >= Duration::from_secs(60))
        {
            times.pop_front();
        }
        if times.len() >= max as usize {
            return Err(ToolError::new(
                ToolErrorCode::LimitExceeded,
                format!(
                    "`{name}` has reached its limit of {max} calls per minute (limits.callsPerMinute); try again later"
                ),
            ));
        }
        times.push_back(now);
        Ok(())
    }
}
