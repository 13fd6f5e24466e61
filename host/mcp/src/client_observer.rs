//! Messages and questions of a running call for the client.

use std::collections::BTreeMap;
use std::sync::Arc;

use mimir_core::audit::RequestOrigin;
use mimir_core::call::{CallObserver, CallProgress, LogLine};
use mimir_core::client_name::ClientName;
use mimir_core::trace_context::TraceContext;
use mimir_core::upstream_request::{self, UpstreamRequest, UpstreamRequestKind};
use mimir_core::{ApprovalAnswer, Approver, BoxFuture, Card, ToolError};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::elicitation;
use crate::logs::MinLogLevel;
use crate::server::RequestTrace;

mod progress_limiter;

pub(crate) use progress_limiter::LatestProgress;
use progress_limiter::ProgressLimiter;

/// A message of a running call.
pub(crate) enum CallUpdate {
    Progress(CallProgress),
    Line(LogLine),
}

/// A question to the client. The call waits for the answer.
pub(crate) enum ClientQuestion {
    /// An approval question for the user.
    Card(ApprovalQuestion),
    /// Requests of the server behind the tool.
    Requests(ForwardedRequests),
}

impl ClientQuestion {
    /// Returns true if the call, or the one that made it, may have taken effect before the question was asked.
    pub(crate) fn is_asked_during_run(&self) -> bool {
        match self {
            // The arguments of an effect cannot be edited.
            Self::Card(question) => !question.card.editable || question.card.caller.is_some(),
            Self::Requests(_) => true,
        }
    }
}

/// An approval question for the user.
pub(crate) struct ApprovalQuestion {
    pub(crate) card: Box<Card>,
    pub(crate) answer: oneshot::Sender<ApprovalAnswer>,
}

/// Requests of a server behind a tool for the client.
pub(crate) struct ForwardedRequests {
    pub(crate) requests: Vec<UpstreamRequest>,
    pub(crate) answer: oneshot::Sender<Result<Vec<Value>, ToolError>>,
}

/// Messages and questions of a call.
pub(crate) struct CallReceivers {
    pub(crate) updates: mpsc::Receiver<CallUpdate>,
    /// The latest progress that was held back by the rate limit.
    pub(crate) latest: Arc<LatestProgress>,
    pub(crate) questions: mpsc::Receiver<ClientQuestion>,
}

/// Forwards the messages of a call to its client. It never blocks the tool: if the client is slow, messages other than
/// the latest progress are dropped.
pub(crate) struct ClientObserver {
    updates: mpsc::Sender<CallUpdate>,
    progress: Option<Mutex<ProgressLimiter>>,
    min_level: Option<MinLogLevel>,
    /// The trace context of the request, and the request itself.
    trace: RequestTrace,
    approver: Box<dyn Approver>,
    /// Server requests that the client supports, and the channel for them.
    supported: Vec<UpstreamRequestKind>,
    questions: mpsc::Sender<ClientQuestion>,
    /// Answers that the client sent in advance.
    early_answers: Mutex<BTreeMap<String, Value>>,
}

/// Maximum number of queued messages for the client.
const QUEUE_CAPACITY: usize = 256;

impl ClientObserver {
    /// Creates an observer and the receivers of its messages. `min_level` is the client's minimum log level, and
    /// `supported` are the server requests that the client supports. If `separate_answers` is true, questions are sent
    /// in the response to the client's request. `make_approver` creates the approver from a channel to the client.
    pub(crate) fn new(
        progress: bool,
        min_level: Option<MinLogLevel>,
        trace: RequestTrace,
        supported: Vec<UpstreamRequestKind>,
        separate_answers: bool,
        early_answers: BTreeMap<String, Value>,
        make_approver: impl FnOnce(ClientApprover) -> Box<dyn Approver>,
    ) -> (Self, CallReceivers) {
        let (update_sender, update_receiver) = mpsc::channel(QUEUE_CAPACITY);
        let (question_sender, questions) = mpsc::channel(1);
        let latest = Arc::<LatestProgress>::default();
        let limiter = || Mutex::new(ProgressLimiter::new(Arc::clone(&latest)));
        let observer = Self {
            updates: update_sender,
            progress: progress.then(limiter),
            min_level,
            trace,
            approver: make_approver(ClientApprover {
                questions: question_sender.clone(),
                separate_answers,
            }),
            supported,
            questions: question_sender,
            early_answers: Mutex::new(early_answers),
        };
        let receivers = CallReceivers {
            updates: update_receiver,
            latest,
            questions,
        };
        (observer, receivers)
    }
}

