//! Watches of an area.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures::StreamExt as _;
use mimir_core::backend::BoxFuture;
use mimir_core::shared_state::{
    SharedStateError, StateArea, StateChange, StateEntry, StateKey, StateWatch,
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::{LIFETIME_HEADER, MARKER_HEADER, OPERATION_HEADER, StateAccess, deadline, is_removed};
use crate::connection::ACCESS_TIMEOUT;
use crate::names;
use crate::request::{RequestError, code, find_violation};
use crate::streams::area_stream;

/// Interval in which JetStream says that a watch has no changes.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Time without changes and heartbeats after which a watch begins again.
const SILENCE_MAX: Duration = Duration::from_millis(1600);

/// Pause before a watch begins again that could not.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Number of changes that wait for their reader.
const CHANGES_MAX: usize = 1024;

/// A watch of an area. A task reads the changes, and begins again when some may have been missed.
pub(super) struct NatsWatch {
    changes: mpsc::Receiver<StateChange>,
}

impl StateWatch for NatsWatch {
    fn next(&mut self) -> BoxFuture<'_, Option<StateChange>> {
        Box::pin(self.changes.recv())
    }
}

impl NatsWatch {
    /// Starts a watch. Runs on the connection's runtime.
    pub(super) async fn start(
        access: Arc<StateAccess>,
        area: StateArea,
    ) -> Result<Self, SharedStateError> {
        let subscription = access.subscribe(area).await?;
        let (sender, changes) = mpsc::channel(CHANGES_MAX);
        let task = WatchTask {
            generation: access.connection.generation(),
            access,
            area,
            sender,
            known: BTreeSet::new(),
        };
        tokio::spawn(task.run(subscription));
        Ok(Self { changes })
    }
}

/// A consumer of the changes of an area.
struct ChangeConsumer {
    messages: Subscriber,
    /// Number of existing values that the consumer was created with.
    pending: u64,
    name: String,
}

#[derive(Deserialize)]
struct ConsumerAnswer {
    name: String,
    #[serde(default)]
    num_pending: u64,
}

