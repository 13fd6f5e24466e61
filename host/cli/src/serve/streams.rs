//! The stdin and stdout of this process, reserved for a protocol. Libraries, child processes and panics can then not
//! read from or write to them: their output goes to stderr.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg_attr(unix, path = "streams/unix.rs")]
#[cfg_attr(not(unix), path = "streams/portable.rs")]
mod sys;

pub use sys::ClientLine;

/// The streams of the protocol.
pub struct StdioStreams {
    /// Input from the client.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Output to the client.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Handle that reports when the client is gone.
    pub line: ClientLine,
}

impl StdioStreams {
    /// Takes the streams of this process. Call it once, before anything is printed.
    pub fn take_stdio() -> io::Result<Self> {
        sys::take()
    }
}
