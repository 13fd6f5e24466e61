//! The audit log of a cluster as the pipeline's sink.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mimir_audit::LineDraft;
use mimir_core::ToolErrorCode;
use mimir_core::audit::{AuditError, AuditEvent, AuditSink, EventKind};
use mimir_core::backend::BoxFuture;
use mimir_core::config::{AuditFailureMode, AuditSettings};
use serde::Serialize;
use tokio::sync::oneshot;

use super::line_queue::{
    LineFailure, LineQueue, LineResult, LineWaiter, QueuedLine, QueuedLineKind,
};
use crate::connection::ClusterConnection;
use crate::names;
use crate::node::{HeldCalls, OutcomeRecord};

/// Maximum time until an announcement is stored. A call that is not announced in time does not run.
const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time until another line is stored. After an election, a stream has a leader again within some seconds.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time until the refusal of a call is stored that has not run. A client must not wait long for it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// An event of a call that another node has sent.
#[derive(Serialize)]
struct ForwardedEvent<'a> {
    #[serde(flatten)]
    event: &'a AuditEvent,
    /// Id of the node that has sent the call.
    front: &'a str,
    /// Id of the node that runs it.
    worker: &'a str,
}

/// Records events on the chain of this process's node. All sinks of a node write one chain.
#[derive(Clone)]
pub struct ClusterAuditSink {
    queue: Arc<LineQueue>,
    held: Arc<HeldCalls>,
    connection: ClusterConnection,
    settings: AuditSettings,
    /// The location of the log, for messages.
    location: String,
}

impl ClusterAuditSink {
    pub(crate) fn new(
        queue: Arc<LineQueue>,
        held: Arc<HeldCalls>,
        connection: ClusterConnection,
        settings: AuditSettings,
    ) -> Self {
        let location = format!("{} on {}", names::AUDIT_STREAM, connection.servers());
        Self {
            queue,
            held,
            connection,
            settings,
            location,
        }
    }

    fn error(&self, failure: LineFailure) -> AuditError {
        AuditError {
            place: self.location.clone(),
            source: failure.into(),
        }
    }

    /// Submits an event.
    fn submit(&self, event: &AuditEvent, waiter: LineWaiter) -> Result<(), LineFailure> {
        let kind = match event.event {
            EventKind::Announced => QueuedLineKind::Announcement,
            EventKind::Call => QueuedLineKind::Outcome,
            own if own.is_own() => {
                let text = "this kind of event is reserved for the log itself";
                let text = text.to_owned();
                return Err(LineFailure::NotStored(io::ErrorKind::InvalidInput, text));
            }
            _ => QueuedLineKind::Other,
        };
        let held = self.held.get(&event.id);
        let forwarded = held.as_ref().filter(|_| kind != QueuedLineKind::Other);
        let draft = match forwarded.and_then(|held| Some((held.front.as_deref()?, &*held.node))) {
            Some((front, worker)) => LineDraft::new(&ForwardedEvent {
                event,
                front,
                worker,
            }),
            None => LineDraft::new(event),
        };
        let draft =
            draft.map_err(|error| LineFailure::NotStored(error.kind(), error.to_string()))?;
        if let Some(held) = held.as_ref().filter(|_| kind == QueuedLineKind::Outcome) {
            held.set_record(OutcomeRecord::Waiting);
        }
        self.queue.submit(QueuedLine {
            draft,
            kind,
            id: event.id.clone(),
            held,
            waiter,
        });
        Ok(())
    }

    /// Submits an event and returns the receiver of its result.
    fn submit_async(
        &self,
        event: &AuditEvent,
    ) -> Result<oneshot::Receiver<LineResult>, LineFailure> {
        let (sender, receiver) = oneshot::channel();
        self.submit(event, LineWaiter::Task(sender))?;
        Ok(receiver)
    }

