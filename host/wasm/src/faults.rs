//! Why a guest stopped, in the caller's terms.

use std::collections::HashSet;
use std::str::Utf8Error;

use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use mimir_core::{Code, ToolError};

use crate::engine::BACKTRACE_FRAMES;
use crate::guest::Guest;

/// The message for a recursion without end.
const TOO_DEEP: &str = "the tool calls itself too deep for its stack";

/// What wasmtime says when a guest hands over more than it may. It exports no type for it.
const TOO_MUCH_OUTPUT: &str = "fuel allocated for hostcalls has been exhausted";

/// How wasmtime says that a guest has more instances, memories or tables than it may, however small they are. It
/// exports no type for that either.
const TOO_MANY: &str = "resource limit exceeded: ";

/// How it says that a guest holds more handles than there are numbers for.
const TOO_MANY_HANDLES: &str = "resource table has no free keys";

/// How the system says that there is no memory, or no address for it. Which of its types that is, is up to the platform.
const NO_MEMORY: &str = if cfg!(windows) {
    "(os error 1455)"
} else {
    "(os error 12)"
};

/// Makes an error of a trap. A limit that was hit before is the cause, whatever the trap says.
pub(crate) fn fault(error: &wasmtime::Error, guest: &Guest) -> ToolError {
    if let Some(limit) = guest.limiter.hit() {
        return exceeded(format!("the tool needed more than {limit} allows"));
    }
    if guest.fs.limit_hit() {
        return exceeded(
            "the tool opened more files at once than limits.openFiles allows".to_owned(),
        );
    }
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return ToolError::new(
            Code::ExecutionError,
            format!("the tool ended itself with exit code {code}"),
        );
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return ToolError::new(Code::Unavailable, "too many tools run at a time; try again");
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
        // A stack that the guest has in its memory ends where the memory does.
        Some(Trap::MemoryOutOfBounds) if recurses(error) => return exceeded(TOO_DEEP.to_owned()),
        _ => {}
    }
    if error
        .chain()
        .any(|cause| cause.to_string().contains(TOO_MUCH_OUTPUT))
    {
        let limit = guest.handed_over;
        return exceeded(format!(
            "the tool handed over more at once than {limit} allows"
        ));
    }
    let what = error.root_cause().to_string();
    if let Some(many) = what.strip_prefix(TOO_MANY) {
        return exceeded(match many.split_once(' ') {
            Some(("instance", _)) => "the tool needed more than limits.instances allows".to_owned(),
            _ => format!("the tool has more parts than a call may have: {many}"),
        });
    }
    if what.contains(TOO_MANY_HANDLES) {
        return exceeded("the tool holds more handles than a call may have".to_owned());
    }
    if what.ends_with(NO_MEMORY) {
        let message = format!(
            "there is no memory for the tool at the moment ({what}); see `ulimit -v` and what else runs here"
        );
        return ToolError::new(Code::Unavailable, message);
    }
    if error.root_cause().downcast_ref::<Utf8Error>().is_some() {
        let message = format!("the tool handed over text that is not UTF-8: {what}");
        return ToolError::new(Code::ExecutionError, message);
    }
    let tail = guest.logs.tail();
    let message = match last_words(&tail) {
        Some(words) => format!("the tool crashed: {words}"),
        None => format!("the tool crashed: {what}"),
    };
    let details = serde_json::json!({ "trap": what, "stderr": tail });
    ToolError::new(Code::ExecutionError, message).with_details(details)
}

/// Returns true if the backtrace consists of a few functions that call each other.
fn recurses(error: &wasmtime::Error) -> bool {
    error
        .downcast_ref::<WasmBacktrace>()
        .is_some_and(|backtrace| {
            let frames = backtrace.frames();
            let functions: HashSet<u32> = frames.iter().map(|frame| frame.func_index()).collect();
            frames.len() >= BACKTRACE_FRAMES && functions.len() <= BACKTRACE_FRAMES / 4
        })
}

fn exceeded(message: String) -> ToolError {
    ToolError::new(Code::LimitExceeded, message)
}

/// The message of a panic, or else the last line of stderr.
fn last_words(tail: &str) -> Option<String> {
    let mut lines = tail
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("note: run with"));
    let last = lines.next_back()?;
    // Rust prints "thread … panicked at file:line:" and the message on the next line.
    let before = lines.next_back();
    Some(match before {
        Some(before) if before.contains("panicked at") => format!("{} {last}", before.trim_start()),
        _ => last.to_owned(),
    })
}
