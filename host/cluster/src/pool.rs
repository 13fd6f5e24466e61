//! The pool of workers: forwards the calls of this process to workers of its workspace.
//!
//! A call is sent to one worker at a time. It is sent to another one only if it is certain that it has not run and never
//! will: the worker has said so, has not received it, or its node was closed without an announcement of the call in the
//! audit log. A call that may have run ends as `UNAVAILABLE` with `"mayHaveRun": true`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use mimir_core::backend::BoxFuture;
use mimir_core::call::SessionSharing;
use mimir_core::remote_pipeline::RemotePipeline;
use mimir_core::wire::CallMessage;
use mimir_core::{Call, Outcome, Registry, RequestId, ToolError};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::connection::{ClusterConnection, ClusterError};
use crate::frames::{self, ControlMessage, ForwardedCall, RequestKind};
use crate::names;
use crate::node::{ClusterNode, NodeEntry, NodeRole};

mod attempt;
mod catalogue;
mod kept;
mod lost;
mod messages;
mod replies;
mod running;
mod selection;

pub use catalogue::RemoteTools;

use attempt::AttemptEnd;
use kept::KeeperTable;
use lost::CallFate;
use replies::ReplyTable;
use running::PoolCalls;
use selection::{SelectionError, WorkerNeeds, select};

/// Maximum time for which a call waits for a worker that accepts it.
const PLACEMENT_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for which a call waits for the worker of its session before it takes another one.
const SESSION_PATIENCE: Duration = Duration::from_secs(1);

/// Time between two attempts to find a worker, unless a busy worker has stated another one.
const PLACEMENT_RETRY: Duration = Duration::from_millis(50);
const PLACEMENT_RETRY_MAX: Duration = Duration::from_millis(500);

/// Maximum number of calls that wait for a worker.
const MAX_WAITING: u32 = 1024;

/// Maximum number of workers that a call is lost with, before it is refused.
const MAX_LOST: u32 = 4;

/// Labels that calls of a tool need, by the tool's canonical name.
pub type LabelRules = Arc<dyn Fn(&str) -> BTreeMap<String, String> + Send + Sync>;

/// Options of a pool.
#[derive(Clone)]
pub struct PoolOptions {
    /// The name of the workspace.
    pub workspace: String,
    /// True if workers with different content of the workspace are accepted.
    pub allow_any_content: bool,
    /// The labels that tools need.
    pub labels: LabelRules,
}

/// The workers of a workspace. Clones share the pool.
#[derive(Clone)]
pub struct WorkerPool(Arc<PoolHandle>);

struct PoolHandle {
    parts: Arc<PoolParts>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct PoolParts {
    connection: ClusterConnection,
    node: ClusterNode,
    options: PoolOptions,
    replies: Arc<ReplyTable>,
    running: Arc<PoolCalls>,
    keepers: KeeperTable,
    /// Number of calls that wait for a worker.
    waiting: AtomicU32,
    /// The tools of the workers, to look up their labels.
    registry: RwLock<Arc<Registry>>,
    tools: watch::Sender<Option<RemoteTools>>,
    random: AtomicU32,
}

/// The search for a worker.
struct Placement {
    needs: WorkerNeeds,
    /// The workers that have refused the call in this round.
    excluded: BTreeSet<String>,
    begun: Instant,
    /// Time until busy workers are asked again.
    retry: Duration,
    /// Number of workers that were lost with the call.
    lost: u32,
}

/// Counts a call that waits for a worker.
struct WaitingCall<'a>(&'a AtomicU32);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WorkerPool {
    /// Creates the pool of this node.
    pub async fn start(
        connection: ClusterConnection,
        node: ClusterNode,
        options: PoolOptions,
    ) -> Result<Self, ClusterError> {
        let connection = connection.for_calls();
        let (replies, receive) = ReplyTable::subscribe(&connection).await?;
        let parts = Arc::new(PoolParts {
            connection,
            node,
            options,
            replies,
            running: Arc::default(),
            keepers: KeeperTable::default(),
            waiting: AtomicU32::new(0),
            registry: RwLock::default(),
            tools: watch::Sender::new(None),
            random: AtomicU32::new(std::process::id()),
        });
        let runtime = parts.connection.runtime().clone();
        let tasks = vec![receive, runtime.spawn(Arc::clone(&parts).follow_tools())];
        Ok(Self(Arc::new(PoolHandle { parts, tasks })))
    }

