//! Limits the number of concurrent calls, and the calls per minute of each tool.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::pipeline::Approved;
use crate::policy::{CallerBudget, Policy};

mod queue;

use queue::{PluginQueue, QueueSlot};

/// The slots for concurrent calls, and the times of recent calls.
pub(in crate::pipeline) struct CallSlots {
    total: Arc<Semaphore>,
    assessments: Semaphore,
    plugins: Mutex<HashMap<String, Arc<PluginQueue>>>,
    recent_calls: Mutex<HashMap<String, RecentCalls>>,
    /// By user.
    recent_callers: Mutex<HashMap<String, RecentCalls>>,
}

/// The times of the calls of the last minute.
#[derive(Default)]
struct RecentCalls(VecDeque<Instant>);

impl RecentCalls {
    /// Adds a call. Returns false if there were `max` calls in the last minute.
    fn try_add(&mut self, max: u32, now: Instant) -> bool {
        let fits = self.fits(max, now);
        if fits {
            self.0.push_back(now);
        }
        fits
    }

    /// Returns true if there were fewer than `max` calls in the last minute.
    fn fits(&mut self, max: u32, now: Instant) -> bool {
        while self.0.front().is_some_and(|at| is_over(*at, now)) {
            self.0.pop_front();
        }
        self.0.len() < max as usize
    }
}

/// Returns true if a call at this time no longer counts.
fn is_over(at: Instant, now: Instant) -> bool {
    now.duration_since(at) >= Duration::from_secs(60)
}

/// Number of users above which those without recent calls are forgotten.
const MAX_IDLE_CALLERS: usize = 1024;

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
            recent_callers: Mutex::default(),
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

    /// Counts the call for the tool, and if it is a compact form, for the tool with the same effect: calls of both forms
    /// share the limit of an operation. Fails if one of the two has reached its limit of calls per minute.
    pub(super) fn count_call(
        &self,
        call: &Approved,
        policy: &Policy,
        now: Instant,
    ) -> Result<(), ToolError> {
        // The limits of the call are the tightest of both forms, and of the tools whose effects it has.
        let of_call = call.limits().calls_per_minute;
        let forms = match &call.checked.equivalent_tool {
            None => vec![(call.tool(), of_call)],
            Some(operation) => {
                let of_compact = policy.limits(call.tool()).calls_per_minute;
                vec![(operation, of_call), (call.tool(), of_compact)]
            }
        };
        let limited = forms.into_iter();
        let limited: Vec<_> = limited
            .filter_map(|(tool, max)| Some((tool, max?)))
            .collect();
        let mut recent_calls = self.recent_calls.lock();
        for (tool, max) in &limited {
            let name = tool.name();
            let recent = recent_calls.entry(name.to_string()).or_default();
            if !recent.fits(*max, now) {
                let key = policy.calls_per_minute_key(tool, *max);
                return Err(ToolError::new(
                    ToolErrorCode::LimitExceeded,
                    format!(
                        "`{name}` has reached its limit of {max} calls per minute ({key}); try again later"
                    ),
                ));
            }
        }
        for (tool, _) in &limited {
            let recent = recent_calls.entry(tool.name().to_string()).or_default();
            recent.0.push_back(now);
        }
        Ok(())
    }

    /// Counts the call for its user. Fails if the user has reached the limit of calls per minute. A call without a user
    /// counts for the session.
    pub(super) fn count_caller(
        &self,
        call: &Approved,
        budget: &CallerBudget,
        now: Instant,
    ) -> Result<(), ToolError> {
        let CallerBudget {
            calls_per_minute,
            key,
        } = budget;
        let caller = call.checked.caller.as_deref();
        let caller = caller.unwrap_or(&call.checked.context.session_id);
        let mut recent_callers = self.recent_callers.lock();
        if recent_callers.len() > MAX_IDLE_CALLERS {
            recent_callers.retain(|_, recent| recent.0.back().is_some_and(|at| !is_over(*at, now)));
        }
        let recent = recent_callers.entry(caller.to_owned()).or_default();
        if recent.try_add(*calls_per_minute, now) {
            return Ok(());
        }
        Err(ToolError::new(
            ToolErrorCode::LimitExceeded,
            format!(
                "you have reached the limit of {calls_per_minute} calls per minute of your role ({key}); try again later"
            ),
        ))
    }
}
