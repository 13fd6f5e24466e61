//! The part of a worker that runs background calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use async_nats::jetstream::consumer::pull::Config as PullConfig;
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::{AckKind, Message};
use futures::StreamExt as _;
use mimir_core::background_calls::BackgroundPhase;
use mimir_core::call::{CallObserver, CallProgress, LogLine};
use mimir_core::client_name::ClientName;
use mimir_core::shared_state::{SharedStateError, SharedStateHandle, StateKey, StateRevision};
use mimir_core::trace_context::TraceContext;
use mimir_core::wire::OutcomeMessage;
use mimir_core::{RequestId, ToolError, ToolErrorCode};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::lost::lost_outcome;
use super::{BackgroundEntry, JobClaim, JobStore, QueuedJob};
use crate::connection::ClusterConnection;
use crate::frames::ForwardedCall;
use crate::names;
use crate::node::{ClusterNode, OutcomeRecord};
use crate::streams::job_stream;
use crate::worker::CallRunner;

/// Time after which the queue delivers a call again, unless its worker still works on it.
const ACK_WAIT: Duration = Duration::from_secs(6);

/// Interval at which a worker tells the queue that it still works on a call, and reads whether it is cancelled.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after the queue could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Time for which one request for calls waits in the queue.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Delay of another delivery of a call whose worker still lives, or whose state cannot be read.
const REDELIVERY_DELAY: Duration = Duration::from_secs(3);

/// Runs background calls for a worker.
pub struct JobRunner {
    parts: Arc<JobParts>,
    task: JoinHandle<()>,
}

struct JobParts {
    connection: ClusterConnection,
    node: ClusterNode,
    store: JobStore,
    runner: Arc<dyn CallRunner>,
    runtime: tokio::runtime::Handle,
    workspace: String,
    slots: Arc<Semaphore>,
    running: AtomicUsize,
    is_draining: AtomicBool,
    /// Notified when the worker is to stop its calls.
    stop: Notify,
    ended: Notify,
}

/// The next step for a call that the queue has delivered.
enum Delivery {
    /// The call is claimed by this worker.
    Run(Box<BackgroundEntry>),
    /// The call needs no run.
    Remove,
    /// Another worker may still run it.
    Later,
}

impl JobRunner {
    /// Starts to take background calls of a workspace, at most `max` at a time. They run on the current tokio runtime.
    pub fn start(
        connection: ClusterConnection,
        node: ClusterNode,
        state: SharedStateHandle,
        runner: Arc<dyn CallRunner>,
        workspace: &str,
        max: u32,
    ) -> Self {
        let parts = Arc::new(JobParts {
            store: JobStore(state),
            runtime: tokio::runtime::Handle::current(),
            workspace: StateKey::new([workspace]).to_string(),
            slots: Arc::new(Semaphore::new(usize::try_from(max.max(1)).unwrap_or(1))),
            running: AtomicUsize::new(0),
            is_draining: AtomicBool::new(false),
            stop: Notify::new(),
            ended: Notify::new(),
            connection,
            node,
            runner,
        });
        let task = parts
            .connection
            .runtime()
            .spawn(Arc::clone(&parts).take_calls());
        Self { parts, task }
    }

    /// Takes no further calls, and waits until the running ones have ended. Stops those that still run after `timeout`.
    pub async fn drain(&self, timeout: Duration) {
        self.parts.is_draining.store(true, Ordering::Release);
        self.task.abort();
        if tokio::time::timeout(timeout, self.parts.wait_until_idle())
            .await
            .is_err()
        {
            self.parts.stop.notify_waiters();
            self.parts.wait_until_idle().await;
        }
    }
}

impl Drop for JobRunner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl JobParts {
    async fn wait_until_idle(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.running.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }

    async fn take_calls(self: Arc<Self>) {
        loop {
            match self.consumer().await {
                Ok(consumer) => self.take_from(&consumer).await,
                Err(error) => tracing::debug!(%error, "background calls cannot be taken now"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn consumer(&self) -> Result<Consumer<PullConfig>, String> {
        let created = self.connection.ensure_stream(job_stream()).await;
        let is_missing = created.is_err();
        let stream = self
            .connection
            .jetstream()
            .get_stream(names::JOB_STREAM)
            .await;
        let stream = stream.map_err(|error| match is_missing {
            true => format!("the queue does not exist: {error}"),
            false => error.to_string(),
        })?;
        let name = format!("workers-{}", self.workspace.replace('.', "_"));
        let config = PullConfig {
            durable_name: Some(name.clone()),
            filter_subject: names::jobs(&self.workspace),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: -1,
            max_ack_pending: 10_000,
            ..PullConfig::default()
        };
        let consumer = stream.create_consumer(config).await;
        consumer.map_err(|error| error.to_string())
    }

    /// Takes calls until the queue cannot be read.
    async fn take_from(self: &Arc<Self>, consumer: &Consumer<PullConfig>) {
        loop {
            let Ok(permit) = Arc::clone(&self.slots).acquire_owned().await else {
                return;
            };
            let fetch = consumer.fetch().max_messages(1).expires(FETCH_TIMEOUT);
            let mut messages = match fetch.messages().await {
                Ok(messages) => messages,
                Err(error) => return tracing::debug!(%error, "background calls cannot be fetched"),
            };
            let message = match messages.next().await {
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    return tracing::debug!(%error, "background calls cannot be fetched");
                }
                None => continue,
            };
            if self.is_draining.load(Ordering::Acquire) {
                let _ = message.ack_with(AckKind::Nak(None)).await;
                return;
            }
            let parts = Arc::clone(self);
            parts.running.fetch_add(1, Ordering::AcqRel);
            self.runtime.spawn(async move {
                let _permit = permit;
                parts.handle(message).await;
                parts.running.fetch_sub(1, Ordering::AcqRel);
                parts.ended.notify_waiters();
            });
        }
    }

    /// Handles a delivered call, and tells the queue what to do with it.
    async fn handle(&self, message: Message) {
        let Ok(mut job) = serde_json::from_slice::<QueuedJob>(&message.payload) else {
            tracing::warn!("a background call is not valid, and is removed from the queue");
            let _ = message.ack_with(AckKind::Term).await;
            return;
        };
        let node = self.node.id();
        let ack = match self.decide(&mut job, &node).await {
            Ok(Delivery::Run(entry)) => self.run(&message, job, *entry, &node).await,
            Ok(Delivery::Remove) => AckKind::Ack,
            Ok(Delivery::Later) => AckKind::Nak(Some(REDELIVERY_DELAY)),
            Err(error) => {
                tracing::warn!(%error, id = job.id, "a background call waits");
                AckKind::Nak(Some(REDELIVERY_DELAY))
            }
        };
        if let Err(error) = message.ack_with(ack).await {
            // The entry decides when it is delivered again.
            tracing::debug!(%error, "a background call is not acknowledged");
        }
    }

    /// Claims a call, or decides why not.
    async fn decide(&self, job: &mut QueuedJob, node: &str) -> Result<Delivery, String> {
        let access = |error: SharedStateError| error.to_string();
        let Some((mut entry, revision)) = self.store.get(&job.id).await.map_err(access)? else {
            return Ok(Delivery::Remove);
        };
        match entry.phase {
            BackgroundPhase::Done | BackgroundPhase::Cancelled => return Ok(Delivery::Remove),
            BackgroundPhase::Queued => {}
            BackgroundPhase::Running => {
                let Some(claim) = entry.claim.clone() else {
                    return Err("the claim is missing".to_owned());
                };
                if self.node.nodes().get(&claim.node).is_some() || claim.node == node {
                    return Ok(Delivery::Later);
                }
                if !self.may_run_again(job, &claim).await? {
                    return Ok(Delivery::Remove);
                }
            }
        }
        if entry.cancelled {
            entry.phase = BackgroundPhase::Cancelled;
            self.store
                .update(&job.id, &mut entry, revision)
                .await
                .map_err(access)?;
            return Ok(Delivery::Remove);
        }
        self.claim(job, entry, revision, node).await
    }

    async fn claim(
        &self,
        job: &QueuedJob,
        mut entry: BackgroundEntry,
        revision: StateRevision,
        node: &str,
    ) -> Result<Delivery, String> {
        let own = self.node.nodes().get(node);
        entry.phase = BackgroundPhase::Running;
        entry.claim = Some(JobClaim {
            node: node.to_owned(),
            request_id: job.call.call.context.request_id.to_string(),
            recorded: own.map_or(0, |own| own.recorded),
        });
        match self.store.update(&job.id, &mut entry, revision).await {
            Ok(_) => Ok(Delivery::Run(Box::new(entry))),
            Err(SharedStateError::Conflict) => Ok(Delivery::Later),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Finds out whether a call of a lost worker may run here. If not, stores its outcome.
    async fn may_run_again(&self, job: &mut QueuedJob, claim: &JobClaim) -> Result<bool, String> {
        let access = |error: crate::audit::ClusterAuditError| error.to_string();
        self.node.close_writer(&claim.node).await.map_err(access)?;
        let find = self
            .node
            .find_call(&claim.node, &claim.request_id, claim.recorded);
        let found = find.await.map_err(access)?;
        if !found.announced {
            // The first run may have begun, and have left files that are named by its id. Its outcome may be on record under
            // that id.
            job.call.call.context.request_id = RequestId::new(SystemTime::now());
            return Ok(true);
        }
        let outcome = lost_outcome(&found);
        let finished = self
            .store
            .finish(&job.id, Some(claim), &self.node.id(), &outcome)
            .await;
        finished.map_err(|error| error.to_string())?;
        Ok(false)
    }

    /// Runs a claimed call.
    async fn run(
        &self,
        message: &Message,
        job: QueuedJob,
        entry: BackgroundEntry,
        node: &str,
    ) -> AckKind {
        let QueuedJob { id, call } = job;
        let request_id = call.call.context.request_id.to_string();
        // Another worker takes it over once the lease of the former id has ended.
        let Some(hold) = self.node.accept_call_from(&call.front, node, &request_id) else {
            return AckKind::Nak(Some(REDELIVERY_DELAY));
        };
        let observer = Arc::new(JobObserver::new(&call));
        let role = call.call.role.clone();
        let call = call
            .call
            .into_call(Arc::clone(&observer) as Arc<dyn CallObserver>);
        let mut outcome = self.runner.run(call, role.as_deref());
        let mut renewal = tokio::time::interval(RENEWAL_INTERVAL);
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut shown, claim) = (entry.message, entry.claim);
        let stop = self.stop.notified();
        tokio::pin!(stop);
        let mut is_stopped = true;
        let mut end: OutcomeMessage = loop {
            tokio::select! {
                biased;
                outcome = &mut outcome => {
                    is_stopped = false;
                    break outcome.into();
                }
                () = hold.closed() => return AckKind::Nak(Some(REDELIVERY_DELAY)),
                () = &mut stop => break stopped("the worker has left while it ran the call"),
                _ = renewal.tick() => {
                    let _ = message.ack_with(AckKind::Progress).await;
                    if self.renew(&id, &observer, &mut shown).await {
                        break stopped("the call was cancelled");
                    }
                }
            }
        };
        // Records a stopped call as cancelled.
        drop(outcome);
        let record = tokio::select! {
            biased;
            record = hold.outcome_record() => record,
            () = hold.closed() => OutcomeRecord::TakenOver,
        };
        if record == OutcomeRecord::TakenOver {
            return AckKind::Nak(Some(REDELIVERY_DELAY));
        }
        if is_stopped && record == OutcomeRecord::Failed {
            let error = ToolError::unavailable("the call was stopped, which could not be recorded");
            end = OutcomeMessage::failed(error.with_details(json!({"mayHaveRun": true})));
        }
        loop {
            match self.store.finish(&id, claim.as_ref(), node, &end).await {
                Ok(()) => return AckKind::Ack,
                Err(error) => {
                    tracing::warn!(%error, id, "the result of a background call cannot be stored yet");
                    let _ = message.ack_with(AckKind::Progress).await;
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_PAUSE) => {}
                        () = hold.closed() => return AckKind::Nak(Some(REDELIVERY_DELAY)),
                    }
                }
            }
        }
    }

    /// Shows the progress in the entry. Returns true if the call is cancelled.
    async fn renew(&self, id: &str, observer: &JobObserver, shown: &mut Option<String>) -> bool {
        let Ok(Some((mut entry, revision))) = self.store.get(id).await else {
            return false;
        };
        if entry.cancelled {
            return true;
        }
        let message = observer.message.lock().clone();
        if message != *shown {
            entry.message.clone_from(&message);
            // A conflict is a cancellation, which the next renewal finds.
            if self.store.update(id, &mut entry, revision).await.is_ok() {
                *shown = message;
            }
        }
        false
    }
}

fn stopped(message: &str) -> OutcomeMessage {
    let error = ToolError::new(ToolErrorCode::Cancelled, message);
    OutcomeMessage::failed(error.with_details(json!({"mayHaveRun": true})))
}

/// Keeps the last progress message of a call.
struct JobObserver {
    message: Mutex<Option<String>>,
    trace: Option<String>,
    context: Option<TraceContext>,
    client: Option<ClientName>,
}

impl JobObserver {
    fn new(call: &ForwardedCall) -> Self {
        let trace = call.call.trace.clone();
        let state = call.call.trace_state.as_deref();
        Self {
            message: Mutex::new(None),
            context: trace
                .as_deref()
                .and_then(|trace| TraceContext::parse(trace, state)),
            trace,
            client: call.call.client.as_deref().and_then(ClientName::new),
        }
    }
}

impl CallObserver for JobObserver {
    fn progress(&self, progress: CallProgress) {
        if progress.message.is_some() {
            *self.message.lock() = progress.message;
        }
    }

    fn log(&self, _: LogLine) {}

    fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    fn client_name(&self) -> Option<&ClientName> {
        self.client.as_ref()
    }

    fn trace_context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }
}
