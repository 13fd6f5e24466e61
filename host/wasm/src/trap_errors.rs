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

/// The message for a guest that had too many files open.
pub(crate) const TOO_MANY_FILES: &str =
    "the tool opened more files at the same time than limits.openFiles allows";

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
        return exceeded(TOO_MANY_FILES.to_owned());
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

/// Returns the message of the last panic or uncaught exception in stderr, or else its last line.
fn last_message(tail: &str) -> Option<String> {
    let lines: Vec<&str> = tail
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("note: run with"))
        .collect();
    let found = (0..lines.len()).rev();
    let mut found = found.filter_map(|at| message_at(lines[at], &lines[at + 1..]));
    found
        .next()
        .or_else(|| lines.last().map(|&line| line.to_owned()))
}

/// Returns the message of a panic or an exception that begins in this line. `rest` are the lines below it.
fn message_at(line: &str, rest: &[&str]) -> Option<String> {
    // Rust: “thread … panicked at file:line:”, and the message in the next line.
    if line.contains("panicked at ") {
        let message = rest.first().unwrap_or(&"");
        return Some(format!("{} {message}", line.trim()).trim_end().to_owned());
    }
    // Go: the message, and the stacks of goroutines below it.
    if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
        let has_stack = rest.iter().any(|line| line.starts_with("goroutine "));
        return (has_stack || rest.is_empty()).then(|| line.to_owned());
    }
    // Python: indented frames, and the exception below them.
    if line.starts_with("Traceback (most recent call last)") {
        let mut rest = rest.iter();
        let exception = rest.find(|line| !line.starts_with(char::is_whitespace));
        return exception.map(|&line| line.to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tail: &str) -> String {
        last_message(tail).unwrap()
    }

    #[test]
    fn go_panic_is_shown_without_its_stack() {
        let tail = "greeting\npanic: no such place: Atlantis\n\ngoroutine 1 [running]:\nmain.wordCount(0x1)\n\t\
                    ./main.go:18 +0x2\nmimir.local/sdk.call()\n\t./call.go:80 +0x9\n";
        assert_eq!(message(tail), "panic: no such place: Atlantis");
        let init = "panic: runtime error: index out of range [3] with length 0\n\ngoroutine 1 [running]:\nmain.init.0()\n\t\
                    ./main.go:5 +0x1\nexit status 2\n";
        assert_eq!(
            message(init),
            "panic: runtime error: index out of range [3] with length 0"
        );
        let twice =
            "panic: first [recovered]\n\tpanic: second\n\ngoroutine 6 [running]:\nmain.f()\n";
        assert_eq!(message(twice), "panic: first [recovered]");
        let deadlock = "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\nmain.f()\n";
        assert_eq!(
            message(deadlock),
            "fatal error: all goroutines are asleep - deadlock!"
        );
        assert_eq!(
            message("panic: x\nAssertion failed: y"),
            "Assertion failed: y"
        );
    }

    #[test]
    fn rust_panic_is_shown_with_its_position() {
        let tail = "thread '<unnamed>' (1) panicked at src/lib.rs:14:9:\nassertion `left == right` failed\n  left: 1\n \
                    right: 2\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        assert_eq!(
            message(tail),
            "thread '<unnamed>' (1) panicked at src/lib.rs:14:9: assertion `left == right` failed"
        );
        assert_eq!(
            message("thread 'main' panicked at a.rs:1:1:\n"),
            "thread 'main' panicked at a.rs:1:1:"
        );
    }

    #[test]
    fn python_exception_is_shown_without_its_traceback() {
        let tail = "Traceback (most recent call last):\n  File \"/0/tool.py\", line 3, in <module>\n    f()\n    ~^^\n\
                    ValueError: first line\nsecond line\n";
        assert_eq!(message(tail), "ValueError: first line");
        let chained = "Traceback (most recent call last):\n  File \"a\"\nKeyError: 1\n\nDuring handling of the above \
                       exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"b\"\n\
                       TypeError: second\n";
        assert_eq!(message(chained), "TypeError: second");
    }

    #[test]
    fn other_crash_is_shown_with_the_last_line() {
        assert_eq!(
            message("one\nAssertion failed: x > 0 (tool.c: run: 5)\n\n"),
            "Assertion failed: x > 0 (tool.c: run: 5)"
        );
        assert_eq!(last_message("\n"), None);
    }
}
