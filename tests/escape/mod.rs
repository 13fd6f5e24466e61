//! One test per attack. Each names the expected code, has a time limit, and checks that the host still works.

mod assess;
mod cancel;
mod compile;
mod crash;
mod describe;
mod files;
mod imports;
mod isolation;
mod logs;
mod memories;
mod memory;
mod output;
mod patches;
mod pieces;
mod planted;
mod race;
mod secrets;
mod storage;
mod time;
mod traces;

use mimir_core::ToolErrorCode;
use mimir_testkit::{Value, json};

/// No arguments.
fn nothing() -> Value {
    json!({})
}

/// The guest exceeded a limit of the host, or crashed first: it depends on where the guest fails.
fn bounded(code: ToolErrorCode) -> bool {
    matches!(
        code,
        ToolErrorCode::LimitExceeded | ToolErrorCode::ExecutionError | ToolErrorCode::Timeout
    )
}
