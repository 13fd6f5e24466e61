//! The streams of `wasi:filesystem` 0.3. Files are read and written on the current thread, as in WASI 0.2.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use mimir_core::BoxFuture;
use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    Destination, Source, StreamConsumer, StreamProducer, StreamResult, VecBuffer,
};
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};

use super::super::change_turns::ChangeTurns;
use super::super::dir_listing::{DirListing, ListingStep};
use super::super::node::FsNode;
use super::super::overlay::FsEntry;
use super::super::refusal::FsFault;
use super::super::stream::{FileWriter, MAX_READ};
use super::super::yield_timer::YieldTimer;
use super::super::{sys, wasi_types};
use super::StreamOutcome;
use super::conversions::{directory_entry, error_code};

/// Size of a read whose reader names none, in bytes.
const DEFAULT_READ: usize = 64 * 1024;

/// Number of directory entries that are passed at once at most.
const MAX_ENTRIES: usize = 64;

/// The host's end of a stream, which sends the stream's result. If this end is dropped first, the result is success.
pub(super) struct StreamEnd(Option<oneshot::Sender<StreamOutcome>>);

impl StreamEnd {
    pub(super) fn new() -> (Self, oneshot::Receiver<StreamOutcome>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    pub(super) fn send(mut self, outcome: StreamOutcome) {
        self.send_once(outcome);
    }

    fn send_once(&mut self, outcome: StreamOutcome) {
        if let Some(sender) = self.0.take() {
            // The guest may have dropped the future.
            let _ = sender.send(outcome);
        }
    }

    /// Ends the stream with an error.
    fn fail(&mut self, error: std::io::Error) -> StreamResult {
        self.send_once(Err(error_code(wasi_types::error_code(&error))));
        StreamResult::Dropped
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        self.send_once(Ok(()));
    }
}

/// Lets other tasks run before an operation if the stream has been busy for a while: two streams of the host that are
/// connected would otherwise never let a timeout fire.
fn poll_yield(
    timer: &mut YieldTimer,
    cx: &Context<'_>,
    finish: bool,
) -> Option<Poll<wasmtime::Result<StreamResult>>> {
    if !timer.take_due() {
        return None;
    }
    if finish {
        return Some(Poll::Ready(Ok(StreamResult::Cancelled)));
    }
    cx.waker().wake_by_ref();
    Some(Poll::Pending)
}

/// The content of a file.
enum FileContent {
    Real(FsNode),
    Overlay(Bytes),
}

/// Reads a file from an offset on.
pub(super) struct FileProducer {
    content: FileContent,
    offset: u64,
    yield_timer: YieldTimer,
    end: StreamEnd,
}

impl FileProducer {
    pub(super) fn open(entry: FsEntry, offset: u64, end: StreamEnd) -> Result<Self, FsFault> {
        let content = match entry {
            FsEntry::Real(node) => {
                node.readable()?;
                FileContent::Real(node)
            }
            FsEntry::Overlay(overlay) => FileContent::Overlay(overlay.content()?.clone()),
        };
        Ok(Self {
            content,
            offset,
            yield_timer: YieldTimer::new(),
            end,
        })
    }

    fn read(&self, size: usize) -> std::io::Result<Vec<u8>> {
        match &self.content {
            FileContent::Real(node) => {
                let file = node.readable();
                let file = file.map_err(|_| std::io::ErrorKind::PermissionDenied)?;
                sys::read_at(file, size, self.offset)
            }
            FileContent::Overlay(content) => {
                let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
                let rest = content.get(start..).unwrap_or_default();
                Ok(rest[..size.min(rest.len())].to_vec())
            }
        }
    }
}

impl<D: 'static> StreamProducer<D> for FileProducer {
    type Item = u8;
    type Buffer = VecBuffer<u8>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'a, D>,
        mut destination: Destination<'a, u8, VecBuffer<u8>>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let wanted = destination.remaining(&mut store).unwrap_or(DEFAULT_READ);
        if wanted == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        if let Some(polled) = poll_yield(&mut self.yield_timer, cx, finish) {
            return polled;
        }
        Poll::Ready(Ok(match self.read(wanted.min(MAX_READ)) {
            Ok(bytes) if bytes.is_empty() => StreamResult::Dropped,
            Ok(bytes) => {
                self.offset = self.offset.saturating_add(bytes.len() as u64);
                destination.set_buffer(bytes.into());
                StreamResult::Completed
            }
            Err(error) => self.end.fail(error),
        }))
    }
}