    /// Returns the tools of the workers, and their changes. `None` until a worker has listed them.
    pub fn tools(&self) -> watch::Receiver<Option<RemoteTools>> {
        self.0.parts.tools.subscribe()
    }

    /// Returns the number of workers that accept calls and can write the audit log. 0 while that cannot be known.
    pub fn workers(&self) -> usize {
        let parts = &self.0.parts;
        if !parts.node.is_current() {
            return 0;
        }
        let nodes = parts.node.nodes().list();
        let is_worker =
            |node: &&Arc<NodeEntry>| parts.is_worker(node) && !node.draining && node.ready;
        nodes.iter().filter(is_worker).count()
    }

    /// Returns the number of calls of this process at workers.
    pub fn running(&self) -> u32 {
        self.0.parts.running.total()
    }
}

impl RemotePipeline for WorkerPool {
    fn call<'a>(
        &'a self,
        call: Call,
        role: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Outcome, ToolError>> {
        Box::pin(self.0.parts.call(call, role))
    }

    fn end_session(&self, session: &str) {
        let parts = &self.0.parts;
        let session = session.to_owned();
        let message = ControlMessage::EndSession { session };
        for node in parts.node.nodes().list() {
            if parts.is_worker(&node) {
                parts.send_later(names::worker_control(&node.id), &message);
            }
        }
    }
}

impl PoolParts {
    fn is_worker(&self, node: &NodeEntry) -> bool {
        let workspace = node.workspace.as_ref();
        node.role == NodeRole::Worker
            && node.tools.is_some()
            && workspace.is_some_and(|workspace| workspace.name == self.options.workspace)
    }

    /// Runs a call at a worker.
    async fn call(&self, mut call: Call, role: Option<&str>) -> Result<Outcome, ToolError> {
        let mut placement = Placement {
            needs: self.needs(&call),
            excluded: BTreeSet::new(),
            begun: Instant::now(),
            retry: PLACEMENT_RETRY,
            lost: 0,
        };
        let mut encoded = self.encode(&call, role);
        let registered = self.keepers.register(&call.context.request_id);
        let keeper = &registered.keeper;
        loop {
            let worker = self.choose(&mut placement).await?;
            let running = self.running.begin(&worker.id);
            let end = self.attempt(&worker, &call, encoded.clone(), keeper).await;
            drop(running);
            match end {
                AttemptEnd::Outcome(outcome) => return Ok(*outcome),
                AttemptEnd::Busy(retry_after) => {
                    placement.retry = retry_after.min(PLACEMENT_RETRY_MAX);
                    placement.excluded.insert(worker.id.clone());
                    continue;
                }
                AttemptEnd::NotRun => {
                    placement.excluded.insert(worker.id.clone());
                    continue;
                }
                AttemptEnd::Disconnected => return Ok(messages::disconnected(&worker)),
                AttemptEnd::Stopped => return Ok(messages::stopped(&worker)),
                AttemptEnd::Hung => return Ok(messages::may_have_run(&worker, false)),
                AttemptEnd::Lost | AttemptEnd::Ended => {}
            }
            let is_lost = matches!(end, AttemptEnd::Lost);
            match self.find_fate(&worker, &call, is_lost).await {
                // Calls that may run again are not announced, so that the first run may have begun, and have left files
                // that are named by its id. Its outcome may be on record under that id.
                CallFate::NotRun | CallFate::Repeatable => {
                    call.context.request_id = RequestId::new(SystemTime::now());
                    encoded = self.encode(&call, role);
                }
                CallFate::MayHaveRun { recorded } => {
                    return Ok(messages::may_have_run(&worker, recorded));
                }
                CallFate::Unknown(error) => return Ok(messages::unknown(&worker, &error)),
            }
            placement.lost += 1;
            placement.begun = Instant::now();
            placement.excluded.insert(worker.id.clone());
            if placement.lost >= MAX_LOST {
                return Err(messages::lost_too_often(placement.lost));
            }
        }
    }

    /// Returns what a call needs of its worker.
    fn needs(&self, call: &Call) -> WorkerNeeds {
        let registry = Arc::clone(&self.registry.read());
        let tool = registry.get(&call.tool);
        let name = tool.map_or(call.tool.as_str(), |tool| tool.name().as_str());
        let holds_sessions = tool.is_some_and(|tool| catalogue::holds_sessions(tool));
        // All clients with one token may be one session, which one worker cannot serve.
        let may_move = call.sharing == SessionSharing::AnyClient
            && tool.is_some_and(|tool| catalogue::needs_no_state(tool, &call.arguments));
        WorkerNeeds {
            labels: (self.options.labels)(name),
            session: holds_sessions.then(|| call.context.session_id.clone()),
            may_move,
        }
    }

