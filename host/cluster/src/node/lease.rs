//! The lease of a node: its entry in the shared state, which is renewed each second and ends three seconds after the
//! last renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use mimir_core::config::AuditSettings;
use mimir_core::shared_state::{SharedStateError, SharedStateHandle, StateArea, StateRevision};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::call_hold::{CallHold, HeldCall, HeldCalls};
use super::view::{NodeView, node_key};
use super::{NodeDescription, NodeEntry, NodeRole};
use crate::audit::call_search::find_call;
use crate::audit::closing::{CloserTask, close_writer};
use crate::audit::line_queue::{LineQueue, LineWaiter, QueuedLine};
use crate::audit::stream::AuditStream;
use crate::audit::writer::{AuditWriterTask, recovery_line};
use crate::audit::{ClosedWriter, ClusterAuditError, ClusterAuditSink, RecordedCall};
use crate::clock::now_ms;
use crate::connection::{ClusterConnection, ClusterError};
use crate::ids::random_hex;
use crate::state::NatsState;

/// Lifetime of a lease, and the interval at which it is renewed.
pub(crate) const LEASE_LIFETIME: Duration = Duration::from_secs(3);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two attempts to renew a lease while the shared state cannot be reached.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Time without a renewal after which the shared state counts as unreachable. An election of the servers is shorter.
const STALE_AFTER: Duration = Duration::from_secs(6);

/// Number of random bytes of an id.
const ID_BYTES: usize = 8;

/// Time until a new node must be visible to others, and until it must have left.
const START_TIMEOUT: Duration = Duration::from_secs(5);
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// This process as a node of the cluster. Clones share the node, which leaves the cluster with [`Self::shut_down`].
#[derive(Clone)]
pub struct ClusterNode(Arc<NodeHandle>);

