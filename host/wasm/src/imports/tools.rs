//! `mimir:tool/tools`: calls of other tools. The policy applies to them as to any other call.

use crate::bindings::tools::Host;
use crate::bindings::types::{Error, ErrorCode, Host as Types, Output};
use crate::convert;
use crate::store_state::StoreState;

impl Types for StoreState {}

impl Host for StoreState {
    async fn call(
        &mut self,
        name: String,
        arguments: String,
    ) -> wasmtime::Result<Result<Output, Error>> {
        let Some(nested) = &self.nested else {
            return Ok(Err(Error {
                code: ErrorCode::PermissionDenied,
                message: format!(
                    "the tool was not granted calls of `{}`; add it to the needs in its manifest",
                    mimir_core::text::visible(&name)
                ),
                details: None,
            }));
        };
        let arguments = match serde_json::from_str(&arguments) {
            Ok(arguments) => arguments,
            Err(error) => {
                return Ok(Err(Error {
                    code: ErrorCode::InvalidInput,
                    message: format!("the arguments are not JSON: {error}"),
                    details: None,
                }));
            }
        };
        let outcome = match nested.call(&name, arguments).await {
            Ok(outcome) => outcome,
            Err(error) => return Ok(self.record_guest_result(Err(error))),
        };
        let result = outcome.result().map(convert::output_to_guest);
        Ok(self.record_guest_result(result.map_err(Clone::clone)))
    }
}
