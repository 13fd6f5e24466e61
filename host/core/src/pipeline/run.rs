//! Fourth stage: waits for a free slot, and lets the backend run the call until its deadline.

use std::pin::pin;
use std::sync::Arc;

use crate::backend::RawResult;
use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::tool::Tool;

use super::approve::Approved;

mod slots;

pub(super) use slots::CallSlots;

/// A call that ran or was refused.
pub struct CompletedRun {
    pub(super) raw: RawResult,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) limits: Limits,
}

impl CompletedRun {
    /// Creates the result of a call that never reached its tool.
    pub(super) fn refused(error: ToolError) -> Self {
        Self {
            raw: RawResult::failed(error),
            tool: None,
            limits: Limits::default(),
        }
    }
}

/// Runs the call in its slot, until its deadline. Fails only if the tool has reached its limit of calls per minute; all
/// other failures become the result.
pub(super) async fn run(slots: &CallSlots, call: Approved) -> Result<CompletedRun, ToolError> {
    let limits = *call.limits();
    let tool = Arc::clone(call.tool());
    slots.count_call(&call, call.clock().instant())?;
    let deadline = call.deadline().clone();
    let result = {
        let work = pin!(async {
            let _slots = slots.take(&call).await?;
            Ok(tool.backend.run(call).await)
        });
        deadline.run_until(work).await
    };
    let raw = match result {
        Ok(Ok(raw)) => raw,
        Ok(Err(error)) => RawResult::failed(error),
        Err(_) => RawResult::failed(ToolError::new(
            ToolErrorCode::Timeout,
            format!(
                "`{}` was stopped after {} ms (limits.timeMs)",
                tool.name(),
                limits.wall.as_millis()
            ),
        )),
    };
    Ok(CompletedRun {
        raw: check_output_schema(raw, &tool),
        tool: Some(tool),
        limits,
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
