//! The streams as the standard library has them, where descriptors are not to be had. What else prints to stdout is not
//! kept from it here; nothing of mimir's own does.

use std::io;

use super::Streams;

pub(super) fn take() -> io::Result<Streams> {
    Ok(Streams {
        reader: Box::new(tokio::io::stdin()),
        writer: Box::new(tokio::io::stdout()),
        line: Line,
    })
}

/// The client's side of the conversation.
pub struct Line;

impl Line {
    /// Whether a client that says nothing more still reads is not known here: its calls get some seconds to end.
    pub async fn hung_up(&self) {
        std::future::pending().await
    }
}
