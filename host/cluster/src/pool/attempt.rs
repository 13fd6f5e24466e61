//! A call at one worker, from the first message to the last frame.

use std::collections::HashMap;
use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::{AbortHandle, Abortable, BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use mimir_core::command::CommandStream;
use mimir_core::wire::{ErrorMessage, OutcomeMessage};
use mimir_core::{ApprovalAnswer, Call, Outcome, ToolError};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::PoolParts;
use super::kept::{CallKeeper, WorkerOrder};
use super::replies::{ReplyChannel, WorkerReply};
use crate::frames::{self, ControlMessage, PartJoiner, RequestMessage, WorkerFrame};
use crate::names;
use crate::node::NodeEntry;

/// Time within which a worker sends the first frame, unless it is lost.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_millis(500);

/// Time without a frame after which the worker is asked whether it still runs the call.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(2500);

/// Interval of further questions, and their maximum number. A worker that renews its lease but does not answer them has
/// hung.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const MAX_PROBES: u32 = 20;

/// Interval at which a worker that sends frames is probed, if the client can answer questions. A connection that was lost
/// for a moment, on either side, may have lost a question or its answer: the worker and the server repeat them.
const QUESTION_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Remedy of a question for which the client has no approver.
const CANNOT_ASK: &str = "the client cannot ask a person";

/// The end of a call at one worker.
pub(super) enum AttemptEnd {
    /// The call has ended, and its outcome is on record.
    Outcome(Box<Outcome>),
    /// The worker has no capacity, or is draining. The call has not run and never will.
    Busy(Duration),
    /// The call has not run and never will.
    NotRun,
    /// The worker has stopped the call, and recorded it as cancelled.
    Stopped,
    /// The call has ended and is on record, but the result is lost.
    Ended,
    /// The lease of the worker has ended, or its node was closed: the audit log knows whether the call ran.
    Lost,
    /// The worker renews its lease, but does not answer.
    Hung,
    /// The connection of this process was lost after the call was sent.
    Disconnected,
}

/// Tells the worker that no client waits for the call any more, unless the call has ended or is left to the worker.
struct CancelGuard<'a> {
    pool: &'a PoolParts,
    keeper: &'a CallKeeper,
    control: String,
    call: Option<String>,
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take()
            && !self.keeper.is_left_to_worker()
        {
            self.pool
                .send_later(self.control.clone(), &ControlMessage::Cancel { call });
        }
    }
}

/// The client's answers to questions of the call, each with the message for the worker.
struct OpenQuestions<'a> {
    call: &'a Call,
    subject: String,
    answers: FuturesUnordered<BoxFuture<'a, Option<ControlMessage>>>,
    approvals: HashMap<u64, AnswerProgress>,
}

/// Progress of a question of the worker at the client.
enum AnswerProgress {
    /// The client's person is asked. The handle withdraws the question.
    Asked(AbortHandle),
    /// The answer was sent. The worker repeats the question if it has not arrived.
    Answered(ApprovalAnswer),
    /// The worker has withdrawn the question.
    Withdrawn,
}

impl<'a> OpenQuestions<'a> {
    fn new(call: &'a Call, subject: String) -> Self {
        Self {
            call,
            subject,
            answers: FuturesUnordered::new(),
            approvals: HashMap::new(),
        }
    }

    /// Asks the client's person, once for each question. A repeated question gets the same answer.
    fn ask(&mut self, id: u64, card: Box<mimir_core::Card>) {
        match self.approvals.get(&id) {
            None => {}
            // A repeated question may arrive after its end.
            Some(AnswerProgress::Asked(_) | AnswerProgress::Withdrawn) => return,
            Some(AnswerProgress::Answered(answer)) => {
                let answer = ControlMessage::Answer {
                    call: self.subject.clone(),
                    id,
                    answer: answer.clone(),
                };
                return self.answers.push(ready(Some(answer)).boxed());
            }
        }
        let (handle, registration) = AbortHandle::new_pair();
        self.approvals.insert(id, AnswerProgress::Asked(handle));
        let approver = self.call.observer.approver();
        let subject = self.subject.clone();
        let answer = async move {
            let answer = match approver {
                Some(approver) => approver.ask(&card).await,
                None => ApprovalAnswer::Unattended {
                    remedy: CANNOT_ASK.to_owned(),
                },
            };
            ControlMessage::Answer {
                call: subject,
                id,
                answer,
            }
        };
        let answer = Abortable::new(answer, registration).map(Result::ok);
        self.answers.push(answer.boxed());
    }

    /// Withdraws a question.
    fn withdraw(&mut self, id: u64) {
        let before = self.approvals.insert(id, AnswerProgress::Withdrawn);
        if let Some(AnswerProgress::Asked(handle)) = before {
            handle.abort();
        }
    }

    /// Keeps an answer, in case it does not arrive.
    fn keep_answer(&mut self, message: &ControlMessage) {
        if let ControlMessage::Answer { id, answer, .. } = message
            && let Some(question) = self.approvals.get_mut(id)
        {
            *question = AnswerProgress::Answered(answer.clone());
        }
    }