/// Writes a stream into a file.
pub(super) struct FileConsumer {
    writer: FileWriter,
    /// The recording of the content before the first write.
    recording: Option<BoxFuture<'static, Result<(), FsFault>>>,
    yield_timer: YieldTimer,
    end: StreamEnd,
}

impl FileConsumer {
    pub(super) fn new(writer: FileWriter, turns: &ChangeTurns, end: StreamEnd) -> Self {
        let recording = writer.recording().map(|recording| {
            let turns = turns.clone();
            Box::pin(async move { turns.run(recording).await }) as BoxFuture<'static, _>
        });
        Self {
            writer,
            recording,
            yield_timer: YieldTimer::new(),
            end,
        }
    }
}

impl<D: 'static> StreamConsumer<D> for FileConsumer {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        store: StoreContextMut<'_, D>,
        source: Source<'_, u8>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        if let Some(recording) = &mut self.recording {
            // A cancelled write would lose what the guest has passed.
            let recorded = ready!(recording.as_mut().poll(cx));
            self.recording = None;
            if recorded.is_err() {
                let error = std::io::ErrorKind::PermissionDenied.into();
                return Poll::Ready(Ok(self.end.fail(error)));
            }
        }
        if let Some(polled) = poll_yield(&mut self.yield_timer, cx, finish) {
            return polled;
        }
        let mut source = source.as_direct(store);
        let bytes = source.remaining();
        let count = bytes.len().min(MAX_READ);
        let written = self.writer.put(&bytes[..count]);
        Poll::Ready(Ok(match written {
            Ok(()) => {
                source.mark_read(count);
                StreamResult::Completed
            }
            Err(error) => self.end.fail(error),
        }))
    }
}

/// Lists a directory.
pub(super) struct ListingProducer {
    listing: DirListing,
    yield_timer: YieldTimer,
    end: StreamEnd,
}

impl ListingProducer {
    pub(super) fn new(listing: DirListing, end: StreamEnd) -> Self {
        Self {
            listing,
            yield_timer: YieldTimer::new(),
            end,
        }
    }
}

impl<D: 'static> StreamProducer<D> for ListingProducer {
    type Item = DirectoryEntry;
    type Buffer = VecBuffer<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'a, D>,
        mut destination: Destination<'a, DirectoryEntry, VecBuffer<DirectoryEntry>>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let wanted = destination.remaining(&mut store).unwrap_or(MAX_ENTRIES);
        if wanted == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        if let Some(polled) = poll_yield(&mut self.yield_timer, cx, finish) {
            return polled;
        }
        let mut entries = Vec::new();
        let result = loop {
            match self.listing.step() {
                Ok(ListingStep::Entry(entry)) => entries.push(directory_entry(entry)),
                Ok(ListingStep::Hidden) => {}
                Ok(ListingStep::End) => break StreamResult::Dropped,
                Err(FsFault::Code(code)) => {
                    self.end.send_once(Err(error_code(code)));
                    break StreamResult::Dropped;
                }
                Err(FsFault::Refused(_) | FsFault::TooManyOpen) => {
                    self.end.send_once(Err(ErrorCode::NotPermitted));
                    break StreamResult::Dropped;
                }
            }
            if entries.len() >= wanted.min(MAX_ENTRIES) {
                break StreamResult::Completed;
            }
            // A folder of hidden entries only would block the thread.
            if entries.is_empty()
                && let Some(polled) = poll_yield(&mut self.yield_timer, cx, finish)
            {
                return polled;
            }
        };
        destination.set_buffer(entries.into());
        Poll::Ready(Ok(result))
    }
}