impl StateAccess {
    async fn subscribe(&self, area: StateArea) -> Result<ChangeConsumer, SharedStateError> {
        let deadline = deadline();
        let stream = names::bucket_stream(area);
        let inbox = self.connection.client().new_inbox();
        let mut violations = self.connection.violations();
        let messages = self.connection.client().subscribe(inbox.clone()).await;
        let messages = messages.map_err(|error| self.unreachable(error))?;
        let filter = names::state_subject(area, ">");
        let body = json!({
            "stream_name": stream,
            "config": {
                "deliver_subject": inbox,
                "deliver_policy": "last_per_subject",
                "filter_subject": filter,
                "ack_policy": "none",
                "replay_policy": "instant",
                "max_deliver": 1,
                "flow_control": true,
                "idle_heartbeat": HEARTBEAT.as_nanos() as u64,
                "inactive_threshold": (SILENCE_MAX * 4).as_nanos() as u64,
                "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let name = format!("CONSUMER.CREATE.{stream}");
        loop {
            let create = self
                .connection
                .api::<ConsumerAnswer>(&name, &body, deadline);
            let created = tokio::select! {
                created = create => created,
                violation = find_violation(&mut violations, &inbox) => Err(RequestError::Forbidden(violation)),
            };
            match created {
                Ok(answer) => {
                    return Ok(ChangeConsumer {
                        messages,
                        pending: answer.num_pending,
                        name: answer.name,
                    });
                }
                Err(error) if error.code() == Some(code::STREAM_NOT_FOUND) => {
                    let created = self.connection.ensure_stream(area_stream(area)).await;
                    created.map_err(|error| self.error(area, error))?;
                }
                Err(error) => return Err(self.error(area, error)),
            }
            if Instant::now() >= deadline {
                return Err(self.unreachable(RequestError::Timeout));
            }
        }
    }
}

/// The reasons for which a consumer ends.
enum ConsumerEnd {
    /// Changes may have been missed.
    Missed,
    /// The reader was dropped, or the connection closed.
    Closed,
}

struct WatchTask {
    access: Arc<StateAccess>,
    area: StateArea,
    sender: mpsc::Sender<StateChange>,
    /// Keys that were reported and not removed.
    known: BTreeSet<StateKey>,
    generation: tokio::sync::watch::Receiver<u64>,
}

impl WatchTask {
    async fn run(mut self, consumer: ChangeConsumer) {
        let mut consumer = Some(consumer);
        loop {
            if let Some(consumer) = consumer.take() {
                self.generation.mark_unchanged();
                if let ConsumerEnd::Closed = self.read(consumer).await {
                    return;
                }
            }
            match self.access.subscribe(self.area).await {
                Ok(next) => consumer = Some(next),
                Err(error) => {
                    tracing::debug!("cluster: cannot watch {}: {error}", self.area);
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_DELAY) => {}
                        () = self.sender.closed() => return,
                    }
                }
            }
        }
    }

    /// Reports the changes of a consumer until it ends.
    async fn read(&mut self, mut consumer: ChangeConsumer) -> ConsumerEnd {
        let mut current = CurrentValues {
            keys: BTreeSet::new(),
            is_complete: false,
        };
        if consumer.pending == 0 && !self.complete(&mut current).await {
            return ConsumerEnd::Closed;
        }
        let mut next_sequence = 1;
        loop {
            let message = tokio::select! {
                message = timeout(SILENCE_MAX, consumer.messages.next()) => message,
                _ = self.generation.changed() => return ConsumerEnd::Missed,
                () = self.sender.closed() => return ConsumerEnd::Closed,
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return ConsumerEnd::Closed,
                Err(_) => return ConsumerEnd::Missed,
            };
            if message.status == Some(StatusCode::IDLE_HEARTBEAT) {
                // Values can be removed before they are delivered, so that the last one is not known by its number.
                if !current.is_complete
                    && self.has_delivered_all(&consumer.name).await
                    && !self.complete(&mut current).await
                {
                    return ConsumerEnd::Closed;
                }
                if let Some(end) = self.answer_status(&message, next_sequence).await {
                    return end;
                }
                continue;
            }
            if message.status.is_some() {
                return ConsumerEnd::Missed;
            }
            let message = async_nats::jetstream::Message {
                message,
                context: self.access.connection.jetstream().clone(),
            };
            let Ok((sequence, revision, pending)) = message
                .info()
                .map(|info| (info.consumer_sequence, info.stream_sequence, info.pending))
            else {
                return ConsumerEnd::Missed;
            };
            if sequence != next_sequence {
                return ConsumerEnd::Missed;
            }
            next_sequence += 1;
            if !self.report(&message, revision, &mut current).await
                || (pending == 0 && !self.complete(&mut current).await)
            {
                return ConsumerEnd::Closed;
            }
        }
    }

    /// Answers a heartbeat or a request of the flow control. Returns the end of the consumer if it shows missed changes.
    async fn answer_status(&self, message: &Message, next_sequence: u64) -> Option<ConsumerEnd> {
        if let Some(reply) = message.reply.clone() {
            let client = self.access.connection.client();
            let _ = client.publish(reply, Bytes::new()).await;
            return None;
        }
        let headers = message.headers.as_ref()?;
        let last = headers
            .get("Nats-Last-Consumer")?
            .as_str()
            .parse::<u64>()
            .ok()?;
        (last >= next_sequence).then_some(ConsumerEnd::Missed)
    }

    async fn has_delivered_all(&self, consumer: &str) -> bool {
        let stream = names::bucket_stream(self.area);
        let name = format!("CONSUMER.INFO.{stream}.{consumer}");
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let info = self
            .access
            .connection
            .api::<ConsumerAnswer>(&name, &json!(null), deadline);
        info.await.is_ok_and(|info| info.num_pending == 0)
    }

    /// Reports a message. Returns false if the reader was dropped.
    async fn report(
        &mut self,
        message: &Message,
        revision: u64,
        current: &mut CurrentValues,
    ) -> bool {
        let start = names::state_subject(self.area, "");
        let key = message
            .subject
            .strip_prefix(start.as_str())
            .and_then(StateKey::parse);
        let Some(key) = key else {
            return true;
        };
        let header = |name: &str| {
            let headers = message.headers.as_ref()?;
            headers.get(name).map(|value| value.as_str())
        };
        let change = if is_removed(header(OPERATION_HEADER), header(MARKER_HEADER)) {
            current.keys.remove(&key);
            self.access.lifetimes.forget(self.area, &key);
            // A removed key can have several markers.
            if !self.known.remove(&key) {
                return true;
            }
            StateChange::Removed(key)
        } else {
            self.known.insert(key.clone());
            // The first sight counts; a read removes the value.
            let lifetime = header(LIFETIME_HEADER);
            let lifetimes = &self.access.lifetimes;
            lifetimes.has_ended(self.area, &key, revision, lifetime);
            if !current.is_complete {
                current.keys.insert(key.clone());
            }
            StateChange::Set(StateEntry {
                key,
                value: message.payload.to_vec(),
                revision,
            })
        };
        self.sender.send(change).await.is_ok()
    }

    /// Reports that all existing values were reported, once for each consumer. Returns false if the reader was dropped.
    async fn complete(&mut self, current: &mut CurrentValues) -> bool {
        if std::mem::replace(&mut current.is_complete, true) {
            return true;
        }
        let keys = std::mem::take(&mut current.keys);
        let missing: Vec<StateKey> = self.known.difference(&keys).cloned().collect();
        self.known = keys;
        for key in missing {
            if self.sender.send(StateChange::Removed(key)).await.is_err() {
                return false;
            }
        }
        self.sender.send(StateChange::Current).await.is_ok()
    }
}

/// The values that a consumer has reported before it was complete.
struct CurrentValues {
    keys: BTreeSet<StateKey>,
    is_complete: bool,
}
