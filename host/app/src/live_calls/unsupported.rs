//! Consoles on platforms without Unix sockets: not available.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::call_monitor::{CallMonitor, CallReport, RunningCalls};

use super::hub::LiveCallHub;
use crate::user_dirs::UserDirs;

/// A console, which cannot be opened here.
pub enum LiveConsole {}

impl LiveConsole {
    /// Fails: this platform has no sockets that only the user can reach.
    pub fn open(_: &UserDirs, _: &LiveCallHub) -> Result<Self, ToolError> {
        Err(ToolError::unavailable(
            "running calls of other processes can be shown on Linux and macOS only",
        ))
    }
}

/// A publisher, which cannot be started here.
pub enum LiveCallPublisher {}

impl LiveCallPublisher {
    /// Fails: consoles cannot be opened on this platform.
    pub fn start(_: &UserDirs, _: Arc<RunningCalls>, _: Option<LiveCallHub>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl CallMonitor for LiveCallPublisher {
    fn is_watched(&self) -> bool {
        match *self {}
    }

    fn report(&self, _: CallReport) {
        match *self {}
    }
}

/// Does nothing.
pub fn flush(_: Duration) {}

/// Does nothing.
pub fn set_process_name(_: &'static str) {}