    /// Returns the maximum time until an event is stored.
    fn record_timeout(&self, event: &AuditEvent) -> Duration {
        let is_refusal = event.event == EventKind::Call
            && event.code == Some(ToolErrorCode::Unavailable)
            && !self.queue.is_announced(&event.id);
        if is_refusal {
            REFUSAL_TIMEOUT
        } else {
            RECORD_TIMEOUT
        }
    }

    /// Returns the reason why no line can be stored now.
    fn failure(&self) -> Option<LineFailure> {
        let failure = self.queue.failure();
        failure.or_else(|| self.connection.is_lost().then(connection_lost))
    }

    /// Applies `audit.onFailure` to a result. A call whose end is on record already is never recorded again.
    fn apply_failure_mode(&self, result: LineResult) -> Result<(), AuditError> {
        let Err(failure) = result else {
            return Ok(());
        };
        let is_taken_over = failure == LineFailure::TakenOver;
        let error = self.error(failure);
        if is_taken_over || self.settings.on_failure == AuditFailureMode::Refuse {
            return Err(error);
        }
        tracing::error!("an event was not recorded (audit.onFailure: run): {error}");
        Ok(())
    }
}

/// Waits for the result of a line. Without a runtime, which has ended when its last calls are dropped, waits for as long
/// as it takes.
async fn wait_for_result(
    submitted: Result<oneshot::Receiver<LineResult>, LineFailure>,
    timeout: Duration,
) -> LineResult {
    let stored = submitted?;
    let stored = if tokio::runtime::Handle::try_current().is_ok() {
        tokio::time::timeout(timeout, stored).await
    } else {
        Ok(stored.await)
    };
    match stored {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(LineFailure::unreachable(
            "this process is leaving the cluster",
        )),
        Err(_) => Err(no_answer(timeout)),
    }
}

fn connection_lost() -> LineFailure {
    LineFailure::unreachable("the connection to the servers is lost")
}

fn no_answer(timeout: Duration) -> LineFailure {
    let text = format!(
        "the event was not acknowledged within {} s; it may be recorded later",
        timeout.as_secs()
    );
    LineFailure::NotStored(io::ErrorKind::TimedOut, text)
}

impl AuditSink for ClusterAuditSink {
    fn ready(&self) -> Result<(), AuditError> {
        match self.failure() {
            Some(failure) if self.settings.on_failure == AuditFailureMode::Refuse => {
                Err(self.error(failure))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let result = self
            .submit(event, LineWaiter::Thread(sender))
            .and_then(|()| {
                let wait = || receiver.recv_timeout(RECORD_TIMEOUT);
                run_blocking(wait).unwrap_or_else(|_| Err(no_answer(RECORD_TIMEOUT)))
            });
        self.apply_failure_mode(result)
    }

    fn record_with_others<'a>(
        &'a self,
        event: &AuditEvent,
    ) -> BoxFuture<'a, Result<(), AuditError>> {
        let timeout = self.record_timeout(event);
        let submitted = self.submit_async(event);
        Box::pin(async move {
            let result = wait_for_result(submitted, timeout).await;
            self.apply_failure_mode(result)
        })
    }

    fn announce<'a>(&'a self, event: &AuditEvent) -> BoxFuture<'a, Result<(), AuditError>> {
        let announcement = AuditEvent {
            event: EventKind::Announced,
            ok: true,
            code: None,
            // The outcome has them.
            arguments: None,
            ..event.clone()
        };
        let submitted = self.submit_async(&announcement);
        Box::pin(async move {
            let stored = wait_for_result(submitted, ANNOUNCEMENT_TIMEOUT);
            let result = tokio::select! {
                result = stored => result,
                () = self.connection.lost() => Err(connection_lost()),
            };
            // Never run without an announcement, whatever `audit.onFailure` says: another process may run the call too.
            result.map_err(|failure| self.error(failure))
        })
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn wants_arguments(&self) -> bool {
        self.settings.log_args
    }
}

/// Waits without blocking the other tasks of this thread, if the runtime has several threads.
fn run_blocking<T>(operation: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(operation),
        _ => operation(),
    }
}
