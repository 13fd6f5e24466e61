//! Cancellable reading of a line: a question whose call was stopped or timed out must not consume a line that is typed
//! for a later prompt.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::read_line;

/// Guard held by the code that asks. Dropping it cancels the question.
#[derive(Debug, Default)]
pub(super) struct PromptGuard(Arc<PromptState>);

/// Handle of the reading thread, which reports whether the question was cancelled.
#[derive(Debug, Clone)]
pub(super) struct PromptWatch(Arc<PromptState>);

#[derive(Debug, Default)]
struct PromptState {
    is_over: AtomicBool,
    /// True while another program, such as an editor, uses the terminal.
    lent: Mutex<bool>,
    returned: Condvar,
}

impl PromptState {
    fn lent(&self) -> MutexGuard<'_, bool> {
        self.lent.lock()
    }
}

/// Maximum time to wait for a lent terminal. Longer than it takes to end the program that uses it.
const FOREGROUND_TIMEOUT: Duration = Duration::from_secs(2);

/// Guard of a terminal that another program uses.
#[derive(Debug)]
pub(super) struct LentTerminal<'a>(&'a PromptState);

impl Drop for LentTerminal<'_> {
    fn drop(&mut self) {
        *self.0.lent() = false;
        self.0.returned.notify_all();
    }
}

impl PromptGuard {
    /// Creates a handle that reports when this guard is dropped.
    pub(super) fn watch(&self) -> PromptWatch {
        PromptWatch(Arc::clone(&self.0))
    }
}

impl Drop for PromptGuard {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        // Waits until the other program has returned the terminal, so that the next reader can use it.
        let mut lent = self.0.lent();
        self.0
            .returned
            .wait_while_for(&mut lent, |lent| *lent, FOREGROUND_TIMEOUT);
    }
}

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptLine {
    /// A line, including its line end.
    Typed(String),
    /// The terminal has closed.
    Closed,
    /// Cancelled; no line was consumed.
    Unwanted,
}

impl PromptWatch {
    /// Returns true if the question was cancelled.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Lends the terminal to a program until the guard is dropped; `None` if the question was cancelled.
    pub(super) fn lend_terminal(&self) -> Option<LentTerminal<'_>> {
        let mut lent = self.0.lent();
        if self.is_over() {
            return None;
        }
        *lent = true;
        Some(LentTerminal(&self.0))
    }

    /// Reads the next line, unless the question is cancelled first. A terminal delivers whole lines, so a cancelled
    /// wait consumes no input.
    pub(super) fn read_line(&self) -> io::Result<PromptLine> {
        while !ready()? {
            if self.is_over() {
                return Ok(PromptLine::Unwanted);
            }
        }
        if self.is_over() {
            return Ok(PromptLine::Unwanted);
        }
        Ok(read_line()?.map_or(PromptLine::Closed, PromptLine::Typed))
    }
}

/// Waits for input for a short time. Returns true if a line is available or the input has ended.
#[cfg(unix)]
fn ready() -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    // Too short for a person to notice.
    const POLL_TIMEOUT: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&POLL_TIMEOUT)) {
        Ok(ready) => Ok(ready > 0),
        // Interrupted by a signal, such as Ctrl-C or a window resize.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Always returns true: this platform has no polling, so the read itself blocks.
#[cfg(not(unix))]
fn ready() -> io::Result<bool> {
    Ok(true)
}
