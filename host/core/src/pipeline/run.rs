//! Fourth stage: the backend runs the call inside its slots and its time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::backend::Raw;
use crate::error::{Code, ToolError};
use crate::limits::Limits;
use crate::tool::Tool;

use super::approve::Approved;

/// A call that ran, or was refused before it could.
pub struct Ran {
    pub(super) raw: Raw,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) limits: Limits,
    pub(super) duration: Duration,
}

impl Ran {
    /// A call that never reached its tool.
    pub(super) fn refused(error: ToolError) -> Self {
        Self {
            raw: Raw::failed(error),
            tool: None,
            limits: Limits::default(),
            duration: Duration::ZERO,
        }
    }
}

/// How many calls may run at a time, and how often.
pub(super) struct Slots {
    total: Arc<Semaphore>,
    assessments: Semaphore,
    plugins: Mutex<HashMap<String, Arc<Semaphore>>>,
    minutes: Mutex<HashMap<String, VecDeque<Instant>>>,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            total: Arc::new(Semaphore::new(Limits::CONCURRENT_TOTAL)),
            assessments: Semaphore::new(Limits::CONCURRENT_TOTAL),
            plugins: Mutex::default(),
            minutes: Mutex::default(),
        }
    }
}

impl Slots {
    /// Waits for a place. A nested call takes one only if it is free: were it to wait, two calls
    /// could wait for each other.
    async fn take(&self, call: &Approved) -> Result<[OwnedSemaphorePermit; 2], ToolError> {
        let plugin = self.plugin(call);
        if call.checked.parent.is_some() {
            let busy = |_| {
                ToolError::new(
                    Code::LimitExceeded,
                    "too many calls run at a time to start a nested one",
                )
            };
            let own = plugin.try_acquire_owned().map_err(busy)?;
            let total = Arc::clone(&self.total).try_acquire_owned().map_err(busy)?;
            return Ok([own, total]);
        }
        let closed = |_| ToolError::new(Code::Internal, "the slots are closed");
        let own = plugin.acquire_owned().await.map_err(closed)?;
        let total = Arc::clone(&self.total)
            .acquire_owned()
            .await
            .map_err(closed)?;
        Ok([own, total])
    }

    /// Waits for a place to judge a call in: an assessment holds memory as a call does. The places
    /// never close; were they closed, the assessment would have to do without one.
    pub(super) async fn assess(&self) -> Option<SemaphorePermit<'_>> {
        self.assessments.acquire().await.ok()
    }

    fn plugin(&self, call: &Approved) -> Arc<Semaphore> {
        let origin = &call.tool().origin;
        let mut plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = plugins.get(origin.location.as_str()) {
            return Arc::clone(slots);
        }
        let slots = Arc::new(Semaphore::new(
            call.limits()
                .concurrent_per_plugin
                .min(Limits::CONCURRENT_TOTAL),
        ));
        plugins.insert(origin.location.clone(), Arc::clone(&slots));
        slots
    }

    /// Counts the call against the tool's calls per minute, if that is bounded.
    fn count(&self, call: &Approved, now: Instant) -> Result<(), ToolError> {
        let Some(most) = call.limits().calls_per_minute else {
            return Ok(());
        };
        let name = call.tool().name();
        let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        let times = minutes.entry(name.to_string()).or_default();
        while times
            .front()
            .is_some_and(|at| now.duration_since(*at) >= Duration::from_secs(60))
        {
            times.pop_front();
        }
        if times.len() >= most as usize {
            return Err(ToolError::new(
                Code::LimitExceeded,
                format!(
                    "`{name}` may run {most} times a minute (limits.callsPerMinute); try again later"
                ),
            ));
        }
        times.push_back(now);
        Ok(())
    }
}

pub(super) async fn run(slots: &Slots, call: Approved) -> Result<Ran, ToolError> {
    let clock = Arc::clone(call.clock());
    let limits = *call.limits();
    let tool = Arc::clone(call.tool());
    slots.count(&call, clock.instant())?;
    let deadline = call.deadline().clone();
    let start = clock.instant();
    let work = async {
        let _slots = slots.take(&call).await?;
        Ok(tool.backend.run(call).await)
    };
    let raw = match deadline.bound(work).await {
        Ok(Ok(raw)) => raw,
        Ok(Err(error)) => Raw::failed(error),
        Err(_) => Raw::failed(ToolError::new(
            Code::Timeout,
            format!(
                "`{}` was stopped after {} ms (limits.timeMs)",
                tool.name(),
                limits.wall.as_millis()
            ),
        )),
    };
    Ok(Ran {
        raw: promised(raw, &tool),
        duration: clock.instant() - start,
        tool: Some(tool),
        limits,
    })
}

/// Holds a tool to its output schema.
fn promised(mut raw: Raw, tool: &Tool) -> Raw {
    let Some(schema) = &tool.definition.output_schema else {
        return raw;
    };
    let Ok(output) = &raw.result else {
        return raw;
    };
    let broken = match &output.structured {
        Some(value) => schema
            .validate("the structured result of the tool", value)
            .err(),
        None => Some(ToolError::new(
            Code::ExecutionError,
            "the tool has an output schema and returned no structured result",
        )),
    };
    if let Some(mut error) = broken {
        error.code = Code::ExecutionError;
        raw.result = Err(error);
    }
    raw
}
