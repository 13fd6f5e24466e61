//! The backend of a script tool.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::{Approved, ToolError};
use mimir_wasm::script::{STACK, ScriptState};
use serde_json::Value;

use crate::code_engines::CodeEngines;
use crate::compile::CompiledCode;
use crate::definition::{CheckedScript, ScriptBody};
use crate::{tool, trace};

/// Backend of one script tool.
pub(crate) struct ScriptBackend {
    pub(crate) engines: Arc<CodeEngines>,
    pub(crate) state: ScriptState,
    pub(crate) path: String,
    pub(crate) checked: CheckedScript,
}

impl Backend for ScriptBackend {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let compiled = match &self.checked.body {
                ScriptBody::Script(compiled) => compiled,
                ScriptBody::Python => return tool::run_python(self, &call).await,
                ScriptBody::Bash => return tool::run_bash(self, &call).await,
                ScriptBody::Node => return tool::run_node(self, &call).await,
                ScriptBody::Container(container) => {
                    return tool::run_in_container(self, container, &call).await;
                }
            };
            let engine = self.engines.scripts();
            let mut raw = engine.run(&call, &compiled.code, &self.state).await;
            raw.result = raw
                .result
                .map_err(|error| self.with_file_positions(compiled, error));
            raw
        })
    }

    fn resolve_path(&self, path: &str) -> mimir_core::backend::RealPath {
        mimir_wasm::fs::real_path(self.engines.scripts().host().workspace(), path)
    }

    fn content_id(&self, path: &str) -> Option<String> {
        mimir_wasm::fs::content_digest(self.engines.scripts().host().workspace(), path)
    }

    fn files_state(&self, folders: Vec<String>) -> BoxFuture<'_, Option<String>> {
        let root = self.engines.scripts().host().workspace().to_owned();
        Box::pin(mimir_wasm::fs::read_files_state(root, folders))
    }
}

impl ScriptBackend {
    /// Maps the stack trace of a failure to positions in the file.
    fn with_file_positions(&self, compiled: &CompiledCode, mut error: ToolError) -> ToolError {
        let Some(Value::Object(details)) = &mut error.details else {
            return error;
        };
        let Some(Value::String(stack)) = details.remove(STACK) else {
            return error;
        };
        let frames = trace::map_stack(&self.path, compiled, &self.checked, &stack);
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