    /// Returns the questions that are not answered yet.
    fn asked(&self) -> Vec<u64> {
        let asked = self.approvals.iter();
        let asked = asked.filter(|(_, question)| matches!(question, AnswerProgress::Asked(_)));
        asked.map(|(id, _)| *id).collect()
    }

    /// Forwards requests of an upstream server to the client.
    fn forward(&mut self, id: u64, requests: Vec<RequestMessage>) {
        let handler = self.call.observer.upstream_handler();
        let subject = self.subject.clone();
        let requests = requests.into_iter().map(Into::into).collect();
        let answer = async move {
            let answers: Result<Vec<Value>, ToolError> = match handler {
                Some(handler) => handler.handle_requests(requests).await,
                None => Err(ToolError::unavailable(
                    "the client supports no such request",
                )),
            };
            Some(ControlMessage::UpstreamAnswers {
                call: subject,
                id,
                answers: answers.map_err(ErrorMessage::from),
            })
        };
        self.answers.push(answer.boxed());
    }
}

impl PoolParts {
    /// Sends a call to a worker and waits for its end. Dropping the future cancels the call.
    pub(super) async fn attempt(
        &self,
        worker: &NodeEntry,
        call: &Call,
        message: Vec<Bytes>,
        keeper: &CallKeeper,
    ) -> AttemptEnd {
        let mut replies = self.replies.open();
        let control = names::worker_control(&worker.id);
        let mut guard = CancelGuard {
            pool: self,
            keeper,
            control: control.clone(),
            call: Some(replies.subject.clone()),
        };
        let sent = self.send_call(names::worker_calls(&worker.id), &replies, message);
        let is_sent = tokio::select! {
            biased;
            is_sent = sent => is_sent,
            () = self.connection.lost() => return AttemptEnd::Disconnected,
        };
        if !is_sent {
            return AttemptEnd::NotRun;
        }
        let order = WorkerOrder::new(keeper, &replies.subject, worker.recorded);
        let receive = self.receive(worker, call, &mut replies, control, order);
        let end = receive.await;
        // A worker that does not answer may still run the call.
        if !matches!(
            end,
            AttemptEnd::Lost | AttemptEnd::Hung | AttemptEnd::Disconnected
        ) {
            guard.call = None;
        }
        end
    }

    async fn send_call(
        &self,
        subject: String,
        replies: &ReplyChannel,
        message: Vec<Bytes>,
    ) -> bool {
        for part in message {
            let reply = replies.subject.clone();
            let client = self.connection.client();
            let sent = client.publish_with_reply(subject.clone(), reply, part);
            if let Err(error) = sent.await {
                tracing::warn!(%error, "a call cannot be sent");
                return false;
            }
        }
        true
    }

    async fn receive(
        &self,
        worker: &NodeEntry,
        call: &Call,
        replies: &mut ReplyChannel,
        control: String,
        mut order: WorkerOrder<'_>,
    ) -> AttemptEnd {
        let mut questions = OpenQuestions::new(call, replies.subject.clone());
        let nodes = self.node.nodes();
        let mut joiner = PartJoiner::default();
        let can_ask = call.observer.approver().is_some();
        let begun = Instant::now();
        let mut silent_at = begun + FIRST_FRAME_TIMEOUT;
        let mut next_check = begun + QUESTION_CHECK_INTERVAL;
        let (mut probes, mut was_running) = (0, false);
        let mut lost = pin!(self.connection.lost());
        loop {
            let next_probe = if can_ask {
                silent_at.min(next_check)
            } else {
                silent_at
            };
            tokio::select! {
                biased;
                reply = replies.next() => {
                    let part = match reply {
                        WorkerReply::Part(part) => part,
                        WorkerReply::NotDelivered if was_running => continue,
                        WorkerReply::NotDelivered => return AttemptEnd::NotRun,
                    };
                    (probes, silent_at) = (0, Instant::now() + SILENCE_TIMEOUT);
                    let message = match joiner.add(&part) {
                        Ok(Some(message)) => message,
                        Ok(None) => {
                            was_running = true;
                            continue;
                        }
                        Err(error) => {
                            tracing::warn!(%error, "a frame of a worker is not valid");
                            return AttemptEnd::Ended;
                        }
                    };
                    let Some(frames) = frames::decode::<Vec<WorkerFrame>>(&message) else {
                        // Sent by a newer version. The audit log knows the outcome.
                        return AttemptEnd::Hung;
                    };
                    for frame in frames {
                        if let Some(end) = apply_frame(frame, &mut questions, &mut order, was_running) {
                            return end;
                        }
                        was_running = true;
                    }
                }
                Some(answer) = questions.answers.next(), if !questions.answers.is_empty() => {
                    if let Some(answer) = answer {
                        questions.keep_answer(&answer);
                        self.send_later(control.clone(), &answer);
                    }
                }
                // A worker may get the order before the call, and ignore it.
                message = order.next_message(), if was_running => {
                    self.send_later(control.clone(), &message);
                }
                () = &mut lost => return AttemptEnd::Disconnected,
                () = sleep_until(next_probe) => {
                    let now = Instant::now();
                    if now >= silent_at {
                        // Frames do not need the shared state, so that a worker that sends them is not lost, even if all
                        // leases have ended during an election.
                        if nodes.get(&worker.id).is_none() {
                            return AttemptEnd::Lost;
                        }
                        if probes >= MAX_PROBES {
                            return AttemptEnd::Hung;
                        }
                        (probes, silent_at) = (probes + 1, now + PROBE_INTERVAL);
                    }
                    next_check = now + QUESTION_CHECK_INTERVAL;
                    let probe = ControlMessage::Probe {
                        call: replies.subject.clone(),
                        asked: Some(questions.asked()),
                    };
                    self.send_later(control.clone(), &probe);
                }
            }
        }
    }
}

