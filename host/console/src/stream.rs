//! The event stream: messages for all open pages, with ids from which a page continues after it was disconnected.
//!
//! A page that reads too slowly is dropped. It reconnects, and gets what it has missed, or the advice to load all anew.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use mimir_core::ToolError;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use crate::backend::ConsoleBackend;
use crate::event::{ConsoleEvent, ConsoleEventKind, ConsoleEvents};
use crate::limits::ConsoleLimits;
use crate::plain_text::visible_json;
use crate::sessions::{BrowserSession, StreamCount, random_secret};

/// Number of messages that wait for one page.
const QUEUE: usize = 8;

/// Size of a batch in bytes at which it is sent without waiting longer.
const FULL_BATCH: usize = 256 << 10;

/// Messages for all open pages.
pub(crate) struct EventHub {
    backend: Arc<dyn ConsoleBackend>,
    limits: ConsoleLimits,
    /// Begin of the ids, so that those of an earlier console mean nothing here.
    epoch: String,
    started: AtomicBool,
    kept: Mutex<KeptMessages>,
    /// Number of the next message.
    next: watch::Sender<u64>,
    streams: Arc<Semaphore>,
}

/// The last messages. The number of the first one is `next - messages.len()`.
#[derive(Default)]
struct KeptMessages {
    messages: VecDeque<Bytes>,
    bytes: usize,
    next: u64,
}

/// Events of one kind that are sent together.
struct EventBatch {
    kind: ConsoleEventKind,
    data: String,
    due: Instant,
}

/// A page that is connected.
struct ConnectedPage {
    hub: Arc<EventHub>,
    session: Arc<BrowserSession>,
    /// Returns false once the person may not see the events any more.
    may_read: Box<dyn Fn() -> bool + Send + Sync>,
    /// Number of the next message to send.
    next: u64,
    sender: mpsc::Sender<Bytes>,
    _count: StreamCount,
    _permit: OwnedSemaphorePermit,
}

impl EventHub {
    pub(crate) fn new(
        backend: Arc<dyn ConsoleBackend>,
        limits: ConsoleLimits,
    ) -> Result<Arc<Self>, ToolError> {
        let mut epoch = random_secret()?;
        epoch.truncate(12);
        // The number follows after a dash.
        let epoch = epoch.replace('-', "_");
        Ok(Arc::new(Self {
            backend,
            epoch,
            started: AtomicBool::new(false),
            kept: Mutex::default(),
            next: watch::Sender::new(0),
            streams: Arc::new(Semaphore::new(limits.streams)),
            limits,
        }))
    }

    /// Connects a page. `None` if too many are connected.
    pub(crate) fn connect(
        self: &Arc<Self>,
        session: Arc<BrowserSession>,
        last_id: Option<&str>,
        may_read: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<Body> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        let count = session.open_stream(self.limits.session_streams)?;
        if !self.started.swap(true, Ordering::Relaxed) {
            let events = self.backend.events();
            tokio::spawn(collect_events(Arc::downgrade(self), events));
        }
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        let (next, opening) = self.position(last_id);
        // The queue is empty.
        let _ = sender.try_send(opening);
        let page = ConnectedPage {
            hub: Arc::clone(self),
            session,
            may_read: Box::new(may_read),
            next,
            sender,
            _count: count,
            _permit: permit,
        };
        tokio::spawn(page.send_messages());
        let messages = futures::stream::poll_fn(move |context| {
            let message = std::task::ready!(receiver.poll_recv(context));
            std::task::Poll::Ready(message.map(Ok::<_, Infallible>))
        });
        Some(Body::from_stream(messages))
    }

    /// Returns the number of the first message for a page, and the message before it.
    fn position(&self, last_id: Option<&str>) -> (u64, Bytes) {
        let kept = self.kept.lock();
        let last = last_id.map(|id| {
            let (epoch, number) = id.rsplit_once('-')?;
            let number: u64 = number.parse().ok()?;
            let next = number.checked_add(1)?;
            (epoch == self.epoch && next >= kept.first() && next <= kept.next).then_some(next)
        });
        let (next, kind) = match last {
            None => (kept.next, "ping"),
            Some(Some(next)) => (next, "ping"),
            // The page has missed messages that are not kept.
            Some(None) => (kept.next, "reset"),
        };
        let id = match next.checked_sub(1) {
            Some(last) => format!("id: {}-{last}\n", self.epoch),
            None => String::new(),
        };
        let opening = format!("retry: 1000\n{id}event: {kind}\ndata: {{}}\n\n");
        (next, Bytes::from(opening))
    }

