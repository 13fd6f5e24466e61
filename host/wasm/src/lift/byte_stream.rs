//! Streams of bytes: an argument is in memory, a result is read to its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::component::{Source, StreamAny, StreamConsumer, StreamReader, StreamResult, Val};
use wasmtime::{AsContextMut, StoreContextMut};

use super::call::LiftError;

/// Returns a stream of these bytes as an argument.
pub(super) fn argument(
    mut store: impl AsContextMut<Data: Send + 'static>,
    bytes: Vec<u8>,
) -> wasmtime::Result<Val> {
    let reader = StreamReader::new(&mut store, bytes)?;
    Ok(Val::Stream(reader.try_into_stream_any(&mut store)?))
}

/// Takes a stream out of a function's result, where it is all of the result or of its success.
pub(super) fn take_stream(result: &Val) -> Option<StreamAny> {
    match result {
        Val::Stream(stream) => Some(stream.clone()),
        Val::Result(Ok(Some(value))) => match value.as_ref() {
            Val::Stream(stream) => Some(stream.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a stream to its end, while the component that writes it continues.
pub(super) async fn read_to_end(
    mut store: impl AsContextMut<Data: Send + 'static>,
    stream: StreamAny,
    max_bytes: usize,
) -> Result<Vec<u8>, LiftError> {
    let (sender, receiver) = oneshot::channel();
    let collector = ByteCollector {
        bytes: Vec::new(),
        max_bytes,
        sender: Some(sender),
    };
    let piped = stream
        .try_into_stream_reader::<u8>()
        .and_then(|reader| reader.pipe(&mut store, collector));
    piped.map_err(LiftError::Trap)?;
    let read = store
        .as_context_mut()
        .run_concurrent(async |_| receiver.await);
    match read.await.map_err(LiftError::Trap)? {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(LiftError::TooLarge),
        Err(_) => Err(LiftError::Trap(wasmtime::format_err!(
            "the stream ended without its bytes"
        ))),
    }
}

/// Receives the bytes of a stream, and sends them once the stream has ended.
struct ByteCollector {
    bytes: Vec<u8>,
    max_bytes: usize,
    /// The receiver of the bytes, or of `None` if there are too many.
    sender: Option<oneshot::Sender<Option<Vec<u8>>>>,
}

impl ByteCollector {
    fn send(&mut self, bytes: Option<Vec<u8>>) {
        if let Some(sender) = self.sender.take() {
            // The call may have been cancelled.
            let _ = sender.send(bytes);
        }
    }
}

impl<D: 'static> StreamConsumer<D> for ByteCollector {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, D>,
        source: Source<'_, u8>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut source = source.as_direct(store);
        let available = source.remaining();
        let count = available.len();
        if count > self.max_bytes.saturating_sub(self.bytes.len()) {
            self.send(None);
            return Poll::Ready(Ok(StreamResult::Dropped));
        }
        self.bytes.extend_from_slice(available);
        source.mark_read(count);
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl Drop for ByteCollector {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.send(Some(bytes));
    }
}
