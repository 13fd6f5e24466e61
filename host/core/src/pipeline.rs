//! The pipeline that every tool call passes through: from every front end, to every kind of tool, nested calls too.
//!
//! ```text
//! Call ─► validate ─ Checked ─► decide ─ Ruled ─► approve ─ Approved ─► run ─► Backend ─ CompletedRun ─┐
//! Outcome ◄─ audit ◄─ Labeled ─ label ◄─ Clean ─ sanitize ◄───────────────────────────────────────────┘
//! ```
//!
//! Each stage takes the type that the previous stage returns. No stage can be skipped, because only a stage can create
//! the type that it returns. A refusal at any stage becomes an [`Outcome`] like any other.
//!
//! # Walkthroughs
//!
//! A call: `call.rs` (`Call`) → `pipeline.rs` (`Pipeline::call`) → `pipeline/call_recorder.rs` (starts the record) →
//! `pipeline/validate.rs` (`Checked`) → `pipeline/decide.rs` (rules, paths, network, the tool's assessor: `Ruled`) →
//! `pipeline/approve.rs` (asks a person if a rule requires it: `Approved`) → `pipeline/run.rs` (waits for a slot, then
//! runs the backend, such as `host/wasm/src/backend.rs`: `CompletedRun`) → `pipeline/sanitize.rs` (`Clean`) →
//! `pipeline/label.rs` (`Labeled`) → `pipeline/audit.rs` (`Outcome`).
//!
//! A grant: `host/app/src/approval_store.rs` or `mimir tools trust` (`host/cli/src/commands/tools_trust.rs`) creates a
//! `Grant` → `.mimir/tools.lock`, and the grant's id in the user's own store → `host/app/src/setup.rs` loads both
//! → `grants.rs` (`apply` sets the trust and the granted needs of each tool) → `registry.rs` → `pipeline/decide.rs`
//! (asks if the grant is missing) → `pipeline/approve.rs` (the rights of the call) → the backend (mounts), and again
//! for each effect of the running call in `pipeline/effect.rs`, so that a revoked grant stops it.
//!
//! A shell script: the arguments of a call contain it → `policy/commands.rs` (`command_in_arguments`) →
//! `pipeline/decide.rs` (`evaluate_command`) → `pipeline/call_command.rs` parses it once per call
//! (`CommandRunner::parse_program`, the reader in `host/commands/src/shell.rs`) → `policy/commands.rs` checks each
//! simple command with the facts of `host/commands` → `pipeline/approve.rs` → the tool (`plugins/exec`) asks to run it
//! → `pipeline/effect/command.rs` compares it with the call's own command (`is_own`) and checks the parsed program
//! against the current rules (`PermittedCommand`) → `host/process/src/run.rs` and `host/process/src/sandbox.rs`.

use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::approval::{ApprovalQueue, ApprovalStore, Approver, QuestionSharing, StoredApproval};
use crate::audit::AuditSink;
use crate::backend::BoxFuture;
use crate::call::{Call, RequestId};
use crate::call_monitor::{CallMonitor, RunningCalls};
use crate::call_switch::{SessionSwitch, StopNotice, shown_session};
use crate::clock::Clock;
use crate::command::{CommandRunner, JobOwner, JobStatus};
use crate::decision::{Decision, PolicyEvaluation};
use crate::error::{ToolError, ToolErrorCode};
use crate::language_model::LanguageModel;
use crate::outcome::{ContentLabel, Outcome};
use crate::policy::{self, Policy};
use crate::redact::Vault;
use crate::registry::Registry;
use crate::shared_state::SharedStateHandle;

mod active_calls;
mod approve;
mod audit;
mod call_command;
mod call_recorder;
mod connections;
mod decide;
mod effect;
mod exfiltration;
mod interrupts;
mod label;
mod mask;
mod network;
mod remote;
mod restore;
mod result_cache;
mod run;
mod sanitize;
mod session;
mod span_observer;
mod validate;

