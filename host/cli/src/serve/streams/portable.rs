//! Standard library streams, for platforms without file descriptors. Other output to stdout is not redirected; mimir
//! itself prints none.

use std::io;

use super::StdioStreams;

pub(super) fn take() -> io::Result<StdioStreams> {
    Ok(StdioStreams {
        reader: Box::new(tokio::io::stdin()),
        writer: Box::new(tokio::io::stdout()),
        line: ClientLine,
    })
}

/// The client's side of the connection.
pub struct ClientLine;

impl ClientLine {
    /// Never completes: this platform cannot detect if a silent client still reads.
    pub async fn hung_up(&self) {
        std::future::pending().await
    }
}
