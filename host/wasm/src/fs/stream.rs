//! Streams over regular files: a position in a file, read or written on the current thread.

use super::disk::Disk;
use super::node::Node;
use super::pace::Pace;
use super::quota::End;
use super::refusal::Fault;
use super::sys;
use bytes::Bytes;
use std::fs::File;
use std::io;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

/// Maximum size of one read. Large enough that the cost of crossing into the host vanishes, small enough that a
/// thousand concurrent reads are no burden.
pub(super) const MAX_READ: usize = 256 * 1024;

/// Maximum size of one write.
const MAX_WRITE: usize = 256 * 1024;

/// Reads a file from a position on.
pub(super) struct Reader {
    node: Node,
    offset: u64,
    pace: Pace,
}

impl Reader {
    pub(super) fn new(node: Node, offset: u64) -> Result<Self, Fault> {
        node.readable()?;
        Ok(Self {
            node,
            offset,
            pace: Pace::new(),
        })
    }
}

fn failed(error: io::Error) -> StreamError {
    StreamError::LastOperationFailed(error.into())
}

#[async_trait::async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let file = self.node.readable().map_err(|_| StreamError::Closed)?;
        let bytes = sys::read_at(file, size.min(MAX_READ), self.offset).map_err(failed)?;
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(bytes.into())
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.pace.give_way().await;
        self.read(size)
    }

    fn skip(&mut self, count: usize) -> StreamResult<usize> {
        let file = self.node.readable().map_err(|_| StreamError::Closed)?;
        let left = file
            .metadata()
            .map_err(failed)?
            .len()
            .saturating_sub(self.offset);
        if left == 0 && count > 0 {
            return Err(StreamError::Closed);
        }
        let skipped = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.offset += skipped as u64;
        Ok(skipped)
    }
}

#[async_trait::async_trait]
impl Pollable for Reader {
    /// A regular file is always ready.
    async fn ready(&mut self) {
        self.pace.give_way().await;
    }
}

/// The position of a write.
enum Place {
    At(u64),
    End,
}

/// Writes a file from a position on, or at its end.
pub(super) struct Writer {
    node: Node,
    place: Place,
    failed: Option<io::Error>,
    closed: bool,
    pace: Pace,
    disk: Disk,
}

impl Writer {
    /// Creates a writer at `offset`, or at the end if it is `None`.
    pub(super) fn new(node: Node, offset: Option<u64>, disk: Disk) -> Result<Self, Fault> {
        node.writable()?;
        let place = offset.map_or(Place::End, Place::At);
        Ok(Self {
            node,
            place,
            failed: None,
            closed: false,
            pace: Pace::new(),
            disk,
        })
    }

    /// Records the content of the file before the first write. The next operation reports a failure.
    async fn record(&mut self) {
        if !self.closed && self.failed.is_none() && self.node.record().await.is_err() {
            self.failed = Some(io::ErrorKind::PermissionDenied.into());
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let wrote = self.put_all(bytes);
        self.disk.note(&wrote);
        wrote
    }

    fn put_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let long = bytes.len() as u64;
            let written = match &mut self.place {
                Place::End => {
                    let end = End::Behind(long);
                    self.node.change(end, |file| sys::append(file, bytes))?
                }
                Place::At(offset) => {
                    let (at, end) = (*offset, End::At(offset.saturating_add(long)));
                    let write = |file: &File| sys::write_at(file, bytes, at);
                    let written = self.node.change(end, write)?;
                    *offset = offset.saturating_add(written as u64);
                    written
                }
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Returns an earlier failure once; after that the stream is closed.
    fn told(&mut self) -> StreamResult<()> {
        match self.failed.take() {
            Some(error) => {
                self.closed = true;
                Err(failed(error))
            }
            None if self.closed => Err(StreamError::Closed),
            None => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if self.closed || self.failed.is_some() || !self.node.is_recorded() {
            return Err(StreamError::trap(
                "write not permitted: check_write not called first",
            ));
        }
        self.failed = self.put(&bytes).err();
        Ok(())
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.pace.give_way().await;
        self.record().await;
        self.told()?;
        self.failed = self.put(&bytes).err();
        self.told()
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.told()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.told()?;
        // No write is accepted until the file is recorded, which `ready` waits for.
        if self.node.is_recorded() {
            Ok(MAX_WRITE)
        } else {
            Ok(0)
        }
    }
}

#[async_trait::async_trait]
impl Pollable for Writer {
    /// A regular file is ready once its content is recorded.
    async fn ready(&mut self) {
        self.pace.give_way().await;
        self.record().await;
    }
}
