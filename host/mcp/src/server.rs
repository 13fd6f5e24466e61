//! The MCP server: one pipeline for any number of clients.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mimir_core::approval::ApproverChain;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Approver, Clock, Pipeline, ToolError};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::catalogue::{ListRevision, ToolCatalogue};
use crate::client::McpServers;
use crate::client_observer::ClientApprover;
use crate::elicitation::PendingCalls;
use crate::http::{ReplicaSet, SealPurpose, SealedCall};
use crate::metrics::{MetricFamily, ServerMetrics};
use crate::skills::SkillSource;

use tasks::TaskTable;

mod handler;
mod param_errors;
mod resource_requests;
mod roles;
mod session;
mod skill_requests;
mod subscriptions;
mod tasks;
mod tool_call;
mod tool_lookup;

pub(crate) use param_errors::describe_invalid_params;
pub(crate) use session::{ClientSession, CloseSignal};
pub(crate) use tool_call::RequestTrace;

/// Approval settings: the approver that follows the client's user, and the time limit of an answer.
#[derive(Clone)]
pub struct ApprovalOptions {
    /// Approver that is asked after the client.
    pub next: Arc<dyn Approver>,
    /// Time limit of a user's answer, or `None` to wait forever.
    pub timeout: Option<Duration>,
    /// Clock for the time limit.
    pub clock: Arc<dyn Clock>,
}

/// Callback for each denied call, with the name of the tool. The error contains the remedies, which are for the user
/// and not for the model that reads the result.
pub type OnRefusal = Arc<dyn Fn(&str, &ToolError) + Send + Sync>;

/// An MCP server for the tools of one pipeline. Clones share the pipeline and all state.
#[derive(Clone)]
pub struct ToolServer(Arc<ToolServerState>);

struct ToolServerState {
    pipeline: Pipeline,
    approval: ApprovalOptions,
    on_refusal: OnRefusal,
    pending_calls: PendingCalls,
    tasks: TaskTable,
    catalogue: Mutex<Arc<ToolCatalogue>>,
    /// Number of changes of each list of the catalogue.
    revision: watch::Sender<ListRevision>,
    /// Notified when the snapshot has been replaced.
    replaced: watch::Sender<()>,
    /// MCP servers behind this one, whose resources and prompts clients see.
    servers: Option<Arc<McpServers>>,
    /// Skills that clients may read.
    skills: OnceLock<Arc<dyn SkillSource>>,
    /// Becomes true when all components of the workspace have been described.
    described: OnceLock<watch::Receiver<bool>>,
    /// Number of calls in progress.
    active_calls: watch::Sender<usize>,
    /// Signals that the server shuts down.
    close_signal: CloseSignal,
    metrics: Arc<ServerMetrics>,
    /// The other servers behind the same address, which continue the sessions of this one.
    replicas: OnceLock<Arc<ReplicaSet>>,
    /// The views of the roles in use.
    roles: Mutex<BTreeMap<String, ToolServer>>,
}

impl ToolServer {
    /// Creates a server for this pipeline.
    pub fn new(pipeline: Pipeline, approval: ApprovalOptions, on_refusal: OnRefusal) -> Self {
        Self::with_servers(pipeline, approval, on_refusal, None)
    }

    /// Creates a server for this pipeline that also serves the resources and prompts of these MCP servers.
    pub fn with_servers(
        pipeline: Pipeline,
        approval: ApprovalOptions,
        on_refusal: OnRefusal,
        servers: Option<Arc<McpServers>>,
    ) -> Self {
        let catalogue = ToolCatalogue::build(pipeline.snapshot(), servers.as_deref());
        let catalogue = Mutex::new(Arc::new(catalogue));
        Self(Arc::new(ToolServerState {
            pipeline,
            approval,
            on_refusal,
            pending_calls: PendingCalls::default(),
            tasks: TaskTable::default(),
            catalogue,
            revision: watch::Sender::default(),
            replaced: watch::Sender::default(),
            servers,
            skills: OnceLock::new(),
            described: OnceLock::new(),
            active_calls: watch::Sender::default(),
            close_signal: CloseSignal::default(),
            metrics: Arc::default(),
            replicas: OnceLock::new(),
            roles: Mutex::default(),
        }))
    }

    /// Makes calls of unknown tools wait until `described` is true, because a component that is not described yet may
    /// have the tool.
    #[must_use]
    pub fn waiting_for(self, described: watch::Receiver<bool>) -> Self {
        // Called once, right after the creation of the server, so the cell is empty.
        let _ = self.0.described.set(described);
        self
    }

    /// Serves these skills, too.
    #[must_use]
    pub fn with_skills(self, skills: Arc<dyn SkillSource>) -> Self {
        // Called once, right after the creation of the server, so the cell is empty.
        let _ = self.0.skills.set(skills);
        // Not a change for clients.
        *self.0.catalogue.lock() = Arc::new(self.build_catalogue(self.0.pipeline.snapshot()));
        self
    }

    /// Sets the other servers behind the same address.
    pub(crate) fn set_replicas(&self, replicas: Arc<ReplicaSet>) {
        // Called once, when the server over HTTP is created.
        let _ = self.0.replicas.set(replicas);
    }

