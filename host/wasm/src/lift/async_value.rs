//! Streams and futures of plain values: an argument is complete before the call, a result is read to its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use mimir_core::BoxFuture;
use serde_json::Value;
use tokio::sync::oneshot;
use wasmtime::component::{
    FutureAny, FutureConsumer, FutureReader, Lift, Source, StreamAny, StreamConsumer, StreamReader,
    StreamResult, Type, Val,
};
use wasmtime::{AsContextMut, StoreContextMut};

use super::call::{CallResult, LiftError};
use super::plain_value::{ByteList, PlainValue, with_plain_type};
use super::value;

/// Maximum number of values that are taken from a stream at once.
const MAX_BATCH: usize = 4096;

/// Returns a stream of bytes as an argument.
pub(super) fn byte_stream(
    mut store: impl AsContextMut<Data: Send + 'static>,
    bytes: Vec<u8>,
) -> wasmtime::Result<Val> {
    let reader = StreamReader::new(&mut store, bytes)?;
    Ok(Val::Stream(reader.try_into_stream_any(&mut store)?))
}

/// Returns a stream of values of the type `item` as an argument.
pub(super) fn stream<T: Send + 'static>(
    store: StoreContextMut<'_, T>,
    item: &Type,
    values: Vec<Val>,
) -> wasmtime::Result<Val> {
    fn typed<P: PlainValue>(
        mut store: StoreContextMut<'_, impl Send + 'static>,
        values: Vec<Val>,
    ) -> wasmtime::Result<Val> {
        let values: Option<Vec<P>> = values.into_iter().map(P::from_value).collect();
        let reader = StreamReader::new(&mut store, values.ok_or_else(unexpected)?)?;
        Ok(Val::Stream(reader.try_into_stream_any(&mut store)?))
    }
    with_plain_type!(item, typed(store, values), Err(unexpected()))
}

/// Returns a future that is ready as an argument.
pub(super) fn future<T: Send + 'static>(
    store: StoreContextMut<'_, T>,
    payload: &Type,
    value: Val,
) -> wasmtime::Result<Val> {
    fn typed<P: PlainValue>(
        mut store: StoreContextMut<'_, impl Send + 'static>,
        value: Val,
    ) -> wasmtime::Result<Val> {
        let value = P::from_value(value).ok_or_else(unexpected)?;
        let reader = FutureReader::new(&mut store, async move { wasmtime::error::Ok(value) })?;
        Ok(Val::Future(reader.try_into_future_any(&mut store)?))
    }
    with_plain_type!(payload, typed(store, value), Err(unexpected()))
}

/// The error for a type that has no form in JSON: its function is not a tool.
fn unexpected() -> wasmtime::Error {
    wasmtime::format_err!("the type of the stream or future is not supported")
}

/// A stream or a future in a function's result: all of it, or its success.
pub(super) enum AsyncResult {
    /// A stream with the type of its values.
    Stream(StreamAny, Type),
    /// A future with the type of its value.
    Future(FutureAny, Type),
}

impl AsyncResult {
    /// Takes the stream or future out of a function's result.
    pub(super) fn take(result: &Val, ty: &Type) -> Option<Self> {
        match (result, ty) {
            (Val::Stream(stream), Type::Stream(ty)) => Some(Self::Stream(stream.clone(), ty.ty()?)),
            (Val::Future(future), Type::Future(ty)) => Some(Self::Future(future.clone(), ty.ty()?)),
            (Val::Result(Ok(Some(value))), Type::Result(ty)) => Self::take(value, &ty.ok()?),
            _ => None,
        }
    }

    /// Waits for all of it, while the component that writes it continues.
    pub(super) async fn read<T: Send + 'static>(
        self,
        store: StoreContextMut<'_, T>,
        max_bytes: usize,
    ) -> Result<CallResult, LiftError> {
        let reading = match self {
            Self::Stream(stream, Type::U8) => {
                let bytes = read_stream::<u8, T>(store, stream, max_bytes).await?;
                return Ok(CallResult::Success(Some(value::base64(bytes))));
            }
            Self::Stream(stream, item) => {
                with_plain_type!(item, read_values(store, stream, max_bytes), unreadable())
            }
            Self::Future(future, Type::Result(ty)) if ty.err() == Some(Type::String) => {
                match ty.ok() {
                    None => read_outcome::<Result<(), String>, T>(store, future, max_bytes),
                    Some(success) => with_plain_type!(
                        success,
                        read_result(store, future, max_bytes),
                        unreadable()
                    ),
                }
            }
            Self::Future(future, payload) => {
                with_plain_type!(payload, read_value(store, future, max_bytes), unreadable())
            }
        };
        reading.await
    }
}

type Reading<'a> = BoxFuture<'a, Result<CallResult, LiftError>>;

fn unreadable<'a>() -> Reading<'a> {
    Box::pin(async { Err(LiftError::Trap(unexpected())) })
}

/// Reads a stream of values as an array.
fn read_values<'a, P: PlainValue>(
    store: StoreContextMut<'a, impl Send + 'static>,
    stream: StreamAny,
    max_bytes: usize,
) -> Reading<'a> {
    Box::pin(async move {
        let values: Vec<P> = read_stream(store, stream, max_bytes).await?;
        let values = values.into_iter().map(P::raise).collect();
        Ok(CallResult::Success(Some(Value::Array(values))))
    })
}

/// Reads a future of a value.
fn read_value<'a, P: PlainValue>(
    store: StoreContextMut<'a, impl Send + 'static>,
    future: FutureAny,
    max_bytes: usize,
) -> Reading<'a> {
    read_outcome::<P, _>(store, future, max_bytes)
}

