//! Fourth stage: the backend runs the call within its slots and its deadline.

use std::pin::pin;
use std::sync::Arc;

use crate::backend::Raw;
use crate::error::{Code, ToolError};
use crate::limits::Limits;
use crate::tool::Tool;

use super::approve::Approved;

mod slots;

pub(super) use slots::Slots;

/// A call that ran, or was refused before.
pub struct Ran {
    pub(super) raw: Raw,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) limits: Limits,
}

impl Ran {
    /// Creates the result of a call that never reached its tool.
    pub(super) fn refused(error: ToolError) -> Self {
        Self {
            raw: Raw::failed(error),
            tool: None,
            limits: Limits::default(),
        }
    }
}

pub(super) async fn run(slots: &Slots, call: Approved) -> Result<Ran, ToolError> {
    let limits = *call.limits();
    let tool = Arc::clone(call.tool());
    slots.count(&call, call.clock().instant())?;
    let deadline = call.deadline().clone();
    let ended = {
        let work = pin!(async {
            let _slots = slots.take(&call).await?;
            Ok(tool.backend.run(call).await)
        });
        deadline.bound(work).await
    };
    let raw = match ended {
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
        tool: Some(tool),
        limits,
    })
}

/// Checks a result against the tool's output schema.
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
        // The tool is at fault, except if the limit of the check was exceeded: then the result may have been valid.
        if error.code != Code::LimitExceeded {
            error.code = Code::ExecutionError;
        }
        raw.result = Err(error);
    }
    raw
}
