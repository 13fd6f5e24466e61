//! A worker: runs the calls that servers of clients send to it, through the pipeline of this process.
//!
//! A worker runs as many calls as it has capacity for, and queues as many again. Further calls are refused at once, so
//! that the server can choose another worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use mimir_core::backend::BoxFuture;
use mimir_core::{Call, Outcome};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::connection::ClusterConnection;
use crate::frames::{self, ControlMessage, PartTable, RemoteToolList, WorkerFrame};
use crate::names;
use crate::node::{ClusterNode, NodeView};

mod call_run;
mod ended_calls;
mod kept_call;
mod observer;
mod pipeline_runner;

pub use pipeline_runner::PipelineRunner;

use ended_calls::{EndedCall, EndedCalls};
use kept_call::KeepState;
use observer::PendingAnswers;

/// Time after which a server should try again that has found no capacity.
const BUSY_RETRY: Duration = Duration::from_millis(50);

/// Maximum number of calls that wait for a person, as a multiple of the capacity.
const WAITING_FACTOR: usize = 16;

/// Interval of the checks for servers whose lease has ended, and the time after which the calls of such a server are
/// stopped. After an election of NATS servers, all leases may have ended at once; they are created again within a second.
const FRONT_CHECK_INTERVAL: Duration = Duration::from_millis(500);
const FRONT_GRACE: Duration = Duration::from_secs(3);

/// Pause after a subscription has failed.
const SUBSCRIBE_RETRY: Duration = Duration::from_millis(500);

/// Runs calls.
pub trait CallRunner: Send + Sync + 'static {
    /// Runs a call for a user in this role. Dropping the future cancels the call, and records it as cancelled.
    fn run<'a>(&'a self, call: Call, role: Option<&'a str>) -> BoxFuture<'a, Outcome>;

    /// Ends a session.
    fn end_session(&self, session: &str);

    /// Returns the tools, with their digest.
    fn catalogue(&self) -> RemoteToolList;
}

/// A worker. Clones share it.
#[derive(Clone)]
pub struct CallWorker(Arc<WorkerHandle>);

/// Ends the tasks of the worker with its last clone.
struct WorkerHandle {
    parts: Arc<WorkerParts>,
    tasks: [JoinHandle<()>; 3],
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct WorkerParts {
    /// The connection for calls and their frames.
    connection: ClusterConnection,
    /// The connection for control messages, which are answered while calls block their runtime.
    control_connection: ClusterConnection,
    node: ClusterNode,
    runner: Arc<dyn CallRunner>,
    /// Runtime of the calls.
    runtime: tokio::runtime::Handle,
    capacity: usize,
    slots: Arc<Semaphore>,
    /// Number of accepted calls that wait for their first slot.
    queued: AtomicUsize,
    calls: Mutex<CallTable>,
    /// Notified when a call has ended.
    ended: Notify,
    is_draining: AtomicBool,
    /// Total number of accepted calls.
    accepted: AtomicU64,
}

/// The calls that the worker knows, by their reply subject.
#[derive(Default)]
struct CallTable {
    running: HashMap<String, Arc<AcceptedRun>>,
    ended: EndedCalls,
}

/// A call that the worker has accepted.
struct AcceptedRun {
    /// The node id under which it was accepted.
    node: String,
    /// Set when the call is to be stopped: its client has left, or the worker leaves.
    stop: watch::Sender<bool>,
    answers: Arc<PendingAnswers>,
    /// The server of the client, once the call is decoded.
    front: Mutex<Option<FrontState>>,
    /// True if the client has cancelled the call.
    is_cancelled: AtomicBool,
    /// The background call that it has become.
    keep: tokio::sync::Mutex<KeepState>,
    /// True if it is a background call.
    is_kept: AtomicBool,
    /// The last progress message, if it is a background call.
    message: Mutex<Option<String>>,
}

impl AcceptedRun {
    fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            stop: watch::Sender::new(false),
            answers: Arc::default(),
            front: Mutex::new(None),
            is_cancelled: AtomicBool::new(false),
            keep: tokio::sync::Mutex::default(),
            is_kept: AtomicBool::new(false),
            message: Mutex::new(None),
        }
    }

    /// Stops the call for its client.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.stop.send_replace(true);
    }

    /// Returns true if the call is to be stopped, because its server is lost and no client waits for it. A background
    /// call only gets no answers to its questions any more.
    fn is_abandoned(&self, nodes: &NodeView, now: Instant) -> bool {
        let is_gone = self
            .front
            .lock()
            .as_mut()
            .is_some_and(|front| front.is_gone(nodes.get(&front.node).is_some(), now));
        if is_gone && self.is_kept.load(Ordering::Acquire) {
            self.answers.close();
            return false;
        }
        is_gone
    }
}

