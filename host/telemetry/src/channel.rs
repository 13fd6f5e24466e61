//! A bounded queue of items of one signal, and the loop that sends them in batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::ToolError;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::instruments::{Instrument, MetricAttribute};
use crate::metric_store::MetricStore;
use crate::transport::{TelemetryRequest, TelemetryResponse, TelemetryTransport};

/// Limits of a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelLimits {
    /// Maximum number of waiting items. A further one replaces the oldest.
    pub capacity: usize,
    /// Maximum number of items in one request.
    pub batch: usize,
    /// Time for which an item waits for others.
    pub delay: Duration,
    /// Maximum number of attempts to send a batch.
    pub attempts: u32,
    /// Time limit of one request.
    pub request_timeout: Duration,
    /// Delay before the second attempt. It doubles with each further one.
    pub first_backoff: Duration,
}

/// Maximum delay between two attempts, and maximum `Retry-After` that is followed.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// A queue of items that wait to be sent.
pub(crate) struct Channel<T> {
    signal: &'static str,
    limits: ChannelLimits,
    metrics: Arc<MetricStore>,
    state: Mutex<ChannelState<T>>,
    /// Wakes the loop.
    wake: Notify,
    /// Wakes the threads that wait for a flush.
    flushed: Condvar,
}

struct ChannelState<T> {
    items: VecDeque<T>,
    flushes_requested: u64,
    flushes_done: u64,
    closed: bool,
}

/// The result of an attempt to send a batch.
enum SendResult {
    Sent,
    /// Another attempt may succeed, at the earliest after this delay.
    Retry(Option<Duration>, String),
    Refused(String),
}

impl<T> Channel<T> {
    pub(crate) fn new(
        signal: &'static str,
        limits: ChannelLimits,
        metrics: Arc<MetricStore>,
    ) -> Self {
        Self {
            signal,
            limits,
            metrics,
            state: Mutex::new(ChannelState {
                items: VecDeque::new(),
                flushes_requested: 0,
                flushes_done: 0,
                closed: false,
            }),
            wake: Notify::new(),
            flushed: Condvar::new(),
        }
    }

