//! Execution on a stack that is large enough for any code of a given length.
//!
//! Counting the levels beforehand would need a scanner that recognises strings, regular expressions and comments. A
//! large stack is simpler, and takes only the memory that is used.

use std::io;
use std::thread::Builder;

use mimir_core::ToolErrorCode;
use thiserror::Error;

/// Bytes of stack for each byte of code. A nesting level has at least one byte; the measured maximum is 1.8 KiB per
/// level, for types in brackets (`type A = [[[[`).
const STACK_PER_CODE_BYTE: usize = 4 << 10;

/// Stack that the compiler needs without any nesting.
const MIN_STACK: usize = 256 << 10;

/// Reason why work on a separate stack did not complete.
#[derive(Debug, Error)]
pub(super) enum StackRunError {
    #[error("the code cannot be compiled now: cannot start a thread with a stack of {} MiB ({error})", size >> 20)]
    NoThread { size: usize, error: io::Error },
    #[error("the compiler crashed on this code: split it up to find the part that causes it")]
    Panicked,
}

impl StackRunError {
    /// Returns the code of the resulting tool error.
    pub(super) fn code(&self) -> ToolErrorCode {
        match self {
            Self::NoThread { .. } => ToolErrorCode::Unavailable,
            Self::Panicked => ToolErrorCode::Internal,
        }
    }
}

/// Returns the stack size for code of a length.
pub(super) const fn stack_size(length: usize) -> usize {
    MIN_STACK + length * STACK_PER_CODE_BYTE
}

/// Runs work on a stack of the given size.
pub(super) fn run_on_stack<T: Send>(
    size: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, StackRunError> {
    std::thread::scope(|scope| {
        let builder = Builder::new().name("compile".to_owned()).stack_size(size);
        let thread = builder
            .spawn_scoped(scope, work)
            .map_err(|error| StackRunError::NoThread { size, error })?;
        thread.join().map_err(|_| StackRunError::Panicked)
    })
}