    /// Returns the name of a new pending call or task of this owner, which only its client learns. `None` if the system
    /// has no random numbers.
    fn new_call_name(
        &self,
        purpose: SealPurpose,
        owner: &str,
        may_have_run: bool,
    ) -> Option<String> {
        match self.0.replicas.get() {
            Some(replicas) => replicas.new_call_name(purpose, owner, may_have_run),
            None => crate::elicitation::random_token(),
        }
    }

    /// Returns a pending call or task that another server held, which has ended.
    fn lost_call(&self, purpose: SealPurpose, name: &str, owner: &str) -> Option<SealedCall> {
        let replicas = self.0.replicas.get()?;
        replicas.call_of_ended_replica(purpose, name, owner)
    }

    /// Ends the pipeline session of a client that has ended its session.
    pub(crate) fn end_pipeline_session(&self, session: &str) {
        self.0.pipeline.end_session(session);
    }

    /// Discards what this process holds for a pipeline session that another process may continue.
    pub(crate) fn discard_pipeline_session(&self, session: &str) {
        self.0.pipeline.discard_session(session);
    }

    /// Notifies clients if their lists have changed. Call it when the pipeline's snapshot has been replaced.
    pub fn refresh(&self) {
        self.catalogue();
        self.refresh_roles();
        self.0.replaced.send_replace(());
    }

    /// Stops all calls, which the audit log records as stopped.
    pub(crate) fn stop(&self) {
        self.0.close_signal.close();
        self.0.pending_calls.stop_all();
        let roles = self.0.roles.lock();
        roles
            .values()
            .for_each(|view| view.0.pending_calls.stop_all());
    }

    /// Returns the number of calls in progress.
    pub(crate) fn calls(&self) -> usize {
        *self.0.active_calls.borrow()
    }

    /// Returns the metrics in the Prometheus text format.
    pub(crate) fn metrics(&self, sessions: usize, others: &[MetricFamily]) -> String {
        self.0.metrics.render(self.calls(), sessions, others)
    }

    /// Waits until no call is in progress and each is in the audit log, for at most the given time.
    pub(crate) async fn wait_until_idle(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.wait_for_calls()).await;
    }

    /// Waits until no call is in progress and each is in the audit log.
    pub(crate) async fn wait_for_calls(&self) {
        let mut active_calls = self.0.active_calls.subscribe();
        // `self` owns the sender, so waiting cannot fail.
        let _ = active_calls.wait_for(|calls| *calls == 0).await;
    }

    /// Waits until clients had the time to ask for the results of tasks that have just ended.
    pub(crate) async fn wait_for_task_requests(&self) {
        let is_ahead = |until: &Instant| *until > Instant::now();
        while let Some(until) = self.expects_task_requests_until().filter(is_ahead) {
            tokio::time::sleep_until(until.into()).await;
        }
    }

    fn expects_task_requests_until(&self) -> Option<Instant> {
        let roles = self.0.roles.lock();
        let roles = roles.values().map(|view| &view.0.tasks);
        let tables = roles.chain([&self.0.tasks]);
        tables.filter_map(TaskTable::expects_requests_until).max()
    }

    /// Returns the current tool catalogue.
    pub(crate) fn catalogue(&self) -> Arc<ToolCatalogue> {
        let shared = &self.0;
        let mut catalogue = shared.catalogue.lock();
        let snapshot = shared.pipeline.snapshot();
        if !catalogue.is_built_from(&snapshot) {
            let new_catalogue = Arc::new(self.build_catalogue(snapshot));
            let previous = std::mem::replace(&mut *catalogue, new_catalogue);
            shared
                .revision
                .send_if_modified(|revision| catalogue.count_changes(&previous, revision));
        }
        Arc::clone(&catalogue)
    }

    fn build_catalogue(&self, snapshot: Arc<PipelineSnapshot>) -> ToolCatalogue {
        let skills = self.skill_source().map(|source| source.skills());
        ToolCatalogue::build(snapshot, self.0.servers.as_deref())
            .with_skills(skills.unwrap_or_default())
    }

    /// Returns the MCP servers behind this one.
    pub(crate) fn servers(&self) -> Option<&Arc<McpServers>> {
        self.0.servers.as_ref()
    }

    /// Returns the skills that clients may read.
    fn skill_source(&self) -> Option<&Arc<dyn SkillSource>> {
        self.0.skills.get()
    }

    /// Returns a receiver of catalogue changes.
    pub(crate) fn changes(&self) -> watch::Receiver<ListRevision> {
        self.0.revision.subscribe()
    }

    /// Returns the approver of a call: the user of the client, if the client supports forms, then the next approver.
    fn approver(&self, client: Option<ClientApprover>) -> Box<dyn Approver> {
        let approval = &self.0.approval;
        let client = client.map(|client| Arc::new(client) as Arc<dyn Approver>);
        let approvers = client.into_iter().chain([Arc::clone(&approval.next)]);
        Box::new(ApproverChain::new(
            approvers.collect(),
            approval.timeout,
            Arc::clone(&approval.clock),
        ))
    }

    /// Counts a call as in progress until the guard is dropped.
    fn begin_call(&self) -> BusyCallGuard {
        self.0.active_calls.send_modify(|calls| *calls += 1);
        BusyCallGuard(self.clone())
    }
}

struct BusyCallGuard(ToolServer);

impl Drop for BusyCallGuard {
    fn drop(&mut self) {
        self.0.0.active_calls.send_modify(|calls| *calls -= 1);
    }
}