/// The server of a client.
struct FrontState {
    /// The node id of the server.
    node: String,
    /// The id of its call.
    request_id: String,
    /// True once this process has seen its lease, which may be after the first call.
    is_seen: bool,
    /// The time at which its lease had ended.
    gone_since: Option<Instant>,
}

impl FrontState {
    fn new(node: String, request_id: String, nodes: &NodeView) -> Self {
        Self {
            is_seen: nodes.get(&node).is_some(),
            node,
            request_id,
            gone_since: None,
        }
    }

    /// Updates the state. Returns true if the server has been gone for so long that its client no longer waits.
    fn is_gone(&mut self, is_leased: bool, now: Instant) -> bool {
        if is_leased {
            (self.is_seen, self.gone_since) = (true, None);
            return false;
        }
        let since = *self.gone_since.get_or_insert(now);
        self.is_seen && now.duration_since(since) >= FRONT_GRACE
    }
}

/// An accepted call that is not decoded yet.
struct AcceptedCall {
    message: Bytes,
    reply: String,
    call: Arc<AcceptedRun>,
}

/// Number of calls of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLoad {
    /// Calls that run or wait.
    pub calls: usize,
    /// Maximum number of calls that run at a time.
    pub capacity: usize,
    /// Total number of accepted calls.
    pub accepted: u64,
}

impl CallWorker {
    /// Starts to accept calls for this node. Calls run on the current tokio runtime.
    pub fn start(
        connection: ClusterConnection,
        node: ClusterNode,
        runner: Arc<dyn CallRunner>,
        capacity: u32,
    ) -> Self {
        let capacity = usize::try_from(capacity.max(1)).unwrap_or(1);
        let parts = Arc::new(WorkerParts {
            runtime: tokio::runtime::Handle::current(),
            slots: Arc::new(Semaphore::new(capacity)),
            queued: AtomicUsize::new(0),
            calls: Mutex::default(),
            ended: Notify::new(),
            is_draining: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            connection: connection.for_calls(),
            control_connection: connection,
            node,
            runner,
            capacity,
        });
        let runtime = parts.control_connection.runtime();
        let tasks = [
            (parts.connection.runtime()).spawn(Arc::clone(&parts).receive_calls()),
            runtime.spawn(Arc::clone(&parts).receive_control()),
            runtime.spawn(Arc::clone(&parts).stop_abandoned()),
        ];
        Self(Arc::new(WorkerHandle { parts, tasks }))
    }

    /// Returns the number of calls.
    pub fn load(&self) -> WorkerLoad {
        WorkerLoad {
            calls: self.0.parts.calls.lock().running.len(),
            capacity: self.0.parts.capacity,
            accepted: self.0.parts.accepted.load(Ordering::Relaxed),
        }
    }

    /// Accepts no further calls, and waits until the accepted ones have ended. Stops those that still run after
    /// `timeout`. Returns the number of stopped calls.
    pub async fn drain(&self, timeout: Duration) -> usize {
        let parts = &self.0.parts;
        parts.is_draining.store(true, Ordering::Release);
        parts.node.set_draining(true);
        if tokio::time::timeout(timeout, parts.wait_until_idle())
            .await
            .is_ok()
        {
            return 0;
        }
        let stopped = parts.stop_calls(|_| true);
        parts.wait_until_idle().await;
        stopped
    }
}

impl WorkerParts {
    /// Accepts calls until the connection ends.
    async fn receive_calls(self: Arc<Self>) {
        loop {
            let node = self.node.id();
            let mut calls = subscribe(&self.connection, names::worker_calls(&node)).await;
            let mut parts = PartTable::default();
            let mut replaced = std::pin::pin!(self.wait_until_replaced(&node));
            loop {
                tokio::select! {
                    () = &mut replaced => break,
                    Some(message) = calls.next() => self.accept(message, &node, &mut parts),
                    else => return,
                }
            }
        }
    }

