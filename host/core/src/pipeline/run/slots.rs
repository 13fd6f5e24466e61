//! Limits the number of concurrent calls, and the calls per minute of each tool: in this process, or with shared state in
//! all processes of the deployment (`shared_limits.rs`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::pipeline::Approved;
use crate::policy::{CallerBudget, Policy};
use crate::shared_state::SharedStateHandle;
use crate::tool::Tool;

use super::shared_limits::{self, SharedSlot};

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

    /// Returns the time until a call fits, if one does not fit now.
    fn retry_after(&self, max: u32, now: Instant) -> Option<Duration> {
        let blocking = self.0.len().checked_sub((max as usize).max(1))?;
        let at = self.0.get(blocking)?;
        Some((*at + MINUTE).saturating_duration_since(now))
    }
}

/// Returns true if a call at this time no longer counts.
fn is_over(at: Instant, now: Instant) -> bool {
    now.duration_since(at) >= MINUTE
}

/// The window of limits of calls per minute.
const MINUTE: Duration = Duration::from_secs(60);

/// Creates the error of a call that exceeds a limit of calls per minute.
fn rate_error(message: String, retry_after: Option<Duration>) -> ToolError {
    let error = ToolError::new(ToolErrorCode::LimitExceeded, message);
    match retry_after {
        Some(wait) => {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            error.with_details(json!({"retryAfterMs": wait_ms.max(1)}))
        }
        None => error,
    }
}

/// Number of users above which those without recent calls are forgotten.
const MAX_IDLE_CALLERS: usize = 1024;

/// The slots of one call. Dropping the guard releases them.
pub(super) struct CallSlotGuard {
    _plugin: QueueSlot,
    _shared: Option<SharedSlot>,
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
    /// each other. With `state`, a limit that the settings set holds for all processes together.
    pub(super) async fn take(
        &self,
        call: &Approved,
        state: Option<&SharedStateHandle>,
    ) -> Result<CallSlotGuard, ToolError> {
        let plugin = self.plugin_queue(call);
        let max = call.limits().concurrent_per_plugin;
        let is_nested = call.checked.parent.is_some();
        let busy = || {
            ToolError::new(
                ToolErrorCode::LimitExceeded,
                "too many calls are running to start a nested call; try again later",
            )
        };
        let closed = || ToolError::new(ToolErrorCode::Internal, "the slots are closed");
        let slot = if is_nested {
            plugin.try_take(max).ok_or_else(busy)?
        } else {
            plugin.take(max).await.ok_or_else(closed)?
        };
        let shared = match (state, call.limits().concurrent_setting) {
            (Some(state), Some(max)) => {
                let location = call.tool().origin.location.as_str();
                let taken =
                    shared_limits::take_slot(state, call.clock(), location, max, !is_nested);
                // On the heap: few calls have this limit.
                Some(Box::pin(taken).await?.ok_or_else(busy)?)
            }
            _ => None,
        };
        let total = Arc::clone(&self.total);
        let total = if is_nested {
            total.try_acquire_owned().map_err(|_| busy())?
        } else {
            total.acquire_owned().await.map_err(|_| closed())?
        };
        Ok(CallSlotGuard {
            _plugin: slot,
            _shared: shared,
            _total: total,
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
    /// share the limit of an operation. Fails if one of the two has reached its limit of calls per minute. With `state`,
    /// calls of all processes count.
    pub(super) async fn count_call(
        &self,
        call: &Approved,
        policy: &Policy,
        now: Instant,
        state: Option<&SharedStateHandle>,
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
        let over_limit = |tool: &Tool, max: u32, retry_after| {
            let (name, key) = (tool.name(), policy.calls_per_minute_key(tool, max));
            let message = format!(
                "`{name}` has reached its limit of {max} calls per minute ({key}); try again later"
            );
            rate_error(message, retry_after)
        };
        if let Some(state) = state {
            for (tool, max) in &limited {
                let name = tool.name().as_str();
                if !shared_limits::count_call(&**state, "tool", name, *max).await? {
                    return Err(over_limit(tool, *max, None));
                }
            }
            return Ok(());
        }
        let mut recent_calls = self.recent_calls.lock();
        for (tool, max) in &limited {
            let recent = recent_calls.entry(tool.name().to_string()).or_default();
            if !recent.fits(*max, now) {
                return Err(over_limit(tool, *max, recent.retry_after(*max, now)));
            }
        }
        for (tool, _) in &limited {
            let recent = recent_calls.entry(tool.name().to_string()).or_default();
            recent.0.push_back(now);
        }
        Ok(())
    }

    /// Counts the call for its user. Fails if the user has reached the limit of calls per minute. A call without a user
    /// counts for the session. With `state`, calls of all processes count.
    pub(super) async fn count_caller(
        &self,
        call: &Approved,
        budget: &CallerBudget,
        now: Instant,
        state: Option<&SharedStateHandle>,
    ) -> Result<(), ToolError> {
        let CallerBudget {
            calls_per_minute,
            key,
        } = budget;
        let caller = call.checked.caller.as_deref();
        let caller = caller.unwrap_or(&call.checked.context.session_id);
        let over_limit = |retry_after| {
            let message = format!(
                "you have reached the limit of {calls_per_minute} calls per minute of your role ({key}); try again later"
            );
            rate_error(message, retry_after)
        };
        if let Some(state) = state {
            let counted =
                shared_limits::count_call(&**state, "caller", caller, *calls_per_minute).await?;
            return if counted {
                Ok(())
            } else {
                Err(over_limit(None))
            };
        }
        let mut recent_callers = self.recent_callers.lock();
        if recent_callers.len() > MAX_IDLE_CALLERS {
            recent_callers.retain(|_, recent| recent.0.back().is_some_and(|at| !is_over(*at, now)));
        }
        let recent = recent_callers.entry(caller.to_owned()).or_default();
        if recent.try_add(*calls_per_minute, now) {
            return Ok(());
        }
        Err(over_limit(recent.retry_after(*calls_per_minute, now)))
    }
}
