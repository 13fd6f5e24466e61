//! A stack that is long enough for the levels of any code of a length.
//!
//! Counting the levels beforehand would take a scanner that no text, regular expression or comment deceives; a stack is
//! memory only as far as it is used, so a long one costs an ordinary script nothing.

use std::io;
use std::thread::Builder;

use mimir_core::Code;
use thiserror::Error;

/// Bytes of stack that a byte of code can cost. A level is one byte at least; the most that was measured is 1.8 KiB, of
/// types in brackets (`type A = [[[[`).
const PER_BYTE: usize = 4 << 10;

/// What the compiler takes without any levels.
const LEAST: usize = 256 << 10;

/// Why something was not done.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error("the code cannot be compiled now: no thread with a stack of {} MiB can be had ({error})", size >> 20)]
    NoThread { size: usize, error: io::Error },
    #[error("the compiler fails at this code; take it apart to find out where")]
    Panicked,
}

impl Failure {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::NoThread { .. } => Code::Unavailable,
            Self::Panicked => Code::Internal,
        }
    }
}

/// The stack for code of a length.
pub(super) const fn wanted(length: usize) -> usize {
    LEAST + length * PER_BYTE
}

/// Does something on a stack of a size.
pub(super) fn with<T: Send>(size: usize, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let builder = Builder::new().name("compile".to_owned()).stack_size(size);
        let thread = builder
            .spawn_scoped(scope, work)
            .map_err(|error| Failure::NoThread { size, error })?;
        thread.join().map_err(|_| Failure::Panicked)
    })
}