    /// Handles messages about calls and sessions until the connection ends.
    async fn receive_control(self: Arc<Self>) {
        loop {
            let node = self.node.id();
            let mut control =
                subscribe(&self.control_connection, names::worker_control(&node)).await;
            let mut parts = PartTable::default();
            let mut replaced = std::pin::pin!(self.wait_until_replaced(&node));
            loop {
                tokio::select! {
                    () = &mut replaced => break,
                    Some(message) = control.next() => self.control(message, &mut parts),
                    else => return,
                }
            }
        }
    }

    /// Waits until this process has another node id.
    async fn wait_until_replaced(&self, node: &str) {
        let mut changes = self.node.nodes().changes();
        // The entry under the new id is a change.
        while self.node.id() == node {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Accepts or refuses a call.
    fn accept(self: &Arc<Self>, message: async_nats::Message, node: &str, parts: &mut PartTable) {
        let Some(reply) = message.reply.filter(|reply| names::is_call_reply(reply)) else {
            return tracing::warn!("a call without a valid reply subject is ignored");
        };
        let joined = match parts.add(reply.as_str(), &message.payload) {
            Ok(Some(joined)) => joined,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "a call is refused");
                let refused = self.encode(&[WorkerFrame::NotRunning]);
                return publish_later(&self.connection, reply.to_string(), refused);
            }
        };
        let mut table = self.calls.lock();
        let known = table.ended.get(&reply).cloned();
        if let Some(known) = known {
            drop(table);
            let frames = known.frames(self.max_payload());
            return publish_later(&self.connection, reply.to_string(), frames);
        }
        if table.running.contains_key(reply.as_str()) {
            return;
        }
        let waiting = self.capacity.saturating_mul(WAITING_FACTOR);
        let free = self.slots.available_permits() + self.capacity;
        let is_busy = self.queued.load(Ordering::Relaxed) >= free
            || table.running.len() >= waiting
            || self.is_draining.load(Ordering::Acquire);
        if is_busy {
            drop(table);
            let retry_after_ms = u64::try_from(BUSY_RETRY.as_millis()).unwrap_or(u64::MAX);
            let busy = self.encode(&[WorkerFrame::Busy { retry_after_ms }]);
            return publish_later(&self.connection, reply.to_string(), busy);
        }
        let call = Arc::new(AcceptedRun::new(node));
        table.running.insert(reply.to_string(), Arc::clone(&call));
        let count = table.running.len();
        drop(table);
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.show_load(count);
        let accepted = AcceptedCall {
            message: joined,
            reply: reply.to_string(),
            call,
        };
        self.runtime
            .spawn(call_run::run(Arc::clone(self), accepted));
    }

