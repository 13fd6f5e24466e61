//! The backend of a tool that is a script.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, Raw};
use mimir_core::{Approved, ToolError};
use mimir_wasm::script::{STACK, Script, ScriptEngine, ScriptState};
use serde_json::Value;

use crate::definition::Checked;
use crate::trace;

/// Runs the calls of one script.
pub(crate) struct ScriptBackend {
    pub(crate) engine: Arc<ScriptEngine>,
    pub(crate) script: Script,
    pub(crate) state: ScriptState,
    pub(crate) place: String,
    pub(crate) checked: Checked,
}

impl Backend for ScriptBackend {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let mut raw = self.engine.run(&call, &self.script, &self.state).await;
            raw.result = raw.result.map_err(|error| self.placed(error));
            raw
        })
    }

    fn real_path(&self, path: &str) -> mimir_core::backend::RealPath {
        mimir_wasm::fs::real_path(self.engine.host().workspace(), path)
    }
}

impl ScriptBackend {
    /// The same failure with its places in the file.
    fn placed(&self, mut error: ToolError) -> ToolError {
        let Some(Value::Object(details)) = &mut error.details else {
            return error;
        };
        let Some(Value::String(stack)) = details.remove(STACK) else {
            return error;
        };
        let frames = trace::mapped(&self.place, &self.checked, &stack);
        if let Some(first) = frames.first() {
            error.message = format!("{} (at {first})", error.message);
            details.insert(STACK.to_owned(), frames.into());
        }
        if details.is_empty() {
            error.details = None;
        }
        error
    }
}
