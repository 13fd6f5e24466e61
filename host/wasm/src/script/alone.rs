//! Scripts outside of any call: running code to inspect it, before it becomes a tool.

use mimir_core::{Code, Limits, ToolError};
use serde_json::json;

use super::turn::{Told, Turn};
use super::{ScriptEngine, failed, garbled, seed};
use crate::fs::GuardedFs;
use crate::guest::Start;
use crate::{call, faults};

impl ScriptEngine {
    /// Runs a script outside of any call, within `limits`: it has access to nothing, and cannot wait.
    pub async fn alone(&self, script: &str, limits: Limits) -> Result<String, ToolError> {
        let ready = self.ready().await?;
        let mut store = ready.store(Start::alone(GuardedFs::none(), limits))?;
        let work = async {
            let engine = ready.instantiate(&mut store).await?;
            let given = json!({
                "args": null,
                "context": { "config": null, "conversation": null },
                "seed": seed(),
                "program": false,
                "most": limits.output_bytes,
            });
            engine.start(&mut store, script, &given.to_string()).await
        };
        let text = match tokio::time::timeout(limits.wall, work).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(faults::fault(&error, store.data())),
            Err(_) => {
                let seconds = limits.wall.as_secs();
                let message = format!("the code was stopped after {seconds} s");
                return Err(ToolError::new(Code::Timeout, message));
            }
        };
        match serde_json::from_str(&text).map_err(|error| garbled(&error))? {
            Turn::Done(Told::Text(text)) => Ok(text),
            Turn::Done(Told::TooLarge {}) => Err(call::too_large(limits.output_bytes)),
            Turn::Done(Told::Error(fault)) => Err(failed(fault)),
            Turn::Wishes(_) => {
                let message =
                    "the code waits for a promise, but it can only compute while it is inspected";
                Err(ToolError::new(Code::ExecutionError, message))
            }
        }
    }
}
