//! A server on a pair of pipes: one message per line, with limits on the size of a message and the rate of
//! notifications.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lines::{LINE_MOST, Piece, Reader, Writer};

use super::errors;
use super::link::End;
use super::pace::{self, Pace};

/// Maximum number of values in one message. A value of two bytes in JSON takes a hundred times that in memory.
const VALUES_MOST: usize = 250_000;

type From = Box<dyn AsyncRead + Send + Sync + Unpin>;
type To = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// Exchanges messages with a server line by line.
pub(super) struct Lines {
    reader: Reader<From>,
    writer: Writer<To>,
    end: Arc<End>,
    pace: Pace,
}

impl Lines {
    pub(super) fn new(reader: From, writer: To, end: Arc<End>) -> Self {
        Self {
            reader: Reader::new(reader),
            writer: Writer::new(writer),
            end,
            pace: pace::of_notifications(),
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = self.writer.clone();
        async move { writer.send(&item).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.reader.next().await {
                Piece::Line(line) => line,
                // The rest of the line would be useless.
                Piece::Part(_) => {
                    self.end.because_too_long(LINE_MOST as u64);
                    return None;
                }
                Piece::End => return None,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            // A flood is detected before parsing: a notification has no id.
            if is_notification(&line) && !self.pace.takes() {
                self.end.flooded();
                continue;
            }
            if is_dense(&line) {
                self.end.because_too_dense();
                return None;
            }
            match errors::read(&line) {
                Ok(message) => return Some(message),
                // A program that prints other text on stdout is not stopped for it.
                Err(error) => self.end.strange(&line, &error),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.writer.close().await;
        Ok(())
    }
}

/// Returns true if a message has more values than allowed.
pub(super) fn is_dense(message: &[u8]) -> bool {
    let (mut values, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in message {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' | b',' if !quoted => values += 1,
            _ => {}
        }
    }
    values > VALUES_MOST
}

/// Returns true if a line looks like a notification at its beginning, where every library writes the method.
pub(super) fn is_notification(line: &[u8]) -> bool {
    const LOOKED_AT: usize = 128;
    let head = &line[..line.len().min(LOOKED_AT)];
    let words = String::from_utf8_lossy(head);
    words.contains("\"notifications/") && !words.contains("\"id\"")
}