pub use approve::{Approved, NestedCaller};
pub use connections::PipelineConnections;
pub use decide::Ruled;
pub use effect::{
    CommandEgress, CommandQuestion, ConfirmedCommand, EffectGate, EgressPermission, NetworkAccess,
    OutgoingRequest, PermittedCommand, PluginStorage, UploadScanner,
};
pub use label::{Labeled, TaintFloor};
pub use network::RequestPreview;
pub use run::CompletedRun;
pub use sanitize::Clean;
pub use validate::Checked;

use active_calls::InFlightGuard;
use approve::{ApproveStep, RememberedAnswer};
use call_recorder::CallRecorder;
use interrupts::SnapshotChanges;
use result_cache::ResultCache;
pub(crate) use result_cache::refusal as cache_refusal;
use run::CallSlots;
pub(crate) use session::ContentSource;
use session::PipelineSessions;

/// The tools and the rules at one point in time. A change creates a new snapshot; calls in flight keep the old one.
#[derive(Debug, Default)]
pub struct PipelineSnapshot {
    /// The tools.
    pub registry: Registry,
    /// The rules.
    pub policy: Policy,
}

impl PipelineSnapshot {
    /// Returns the tools and rules for users in a role. A role that is not in the settings (any more) has no tools.
    #[must_use]
    pub fn in_role(&self, role: &str) -> Self {
        match self.policy.in_role(role) {
            Some(policy) => Self {
                registry: self.registry.map_tools(|tool| Some(Arc::clone(tool))),
                policy,
            },
            None => Self {
                registry: Registry::default(),
                policy: self.policy.clone(),
            },
        }
    }
}

/// The interfaces through which the pipeline reaches its surroundings.
#[derive(Clone)]
pub struct PipelinePorts {
    /// Asks a person.
    pub approver: Arc<dyn Approver>,
    /// Stores a person's lasting answers.
    pub approval_store: Arc<dyn ApprovalStore>,
    /// Provides the secrets to mask.
    pub vault: Arc<dyn Vault>,
    /// Records every call.
    pub audit: Arc<dyn AuditSink>,
    /// Reads the system time.
    pub clock: Arc<dyn Clock>,
    /// Parses and runs commands.
    pub runner: Arc<dyn CommandRunner>,
    /// Generates text for tools.
    pub model: Arc<dyn LanguageModel>,
}

/// The predicted decision about a call, which was not run.
#[derive(Debug, Clone)]
pub struct CallExplanation {
    /// The evaluation of all rules.
    pub evaluation: PolicyEvaluation,
    /// The stored approval that covers the call. `None` if no approval is needed, or if none is stored.
    pub stored_approval: Option<StoredApproval>,
    /// Remedies to show to the person.
    pub remedies: Vec<String>,
    /// The request that the arguments name, if any. It was evaluated but not sent.
    pub network: Option<RequestPreview>,
}

/// Runs tool calls through all stages. Clones share one pipeline.
#[derive(Clone)]
pub struct Pipeline(Arc<Inner>);

/// Reloads the tools and rules of a pipeline when their files have changed.
pub trait SnapshotRefresh: Send + Sync {
    /// Returns once each change of settings and grants made before this call is in force or has been rejected, or after
    /// a time limit of the implementation.
    fn refresh(&self) -> BoxFuture<'_, ()>;
}

struct Inner {
    snapshot_source: SnapshotSource,
    refresh: OnceLock<Arc<dyn SnapshotRefresh>>,
    connections: Arc<OnceLock<PipelineConnections>>,
    replaced: Arc<SnapshotChanges>,
    ports: PipelinePorts,
    slots: Arc<CallSlots>,
    sessions: Arc<PipelineSessions>,
    results: Arc<ResultCache>,
    approval_queue: Arc<ApprovalQueue>,
    active_calls: Arc<AtomicUsize>,
    running: Arc<RunningCalls>,
}

/// The source of a pipeline's tools and rules.
enum SnapshotSource {
    /// Set with [`Pipeline::replace`].
    Owned(RwLock<Arc<PipelineSnapshot>>),
    /// Derived from the snapshot of another pipeline.
    Restricted {
        outer: Pipeline,
        narrow: Box<SnapshotFilter>,
        /// The last outer snapshot and the restricted snapshot derived from it.
        cached: Mutex<Option<(Arc<PipelineSnapshot>, Arc<PipelineSnapshot>)>>,
    },
}

