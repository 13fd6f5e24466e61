//! Conversion of traps into errors for the caller.

use std::collections::HashSet;
use std::str::Utf8Error;

use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use mimir_core::{ToolError, ToolErrorCode};

use crate::engine::BACKTRACE_FRAMES;
use crate::store_state::StoreState;

/// Message for endless or too deep recursion.
const TOO_DEEP: &str =
    "the tool's recursion is too deep for its stack: use a loop, or give it less nested input";

/// wasmtime's message for a guest that passes too much data to the host. wasmtime exports no type for this error.
const TOO_MUCH_OUTPUT: &str = "fuel allocated for hostcalls has been exhausted";

/// wasmtime's message for a guest with too many instances, memories or tables, whatever their size. wasmtime exports no
/// type for this error either.
const TOO_MANY_OBJECTS: &str = "resource limit exceeded: ";

/// wasmtime's message for a guest that holds more handles than its resource table allows.
const TOO_MANY_HANDLES: &str = "resource table has no free keys";

/// The system's message for a lack of memory or addresses, whose error type depends on the platform.
const NO_MEMORY: &str = if cfg!(windows) {
    "(os error 1455)"
} else {
    "(os error 12)"
};

/// Converts a trap into an error. If the guest hit a limit before, the limit counts as the cause of any trap.
pub(crate) fn trap_error(error: &wasmtime::Error, guest: &StoreState) -> ToolError {
    if let Some(limit) = guest.limiter.limit_hit() {
        return exceeded(format!("the tool needed more than {limit} allows"));
    }
    if guest.fs.limit_hit() {
        return exceeded(
            "the tool opened more files at the same time than limits.openFiles allows".to_owned(),
        );
    }
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return ToolError::new(
            ToolErrorCode::ExecutionError,
            format!("the tool exited with code {code}"),
        );
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return ToolError::new(
            ToolErrorCode::Unavailable,
            "too many tools are running; try again later",
        );
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            return exceeded(
                "the tool computed for longer than limits.fuel allows; give it less to do at once, or raise limits.fuel \
                 in the settings"
                    .to_owned(),
            );
        }
        Some(Trap::StackOverflow) => return exceeded(TOO_DEEP.to_owned()),
        // Some guests have a stack in their own memory, which overflows at the end of the memory.
        Some(Trap::MemoryOutOfBounds) if is_recursion(error) => {
            return exceeded(TOO_DEEP.to_owned());
        }
        _ => {}
    }
    if error
        .chain()
        .any(|error| error.to_string().contains(TOO_MUCH_OUTPUT))
    {
        let limit = guest.transfer_setting;
        return exceeded(format!(
            "the tool passed more data at once than {limit} allows"
        ));
    }
    let cause = error.root_cause().to_string();
    if let Some(objects) = cause.strip_prefix(TOO_MANY_OBJECTS) {
        return exceeded(match objects.split_once(' ') {
            Some(("instance", _)) => "the tool needed more than limits.instances allows".to_owned(),
            _ => format!(
                "the tool has more instances, memories or tables than allowed for a call: {objects}"
            ),
        });
    }
    if cause.contains(TOO_MANY_HANDLES) {
        return exceeded("the tool holds more handles than allowed for a call".to_owned());
    }
    if cause.ends_with(NO_MEMORY) {
        let message = format!(
            "not enough memory to run the tool ({cause}); check `ulimit -v` and the other programs on this machine"
        );
        return ToolError::new(ToolErrorCode::Unavailable, message);
    }
    if error.root_cause().downcast_ref::<Utf8Error>().is_some() {
        let message = format!("the tool passed text that is not UTF-8: {cause}");
        return ToolError::new(ToolErrorCode::ExecutionError, message);
    }
    let tail = guest.logs.tail();
    let message = match last_message(&tail) {
        Some(message) => format!("the tool crashed: {message}"),
        None => format!("the tool crashed: {cause}"),
    };
    let details = serde_json::json!({ "trap": cause, "stderr": tail });
    ToolError::new(ToolErrorCode::ExecutionError, message).with_details(details)
}

/// Returns true if the backtrace is full and consists of a few functions that call each other.
fn is_recursion(error: &wasmtime::Error) -> bool {
    error
        .downcast_ref::<WasmBacktrace>()
        .is_some_and(|backtrace| {
            let frames = backtrace.frames();
            let functions: HashSet<u32> = frames.iter().map(|frame| frame.func_index()).collect();
            frames.len() >= BACKTRACE_FRAMES && functions.len() <= BACKTRACE_FRAMES / 4
        })
}

fn exceeded(message: String) -> ToolError {
    ToolError::new(ToolErrorCode::LimitExceeded, message)
}

/// Returns the message of a panic, or else the last line of stderr.
fn last_message(tail: &str) -> Option<String> {
    let mut lines = tail
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("note: run with"));
    let last = lines.next_back()?;
    // Rust prints “thread … panicked at file:line:” and the message on the next line.
    let before = lines.next_back();
    Some(match before {
        Some(before) if before.contains("panicked at") => format!("{} {last}", before.trim_start()),
        _ => last.to_owned(),
    })
}
