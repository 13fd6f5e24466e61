//! The transport to a server on a pair of pipes: one message per line, with limits on the size of a message and the
//! rate of notifications.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::json_lines::{JsonLineChunk, JsonLineReader, JsonLineWriter, MAX_LINE_BYTES};

use super::connection::CloseReason;
use super::lenient_messages;
use super::rate_limit::{self, MessageRateLimiter};

/// Maximum number of values in one message: once parsed, a two-byte JSON value can take a hundred times as much memory.
const MAX_VALUES: usize = 250_000;

type BoxedReader = Box<dyn AsyncRead + Send + Sync + Unpin>;
type BoxedWriter = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// Exchanges messages with a server line by line.
pub(super) struct StdioClientTransport {
    reader: JsonLineReader<BoxedReader>,
    writer: JsonLineWriter<BoxedWriter>,
    close_reason: Arc<CloseReason>,
    rate_limit: MessageRateLimiter,
}

impl StdioClientTransport {
    pub(super) fn new(
        reader: BoxedReader,
        writer: BoxedWriter,
        close_reason: Arc<CloseReason>,
    ) -> Self {
        Self {
            reader: JsonLineReader::new(reader),
            writer: JsonLineWriter::new(writer),
            close_reason,
            rate_limit: rate_limit::notification_limit(),
        }
    }
}

impl Transport<RoleClient> for StdioClientTransport {
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
                JsonLineChunk::Line(line) => line,
                // The line is too long: the rest of it is not read.
                JsonLineChunk::Part(_) => {
                    self.close_reason
                        .set_message_too_long(MAX_LINE_BYTES as u64);
                    return None;
                }
                JsonLineChunk::End => return None,
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            // Floods are dropped before parsing, which is expensive.
            if is_notification(&line) && !self.rate_limit.try_take() {
                self.close_reason.warn_of_flood();
                continue;
            }
            if has_too_many_values(&line) {
                self.close_reason.set_too_many_values();
                return None;
            }
            match lenient_messages::parse_message(&line) {
                Ok(message) => return Some(message),
                // A program may print other text on stdout.
                Err(error) => self.close_reason.warn_of_invalid_line(&line, &error),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.writer.close().await;
        Ok(())
    }
}

/// Returns true if a message has more than [`MAX_VALUES`] values. Counts brackets and commas outside strings, so that
/// the message need not be parsed.
pub(super) fn has_too_many_values(message: &[u8]) -> bool {
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
    values > MAX_VALUES
}

/// Guesses from the first 128 bytes of a line whether it is a notification, without parsing it. Every known library
/// writes `method` near the start; the notifications of a server that does not are only not limited here.
pub(super) fn is_notification(line: &[u8]) -> bool {
    const PREFIX_BYTES: usize = 128;
    let head = &line[..line.len().min(PREFIX_BYTES)];
    let text = String::from_utf8_lossy(head);
    text.contains("\"notifications/") && !text.contains("\"id\"")
}