/// A function that removes tools and adds rules.
type SnapshotFilter = dyn Fn(&PipelineSnapshot) -> PipelineSnapshot + Send + Sync;

/// The context of a call: the snapshot at the start of the call, and the state that all calls share.
struct StageContext<'a> {
    pipeline: &'a Pipeline,
    snapshot: &'a Arc<PipelineSnapshot>,
    /// The number of changes of the tools and rules before the snapshot was taken.
    changes: u64,
    slots: &'a CallSlots,
    results: &'a ResultCache,
    sessions: &'a PipelineSessions,
    ports: &'a PipelinePorts,
}

/// Maximum number of times that a person may edit the arguments of one call. The rules are evaluated after each edit.
const EDITS_MAX: usize = 20;

impl Pipeline {
    /// Creates a pipeline with the given tools, rules and ports.
    pub fn new(snapshot: PipelineSnapshot, ports: PipelinePorts) -> Self {
        Self(Arc::new(Inner {
            snapshot_source: SnapshotSource::Owned(RwLock::new(Arc::new(snapshot))),
            refresh: OnceLock::new(),
            connections: Arc::default(),
            replaced: Arc::default(),
            ports,
            slots: Arc::default(),
            sessions: Arc::default(),
            results: Arc::default(),
            approval_queue: Arc::default(),
            active_calls: Arc::default(),
            running: Arc::default(),
        }))
    }

