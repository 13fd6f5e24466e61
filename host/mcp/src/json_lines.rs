//! JSON messages on a pair of streams, one per line, for the server and the client.
//!
//! Out of scope: the content of a line.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

/// Maximum length of a line in bytes, as over HTTP. An image of nearly 12 MiB fits as base64.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonLineChunk {
    /// A line including its line end, or the last part of a longer line.
    Line(Vec<u8>),
    /// A part of a line longer than [`MAX_LINE_BYTES`]. The rest of the line follows in more chunks.
    Part(Vec<u8>),
    /// End of the stream. An unterminated last line is dropped.
    End,
}

/// Reads a stream line by line.
pub(crate) struct JsonLineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// True if the beginning of the current line has already been returned.
    parted: bool,
}

impl<R: AsyncRead + Unpin> JsonLineReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            parted: false,
        }
    }

    /// Returns the next chunk. Cancel-safe: the future can be dropped without losing data.
    pub(crate) async fn next(&mut self) -> JsonLineChunk {
        loop {
            let bytes = match self.reader.fill_buf().await {
                Ok([]) | Err(_) => return JsonLineChunk::End,
                Ok(bytes) => bytes,
            };
            let (taken, is_complete) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (bytes.len(), false),
            };
            if !self.parted && self.line.len() + taken > MAX_LINE_BYTES {
                self.parted = true;
                return JsonLineChunk::Part(std::mem::take(&mut self.line));
            }
            self.line.extend_from_slice(&bytes[..taken]);
            self.reader.consume(taken);
            if is_complete {
                self.parted = false;
                return JsonLineChunk::Line(std::mem::take(&mut self.line));
            }
            if self.parted {
                return JsonLineChunk::Part(std::mem::take(&mut self.line));
            }
        }
    }
}

/// Writes a stream line by line. Clones write whole lines to the same stream.
pub(crate) struct JsonLineWriter<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for JsonLineWriter<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: AsyncWrite + Unpin> JsonLineWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }

    /// Writes a message as a line.
    pub(crate) async fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.write(serde_json::to_vec(message)?).await
    }

    /// Writes a line, which is passed without its line end.
    async fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let mut writer = self.0.lock().await;
        let Some(writer) = &mut *writer else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        writer.write_all(&line).await?;
        writer.flush().await
    }

    /// Closes the stream: the reader sees the end after the lines written so far.
    pub(crate) async fn close(&self) {
        drop(self.0.lock().await.take());
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_survive_a_cancelled_read() {
        let (mut to, from) = tokio::io::duplex(64);
        let mut reader = JsonLineReader::new(from);
        for part in ["one", " li"] {
            to.write_all(part.as_bytes()).await.unwrap();
            let waited = std::time::Duration::from_millis(10);
            assert!(tokio::time::timeout(waited, reader.next()).await.is_err());
        }
        to.write_all(b"ne\n\nwithout an end").await.unwrap();
        drop(to);
        assert_eq!(
            reader.next().await,
            JsonLineChunk::Line(b"one line\n".to_vec())
        );
        assert_eq!(reader.next().await, JsonLineChunk::Line(b"\n".to_vec()));
        assert_eq!(reader.next().await, JsonLineChunk::End);
    }

    #[tokio::test]
    async fn lines_split_a_long_line_and_recover() {
        let long = [vec![b'x'; MAX_LINE_BYTES + 3], b"end\nnext\n".to_vec()].concat();
        let mut reader = JsonLineReader::new(&long[..]);
        let (mut length, mut most) = (0, 0);
        let last = loop {
            match reader.next().await {
                JsonLineChunk::Part(part) => {
                    most = most.max(part.len());
                    length += part.len();
                }
                JsonLineChunk::Line(line) => break line,
                JsonLineChunk::End => panic!("the stream has ended"),
            }
        };
        assert!(last.ends_with(b"end\n"));
        assert_eq!(length + last.len(), MAX_LINE_BYTES + 3 + 4);
        assert!(most <= MAX_LINE_BYTES, "{most}");
        assert_eq!(reader.next().await, JsonLineChunk::Line(b"next\n".to_vec()));
        // The maximum length, including the line end.
        let whole = [vec![b'x'; MAX_LINE_BYTES - 1], b"\n".to_vec()].concat();
        assert_eq!(
            JsonLineReader::new(&whole[..]).next().await,
            JsonLineChunk::Line(whole)
        );
    }

    #[tokio::test]
    async fn lines_closed_writer_rejects_messages() {
        let (to, mut from) = tokio::io::duplex(64);
        let writer = JsonLineWriter::new(to);
        writer.clone().write(b"one".to_vec()).await.unwrap();
        writer.close().await;
        let mut all = String::new();
        from.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "one\n");
        let late = writer.write(b"two".to_vec()).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
    }
}