struct NodeHandle {
    parts: Arc<NodeParts>,
    queue: Arc<LineQueue>,
    view: NodeView,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for NodeHandle {
    /// Ends the tasks. Without a shutdown before, the lease ends after its lifetime and another node closes the log.
    fn drop(&mut self) {
        self.end_tasks();
    }
}

impl NodeHandle {
    fn end_tasks(&self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// One id of this process: it gets another one if the writer of this one was closed by another process.
pub(crate) struct NodeIncarnation {
    pub(crate) id: String,
    /// The id before.
    pub(crate) previous: Option<String>,
    closed: watch::Sender<bool>,
    /// True as soon as the lease exists.
    leased: watch::Sender<bool>,
}

impl NodeIncarnation {
    fn new(previous: Option<String>) -> Result<Self, ClusterError> {
        Ok(Self {
            id: random_hex::<ID_BYTES>()
                .map_err(|error| ClusterError::Options(format!("no random numbers: {error}")))?,
            previous,
            closed: watch::Sender::new(false),
            leased: watch::Sender::new(false),
        })
    }

    /// Waits until the lease exists.
    pub(crate) async fn wait_for_lease(&self) {
        let mut leased = self.leased.subscribe();
        // The sender lives in `self`.
        let _ = leased.wait_for(|leased| *leased).await;
    }
}

/// Returns the reasons why a process takes no calls.
type ReadinessSource = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// The parts of a node that its tasks share.
pub(crate) struct NodeParts {
    pub(crate) state: SharedStateHandle,
    pub(crate) stream: AuditStream,
    /// The stream for the lines of this node, which its calls wait for.
    pub(crate) writer_stream: AuditStream,
    description: Mutex<NodeDescription>,
    started: u64,
    incarnation: Mutex<Arc<NodeIncarnation>>,
    in_flight: AtomicU32,
    draining: AtomicBool,
    has_console: AtomicBool,
    readiness: Mutex<Option<ReadinessSource>>,
    /// The time at which the lease was renewed last.
    renewed: Mutex<Option<Instant>>,
    /// Stream sequence of the last line of this node's writer.
    pub(crate) recorded: AtomicU64,
    renew: Notify,
    pub(crate) held: Arc<HeldCalls>,
}

impl NodeParts {
    fn new(
        state: SharedStateHandle,
        connection: ClusterConnection,
        description: NodeDescription,
    ) -> Result<Self, ClusterError> {
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let started = started.map_or(0, |time| time.as_millis());
        Ok(Self {
            state,
            writer_stream: AuditStream::new(connection.for_calls()),
            stream: AuditStream::new(connection),
            description: Mutex::new(description),
            started: u64::try_from(started).unwrap_or_default(),
            incarnation: Mutex::new(Arc::new(NodeIncarnation::new(None)?)),
            in_flight: AtomicU32::new(0),
            draining: AtomicBool::new(false),
            has_console: AtomicBool::new(false),
            readiness: Mutex::default(),
            renewed: Mutex::default(),
            recorded: AtomicU64::new(0),
            renew: Notify::new(),
            held: Arc::default(),
        })
    }

    /// Returns the current id with its state.
    pub(crate) fn incarnation(&self) -> Arc<NodeIncarnation> {
        Arc::clone(&self.incarnation.lock())
    }

    /// Returns the role and the host, for the first line of a writer.
    pub(crate) fn describe(&self) -> String {
        let description = self.description.lock();
        format!("{} on {}", description.role, description.host)
    }

    /// Returns the name of the workspace, for the first line of a writer.
    pub(crate) fn workspace_name(&self) -> Option<String> {
        let description = self.description.lock();
        let workspace = description.workspace.as_ref();
        workspace.map(|workspace| workspace.name.clone())
    }

    /// Continues under another id, because the writer of `closed` has been closed.
    pub(crate) fn replace_incarnation(&self, closed: &NodeIncarnation) -> Result<(), ClusterError> {
        let mut current = self.incarnation.lock();
        if current.id == closed.id {
            let next = NodeIncarnation::new(Some(closed.id.clone()))?;
            tracing::warn!(
                node = closed.id,
                next = next.id,
                "another process has closed this node, as its lease had ended; it continues under a new id"
            );
            *current = Arc::new(next);
            self.recorded.store(0, Ordering::Relaxed);
        }
        drop(current);
        closed.closed.send_replace(true);
        self.renew.notify_one();
        Ok(())
    }

    /// Returns the entry of this node.
    fn entry(&self, id: &str, is_ready: bool) -> Vec<u8> {
        let mut entry = NodeEntry::new(id.to_owned(), self.started, &self.description.lock());
        entry.in_flight = self.in_flight.load(Ordering::Relaxed);
        entry.draining = self.draining.load(Ordering::Relaxed);
        entry.console = self.has_console.load(Ordering::Relaxed);
        entry.ready = is_ready;
        let readiness = self.readiness.lock().clone();
        entry.not_ready = readiness.map_or_else(Vec::new, |reasons| reasons());
        entry.clock = now_ms();
        entry.recorded = self.recorded.load(Ordering::Relaxed);
        serde_json::to_vec(&entry).unwrap_or_default()
    }

    /// Renews the lease until the task is ended.
    async fn renew_lease(self: Arc<Self>, queue: Arc<LineQueue>) {
        let mut held: Option<(Arc<NodeIncarnation>, StateRevision)> = None;
        loop {
            let incarnation = self.incarnation();
            if let Some((old, _)) = held.take_if(|(old, _)| old.id != incarnation.id) {
                let key = node_key(&old.id);
                // A failure leaves the lease to its lifetime.
                let _ = self.state.remove(StateArea::Nodes, &key, None).await;
            }
            let revision = held.as_ref().map(|(_, revision)| *revision);
            let pause = match self
                .renew_once(&incarnation.id, revision, self.can_take_calls(&queue))
                .await
            {
                Ok(revision) => {
                    *self.renewed.lock() = Some(Instant::now());
                    held = Some((Arc::clone(&incarnation), revision));
                    incarnation.leased.send_replace(true);
                    RENEWAL_INTERVAL
                }
                Err(SharedStateError::Conflict) if held.is_some() => {
                    // Other processes may have closed the log of this node since the lease has ended.
                    while self.incarnation().id == incarnation.id
                        && !confirm_writer(&queue, &incarnation.id).await
                    {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                    }
                    held = None;
                    Duration::ZERO
                }
                Err(error) => {
                    tracing::warn!(%error, "the lease of this node cannot be renewed");
                    RETRY_INTERVAL
                }
            };
            let _ = tokio::time::timeout(pause, self.renew.notified()).await;
        }
    }

    /// Returns false while the node would refuse all calls, so that others send it none.
    fn can_take_calls(&self, queue: &LineQueue) -> bool {
        queue.failure().is_none() && !self.stream.connection().is_lost()
    }

    async fn renew_once(
        &self,
        id: &str,
        revision: Option<StateRevision>,
        is_ready: bool,
    ) -> Result<StateRevision, SharedStateError> {
        let (area, key) = (StateArea::Nodes, node_key(id));
        let lifetime = Some(LEASE_LIFETIME);
        if let Some(revision) = revision {
            let entry = self.entry(id, is_ready);
            return self
                .state
                .update(area, &key, entry, revision, lifetime)
                .await;
        }
        // The entry exists if an earlier attempt was stored, but not acknowledged.
        match self.state.get(area, &key).await? {
            Some(found) => {
                let (entry, revision) = (self.entry(id, is_ready), found.revision);
                self.state
                    .update(area, &key, entry, revision, lifetime)
                    .await
            }
            None => {
                self.state
                    .create(area, &key, self.entry(id, is_ready), lifetime)
                    .await
            }
        }
    }
}

/// Records that the lease had ended. Returns false if that cannot be recorded, because the log has been closed or cannot
/// be written now.
async fn confirm_writer(queue: &LineQueue, writer: &str) -> bool {
    let (sender, stored) = oneshot::channel();
    let detail = "the lease of this process had ended; it is renewed";
    match recovery_line(writer, detail, LineWaiter::Task(sender)) {
        Ok(line) => queue.submit(QueuedLine {
            // On the chain of this id or not at all: the next id has no lease before this task goes on.
            held: Some(HeldCall::under(writer)),
            ..line
        }),
        Err(_) => return false,
    }
    matches!(stored.await, Ok(Ok(())))
}

impl ClusterNode {
    /// Joins the cluster. Returns as soon as other processes can see the node.
    pub async fn start(
        connection: ClusterConnection,
        description: NodeDescription,
    ) -> Result<Self, ClusterError> {
        let state: SharedStateHandle = Arc::new(NatsState::new(connection.clone()));
        Self::start_with_state(connection, state, description).await
    }

    /// Joins the cluster with this shared state.
    pub async fn start_with_state(
        connection: ClusterConnection,
        state: SharedStateHandle,
        description: NodeDescription,
    ) -> Result<Self, ClusterError> {
        let runtime = connection.runtime().clone();
        let call_runtime = connection.for_calls().runtime().clone();
        let servers = connection.servers().to_owned();
        let is_closer = description.role != NodeRole::Admin;
        let parts = NodeParts::new(Arc::clone(&state), connection, description)?;
        let parts = Arc::new(parts);
        let (queue, view) = (Arc::new(LineQueue::default()), NodeView::empty());
        let writer = AuditWriterTask::new(Arc::clone(&parts), Arc::clone(&queue));
        let (closer, ended_nodes) = CloserTask::new(Arc::clone(&parts));
        let lease = Arc::clone(&parts).renew_lease(Arc::clone(&queue));
        let follow = view.clone().follow(state, move |node: &str| {
            let _ = ended_nodes.send(node.to_owned());
        });
        let mut tasks = vec![
            runtime.spawn(lease),
            call_runtime.spawn(writer.run()),
            runtime.spawn(follow),
        ];
        if is_closer {
            tasks.push(runtime.spawn(closer.run()));
        }
        let node = Self(Arc::new(NodeHandle {
            parts,
            queue,
            view,
            tasks,
        }));
        let incarnation = node.0.parts.incarnation();
        let leased = tokio::time::timeout(START_TIMEOUT, incarnation.wait_for_lease());
        leased.await.map_err(|_| ClusterError::Failed {
            servers,
            text: format!(
                "this process could not register within {} s: check that the servers have a quorum, and that the key may write the shared state",
                START_TIMEOUT.as_secs()
            ),
        })?;
        Ok(node)
    }

    /// Returns the current id, which is also the name of the current writer.
    pub fn id(&self) -> String {
        self.0.parts.incarnation().id.clone()
    }

    /// Returns the shared state.
    pub fn state(&self) -> SharedStateHandle {
        Arc::clone(&self.0.parts.state)
    }

    /// Returns true if this process could renew its lease lately. If not, what it knows of other nodes is outdated, too.
    pub fn is_current(&self) -> bool {
        let renewed = *self.0.parts.renewed.lock();
        renewed.is_some_and(|at| at.elapsed() < STALE_AFTER)
    }

    /// Returns the live nodes.
    pub fn nodes(&self) -> NodeView {
        self.0.view.clone()
    }

    /// Replaces the description; others see it at once.
    pub fn describe(&self, description: NodeDescription) {
        *self.0.parts.description.lock() = description;
        self.0.parts.renew.notify_one();
    }

    /// Sets the number of running calls; others see it at the next renewal, within a second.
    pub fn set_in_flight(&self, calls: u32) {
        self.0.parts.in_flight.store(calls, Ordering::Relaxed);
    }

    /// Returns the number of running calls.
    pub fn in_flight(&self) -> u32 {
        self.0.parts.in_flight.load(Ordering::Relaxed)
    }

    /// Sets the source of the reasons why the node takes no calls, for people. It is called at each renewal, so it must not
    /// block.
    pub fn report_readiness(&self, reasons: impl Fn() -> Vec<String> + Send + Sync + 'static) {
        *self.0.parts.readiness.lock() = Some(Arc::new(reasons));
        self.0.parts.renew.notify_one();
    }

    /// Sets whether people can answer questions at a console of the node; others see it at once.
    pub fn set_console(&self, is_open: bool) {
        self.0.parts.has_console.store(is_open, Ordering::Relaxed);
        self.0.parts.renew.notify_one();
    }

    /// Sets whether the node takes no further calls; others see it at once.
    pub fn set_draining(&self, draining: bool) {
        self.0.parts.draining.store(draining, Ordering::Relaxed);
        self.0.parts.renew.notify_one();
    }

    /// Accepts a call that another process has sent to `node`. Returns `None` if this process no longer has that id: the
    /// sender then learns from the closed log of `node` that the call has not run. The call can be announced and recorded
    /// only under this id. Keep the hold until the call is recorded.
    pub fn accept_call(&self, node: &str, request_id: &str) -> Option<CallHold> {
        self.accept(node, request_id, None)
    }

    /// Accepts a call like [`Self::accept_call`]. Its lines in the log name the node that has sent it.
    pub(crate) fn accept_call_from(
        &self,
        front: &str,
        node: &str,
        request_id: &str,
    ) -> Option<CallHold> {
        self.accept(node, request_id, Some(front))
    }

    fn accept(&self, node: &str, request_id: &str, front: Option<&str>) -> Option<CallHold> {
        let parts = &self.0.parts;
        let incarnation = parts.incarnation();
        let closed = incarnation.closed.subscribe();
        let hold = || CallHold::new(request_id, node, front, &parts.held, closed);
        (incarnation.id == node).then(hold)
    }

    /// Creates a sink for this node's chain in the audit log.
    pub fn audit_sink(&self, settings: AuditSettings) -> ClusterAuditSink {
        let NodeHandle { parts, queue, .. } = &*self.0;
        let connection = parts.stream.connection().clone();
        ClusterAuditSink::new(
            Arc::clone(queue),
            Arc::clone(&parts.held),
            connection,
            settings,
        )
    }

    /// Closes the writer of a node: each of its announced calls without outcome gets the outcome `UNAVAILABLE`, with
    /// `mayHaveRun`. From then on the node can neither announce nor record a call under this id. Closing a closed writer
    /// has no effect.
    pub async fn close_writer(&self, writer: &str) -> Result<ClosedWriter, ClusterAuditError> {
        let parts = &self.0.parts;
        let by = self.id();
        close_writer(&parts.stream, &*parts.state, writer, &by).await
    }

    /// Searches a call on a writer's chain, in the messages after `after`: for a call that was sent to a node,
    /// [`NodeEntry::recorded`] as it was before. Close the writer before, so that the result is final.
    pub async fn find_call(
        &self,
        writer: &str,
        request_id: &str,
        after: u64,
    ) -> Result<RecordedCall, ClusterAuditError> {
        find_call(&self.0.parts.stream, writer, request_id, after).await
    }

    /// Leaves the cluster: records what waits, closes this node's writer and ends its lease. The node must not be used
    /// after that. What cannot be done within some seconds is left to other nodes.
    pub async fn shut_down(&self) {
        let NodeHandle { parts, queue, .. } = &*self.0;
        let leave = async {
            queue.close().await;
            let id = self.id();
            if parts.recorded.load(Ordering::Acquire) > 0
                && let Err(error) = close_writer(&parts.stream, &*parts.state, &id, &id).await
            {
                tracing::warn!(%error, "the audit log of this process is left to others to close");
            }
            id
        };
        let left = tokio::time::timeout(LEAVE_TIMEOUT, leave).await;
        self.0.end_tasks();
        if let Ok(id) = left {
            let key = node_key(&id);
            let _ = parts.state.remove(StateArea::Nodes, &key, None).await;
        }
    }
}
