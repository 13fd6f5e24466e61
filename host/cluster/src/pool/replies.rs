//! The frames of the calls of this process: one subscription for all calls, and a channel for each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::StatusCode;
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::connection::{ClusterConnection, ClusterError};
use crate::ids::random_hex;
use crate::names;

/// Number of random bytes in the reply subjects of a process.
const INSTANCE_BYTES: usize = 12;

/// Pause after the subscription has failed.
const SUBSCRIBE_RETRY: Duration = Duration::from_millis(500);

/// A message about a call.
pub(super) enum WorkerReply {
    /// A message of the worker, or a part of one.
    Part(Bytes),
    /// The worker does not receive calls. The call was not delivered.
    NotDelivered,
}

/// The open calls of this process.
pub(super) struct ReplyTable {
    instance: String,
    next: AtomicU64,
    open: Mutex<HashMap<String, mpsc::UnboundedSender<WorkerReply>>>,
}

/// The frames of one call. Dropping it closes the call's channel.
pub(super) struct ReplyChannel {
    /// The reply subject, which is also the name of the call for its worker.
    pub(super) subject: String,
    receiver: mpsc::UnboundedReceiver<WorkerReply>,
    table: Arc<ReplyTable>,
}

impl ReplyTable {
    /// Subscribes to the replies of this process.
    pub(super) async fn subscribe(
        connection: &ClusterConnection,
    ) -> Result<(Arc<Self>, tokio::task::JoinHandle<()>), ClusterError> {
        let instance = random_hex::<INSTANCE_BYTES>()
            .map_err(|error| ClusterError::Options(format!("no random numbers: {error}")))?;
        let table = Arc::new(Self {
            instance,
            next: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let subscriber = subscribe(connection, &table.instance).await?;
        let receive = Arc::clone(&table).receive(connection.clone(), subscriber);
        Ok((table, connection.runtime().spawn(receive)))
    }

    async fn receive(
        self: Arc<Self>,
        connection: ClusterConnection,
        mut subscriber: async_nats::Subscriber,
    ) {
        loop {
            while let Some(message) = subscriber.next().await {
                self.deliver(message);
            }
            tokio::time::sleep(SUBSCRIBE_RETRY).await;
            match subscribe(&connection, &self.instance).await {
                Ok(next) => subscriber = next,
                Err(error) => tracing::warn!(%error, "answers of workers cannot be received"),
            }
        }
    }

    fn deliver(&self, message: async_nats::Message) {
        let reply = match message.status {
            Some(StatusCode::NO_RESPONDERS) => WorkerReply::NotDelivered,
            _ => WorkerReply::Part(message.payload),
        };
        if let Some(channel) = self.open.lock().get(message.subject.as_str()) {
            let _ = channel.send(reply);
        }
    }

    /// Opens a channel for a call.
    pub(super) fn open(self: &Arc<Self>) -> ReplyChannel {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let subject = names::call_reply(&self.instance, &format!("{number:x}"));
        let (sender, receiver) = mpsc::unbounded_channel();
        self.open.lock().insert(subject.clone(), sender);
        ReplyChannel {
            subject,
            receiver,
            table: Arc::clone(self),
        }
    }
}

async fn subscribe(
    connection: &ClusterConnection,
    instance: &str,
) -> Result<async_nats::Subscriber, ClusterError> {
    let subject = names::call_reply(instance, "*");
    let subscribed = connection.client().subscribe(subject).await;
    subscribed.map_err(|error| ClusterError::Failed {
        servers: connection.servers().to_owned(),
        text: error.to_string(),
    })
}

impl ReplyChannel {
    /// Returns the next message.
    pub(super) async fn next(&mut self) -> WorkerReply {
        match self.receiver.recv().await {
            Some(reply) => reply,
            // The sender lives in the table until this channel is dropped.
            None => std::future::pending().await,
        }
    }
}

impl Drop for ReplyChannel {
    fn drop(&mut self) {
        self.table.open.lock().remove(&self.subject);
    }
}