    /// Returns a restricted view of this pipeline, which shares its sessions and its calls in flight. `narrow` derives
    /// the view's tools and rules. [`Self::replace`] on the view replaces the tools and rules of this pipeline, and
    /// `narrow` is applied to them again.
    #[must_use]
    pub fn restricted(
        &self,
        narrow: impl Fn(&PipelineSnapshot) -> PipelineSnapshot + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            snapshot_source: SnapshotSource::Restricted {
                outer: self.clone(),
                narrow: Box::new(narrow),
                cached: Mutex::default(),
            },
            refresh: OnceLock::new(),
            connections: Arc::clone(&self.0.connections),
            replaced: Arc::clone(&self.0.replaced),
            ports: self.0.ports.clone(),
            slots: Arc::clone(&self.0.slots),
            sessions: Arc::clone(&self.0.sessions),
            results: Arc::clone(&self.0.results),
            approval_queue: Arc::clone(&self.0.approval_queue),
            active_calls: Arc::clone(&self.0.active_calls),
            running: Arc::clone(&self.0.running),
        }))
    }

    /// Returns the tools and rules that the next call will use.
    pub fn snapshot(&self) -> Arc<PipelineSnapshot> {
        match &self.0.snapshot_source {
            SnapshotSource::Owned(snapshot) => Arc::clone(&snapshot.read()),
            SnapshotSource::Restricted {
                outer,
                narrow,
                cached,
            } => {
                let full = outer.snapshot();
                let mut cached = cached.lock();
                match &*cached {
                    Some((derived_from, restricted)) if Arc::ptr_eq(derived_from, &full) => {
                        Arc::clone(restricted)
                    }
                    _ => {
                        let restricted = Arc::new(narrow(&full));
                        *cached = Some((full, Arc::clone(&restricted)));
                        restricted
                    }
                }
            }
        }
    }

    /// Replaces the tools and rules. Calls in flight finish under the old ones, except for running calls of tools that were
    /// removed, that have lost rights, or that a rule now denies: these are stopped.
    pub fn replace(&self, snapshot: PipelineSnapshot) {
        match &self.0.snapshot_source {
            SnapshotSource::Owned(current) => {
                let mut current = current.write();
                *current = Arc::new(snapshot);
            }
            SnapshotSource::Restricted { outer, .. } => return outer.replace(snapshot),
        }
        self.0.sessions.clear_granted();
        self.0.results.clear();
        self.0.replaced.report();
    }

    /// Sets the hook that updates the tools and rules before each call. Only the first call has an effect.
    pub fn set_refresh(&self, refresh: Arc<dyn SnapshotRefresh>) {
        match &self.0.snapshot_source {
            SnapshotSource::Owned(_) => drop(self.0.refresh.set(refresh)),
            SnapshotSource::Restricted { outer, .. } => outer.set_refresh(refresh),
        }
    }

    /// Connects this pipeline and its views to the other processes of its deployment. Call it before the first call. Only
    /// the first connection has an effect.
    pub fn connect(&self, connections: PipelineConnections) {
        let _ = self.0.connections.set(connections);
    }

    /// Also asks the questions of this pipeline and its views in other processes. Only the first call has an effect.
    pub fn share_questions(&self, sharing: Arc<dyn QuestionSharing>) {
        self.0.approval_queue.share(sharing);
    }

    /// Reports the calls of this pipeline and its views to consoles. Only the first call has an effect.
    pub fn set_monitor(&self, monitor: Arc<dyn CallMonitor>) {
        self.0.running.set_monitor(monitor);
    }

    /// Returns the calls of this pipeline and its views that wait or run, to list and to cancel them. A call that
    /// completes at once is not among them, unless a console watches.
    pub fn running_calls(&self) -> Arc<RunningCalls> {
        Arc::clone(&self.0.running)
    }

    /// Cancels a call that waits or runs in this process. `by` names the person who does it. Returns false if there is no
    /// such call, or if it was cancelled already.
    pub fn cancel(&self, id: &RequestId, by: &str) -> bool {
        self.0.running.cancel(id, by)
    }

    /// Updates the tools and rules, as each call does. Front ends call it before they list tools.
    pub async fn refresh(&self) {
        if let Some(refresh) = self.outermost().0.refresh.get() {
            refresh.refresh().await;
        }
    }

    /// Returns the pipeline of which this one is a view, or itself.
    fn outermost(&self) -> &Self {
        let mut pipeline = self;
        while let SnapshotSource::Restricted { outer, .. } = &pipeline.0.snapshot_source {
            pipeline = outer;
        }
        pipeline
    }

    /// Ends a session: discards its taint label, its approvals and what tools hold for it, here and in the other processes
    /// of the deployment, and kills the commands that it started. Front ends call it when a session has ended.
    pub fn end_session(&self, id: &str) {
        self.discard_session(id);
        self.0.running.stops().end_session(id);
        let Some(connections) = self.0.connections.get() else {
            return;
        };
        if let Some(remote) = &connections.remote {
            remote.end_session(id);
        }
        if let Some(state) = &connections.state {
            session::remove_record_later(Arc::clone(state), id);
        }
    }

    /// Discards what this process holds for a session that another process has ended.
    pub fn discard_session(&self, id: &str) {
        if self.0.sessions.end(id) {
            self.0.ports.approval_store.end_session(id);
        }
        self.0.running.stops().discard_session(id);
        self.0.results.end_session(id);
        self.0.ports.runner.end_session(id);
        // Not only the tools of a restricted view.
        for tool in self.outermost().snapshot().registry.tools() {
            tool.backend.end_session(id);
        }
    }

    /// Returns the counter of calls that are running or waiting, nested calls too.
    pub fn active_calls(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0.active_calls)
    }

    /// Returns the taint label of a session. Store it to resume the session in another process.
    pub fn session_label(&self, session: &str) -> ContentLabel {
        self.0.sessions.get(session).label()
    }

    /// Restores the taint label of a resumed session. Call it before the first call.
    pub fn restore_session_label(&self, session: &str, read: &ContentLabel) {
        self.0
            .sessions
            .get(session)
            .record_read(read, ContentSource::Other);
    }

    /// Runs a call through all stages. Dropping the future stops the tool and records the call as cancelled.
    pub async fn call(&self, call: Call) -> Outcome {
        if !call.sharing.is_one_client() {
            let session = self.0.sessions.get(&call.context.session_id);
            session.mark_shared(call.sharing);
        }
        self.refresh().await;
        // Counted before the snapshot is taken, so that no change after it is missed.
        let changes = self.0.replaced.count();
        let snapshot = self.snapshot();
        let connections = self.0.connections.get();
        if let Some(connections) = connections
            && let Some(remote) = &connections.remote
        {
            return Box::pin(remote::call(self, call, &snapshot, connections, &**remote)).await;
        }
        let stage = StageContext {
            changes,
            ..self.stage_context(&snapshot)
        };
        let in_flight = InFlightGuard::begin(&self.0.active_calls);
        // On the heap: the recorder is large and lives until the end of the call.
        let mut recorder = Box::new(CallRecorder::start(&call, &snapshot, self));
        let session = call.context.session_id.clone();
        let attempted = {
            let switch = SessionSwitch {
                all: connections.map(|connections| &*connections.switch),
                sessions: self.0.running.stops(),
                session: &session,
            };
            let attempt = pin!(stage.attempt(call, &mut recorder));
            interrupts::until_stopped(&switch, attempt).await
        };
        let completed = match attempted {
            Ok(Ok(completed)) => completed,
            Ok(Err(error)) => CompletedRun::refused(error),
            Err(notice) => {
                self.enforce_stop(&notice);
                // The order may have been carried out while the call ran, before it began commands in the background.
                self.0.ports.runner.end_session(&session);
                recorder.record_stop(&notice);
                CompletedRun::refused(interrupts::stopped_error(&notice, recorder.may_have_run()))
            }
        };
        recorder.mark_ran(|| self.0.ports.clock.now());
        let clean = sanitize::sanitize(completed, &recorder);
        let mut labeled = label::label(&stage, clean, &recorder);
        if stage.shared_state().is_some() {
            Box::pin(label::store_session(&stage, &mut labeled, &recorder)).await;
        }
        audit::audit(labeled, recorder, in_flight.is_alone()).await
    }

    /// Kills the background commands of all sessions, after the order to stop all calls, or those of the stopped session.
    /// The first call after the order does it, too, so this is only needed where there may be no further calls.
    pub fn enforce_stop(&self, notice: &StopNotice) {
        if notice.session.is_some() {
            return self.enforce_session_stops();
        }
        for session in self.0.sessions.begin_stop(notice.at_ms) {
            self.0.ports.runner.end_session(&session);
        }
    }

    /// Lists the background commands of all sessions that have not ended. They end with the process.
    pub fn running_jobs(&self) -> Vec<(JobOwner, JobStatus)> {
        self.0.ports.runner.running_jobs()
    }

    fn enforce_session_stops(&self) {
        let stopped = self.0.running.stops().take_unenforced();
        if stopped.is_empty() {
            return;
        }
        for session in self.0.sessions.ids() {
            if stopped.contains(&shown_session(&session)) {
                self.0.ports.runner.end_session(&session);
            }
        }
    }

    /// Returns a check that carries out the orders to stop calls, if there are some. Call it at intervals in processes
    /// with background commands, since they may get no further calls. It returns false once the pipeline was dropped.
    pub fn stop_check(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let pipeline = Arc::downgrade(&self.0);
        move || {
            let Some(pipeline) = pipeline.upgrade().map(Self) else {
                return false;
            };
            let connections = pipeline.0.connections.get();
            if let Some(notice) = connections.and_then(|connections| connections.switch.stopped()) {
                pipeline.enforce_stop(&notice);
            }
            pipeline.enforce_session_stops();
            true
        }
    }

    /// Returns true if the call may run a second time without further effect: its tool changes nothing or is idempotent,
    /// according to a source that is trusted.
    pub fn may_run_again(&self, call: &Call) -> bool {
        let snapshot = self.snapshot();
        let mut arguments = call.arguments.clone();
        let root = self.0.ports.runner.root();
        let registry = &snapshot.registry;
        let tool = policy::resolve_called_tool(registry, &call.tool, root, &mut arguments);
        tool.is_ok_and(|tool| {
            let equivalent = policy::equivalent_tool_name(&tool, &arguments);
            let equivalent = equivalent.and_then(|name| registry.get(name));
            equivalent.unwrap_or(&tool).may_run_again()
        })
    }

    /// Explains the decision about a call without running the tool. Only the tool's assessor runs.
    pub async fn explain(&self, call: Call) -> Result<CallExplanation, ToolError> {
        let snapshot = self.snapshot();
        let connections = self.0.connections.get();
        if connections.is_some_and(|connections| connections.remote.is_some()) {
            return Err(ToolError::unavailable(
                "calls run in other processes, which have their own rules; use `mimir explain` in the workspace of a worker",
            ));
        }
        let stage = self.stage_context(&snapshot);
        let mut recorder = CallRecorder::silent(&call, &self.0.ports);
        recorder.check_redactor(&call, &snapshot.registry)?;
        let explained = stage.explain(call, &mut recorder).await;
        let redactor = recorder.redactor();
        explained
            .map(|mut explained| {
                explained.evaluation.mask(&redactor);
                if let Some(network) = &mut explained.network {
                    redactor.mask_texts([&mut network.url, &mut network.host]);
                }
                explained
            })
            .map_err(|mut error| {
                mask::mask_error(&redactor, &mut error);
                error
            })
    }

    fn stage_context<'a>(&'a self, snapshot: &'a Arc<PipelineSnapshot>) -> StageContext<'a> {
        StageContext {
            pipeline: self,
            snapshot,
            changes: self.0.replaced.count(),
            slots: &self.0.slots,
            results: &self.0.results,
            sessions: &self.0.sessions,
            ports: &self.0.ports,
        }
    }
}