    /// Adds an item. Never blocks: if the queue is full, the oldest item is dropped.
    pub(crate) fn push(&self, item: T) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let dropped = state.items.len() >= self.limits.capacity;
        if dropped {
            state.items.pop_front();
        }
        state.items.push_back(item);
        let waiting = state.items.len();
        drop(state);
        if dropped {
            self.count_dropped(1);
        }
        if waiting == 1 || waiting == self.limits.batch {
            self.wake.notify_one();
        }
    }

    /// Sends all items of now at once. Batches that fail are not tried again. Returns the number of the flush.
    pub(crate) fn begin_flush(&self) -> u64 {
        let mut state = self.state.lock();
        state.flushes_requested += 1;
        let number = state.flushes_requested;
        drop(state);
        self.wake.notify_one();
        number
    }

    /// Waits until a flush has ended, or until the deadline. Returns true if it has ended.
    pub(crate) fn wait_for_flush(&self, number: u64, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while state.flushes_done < number && !state.closed {
            if self.flushed.wait_until(&mut state, deadline).timed_out() {
                return state.flushes_done >= number;
            }
        }
        true
    }

    /// Ends the loop.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.flushed.notify_all();
        self.wake.notify_one();
    }

    /// Sends items until the channel is closed.
    pub(crate) async fn run(
        &self,
        transport: &dyn TelemetryTransport,
        encode: impl Fn(&[T]) -> TelemetryRequest,
    ) {
        while self.wait_for_batch().await {
            let pending = self.state.lock().flushes_requested;
            loop {
                let (batch, is_last) = self.take_batch();
                if !batch.is_empty() {
                    self.send(transport, encode(&batch), batch.len() as u64)
                        .await;
                }
                if is_last {
                    break;
                }
            }
            let mut state = self.state.lock();
            if state.flushes_done < pending {
                state.flushes_done = pending;
                drop(state);
                self.flushed.notify_all();
            }
        }
    }

    /// Waits for items, and for more of them. Returns false if the channel is closed.
    async fn wait_for_batch(&self) -> bool {
        let mut waited = false;
        loop {
            let (waiting, flushes, closed) = {
                let state = self.state.lock();
                let flushes = state.flushes_done < state.flushes_requested;
                (state.items.len(), flushes, state.closed)
            };
            if closed {
                return false;
            }
            if flushes || waiting >= self.limits.batch || (waiting > 0 && waited) {
                return true;
            }
            if waiting == 0 {
                self.wake.notified().await;
            } else {
                waited = tokio::time::timeout(self.limits.delay, self.wake.notified())
                    .await
                    .is_err();
            }
        }
    }

    /// Takes the next batch. Returns true with the last one.
    fn take_batch(&self) -> (Vec<T>, bool) {
        let mut state = self.state.lock();
        let count = state.items.len().min(self.limits.batch);
        let batch = state.items.drain(..count).collect();
        (batch, state.items.is_empty() || state.closed)
    }

    /// Sends a request, again if it may succeed later.
    async fn send(
        &self,
        transport: &dyn TelemetryTransport,
        request: TelemetryRequest,
        items: u64,
    ) {
        let mut backoff = self.limits.first_backoff;
        let mut attempt = 1;
        let why = loop {
            let flushes = self.is_flushing();
            let attempted = transport.post(request.clone());
            let attempted = tokio::time::timeout(self.limits.request_timeout, attempted).await;
            match classify(attempted.ok()) {
                SendResult::Sent => {
                    self.count_request("sent");
                    return;
                }
                SendResult::Refused(why) => break why,
                SendResult::Retry(after, why) => {
                    if flushes || attempt >= self.limits.attempts || self.state.lock().closed {
                        break why;
                    }
                    self.count_request("retried");
                    let delay = after.unwrap_or_default().max(backoff).min(MAX_BACKOFF);
                    self.pause(delay).await;
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                    attempt += 1;
                }
            }
        };
        self.count_request("failed");
        self.count_dropped(items);
        tracing::warn!(
            signal = self.signal,
            items,
            "telemetry could not be sent: {why}; check `telemetry.endpoint` and `alerts.webhook`"
        );
    }

    /// Waits before the next attempt, or until a flush is requested or the channel is closed.
    async fn pause(&self, delay: Duration) {
        let ends_early = async {
            while !self.is_flushing() && !self.state.lock().closed {
                self.wake.notified().await;
            }
        };
        let _ = tokio::time::timeout(delay, ends_early).await;
    }

    fn is_flushing(&self) -> bool {
        let state = self.state.lock();
        state.flushes_done < state.flushes_requested
    }

    fn count_dropped(&self, items: u64) {
        let attributes = vec![(MetricAttribute::Signal, self.signal.into())];
        let instrument = Instrument::TelemetryDropped;
        self.metrics.add(instrument, attributes, items as f64);
    }

    fn count_request(&self, result: &'static str) {
        let attributes = vec![
            (MetricAttribute::Signal, self.signal.into()),
            (MetricAttribute::Result, result.into()),
        ];
        self.metrics.count(Instrument::TelemetryExports, attributes);
    }
}

/// Classifies a response as the OTLP specification requires. `None` stands for a request that timed out.
fn classify(response: Option<Result<TelemetryResponse, ToolError>>) -> SendResult {
    match response {
        None => SendResult::Retry(None, "the request timed out".to_owned()),
        Some(Err(error)) if error.code == mimir_core::ToolErrorCode::PolicyDenied => {
            SendResult::Refused(error.message)
        }
        Some(Err(error)) => SendResult::Retry(None, error.message),
        Some(Ok(response)) => match response.status {
            200..=299 => SendResult::Sent,
            status @ (429 | 502 | 503 | 504) => {
                SendResult::Retry(response.retry_after, format!("HTTP status {status}"))
            }
            status => SendResult::Refused(format!("HTTP status {status}")),
        },
    }
}

#[cfg(test)]
mod tests;
