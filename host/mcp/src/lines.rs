//! Messages on a pair of streams: a message a line. Both ways round use it.
//!
//! Never here: what a line says.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

/// The longest line that is kept, as over HTTP. A model reads a small part of that, and a picture of 12 MiB fits as
/// base64.
pub(crate) const LINE_MOST: usize = 16 << 20;

/// What is read next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line with its end. After parts it is the last of them.
    Line(Vec<u8>),
    /// A part of a line that is longer than [`LINE_MOST`]. The rest of it comes in more pieces.
    Part(Vec<u8>),
    /// Nothing more comes. What had no end is no line.
    End,
}

/// Reads line by line.
pub(crate) struct Reader<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    /// Whether the beginning of this line has been given away.
    parted: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from: BufReader::new(from),
            line: Vec::new(),
            parted: false,
        }
    }

    /// What comes next. May be dropped and called again: nothing is lost.
    pub(crate) async fn next(&mut self) -> Piece {
        loop {
            let bytes = match self.from.fill_buf().await {
                Ok([]) | Err(_) => return Piece::End,
                Ok(bytes) => bytes,
            };
            let (taken, whole) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (bytes.len(), false),
            };
            if !self.parted && self.line.len() + taken > LINE_MOST {
                self.parted = true;
                return Piece::Part(std::mem::take(&mut self.line));
            }
            self.line.extend_from_slice(&bytes[..taken]);
            self.from.consume(taken);
            if whole {
                self.parted = false;
                return Piece::Line(std::mem::take(&mut self.line));
            }
            if self.parted {
                return Piece::Part(std::mem::take(&mut self.line));
            }
        }
    }
}

/// Writes line by line. Clones write to the same stream, one line after the other.
pub(crate) struct Writer<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for Writer<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(crate) fn new(to: W) -> Self {
        Self(Arc::new(Mutex::new(Some(to))))
    }

    /// Writes a message as a line.
    pub(crate) async fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.write(serde_json::to_vec(message)?).await
    }

    /// Writes a line, given without its end.
    async fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let mut to = self.0.lock().await;
        let Some(to) = &mut *to else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        to.write_all(&line).await?;
        to.flush().await
    }

    /// Writes nothing more: whoever reads sees the end of what there is.
    pub(crate) async fn close(&self) {
        drop(self.0.lock().await.take());
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_line_is_whole_whoever_stops_waiting_in_between() {
        let (mut to, from) = tokio::io::duplex(64);
        let mut reader = Reader::new(from);
        for part in ["one", " li"] {
            to.write_all(part.as_bytes()).await.unwrap();
            let waited = std::time::Duration::from_millis(10);
            assert!(tokio::time::timeout(waited, reader.next()).await.is_err());
        }
        to.write_all(b"ne\n\nwithout an end").await.unwrap();
        drop(to);
        assert_eq!(reader.next().await, Piece::Line(b"one line\n".to_vec()));
        assert_eq!(reader.next().await, Piece::Line(b"\n".to_vec()));
        assert_eq!(reader.next().await, Piece::End);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_comes_in_parts_and_the_next_is_whole() {
        let long = [vec![b'x'; LINE_MOST + 3], b"end\nnext\n".to_vec()].concat();
        let mut reader = Reader::new(&long[..]);
        let (mut length, mut most) = (0, 0);
        let last = loop {
            match reader.next().await {
                Piece::Part(part) => {
                    most = most.max(part.len());
                    length += part.len();
                }
                Piece::Line(line) => break line,
                Piece::End => panic!("it ends"),
            }
        };
        assert!(last.ends_with(b"end\n"));
        assert_eq!(length + last.len(), LINE_MOST + 3 + 4);
        assert!(most <= LINE_MOST, "{most}");
        assert_eq!(reader.next().await, Piece::Line(b"next\n".to_vec()));
        // As long as it may be, with its end.
        let whole = [vec![b'x'; LINE_MOST - 1], b"\n".to_vec()].concat();
        assert_eq!(Reader::new(&whole[..]).next().await, Piece::Line(whole));
    }

    #[tokio::test]
    async fn what_is_closed_is_at_its_end_and_takes_nothing_more() {
        let (to, mut from) = tokio::io::duplex(64);
        let writer = Writer::new(to);
        writer.clone().write(b"one".to_vec()).await.unwrap();
        writer.close().await;
        let mut all = String::new();
        from.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "one\n");
        let late = writer.write(b"two".to_vec()).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
    }
}