    /// Adds a message and wakes the pages.
    fn publish(&self, kind: ConsoleEventKind, data: &str) {
        let mut kept = self.kept.lock();
        let number = kept.next;
        let kind = kind.as_str();
        let message = format!(
            "id: {}-{number}\nevent: {kind}\ndata: {data}\n\n",
            self.epoch
        );
        kept.bytes += message.len();
        kept.messages.push_back(Bytes::from(message));
        kept.next += 1;
        while kept.messages.len() > self.limits.kept_messages
            || (kept.bytes > self.limits.kept_bytes && kept.messages.len() > 1)
        {
            let removed = kept.messages.pop_front();
            kept.bytes -= removed.map_or(0, |message| message.len());
        }
        let next = kept.next;
        drop(kept);
        self.next.send_replace(next);
    }
}

impl KeptMessages {
    fn first(&self) -> u64 {
        self.next - self.messages.len() as u64
    }

    /// Returns the message with a number: `Ok(None)` if it does not exist yet, an error if it is not kept any more.
    fn get(&self, number: u64) -> Result<Option<Bytes>, ()> {
        let index = number.checked_sub(self.first()).ok_or(())?;
        let message = usize::try_from(index).ok();
        Ok(message.and_then(|index| self.messages.get(index).cloned()))
    }
}

impl ConnectedPage {
    /// Sends messages until the page or the session is gone, or the page reads too slowly.
    async fn send_messages(self) {
        let session = Arc::clone(&self.session);
        let sender = self.sender.clone();
        tokio::select! {
            () = session.wait_until_ended() => {}
            () = sender.closed() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(mut self) {
        let mut news = self.hub.next.subscribe();
        let period = self.hub.limits.ping;
        let mut pings = interval_at(Instant::now() + period, period);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Marked before the messages are read, so that none is overlooked.
            news.mark_unchanged();
            loop {
                let message = self.hub.kept.lock().get(self.next);
                match message {
                    Ok(Some(message)) => {
                        if !self.send(message).await {
                            return;
                        }
                        self.next += 1;
                    }
                    Ok(None) => break,
                    Err(()) => return,
                }
            }
            tokio::select! {
                changed = news.changed() => if changed.is_err() {
                    return;
                },
                _ = pings.tick() => {
                    let is_open = self.session.is_valid() && (self.may_read)();
                    let ping = Bytes::from_static(b"event: ping\ndata: {}\n\n");
                    if !is_open || !self.send(ping).await {
                        return;
                    }
                }
            }
        }
    }

    /// Sends a message. Returns false if the page is gone or does not read.
    async fn send(&self, message: Bytes) -> bool {
        let sent = timeout(self.hub.limits.stalled, self.sender.send(message)).await;
        matches!(sent, Ok(Ok(())))
    }
}

/// Turns the events of the backend into messages, until the hub or the backend is gone.
async fn collect_events(hub: Weak<EventHub>, mut events: ConsoleEvents) {
    let mut batch: Option<EventBatch> = None;
    loop {
        let due = batch.as_ref().map(|batch| batch.due);
        let event = tokio::select! {
            event = events.next() => event,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let Some(hub) = hub.upgrade() else { return };
                send_batch(&hub, &mut batch);
                continue;
            }
        };
        let Some(hub) = hub.upgrade() else { return };
        let Some(ConsoleEvent { kind, data }) = event else {
            send_batch(&hub, &mut batch);
            return;
        };
        let data = visible_json(&data);
        if !kind.is_batched() {
            // Earlier events are sent first.
            send_batch(&hub, &mut batch);
            hub.publish(kind, &data);
            continue;
        }
        if batch.as_ref().is_some_and(|batch| batch.kind != kind) {
            send_batch(&hub, &mut batch);
        }
        let batched = batch.get_or_insert_with(|| EventBatch {
            kind,
            data: String::new(),
            due: Instant::now() + hub.limits.batch,
        });
        batched
            .data
            .push(if batched.data.is_empty() { '[' } else { ',' });
        batched.data.push_str(&data);
        if batched.data.len() >= FULL_BATCH {
            send_batch(&hub, &mut batch);
        }
    }
}

fn send_batch(hub: &EventHub, batch: &mut Option<EventBatch>) {
    if let Some(EventBatch { kind, mut data, .. }) = batch.take() {
        data.push(']');
        hub.publish(kind, &data);
    }
}