impl StageContext<'_> {
    /// Returns the state that this process shares with others, if there are others.
    fn shared_state(&self) -> Option<&SharedStateHandle> {
        self.pipeline.0.connections.get()?.state.as_ref()
    }

    /// Merges what other processes know of a session into the session of this process. Fails at once if the call could not
    /// be recorded either.
    async fn load_session(&self, id: &str, recorder: &CallRecorder) -> Result<(), ToolError> {
        let Some(state) = self.shared_state() else {
            return Ok(());
        };
        recorder.check_ready()?;
        let session = self.sessions.get(id);
        let now = self.ports.clock.now();
        // On the heap: most pipelines have no shared state.
        Box::pin(session.load(&**state, id, now)).await
    }

    /// Makes an approval for a session count in all processes. If that fails, it counts in this process until then.
    async fn share_answer(&self, session: &str) {
        let Some(state) = self.shared_state() else {
            return;
        };
        let stored = self.sessions.get(session);
        let stored = stored.store(&**state, session, self.ports.clock.now());
        if let Err(error) = stored.await {
            tracing::warn!(%error, "the answer counts in this process only, because it could not be stored");
        }
    }

    async fn explain(
        &self,
        call: Call,
        recorder: &mut CallRecorder,
    ) -> Result<CallExplanation, ToolError> {
        self.load_session(&call.context.session_id, recorder)
            .await?;
        let checked = validate::validate(self, call, recorder)?;
        let judgement = decide::evaluate(self, &checked).await?;
        let evaluation = judgement.evaluation;
        let asks = evaluation.decision() == Decision::Ask;
        let answer = asks.then(|| approve::find_remembered_answer(self, &checked, &evaluation));
        Ok(CallExplanation {
            stored_approval: answer.flatten().and_then(RememberedAnswer::into_approval),
            remedies: judgement.remedies,
            network: judgement.preview,
            evaluation,
        })
    }

    /// Runs the stages `validate` to `run`.
    async fn attempt(
        &self,
        mut call: Call,
        recorder: &mut CallRecorder,
    ) -> Result<CompletedRun, ToolError> {
        recorder.check_redactor(&call, &self.snapshot.registry)?;
        self.load_session(&call.context.session_id, recorder)
            .await?;
        for _ in 0..EDITS_MAX {
            let checked = validate::validate(self, call, recorder)?;
            let ruled = decide::decide(self, checked, recorder).await?;
            match approve::approve(self, ruled, recorder).await? {
                ApproveStep::Run(mut approved) => {
                    recorder.check_ready()?;
                    if let Some(redactor) = restore::restore(&mut approved)? {
                        recorder.mask_with(redactor);
                    }
                    recorder.mark_run(|| self.ports.clock.now());
                    return run::run(self, *approved, recorder).await;
                }
                ApproveStep::Edited(edited) => call = *edited,
            }
        }
        Err(ToolError::new(
            ToolErrorCode::ApprovalDenied,
            format!("the arguments were edited {EDITS_MAX} times and never approved"),
        ))
    }
}

#[cfg(test)]
pub(crate) mod tests;
