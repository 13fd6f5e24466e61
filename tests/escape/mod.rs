//! One test per attack. Each names the code that it must end with, ends in time, and leaves a host that works.

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
mod pieces;
mod planted;
mod race;
mod secrets;
mod storage;
mod time;

use mimir_core::Code;
use mimir_testkit::{Value, json};

/// No arguments.
fn nothing() -> Value {
    json!({})
}

/// The guest broke a bound of the host, or crashed on the way: which of the two depends on where the guest
/// notices first.
fn bounded(code: Code) -> bool {
    matches!(
        code,
        Code::LimitExceeded | Code::ExecutionError | Code::Timeout
    )
}