/// Reads a future of a result with a value.
fn read_result<'a, P: PlainValue>(
    store: StoreContextMut<'a, impl Send + 'static>,
    future: FutureAny,
    max_bytes: usize,
) -> Reading<'a> {
    read_outcome::<Result<P, String>, _>(store, future, max_bytes)
}

fn read_outcome<'a, O: FutureOutcome, T: Send + 'static>(
    store: StoreContextMut<'a, T>,
    future: FutureAny,
    max_bytes: usize,
) -> Reading<'a> {
    Box::pin(async move {
        read_future::<O, T>(store, future)
            .await?
            .call_result(max_bytes)
    })
}

/// A value of a future that becomes the result of a tool.
trait FutureOutcome: Lift + Send + Sync + 'static {
    fn call_result(self, max_bytes: usize) -> Result<CallResult, LiftError>;
}

impl<P: PlainValue> FutureOutcome for P {
    fn call_result(self, max_bytes: usize) -> Result<CallResult, LiftError> {
        if self.size() > max_bytes {
            return Err(LiftError::TooLarge);
        }
        Ok(CallResult::Success(Some(self.raise())))
    }
}

impl<P: PlainValue> FutureOutcome for Result<P, String> {
    fn call_result(self, max_bytes: usize) -> Result<CallResult, LiftError> {
        match self {
            Ok(value) => value.call_result(max_bytes),
            Err(message) => failure(message, max_bytes),
        }
    }
}

impl FutureOutcome for Result<(), String> {
    fn call_result(self, max_bytes: usize) -> Result<CallResult, LiftError> {
        match self {
            Ok(()) => Ok(CallResult::Success(None)),
            Err(message) => failure(message, max_bytes),
        }
    }
}

fn failure(message: String, max_bytes: usize) -> Result<CallResult, LiftError> {
    if message.len() > max_bytes {
        return Err(LiftError::TooLarge);
    }
    Ok(CallResult::Failure {
        message,
        details: None,
    })
}

/// Reads a stream to its end.
async fn read_stream<P: PlainValue, T: Send + 'static>(
    mut store: StoreContextMut<'_, T>,
    stream: StreamAny,
    max_bytes: usize,
) -> Result<Vec<P>, LiftError> {
    let (sender, receiver) = oneshot::channel();
    let collector = StreamCollector {
        values: Vec::new(),
        bytes_left: max_bytes,
        sender: Some(sender),
    };
    let piped = stream
        .try_into_stream_reader::<P>()
        .and_then(|reader| reader.pipe(&mut store, collector));
    piped.map_err(LiftError::Trap)?;
    let read = store.run_concurrent(async |_| receiver.await);
    match read.await.map_err(LiftError::Trap)? {
        Ok(Some(values)) => Ok(values),
        Ok(None) => Err(LiftError::TooLarge),
        Err(_) => Err(LiftError::Trap(wasmtime::format_err!(
            "the stream ended without its values"
        ))),
    }
}

/// Receives the values of a stream, and sends them once the stream has ended.
struct StreamCollector<P> {
    values: Vec<P>,
    bytes_left: usize,
    /// The receiver of the values, or of `None` if there are too many.
    sender: Option<oneshot::Sender<Option<Vec<P>>>>,
}

impl<P> StreamCollector<P> {
    fn send(&mut self, values: Option<Vec<P>>) {
        if let Some(sender) = self.sender.take() {
            // The call may have been cancelled.
            let _ = sender.send(values);
        }
    }
}

impl<P: PlainValue, D: 'static> StreamConsumer<D> for StreamCollector<P> {
    type Item = P;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, D>,
        mut source: Source<'_, P>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let available = source.remaining(&mut store).min(MAX_BATCH);
        let mut batch = Vec::with_capacity(available);
        source.read(&mut store, &mut batch)?;
        for value in &batch {
            let Some(left) = self.bytes_left.checked_sub(value.size()) else {
                self.send(None);
                return Poll::Ready(Ok(StreamResult::Dropped));
            };
            self.bytes_left = left;
        }
        self.values.append(&mut batch);
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl<P> Drop for StreamCollector<P> {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        self.send(Some(values));
    }
}

/// Waits for the value of a future.
async fn read_future<P: Lift + Send + Sync + 'static, T: Send + 'static>(
    mut store: StoreContextMut<'_, T>,
    future: FutureAny,
) -> Result<P, LiftError> {
    let (sender, receiver) = oneshot::channel();
    let piped = future
        .try_into_future_reader::<P>()
        .and_then(|reader| reader.pipe(&mut store, FutureReceiver(Some(sender))));
    piped.map_err(LiftError::Trap)?;
    let read = store.run_concurrent(async |_| receiver.await);
    read.await.map_err(LiftError::Trap)?.map_err(|_| {
        LiftError::Trap(wasmtime::format_err!(
            "the future was dropped without a value"
        ))
    })
}

/// Receives the value of a future.
struct FutureReceiver<P>(Option<oneshot::Sender<P>>);

impl<P: Lift + Send + Sync + 'static, D: 'static> FutureConsumer<D> for FutureReceiver<P> {
    type Item = P;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, D>,
        mut source: Source<'_, P>,
        _: bool,
    ) -> Poll<wasmtime::Result<()>> {
        let mut value: Option<P> = None;
        source.read(&mut store, &mut value)?;
        if let (Some(value), Some(sender)) = (value, self.0.take()) {
            // The call may have been cancelled.
            let _ = sender.send(value);
        }
        Poll::Ready(Ok(()))
    }
}
