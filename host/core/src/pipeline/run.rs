//! Fourth stage: waits for a free slot, and lets the backend run the call until its deadline.

use std::pin::pin;
use std::sync::Arc;

use crate::backend::RawResult;
use crate::call_monitor::{CallCancelled, until_cancelled};
use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::tool::Tool;

use super::approve::Approved;
use super::call_recorder::CallRecorder;
use super::result_cache::CacheLookup;
use super::{StageContext, interrupts};

mod attempts;
mod shared_limits;
mod slots;

use attempts::CallAttempts;
pub(super) use slots::CallSlots;

/// A call that ran or was refused.
pub struct CompletedRun {
    pub(super) raw: RawResult,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) limits: Limits,
    /// Number of attempts, if the call was retried.
    pub(super) attempts: Option<u32>,
    /// True if the result is that of an earlier call.
    pub(super) cached: bool,
}

impl CompletedRun {
    /// Creates the result of a call that never reached its tool.
    pub(super) fn refused(error: ToolError) -> Self {
        Self {
            raw: RawResult::failed(error),
            tool: None,
            limits: Limits::default(),
            attempts: None,
            cached: false,
        }
    }
}

/// Runs the call in its slot, with its retries, until its deadline, or takes a stored result. Fails only if the tool or
/// the caller has reached a limit of calls per minute; all other failures become the result.
pub(super) async fn run(
    stage: &StageContext<'_>,
    call: Approved,
    recorder: &CallRecorder,
) -> Result<CompletedRun, ToolError> {
    let limits = *call.limits();
    let tool = Arc::clone(call.tool());
    let equivalent = call.checked.equivalent_tool.clone();
    let judged = call.checked.judged_tool();
    let lookup = match stage.snapshot.policy.cache(judged, &tool) {
        // On the heap: few tools have this setting.
        Some(settings) => Box::pin(CacheLookup::new(stage, &call, settings)).await,
        None => None,
    };
    if let Some(raw) = lookup.as_ref().and_then(|lookup| lookup.find(&call)) {
        return Ok(CompletedRun {
            raw,
            tool: Some(tool),
            limits,
            attempts: None,
            cached: true,
        });
    }
    let state = stage.shared_state();
    let now = call.clock().instant();
    if let Some(budget) = stage.snapshot.policy.caller_budget() {
        let counted = stage.slots.count_caller(&call, &budget, now, state);
        counted.await?;
    }
    let counted = stage
        .slots
        .count_call(&call, &stage.snapshot.policy, now, state);
    counted.await?;
    let _change = stage.results.watch_changes(&tool);
    let deadline = call.deadline().clone();
    let arguments = Arc::clone(&call.checked.arguments);
    let stored = lookup.map(|lookup| (lookup, call.for_next_attempt()));
    let mut attempts = CallAttempts::new(stage, recorder, &call);
    let result = {
        let work = pin!(attempts.run(call));
        let equivalent = equivalent.as_deref();
        let work = pin!(interrupts::until_revoked(
            stage, &tool, equivalent, recorder, work
        ));
        let register = || recorder.register(&arguments);
        let work = pin!(until_cancelled(register, work));
        deadline.run_until(work).await
    };
    let raw = match result {
        Ok(Ok(Ok(Ok(raw)))) => raw,
        Ok(Ok(Ok(Err(error)) | Err(error))) => RawResult::failed(error),
        Ok(Err(CallCancelled)) => RawResult::failed(recorder.cancelled_error()),
        Err(_) => RawResult::failed(ToolError::new(
            ToolErrorCode::Timeout,
            format!(
                "`{}` was stopped after {} ms ({})",
                tool.name(),
                limits.wall.as_millis(),
                limits.wall_setting.key()
            ),
        )),
    };
    let raw = check_output_schema(raw, &tool);
    if let Some((lookup, call)) = stored {
        Box::pin(lookup.store(&raw, &call)).await;
    }
    Ok(CompletedRun {
        raw,
        tool: Some(tool),
        limits,
        attempts: Some(attempts.count).filter(|count| *count > 1),
        cached: false,
    })
}

/// Checks a result against the tool's output schema. A result that does not match becomes an error.
fn check_output_schema(mut raw: RawResult, tool: &Tool) -> RawResult {
    let Some(schema) = &tool.definition.output_schema else {
        return raw;
    };
    let Ok(output) = &raw.result else {
        return raw;
    };
    let error = match &output.structured {
        Some(value) => schema
            .validate("the structured result of the tool", value)
            .err(),
        None => Some(ToolError::new(
            ToolErrorCode::ExecutionError,
            "the tool returned no structured result, but its output schema requires one",
        )),
    };
    if let Some(mut error) = error {
        // The tool is at fault, unless the check exceeded its own limit: then the result may be valid.
        if error.code != ToolErrorCode::LimitExceeded {
            error.code = ToolErrorCode::ExecutionError;
        }
        raw.result = Err(error);
    }
    raw
}