    fn encode(&self, call: &Call, role: Option<&str>) -> Vec<bytes::Bytes> {
        let (approver, upstream) = (call.observer.approver(), call.observer.upstream_handler());
        let is_supported =
            |kind: &RequestKind| upstream.is_some_and(|upstream| upstream.supports((*kind).into()));
        let message = ForwardedCall {
            call: CallMessage::new(call, role),
            front: self.node.id(),
            can_ask: approver.is_some(),
            separate_answers: approver.is_some_and(|approver| approver.needs_separate_answers()),
            upstream: RequestKind::ALL.into_iter().filter(is_supported).collect(),
        };
        frames::encode(&message, self.max_payload())
    }

    /// Chooses a worker. Waits for one for a limited time.
    async fn choose(&self, placement: &mut Placement) -> Result<Arc<NodeEntry>, ToolError> {
        let mut waiting = None;
        let deadline = placement.begun + PLACEMENT_TIMEOUT;
        let view = self.node.nodes();
        let mut changes = view.changes();
        loop {
            changes.mark_unchanged();
            let ended = self.running.ended.notified();
            // Another server of the cluster may be connected in a moment. A message that is sent meanwhile would wait in
            // the client, and be delivered when the client no longer waits for its call.
            if !self.connection.is_connected() {
                let connected = timeout_at(deadline, self.connection.wait_until_connected());
                if !connected.await.unwrap_or(false) {
                    return Err(messages::not_connected());
                }
            }
            let error = match self.select(&view.list(), placement) {
                Ok(worker) => return Ok(worker),
                Err(error) => error,
            };
            let now = Instant::now();
            if now >= deadline {
                return Err(messages::no_worker(&error, &self.options.workspace));
            }
            if waiting.is_none() {
                let count = self.waiting.fetch_add(1, Ordering::Relaxed);
                waiting = Some(WaitingCall(&self.waiting));
                if count >= MAX_WAITING {
                    return Err(messages::too_many_waiting(MAX_WAITING));
                }
            }
            let retry = deadline.min(now + placement.retry);
            tokio::select! {
                () = ended => {}
                _ = changes.changed() => {}
                () = sleep_until(retry) => {}
            }
            // Workers that were busy may have capacity now.
            placement.excluded.clear();
        }
    }

    fn select(
        &self,
        workers: &[Arc<NodeEntry>],
        placement: &Placement,
    ) -> Result<Arc<NodeEntry>, SelectionError> {
        let select = |excluded: &BTreeSet<String>| {
            select(
                workers,
                &self.options.workspace,
                self.options.allow_any_content,
                &placement.needs,
                excluded,
                |node| self.running.count(node),
                self.random(),
            )
        };
        let is_patient = placement.needs.session.is_some()
            && !placement.needs.may_move
            && placement.lost == 0
            && placement.begun.elapsed() < SESSION_PATIENCE;
        if is_patient {
            // The worker of the session, even if it was busy before.
            let preferred = select(&BTreeSet::new())?;
            return if placement.excluded.contains(&preferred.id) {
                Err(SelectionError::AllBusy)
            } else {
                Ok(preferred)
            };
        }
        select(&placement.excluded)
    }

    /// Returns a number that is random enough to spread calls.
    fn random(&self) -> u64 {
        let count = self.random.fetch_add(1, Ordering::Relaxed);
        // Weyl sequence, mixed by a multiplication.
        u64::from(count)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32)
            >> 16
    }

    fn max_payload(&self) -> usize {
        self.connection.client().max_payload()
    }

    /// Sends a message without waiting: the client's queue is full while no server is connected.
    fn send_later(&self, subject: String, message: &ControlMessage) {
        let parts = frames::encode(message, self.max_payload());
        let client = self.connection.client().clone();
        // Tells the parts of this message from those of others that are sent at the same time.
        let id = client.new_inbox();
        self.connection.runtime().spawn(async move {
            for part in parts {
                let sent = client.publish_with_reply(subject.clone(), id.clone(), part);
                if let Err(error) = sent.await {
                    return tracing::warn!(%error, "a message to a worker cannot be sent");
                }
            }
        });
    }
}
