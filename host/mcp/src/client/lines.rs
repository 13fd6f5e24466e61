//! A server on a pair of pipes: a message a line, none longer than fits, and no more notifications than anyone reads.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::link::End;
use super::pace::{self, Pace};

/// The longest line. A model reads a small part of that, and a picture of 12 MiB fits as base64.
const LINE_MOST: usize = 16 << 20;

/// Values in one message. Each takes a hundred times the memory of the two bytes that it may be written in.
const VALUES_MOST: usize = 250_000;

type Reader = Box<dyn AsyncRead + Send + Sync + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// Speaks with a server line by line.
pub(super) struct Lines {
    reader: BufReader<Reader>,
    writer: Arc<Mutex<Option<Writer>>>,
    line: Vec<u8>,
    end: Arc<End>,
    pace: Pace,
}

impl Lines {
    pub(super) fn new(reader: Reader, writer: Writer, end: Arc<End>) -> Self {
        Self {
            reader: BufReader::new(reader),
            writer: Arc::new(Mutex::new(Some(writer))),
            line: Vec::new(),
            end,
            pace: pace::of_notifications(),
        }
    }

    /// The next line without its end, in `self.line`. May be dropped and called again.
    async fn next(&mut self) -> bool {
        loop {
            let bytes = match self.reader.fill_buf().await {
                Ok([]) | Err(_) => return false,
                Ok(bytes) => bytes,
            };
            let (taken, whole) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (bytes.len(), false),
            };
            if self.line.len() + taken > LINE_MOST {
                self.end.because_too_long(LINE_MOST as u64);
                return false;
            }
            self.line.extend_from_slice(&bytes[..taken]);
            self.reader.consume(taken);
            if whole {
                return true;
            }
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        async move {
            let mut line = serde_json::to_vec(&item).map_err(io::Error::other)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let Some(writer) = &mut *writer else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if !self.next().await {
                return None;
            }
            let line = std::mem::take(&mut self.line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            // A flood is recognised before it is read: a notification has no id.
            if is_notification(&line) && !self.pace.takes() {
                self.end.flooded();
                continue;
            }
            if is_dense(&line) {
                self.end.because_too_dense();
                return None;
            }
            match serde_json::from_slice::<ServerJsonRpcMessage>(&line) {
                Ok(message) => return Some(message),
                // A program that prints beside the protocol is not ended for it.
                Err(error) => self.end.strange(&line, &error),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // Whoever reads from it sees the end of its input.
        self.writer.lock().await.take();
        Ok(())
    }
}

/// Whether a message has more values than are read.
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

/// Whether a line looks like a notification from its beginning, where every library writes the method.
pub(super) fn is_notification(line: &[u8]) -> bool {
    const LOOKED_AT: usize = 128;
    let head = &line[..line.len().min(LOOKED_AT)];
    let words = String::from_utf8_lossy(head);
    words.contains("\"notifications/") && !words.contains("\"id\"")
}