    /// Handles a message about a call or a session.
    fn control(self: &Arc<Self>, message: async_nats::Message, parts: &mut PartTable) {
        if names::is_stored(&message) {
            return tracing::warn!(
                "a message to the worker is ignored, because it comes from a stream and not from a server of clients"
            );
        }
        // The parts of messages to this subject are told apart by their reply subject.
        let sender = message.reply.as_ref().map_or("", |reply| reply.as_str());
        let joined = match parts.add(sender, &message.payload) {
            Ok(Some(joined)) => joined,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%error, "a message to the worker is ignored"),
        };
        let Some(control) = frames::decode::<ControlMessage>(&joined) else {
            return;
        };
        match control {
            ControlMessage::Cancel { call } => match self.find(&call) {
                Some(active) => active.cancel(),
                None => self.calls.lock().ended.refuse(&call),
            },
            ControlMessage::Probe { call, asked } => self.probe(call, asked.as_deref()),
            ControlMessage::Keep {
                call,
                order,
                recorded,
            } => {
                if let Some(active) = self.find(&call) {
                    let keep = Arc::clone(self).keep(call, active, order, recorded);
                    self.runtime.spawn(keep);
                }
            }
            ControlMessage::Answer { call, id, answer } => {
                if let Some(active) = self.find(&call) {
                    active.answers.answer(id, answer);
                }
            }
            ControlMessage::UpstreamAnswers { call, id, answers } => {
                if let Some(active) = self.find(&call) {
                    let answers = answers.map_err(Into::into);
                    active.answers.answer_upstream(id, answers);
                }
            }
            ControlMessage::EndSession { session } => {
                let runner = Arc::clone(&self.runner);
                self.runtime
                    .spawn(async move { runner.end_session(&session) });
            }
            ControlMessage::ListTools => {
                let Some(reply) = message.reply else { return };
                let parts = Arc::clone(self);
                self.runtime.spawn(async move {
                    let catalogue = parts.runner.catalogue();
                    let encoded = parts.encode(&catalogue);
                    parts.publish(&reply, encoded).await;
                });
            }
        }
    }

    /// Answers whether a call runs, with its open questions that are not in `asked`. From then on, a call that was never
    /// received is refused.
    fn probe(&self, call: String, asked: Option<&[u64]>) {
        if !names::is_call_reply(&call) {
            return;
        }
        // The end of the call could not be sent, so its server must not go on waiting.
        if self.connection.is_lost() {
            return;
        }
        let mut table = self.calls.lock();
        let answer = if let Some(active) = table.running.get(&call) {
            let mut frames = vec![WorkerFrame::Running];
            if let Some(asked) = asked {
                frames.extend(active.answers.questions_except(asked));
            }
            self.encode(&frames)
        } else if let Some(ended) = table.ended.get(&call).cloned() {
            ended.frames(self.max_payload())
        } else {
            table.ended.refuse(&call);
            self.encode(&[WorkerFrame::NotRunning])
        };
        drop(table);
        publish_later(&self.control_connection, call, answer);
    }

    fn find(&self, reply: &str) -> Option<Arc<AcceptedRun>> {
        self.calls.lock().running.get(reply).cloned()
    }

    /// Stops the calls of servers whose lease has ended, because their clients no longer wait, except background calls.
    async fn stop_abandoned(self: Arc<Self>) {
        let nodes = self.node.nodes();
        let mut checks = tokio::time::interval(FRONT_CHECK_INTERVAL);
        checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            checks.tick().await;
            let now = Instant::now();
            self.stop_calls(|call| call.is_abandoned(&nodes, now));
        }
    }

    /// Stops the calls that `selects` returns true for. Returns their number.
    fn stop_calls(&self, selects: impl Fn(&AcceptedRun) -> bool) -> usize {
        let table = self.calls.lock();
        let mut count = 0;
        for call in table.running.values().filter(|call| selects(call)) {
            call.stop.send_replace(true);
            count += 1;
        }
        count
    }

    async fn wait_until_idle(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Registered before the check, so that no end is missed.
            ended.as_mut().enable();
            if self.calls.lock().running.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Removes a call that has ended. Later probes get `ended`.
    fn end(&self, reply: &str, ended: EndedCall) {
        let mut table = self.calls.lock();
        table.running.remove(reply);
        table.ended.insert(reply, ended);
        let count = table.running.len();
        drop(table);
        self.show_load(count);
        self.ended.notify_waiters();
    }

    fn show_load(&self, calls: usize) {
        self.node
            .set_in_flight(u32::try_from(calls).unwrap_or(u32::MAX));
    }

    fn max_payload(&self) -> usize {
        self.connection.client().max_payload()
    }

    fn encode(&self, message: &impl serde::Serialize) -> Vec<Bytes> {
        frames::encode(message, self.max_payload())
    }

    /// Publishes the parts of a message. Waits while the client's queue is full, also without a connection.
    async fn publish(&self, subject: &str, parts: Vec<Bytes>) {
        publish(&self.connection, subject, parts).await;
    }
}

/// Subscribes to a subject, again until that is possible.
async fn subscribe(connection: &ClusterConnection, subject: String) -> async_nats::Subscriber {
    loop {
        match connection.client().subscribe(subject.clone()).await {
            Ok(subscriber) => return subscriber,
            Err(error) => {
                tracing::warn!(%error, "the worker cannot subscribe to calls");
                tokio::time::sleep(SUBSCRIBE_RETRY).await;
            }
        }
    }
}

async fn publish(connection: &ClusterConnection, subject: &str, parts: Vec<Bytes>) {
    for part in parts {
        let sent = connection.client().publish(subject.to_owned(), part);
        if let Err(error) = sent.await {
            return tracing::warn!(%error, "a frame of a call cannot be sent");
        }
    }
}

/// Publishes the parts of a message without waiting.
fn publish_later(connection: &ClusterConnection, subject: String, parts: Vec<Bytes>) {
    let publisher = connection.clone();
    let publish = async move { publish(&publisher, &subject, parts).await };
    connection.runtime().spawn(publish);
}
