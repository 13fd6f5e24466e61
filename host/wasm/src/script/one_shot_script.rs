//! Scripts outside of any call, for inspecting code before it becomes a tool.

use mimir_core::{Limits, ToolError, ToolErrorCode};
use serde_json::json;

use super::script_protocol::{ScriptResult, ScriptTurn};
use super::{ScriptEngine, invalid_turn_error, random_seed, script_failure};
use crate::fs::GuardedFs;
use crate::store_state::StoreOptions;
use crate::{call, trap_errors};

impl ScriptEngine {
    /// Runs a script outside of any call, within `limits`, and returns its result. The script has access to nothing; a
    /// script that waits for a request fails.
    pub async fn run_isolated(&self, script: &str, limits: Limits) -> Result<String, ToolError> {
        let ready = self.ready().await?;
        let mut store = ready.store(StoreOptions::isolated(GuardedFs::empty(), limits))?;
        let work = async {
            let engine = ready.instantiate(&mut store).await?;
            let input = json!({
                "args": null,
                "context": { "config": null, "conversation": null },
                "seed": random_seed(),
                "program": false,
                "most": limits.output_bytes,
            });
            engine.start(&mut store, script, &input.to_string()).await
        };
        let text = match tokio::time::timeout(limits.wall, work).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(trap_errors::trap_error(&error, store.data())),
            Err(_) => {
                let seconds = limits.wall.as_secs();
                let message = format!("the code was stopped after {seconds} s");
                return Err(ToolError::new(ToolErrorCode::Timeout, message));
            }
        };
        match serde_json::from_str(&text).map_err(|error| invalid_turn_error(&error))? {
            ScriptTurn::Done(ScriptResult::Text(text)) => Ok(text),
            ScriptTurn::Done(ScriptResult::TooLarge {}) => {
                Err(call::result_too_large(limits.output_bytes))
            }
            ScriptTurn::Done(ScriptResult::Error(fault)) => Err(script_failure(fault)),
            ScriptTurn::Requests(_) => {
                let message =
                    "the code waits for a promise, but it can only compute while it is inspected";
                Err(ToolError::new(ToolErrorCode::ExecutionError, message))
            }
        }
    }
}