/// Applies a frame. Returns the end of the call if the frame is the last one.
fn apply_frame(
    frame: WorkerFrame,
    questions: &mut OpenQuestions<'_>,
    order: &mut WorkerOrder<'_>,
    was_running: bool,
) -> Option<AttemptEnd> {
    let observer = &questions.call.observer;
    match frame {
        WorkerFrame::Running => {}
        WorkerFrame::Progress(progress) => observer.progress(progress.into()),
        WorkerFrame::Output { is_error, progress } => {
            let stream = if is_error {
                CommandStream::Stderr
            } else {
                CommandStream::Stdout
            };
            observer.output(stream, progress.into());
        }
        WorkerFrame::Log(line) => observer.log(line.into()),
        WorkerFrame::Question { id, card } => questions.ask(id, card),
        WorkerFrame::QuestionEnded { id } => questions.withdraw(id),
        WorkerFrame::Upstream { id, requests } => questions.forward(id, requests),
        WorkerFrame::Kept { stored } => order.apply_answer(stored),
        WorkerFrame::Done(outcome) => {
            let outcome: OutcomeMessage = *outcome;
            return Some(AttemptEnd::Outcome(Box::new(outcome.into())));
        }
        WorkerFrame::Stopped => return Some(AttemptEnd::Stopped),
        WorkerFrame::Closed => return Some(AttemptEnd::Lost),
        WorkerFrame::Ended => return Some(AttemptEnd::Ended),
        WorkerFrame::Busy { retry_after_ms } => {
            return Some(AttemptEnd::Busy(Duration::from_millis(retry_after_ms)));
        }
        WorkerFrame::GivenUp => return Some(AttemptEnd::NotRun),
        // A worker that has run the call and does not know it any more has been replaced.
        WorkerFrame::NotRunning if was_running => return Some(AttemptEnd::Hung),
        WorkerFrame::NotRunning => return Some(AttemptEnd::NotRun),
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::SystemTime;

    use mimir_core::call::{CallObserver, CallProgress, LogLine};
    use mimir_core::{Approver, CallContext, Card};
    use serde_json::json;

    use super::*;

    /// A person who answers at once.
    #[derive(Default)]
    struct QuickPerson(AtomicU32);

    impl CallObserver for QuickPerson {
        fn progress(&self, _: CallProgress) {}

        fn log(&self, _: LogLine) {}

        fn approver(&self) -> Option<&dyn Approver> {
            Some(self)
        }
    }

    impl Approver for QuickPerson {
        fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(ready(ApprovalAnswer::Once))
        }
    }

    fn card() -> Box<Card> {
        let card = json!({
            "fingerprint": "00", "tool": "ask", "source": "built-in", "location": "built-in", "digest": "00",
            "arguments": "{}", "summary": "asks", "risk": "low", "risks": [], "grants": [], "reasons": [],
            "editable": false,
        });
        serde_json::from_value(card).unwrap()
    }

    #[tokio::test]
    async fn repeated_question_is_asked_once_and_its_answer_sent_again() {
        let person = Arc::new(QuickPerson::default());
        let context = CallContext::new_session(SystemTime::now());
        let mut call = Call::new("ask", json!({}), context);
        call.observer = Arc::clone(&person) as Arc<_>;
        let mut questions = OpenQuestions::new(&call, "reply".to_owned());
        questions.ask(3, card());
        questions.ask(3, card());
        assert_eq!(questions.asked(), [3]);
        for _ in 0..2 {
            let message = questions.answers.next().await.unwrap().unwrap();
            questions.keep_answer(&message);
            let ControlMessage::Answer { id, answer, .. } = message else {
                panic!("another message");
            };
            assert_eq!((id, answer), (3, ApprovalAnswer::Once));
            assert!(questions.asked().is_empty() && questions.answers.is_empty());
            // The answer was lost.
            questions.ask(3, card());
        }
        assert_eq!(person.0.load(Ordering::Relaxed), 1);
        // The question was withdrawn after the worker had repeated it.
        questions.withdraw(4);
        questions.ask(4, card());
        assert!(questions.asked().is_empty());
        assert_eq!(questions.answers.len(), 1, "only the answer above");
    }
}
