//! A call that waits or runs: its facts for consoles, its state, and the order to cancel it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use parking_lot::Mutex;
use serde_json::json;

use crate::call::RequestId;
use crate::client_name::ClientName;
use crate::clock::Stopwatch;
use crate::decision::Decision;
use crate::error::{ToolError, ToolErrorCode};
use crate::redact::Redactor;
use crate::tool::Tool;

use super::shown_arguments::ReportedArguments;

/// A call that waits or runs. Contains the unmasked arguments.
pub(crate) struct MonitoredCall {
    pub(crate) facts: CallFacts,
    pub(crate) at: SystemTime,
    pub(crate) redactor: Redactor,
    pub(crate) trace: Option<String>,
    pub(crate) stopwatch: Stopwatch,
    status: Mutex<CallStatus>,
}

/// The tool of a call.
pub(crate) enum CalledTool {
    /// A tool that exists.
    Known(Arc<Tool>),
    /// The name of a tool that does not exist. It may be anything.
    Unknown(String),
}

/// The facts about a call that change while it runs.
#[derive(Default)]
struct CallStatus {
    decision: Option<(Decision, Option<String>)>,
    /// The time since which the call waits for a person.
    waits_since: Option<SystemTime>,
    /// True if the changes of the call can be undone with its id.
    has_undo: bool,
    /// The person who has cancelled the call.
    cancelled_by: Option<String>,
    waker: Option<Waker>,
}

/// The facts about a call that do not change.
pub(crate) struct CallFacts {
    pub(crate) id: RequestId,
    pub(crate) session: String,
    pub(crate) user: Option<String>,
    pub(crate) client: Option<ClientName>,
    pub(crate) tool: CalledTool,
    pub(crate) parent: Option<RequestId>,
    pub(crate) arguments: ReportedArguments,
}

impl MonitoredCall {
    /// Creates a call that arrived at `at`.
    pub(crate) fn new(
        facts: CallFacts,
        at: SystemTime,
        stopwatch: Stopwatch,
        redactor: Redactor,
        trace: Option<String>,
    ) -> Self {
        Self {
            facts,
            at,
            redactor,
            trace,
            stopwatch,
            status: Mutex::default(),
        }
    }

    /// Notes the decision of the rules.
    pub(crate) fn set_decision(&self, decision: Decision, rule: Option<String>) {
        self.status.lock().decision = Some((decision, rule));
    }

    /// Notes whether the call waits for a person.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        let since = is_waiting.then(|| self.stopwatch.now());
        self.status.lock().waits_since = since;
    }

    /// Notes that the changes of the call can be undone.
    pub(super) fn set_undo(&self) {
        self.status.lock().has_undo = true;
    }

    /// Returns the id with which the changes of the call can be undone, if they can.
    pub(super) fn undo_id(&self) -> Option<String> {
        self.status
            .lock()
            .has_undo
            .then(|| self.facts.id.to_string())
    }

    /// Returns the decision of the rules, if there is one, and the time since which the call waits for a person, if it
    /// does.
    pub(super) fn decision_and_wait(
        &self,
    ) -> (Option<(Decision, Option<String>)>, Option<SystemTime>) {
        let status = self.status.lock();
        (status.decision.clone(), status.waits_since)
    }

    /// Orders the call to end. Returns false if it was ordered already.
    pub(super) fn cancel(&self, by: &str) -> bool {
        let mut status = self.status.lock();
        if status.cancelled_by.is_some() {
            return false;
        }
        status.cancelled_by = Some(crate::text::visible(by));
        let waker = status.waker.take();
        drop(status);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Returns the person who has cancelled the call.
    pub(crate) fn cancelled_by(&self) -> Option<String> {
        self.status.lock().cancelled_by.clone()
    }

    /// Stores the waker of the call until the order to end. Returns false after the order.
    fn wait_for_order(&self, context: &Context<'_>) -> bool {
        let mut status = self.status.lock();
        match &mut status.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        status.cancelled_by.is_none()
    }

    /// Creates the error of the call after the order to end. `may_have_run` is true if its tool had started, and may have
    /// changed something.
    pub(crate) fn cancelled_error(&self, may_have_run: bool) -> ToolError {
        let by = self.cancelled_by();
        let by = by.as_deref().unwrap_or("a person");
        let (message, details) = if may_have_run {
            (
                format!("the call was cancelled by {by}, and may have taken effect"),
                json!({"cancelledBy": by, "mayHaveRun": true}),
            )
        } else {
            (
                format!("the call was cancelled by {by}"),
                json!({"cancelledBy": by}),
            )
        };
        ToolError::new(ToolErrorCode::Cancelled, message).with_details(details)
    }
}

/// The order of a person to end a call.
#[derive(Debug)]
pub(crate) struct CallCancelled;

/// Runs `work` until a person cancels the call. `register` is called only if the work does not complete at once. It
/// returns `None` for calls that cannot be cancelled.
pub(crate) async fn until_cancelled<F: Future>(
    register: impl Fn() -> Option<Arc<MonitoredCall>>,
    mut work: Pin<&mut F>,
) -> Result<F::Output, CallCancelled> {
    let mut registered: Option<Option<Arc<MonitoredCall>>> = None;
    std::future::poll_fn(move |context: &mut Context<'_>| {
        // Checked before the work: the work must not go on after the order.
        if let Some(Some(call)) = &registered
            && !call.wait_for_order(context)
        {
            return Poll::Ready(Err(CallCancelled));
        }
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        if registered.is_none() {
            let call = registered.get_or_insert_with(&register);
            if call
                .as_ref()
                .is_some_and(|call| !call.wait_for_order(context))
            {
                return Poll::Ready(Err(CallCancelled));
            }
        }
        Poll::Pending
    })
    .await
}
