//! The observer of a call that runs for another process: forwards all reports as frames.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use mimir_core::backend::BoxFuture;
use mimir_core::call::{CallObserver, CallProgress, LogLine};
use mimir_core::client_name::ClientName;
use mimir_core::command::CommandStream;
use mimir_core::trace_context::TraceContext;
use mimir_core::upstream_request::{UpstreamRequest, UpstreamRequestHandler, UpstreamRequestKind};
use mimir_core::{ApprovalAnswer, Approver, Card, ToolError};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::frames::{ForwardedCall, RequestKind, WorkerFrame};

/// Maximum number of reports that wait to be sent. Further ones are dropped, as for clients that read slowly.
const MAX_WAITING_REPORTS: usize = 1024;

/// Remedy for a question that the client's server did not answer.
const NO_ANSWER: &str = "the server that the client is connected to has not answered the question";

/// A place among the calls that a worker runs at a time. Free while the call waits for a person.
pub(super) struct CallSlot {
    slots: Arc<Semaphore>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl CallSlot {
    pub(super) fn new(slots: Arc<Semaphore>) -> Self {
        Self {
            slots,
            permit: Mutex::new(None),
        }
    }

    /// Waits until the call may run.
    pub(super) async fn take(&self) {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok();
        *self.permit.lock() = permit;
    }

    /// Waits for a person without counting as a running call.
    async fn wait_outside<T>(&self, answer: impl Future<Output = T>) -> T {
        drop(self.permit.lock().take());
        let answer = answer.await;
        self.take().await;
        answer
    }
}

/// The answers of a client to requests of an upstream server.
type UpstreamAnswers = Result<Vec<Value>, ToolError>;

/// A question to a person that is not answered yet.
struct UnansweredQuestion {
    asker: oneshot::Sender<ApprovalAnswer>,
    card: Box<Card>,
}

/// Answers that the client of a call still has to give.
#[derive(Default)]
pub(super) struct PendingAnswers {
    next: AtomicU64,
    approvals: Mutex<HashMap<u64, UnansweredQuestion>>,
    upstream: Mutex<HashMap<u64, oneshot::Sender<UpstreamAnswers>>>,
    /// True if no answer can arrive any more.
    is_closed: AtomicBool,
}

impl PendingAnswers {
    /// Passes an answer to the question with this id, if it is still open.
    pub(super) fn answer(&self, id: u64, answer: ApprovalAnswer) {
        if let Some(question) = self.approvals.lock().remove(&id) {
            let _ = question.asker.send(answer);
        }
    }

    /// Returns the open questions that are not in `asked`, to be sent again.
    pub(super) fn questions_except(&self, asked: &[u64]) -> Vec<WorkerFrame> {
        let open = self.approvals.lock();
        let missing = open.iter().filter(|(id, _)| !asked.contains(id));
        let frames = missing.map(|(id, question)| WorkerFrame::Question {
            id: *id,
            card: question.card.clone(),
        });
        frames.collect()
    }

    /// Ends all questions without an answer, also later ones: the server of the client is lost.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.approvals.lock().clear();
        self.upstream.lock().clear();
    }

    /// Opens a question, unless no answer can arrive any more.
    fn open<T>(&self, table: &Mutex<HashMap<u64, T>>, question: T) -> Option<u64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = table.lock();
        // Under the lock: a question is either refused here or ended by `close`.
        if self.is_closed.load(Ordering::SeqCst) {
            return None;
        }
        open.insert(id, question);
        Some(id)
    }

    /// Passes answers to the upstream requests with this id.
    pub(super) fn answer_upstream(&self, id: u64, answers: UpstreamAnswers) {
        if let Some(asker) = self.upstream.lock().remove(&id) {
            let _ = asker.send(answers);
        }
    }
}

/// Sends frames to the loop of a call, which publishes them.
#[derive(Clone)]
pub(super) struct FrameQueue {
    sender: mpsc::UnboundedSender<WorkerFrame>,
    waiting: Arc<AtomicUsize>,
}