impl CallObserver for ClientObserver {
    fn progress(&self, progress: CallProgress) {
        let Some(limiter) = &self.progress else {
            return;
        };
        limiter.lock().report(progress, |progress| {
            self.updates
                .try_send(CallUpdate::Progress(progress))
                .is_ok()
        });
    }

    fn waiting(&self, tool: &str) {
        let Some(limiter) = &self.progress else {
            return;
        };
        limiter.lock().report_waiting(tool, |progress| {
            self.updates
                .try_send(CallUpdate::Progress(progress))
                .is_ok()
        });
    }

    fn log(&self, line: LogLine) {
        if self
            .min_level
            .is_some_and(|min_level| min_level.accepts(line.level))
        {
            let _ = self.updates.try_send(CallUpdate::Line(line));
        }
    }

    fn approver(&self) -> Option<&dyn Approver> {
        Some(&*self.approver)
    }

    fn upstream_handler(&self) -> Option<&dyn upstream_request::UpstreamRequestHandler> {
        Some(self)
    }

    fn trace(&self) -> Option<&str> {
        self.trace.parent.as_deref()
    }

    fn trace_context(&self) -> Option<&TraceContext> {
        self.trace.context.as_ref()
    }

    fn request_origin(&self) -> Option<&RequestOrigin> {
        Some(&self.trace.origin)
    }

    fn client_name(&self) -> Option<&ClientName> {
        self.trace.client.as_ref()
    }
}

impl upstream_request::UpstreamRequestHandler for ClientObserver {
    fn supports(&self, kind: UpstreamRequestKind) -> bool {
        self.supported.contains(&kind)
    }

    fn handle_requests(
        &self,
        requests: Vec<UpstreamRequest>,
    ) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        Box::pin(async move {
            let disconnected =
                || ToolError::unavailable("the client that made the call has disconnected");
            let (answer, answered) = oneshot::channel();
            let early_answers = std::mem::take(&mut *self.early_answers.lock());
            if let Some(answers) = collect_answers(&requests, &early_answers) {
                return Ok(answers);
            }
            let question = ClientQuestion::Requests(ForwardedRequests { requests, answer });
            self.questions
                .send(question)
                .await
                .map_err(|_| disconnected())?;
            answered.await.unwrap_or_else(|_| Err(disconnected()))
        })
    }
}

/// Returns the client's answers to the requests, or `None` if an answer is missing or not valid.
pub(crate) fn collect_answers(
    requests: &[UpstreamRequest],
    early_answers: &BTreeMap<String, Value>,
) -> Option<Vec<Value>> {
    let answers = requests.iter().map(|request| {
        let answer = early_answers.get(&request.name)?;
        elicitation::is_answer(request.kind, answer).then(|| answer.clone())
    });
    answers.collect()
}

/// Asks the user of the client, through the handler of the client's request.
pub(crate) struct ClientApprover {
    questions: mpsc::Sender<ClientQuestion>,
    separate_answers: bool,
}

impl Approver for ClientApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let unattended = || ApprovalAnswer::Unattended {
                remedy: "The client that made the call has disconnected.".to_owned(),
            };
            let (answer, answered) = oneshot::channel();
            let question = ClientQuestion::Card(ApprovalQuestion {
                card: Box::new(card.clone()),
                answer,
            });
            if self.questions.send(question).await.is_err() {
                return unattended();
            }
            answered.await.unwrap_or_else(|_| unattended())
        })
    }

    fn needs_separate_answers(&self) -> bool {
        self.separate_answers
    }
}
