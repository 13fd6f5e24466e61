//! Waiting for a line that may not be wanted any more: a question whose call was stopped, or whose time ran out, takes
//! no line that is typed for what comes after it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::read_line;

/// Held by whoever wants the answer; once it is gone, nobody does.
#[derive(Debug, Default)]
pub(super) struct Wanted(Arc<State>);

/// Says whether the answer is still wanted.
#[derive(Debug, Clone)]
pub(super) struct Watch(Arc<State>);

#[derive(Debug, Default)]
struct State {
    over: AtomicBool,
    /// Whether a program of the person's has the terminal.
    lent: Mutex<bool>,
    back: Condvar,
}

impl State {
    fn lent(&self) -> MutexGuard<'_, bool> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a lent terminal is waited for: longer than it takes to end the program that has it.
const COMES_BACK: Duration = Duration::from_secs(2);

/// The terminal while another program has it.
#[derive(Debug)]
pub(super) struct Lent<'a>(&'a State);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.0.lent() = false;
        self.0.back.notify_all();
    }
}

impl Wanted {
    /// What is told when this is gone.
    pub(super) fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.0))
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        // Whoever comes next finds the terminal as it was.
        let lent = self.0.lent();
        let _ = self
            .0
            .back
            .wait_timeout_while(lent, COMES_BACK, |lent| *lent);
    }
}

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, with its end.
    Typed(String),
    /// The terminal has closed.
    Closed,
    /// Nobody wants it any more; none was taken.
    Unwanted,
}

impl Watch {
    /// Whether nobody wants an answer any more.
    pub(super) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }

    /// Lends the terminal to a program, as long as the answer is wanted.
    pub(super) fn lend(&self) -> Option<Lent<'_>> {
        let mut lent = self.0.lent();
        if self.is_over() {
            return None;
        }
        *lent = true;
        Some(Lent(&self.0))
    }

    /// The next line, as long as it is wanted. A terminal hands out one line at a time, so none is taken with it.
    pub(super) fn line(&self) -> io::Result<Line> {
        while !ready()? {
            if self.is_over() {
                return Ok(Line::Unwanted);
            }
        }
        if self.is_over() {
            return Ok(Line::Unwanted);
        }
        Ok(read_line()?.map_or(Line::Closed, Line::Typed))
    }
}

/// Waits a moment. Says whether there is a line, or will be none.
#[cfg(unix)]
fn ready() -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    // Nobody notices so long a wait, and it costs nothing.
    const MOMENT: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&MOMENT)) {
        Ok(ready) => Ok(ready > 0),
        // A signal: Ctrl-C, or a window of another size.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// There is no way to wait for a moment only: the line is waited for.
#[cfg(not(unix))]
fn ready() -> io::Result<bool> {
    Ok(true)
}
