//! The process's own stdin and stdout, reserved for a protocol. Afterwards libraries, child processes and panics
//! cannot read from or write to them: printed output goes to stderr.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg_attr(unix, path = "streams/unix.rs")]
#[cfg_attr(not(unix), path = "streams/portable.rs")]
mod sys;

pub use sys::ClientLine;

/// Streams of the protocol.
pub struct StdioStreams {
    /// Input from the client.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Output to the client.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Completes when the client is gone.
    pub line: ClientLine,
}

impl StdioStreams {
    /// Takes the streams. Call it once, before anything is printed.
    pub fn take_stdio() -> io::Result<Self> {
        sys::take()
    }
}
