//! Streams over regular files, read and written on the current thread.

use super::disk_status::DiskStatus;
use super::node::FsNode;
use super::quota::WriteEnd;
use super::refusal::FsFault;
use super::sys;
use super::yield_timer::YieldTimer;
use bytes::Bytes;
use mimir_core::BoxFuture;
use std::fs::File;
use std::io;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

/// Maximum size of one read in bytes: large enough that the cost of host calls is negligible, small enough that a
/// thousand concurrent reads are no burden.
pub(super) const MAX_READ: usize = 256 * 1024;

/// Maximum size of one write in bytes.
const MAX_WRITE: usize = 256 * 1024;

/// A stream that reads a file from an offset on.
pub(super) struct FileReader {
    node: FsNode,
    offset: u64,
    yield_timer: YieldTimer,
}

impl FileReader {
    pub(super) fn new(node: FsNode, offset: u64) -> Result<Self, FsFault> {
        node.readable()?;
        Ok(Self {
            node,
            offset,
            yield_timer: YieldTimer::new(),
        })
    }
}

fn stream_error(error: io::Error) -> StreamError {
    StreamError::LastOperationFailed(error.into())
}

#[async_trait::async_trait]
impl InputStream for FileReader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let file = self.node.readable().map_err(|_| StreamError::Closed)?;
        let bytes = sys::read_at(file, size.min(MAX_READ), self.offset).map_err(stream_error)?;
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(bytes.into())
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.yield_timer.yield_if_due().await;
        self.read(size)
    }

    fn skip(&mut self, count: usize) -> StreamResult<usize> {
        let file = self.node.readable().map_err(|_| StreamError::Closed)?;
        let left = file
            .metadata()
            .map_err(stream_error)?
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
impl Pollable for FileReader {
    /// A regular file is always ready.
    async fn ready(&mut self) {
        self.yield_timer.yield_if_due().await;
    }
}

/// Position of the next write.
enum WritePosition {
    At(u64),
    End,
}

/// A stream that writes a file from an offset on, or appends to it.
pub(super) struct FileWriter {
    node: FsNode,
    position: WritePosition,
    failed: Option<io::Error>,
    closed: bool,
    yield_timer: YieldTimer,
    disk: DiskStatus,
}

impl FileWriter {
    /// Creates a writer that begins at `offset`; `None` appends.
    pub(super) fn new(
        node: FsNode,
        offset: Option<u64>,
        disk: DiskStatus,
    ) -> Result<Self, FsFault> {
        node.writable()?;
        let position = offset.map_or(WritePosition::End, WritePosition::At);
        Ok(Self {
            node,
            position,
            failed: None,
            closed: false,
            yield_timer: YieldTimer::new(),
            disk,
        })
    }

    /// Records the content of the file before the first write. A failure is reported by the next operation.
    async fn record(&mut self) {
        if !self.closed && self.failed.is_none() && self.node.record().await.is_err() {
            self.failed = Some(io::ErrorKind::PermissionDenied.into());
        }
    }

    /// Returns the recording of the file's content, which must be finished before the first [`put`](Self::put).
    pub(super) fn recording(&self) -> Option<BoxFuture<'static, Result<(), FsFault>>> {
        if self.node.is_recorded() {
            return None;
        }
        let node = self.node.clone();
        Some(Box::pin(async move { node.record().await }))
    }

    /// Writes all bytes at the current position.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let result = self.put_all(bytes);
        self.disk.note_write(&result);
        result
    }

    fn put_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let length = bytes.len() as u64;
            let written = match &mut self.position {
                WritePosition::End => {
                    let end = WriteEnd::After(length);
                    self.node.change(end, |file| sys::append(file, bytes))?
                }
                WritePosition::At(offset) => {
                    let (at, end) = (*offset, WriteEnd::At(offset.saturating_add(length)));
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

    /// Reports an earlier failure once; after that, the stream is closed.
    fn take_failure(&mut self) -> StreamResult<()> {
        match self.failed.take() {
            Some(error) => {
                self.closed = true;
                Err(stream_error(error))
            }
            None if self.closed => Err(StreamError::Closed),
            None => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl OutputStream for FileWriter {
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
        self.yield_timer.yield_if_due().await;
        self.record().await;
        self.take_failure()?;
        self.failed = self.put(&bytes).err();
        self.take_failure()
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.take_failure()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.take_failure()?;
        // No write is accepted until the file is recorded, which `ready` does.
        if self.node.is_recorded() {
            Ok(MAX_WRITE)
        } else {
            Ok(0)
        }
    }
}

#[async_trait::async_trait]
impl Pollable for FileWriter {
    /// A regular file is ready once its content is recorded.
    async fn ready(&mut self) {
        self.yield_timer.yield_if_due().await;
        self.record().await;
    }
}