impl FrameQueue {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<WorkerFrame>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let queue = Self {
            sender,
            waiting: Arc::default(),
        };
        (queue, receiver)
    }

    /// Adds a frame that must arrive.
    fn send(&self, frame: WorkerFrame) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send(frame);
    }

    /// Adds a report, unless too many wait.
    fn report(&self, frame: WorkerFrame) {
        if self.waiting.load(Ordering::Relaxed) < MAX_WAITING_REPORTS {
            self.send(frame);
        }
    }

    /// Must be called with the number of frames taken from the queue.
    pub(super) fn taken(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Forwards the reports and questions of one call.
pub(super) struct WorkerObserver {
    frames: FrameQueue,
    trace: Option<String>,
    context: Option<TraceContext>,
    client: Option<ClientName>,
    approver: Option<RemoteClientApprover>,
    upstream: ClientRequests,
}

impl WorkerObserver {
    pub(super) fn new(
        message: &ForwardedCall,
        frames: FrameQueue,
        answers: &Arc<PendingAnswers>,
        slot: &Arc<CallSlot>,
    ) -> Self {
        let trace = message.call.trace.clone();
        let state = message.call.trace_state.as_deref();
        let approver = message.can_ask.then(|| RemoteClientApprover {
            frames: frames.clone(),
            answers: Arc::clone(answers),
            slot: Arc::clone(slot),
            separate_answers: message.separate_answers,
        });
        Self {
            context: trace
                .as_deref()
                .and_then(|trace| TraceContext::parse(trace, state)),
            trace,
            client: message.call.client.as_deref().and_then(ClientName::new),
            approver,
            upstream: ClientRequests {
                frames: frames.clone(),
                answers: Arc::clone(answers),
                kinds: message.upstream.clone(),
            },
            frames,
        }
    }
}

impl CallObserver for WorkerObserver {
    fn progress(&self, progress: CallProgress) {
        self.frames.report(WorkerFrame::Progress(progress.into()));
    }

    fn output(&self, stream: CommandStream, progress: CallProgress) {
        self.frames.report(WorkerFrame::output(stream, progress));
    }

    fn log(&self, line: LogLine) {
        self.frames.report(WorkerFrame::Log(line.into()));
    }

    fn waiting(&self, tool: &str) {
        self.progress(CallProgress::waiting(tool));
    }

    fn approver(&self) -> Option<&dyn Approver> {
        let approver = self.approver.as_ref();
        approver.map(|approver| approver as &dyn Approver)
    }

    fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    fn trace_context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    fn client_name(&self) -> Option<&ClientName> {
        self.client.as_ref()
    }

    fn upstream_handler(&self) -> Option<&dyn UpstreamRequestHandler> {
        (!self.upstream.kinds.is_empty()).then_some(&self.upstream as &dyn UpstreamRequestHandler)
    }
}

/// Asks the person at the client of the call.
struct RemoteClientApprover {
    frames: FrameQueue,
    answers: Arc<PendingAnswers>,
    slot: Arc<CallSlot>,
    separate_answers: bool,
}

/// An open question. Dropping it withdraws the question.
struct ForwardedQuestion<'a> {
    id: u64,
    approver: &'a RemoteClientApprover,
}

impl Drop for ForwardedQuestion<'_> {
    fn drop(&mut self) {
        let approver = self.approver;
        if approver.answers.approvals.lock().remove(&self.id).is_some() {
            let ended = WorkerFrame::QuestionEnded { id: self.id };
            approver.frames.send(ended);
        }
    }
}

impl Approver for RemoteClientApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let unattended = || ApprovalAnswer::Unattended {
                remedy: NO_ANSWER.to_owned(),
            };
            let card = Box::new(card.clone());
            let (asker, receiver) = oneshot::channel();
            let question = UnansweredQuestion {
                asker,
                card: card.clone(),
            };
            let Some(id) = self.answers.open(&self.answers.approvals, question) else {
                return unattended();
            };
            let open = ForwardedQuestion { id, approver: self };
            self.frames.send(WorkerFrame::Question { id, card });
            let answer = self.slot.wait_outside(receiver).await;
            drop(open);
            answer.unwrap_or_else(|_| unattended())
        })
    }

    fn needs_separate_answers(&self) -> bool {
        self.separate_answers
    }
}

/// Forwards requests of upstream servers to the client of the call.
struct ClientRequests {
    frames: FrameQueue,
    answers: Arc<PendingAnswers>,
    kinds: Vec<RequestKind>,
}

impl UpstreamRequestHandler for ClientRequests {
    fn supports(&self, kind: UpstreamRequestKind) -> bool {
        self.kinds.contains(&kind.into())
    }

    fn handle_requests(
        &self,
        requests: Vec<UpstreamRequest>,
    ) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        Box::pin(async move {
            let client_left = || Err(ToolError::unavailable("the client has left"));
            let (asker, receiver) = oneshot::channel();
            let Some(id) = self.answers.open(&self.answers.upstream, asker) else {
                return client_left();
            };
            let requests = requests.into_iter().map(Into::into).collect();
            self.frames.send(WorkerFrame::Upstream { id, requests });
            let answers = receiver.await;
            self.answers.upstream.lock().remove(&id);
            answers.unwrap_or_else(|_| client_left())
        })
    }
}
