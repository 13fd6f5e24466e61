//! The process's own stdin and stdout, taken for a protocol. From then on nothing else reads from the one or writes to
//! the other, whatever a library, a child process or a panic does: what is printed goes to stderr.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg_attr(unix, path = "streams/unix.rs")]
#[cfg_attr(not(unix), path = "streams/portable.rs")]
mod sys;

pub use sys::Line;

/// What a protocol is spoken on.
pub struct Streams {
    /// What the client says.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What the client hears.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Whether the client is still there.
    pub line: Line,
}

impl Streams {
    /// Takes them. To be called once, before anything is printed.
    pub fn take() -> io::Result<Self> {
        sys::take()
    }
}
