//! `mimir:tool/model`: completions from the language model. The policy checks each prompt during the call.

use mimir_core::{ToolError, ToolErrorCode};

use crate::bindings::model::Host;
use crate::bindings::types::Error;
use crate::store_state::StoreState;

impl Host for StoreState {
    async fn complete(
        &mut self,
        prompt: String,
        max_tokens: Option<u32>,
    ) -> wasmtime::Result<Result<String, Error>> {
        let answer = match self.model.clone() {
            Some(effects) => effects.complete(&prompt, max_tokens).await,
            None => Err(ToolError::new(
                ToolErrorCode::PermissionDenied,
                "the tool was not granted the language model; declare the need in its manifest",
            )),
        };
        Ok(self.record_guest_result(answer))
    }
}
