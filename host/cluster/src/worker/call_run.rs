//! A call on a worker, from its acceptance to its last frame.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mimir_core::ToolError;
use mimir_core::call::CallObserver;
use mimir_core::wire::OutcomeMessage;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::ended_calls::EndedCall;
use super::kept_call::{KeptEnd, unexpected_end};
use super::observer::{CallSlot, FrameQueue, WorkerObserver};
use super::{AcceptedCall, AcceptedRun, FrontState, WorkerParts};
use crate::frames::{self, ForwardedCall, HEARTBEAT, WorkerFrame};
use crate::node::{CallHold, OutcomeRecord};

/// Time after which the first frame is sent. Most calls have ended until then, and need one frame only.
const FIRST_FRAME: Duration = Duration::from_millis(50);

/// Maximum number of frames in one message.
const MAX_BATCH: usize = 64;

/// Maximum time until the outcome of a stopped call is stored. After an election, the log can be written again within it.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time until the last frames are sent while the connection is slow. They are then sent in the background.
const LAST_FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// The end of a run.
enum RunEnd {
    Done(Box<OutcomeMessage>),
    Stopped,
    /// The call was stopped before it ran.
    GivenUp,
    /// Another process has closed the node.
    Closed,
}

/// Runs a call and sends its frames. If the run panics, the server learns that the call has ended.
pub(super) async fn run(worker: Arc<WorkerParts>, accepted: AcceptedCall) {
    let (reply, call) = (accepted.reply.clone(), Arc::clone(&accepted.call));
    let run = AssertUnwindSafe(run_accepted(Arc::clone(&worker), accepted));
    if run.catch_unwind().await.is_err() {
        tracing::error!("a call has ended unexpectedly");
        let ended = worker.encode(&[WorkerFrame::Ended]);
        send_last(&worker, FrameSending::begin(&worker, &reply, ended)).await;
        let outcome = unexpected_end();
        worker.end_kept(&call, KeptEnd::Done(&outcome)).await;
        worker.end(&reply, EndedCall::Forgotten);
    }
}

async fn run_accepted(worker: Arc<WorkerParts>, accepted: AcceptedCall) {
    let mut queue_place = QueuePlace(Some(&*worker));
    let AcceptedCall {
        message,
        reply,
        call: active,
    } = accepted;
    let Some(message) = frames::decode::<ForwardedCall>(&message) else {
        // Sent by another version: its server chooses another worker.
        drop(queue_place);
        let refused = worker.encode(&[WorkerFrame::NotRunning]);
        worker.end(&reply, EndedCall::Refused);
        return worker.publish(&reply, refused).await;
    };
    let request_id = message.call.context.request_id.clone();
    let (front, nodes) = (message.front.clone(), worker.node.nodes());
    let front = FrontState::new(front, request_id.as_str().to_owned(), &nodes);
    *active.front.lock() = Some(front);
    let (queue, frames) = FrameQueue::new();
    let slot = Arc::new(CallSlot::new(Arc::clone(&worker.slots)));
    let observer = WorkerObserver::new(&message, queue.clone(), &active.answers, &slot);
    let observer: Arc<dyn CallObserver> = Arc::new(observer);
    let hold = {
        let (front, node) = (&message.front, &active.node);
        worker
            .node
            .accept_call_from(front, node, request_id.as_str())
    };
    let role = message.call.role.clone();
    let call = message.call.into_call(observer);
    let has_begun = AtomicBool::new(false);
    let outcome = async {
        slot.take().await;
        queue_place.leave();
        has_begun.store(true, Ordering::Relaxed);
        worker.runner.run(call, role.as_deref()).await
    };
    let forward = ForwardedFrames {
        worker: &worker,
        reply: &reply,
        queue,
        frames,
    };
    let (end, unsent) = match &hold {
        Some(hold) => {
            let (end, unsent) = forward.until(outcome, hold.closed(), &active).await;
            let end = match end {
                RunEnd::Stopped if !has_begun.load(Ordering::Relaxed) => RunEnd::GivenUp,
                RunEnd::Stopped => stopped_end(hold).await,
                end => end,
            };
            (end, unsent)
        }
        None => (RunEnd::Closed, UnsentFrames::default()),
    };
    finish(&worker, &reply, &active, end, unsent).await;
}

/// Waits until the outcome of a stopped call is on record, because its server reports it to the client.
async fn stopped_end(hold: &CallHold) -> RunEnd {
    let record = tokio::select! {
        biased;
        record = hold.outcome_record() => record,
        () = hold.closed() => OutcomeRecord::TakenOver,
        () = tokio::time::sleep(RECORD_TIMEOUT) => OutcomeRecord::Failed,
    };
    match record {
        OutcomeRecord::Stored => RunEnd::Stopped,
        OutcomeRecord::TakenOver => RunEnd::Closed,
        OutcomeRecord::Missing | OutcomeRecord::Waiting | OutcomeRecord::Failed => {
            let message = "the worker was stopped while it ran the call, and could not record that";
            let error = ToolError::unavailable(message);
            let error = error.with_details(json!({ "mayHaveRun": true }));
            RunEnd::Done(Box::new(OutcomeMessage::failed(error)))
        }
    }
}

/// The place of a call among those that wait for their first slot.
struct QueuePlace<'a>(Option<&'a WorkerParts>);

impl QueuePlace<'_> {
    fn leave(&mut self) {
        if let Some(worker) = self.0.take() {
            worker.queued.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Frames of one call on their way to the client's queue, which is full while no server is connected.
struct FrameSending(BoxFuture<'static, ()>);

impl FrameSending {
    fn begin(worker: &WorkerParts, reply: &str, encoded: Vec<Bytes>) -> Self {
        let (connection, reply) = (worker.connection.clone(), reply.to_owned());
        let sending = async move { super::publish(&connection, &reply, encoded).await };
        Self(sending.boxed())
    }

    /// Returns both, in this order.
    fn then(self, next: Self) -> Self {
        let both = async move {
            self.0.await;
            next.0.await;
        };
        Self(both.boxed())
    }
}

/// The frames that were not sent before the end of a run.
#[derive(Default)]
struct UnsentFrames {
    sending: Option<FrameSending>,
    frames: Vec<WorkerFrame>,
}

/// Sends the last frames. Goes on in the background once that takes long, so that the end of the call does not wait for a
/// connection.
async fn send_last(worker: &WorkerParts, mut last: FrameSending) {
    tokio::select! {
        biased;
        () = &mut last.0 => return,
        () = worker.connection.lost() => {}
        () = tokio::time::sleep(LAST_FRAME_TIMEOUT) => {}
    }
    worker.runtime.spawn(last.0);
}

/// Sends the last frames, and stores them. Stores the outcome of a background call.
async fn finish(
    worker: &WorkerParts,
    reply: &str,
    call: &AcceptedRun,
    end: RunEnd,
    unsent: UnsentFrames,
) {
    let UnsentFrames {
        sending,
        frames: mut last,
    } = unsent;
    let (frame, ended) = match end {
        RunEnd::Done(outcome) => (WorkerFrame::Done(outcome), None),
        RunEnd::Stopped => (WorkerFrame::Stopped, Some(EndedCall::Stopped)),
        RunEnd::GivenUp => (WorkerFrame::GivenUp, Some(EndedCall::GivenUp)),
        RunEnd::Closed => (WorkerFrame::Closed, Some(EndedCall::Closed)),
    };
    last.push(frame);
    let encoded = worker.encode(&last);
    let sent = FrameSending::begin(worker, reply, encoded.clone());
    let sent = match sending {
        Some(sending) => sending.then(sent),
        None => sent,
    };
    send_last(worker, sent).await;
    let kept_end = match last.last() {
        Some(WorkerFrame::Done(outcome)) => KeptEnd::Done(outcome),
        Some(WorkerFrame::Stopped) => KeptEnd::Stopped,
        Some(WorkerFrame::GivenUp) => KeptEnd::GivenUp,
        _ => KeptEnd::Closed,
    };
    worker.end_kept(call, kept_end).await;
    worker.end(reply, ended.unwrap_or(EndedCall::Done(encoded)));
}

/// Publishes the frames of one call.
struct ForwardedFrames<'a> {
    worker: &'a WorkerParts,
    reply: &'a str,
    queue: FrameQueue,
    frames: mpsc::UnboundedReceiver<WorkerFrame>,
}

impl ForwardedFrames<'_> {
    /// Publishes frames until the call has ended. Returns its end, and the frames that are not published yet. The run and
    /// its end never wait for the connection: at most one message is on its way beside them, and further frames wait.
    async fn until(
        mut self,
        outcome: impl Future<Output = mimir_core::Outcome>,
        closed: impl Future<Output = ()>,
        active: &AcceptedRun,
    ) -> (RunEnd, UnsentFrames) {
        let mut stop = active.stop.subscribe();
        let mut heartbeat = interval_at(Instant::now() + FIRST_FRAME, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closed = pin!(closed);
        // On the heap, so that it can be dropped before the last frame is sent.
        let mut outcome = Box::pin(outcome);
        let mut sending = None;
        let end = loop {
            tokio::select! {
                biased;
                outcome = &mut outcome => {
                    // The outcome of a call of a closed node is not the one on record.
                    let is_closed = closed.as_mut().now_or_never().is_some();
                    break if is_closed {
                        RunEnd::Closed
                    } else {
                        RunEnd::Done(Box::new(outcome.into()))
                    };
                }
                () = &mut closed => break RunEnd::Closed,
                () = wait_for_stop(&mut stop) => break RunEnd::Stopped,
                () = wait_until_sent(&mut sending) => sending = None,
                Some(frame) = self.frames.recv(), if sending.is_none() => {
                    let mut batch = self.batch(Some(frame));
                    active.show_progress(&batch);
                    self.remove_late_reports(&mut batch);
                    if !batch.is_empty() {
                        sending = Some(self.send(&batch));
                    }
                }
                _ = heartbeat.tick(), if sending.is_none() => {
                    if !self.worker.connection.is_link_lost() {
                        sending = Some(self.send(&[WorkerFrame::Running]));
                    }
                }
            }
        };
        // Records a stopped call as cancelled.
        drop(outcome);
        let mut frames = self.batch(None);
        self.remove_late_reports(&mut frames);
        (end, UnsentFrames { sending, frames })
    }

    fn send(&self, frames: &[WorkerFrame]) -> FrameSending {
        FrameSending::begin(self.worker, self.reply, self.worker.encode(&frames))
    }

    /// Removes the reports while no server is connected, as for clients that read slowly.
    fn remove_late_reports(&self, frames: &mut Vec<WorkerFrame>) {
        if self.worker.connection.is_link_lost() {
            frames.retain(|frame| !frame.is_report());
        }
    }

    /// Returns this frame and those that wait.
    fn batch(&mut self, first: Option<WorkerFrame>) -> Vec<WorkerFrame> {
        let max = match first {
            Some(_) => MAX_BATCH,
            None => usize::MAX,
        };
        let mut batch: Vec<WorkerFrame> = first.into_iter().collect();
        while batch.len() < max
            && let Ok(frame) = self.frames.try_recv()
        {
            batch.push(frame);
        }
        self.queue.taken(batch.len());
        batch
    }
}

/// Completes when the frames are in the client's queue. Never completes without frames.
async fn wait_until_sent(sending: &mut Option<FrameSending>) {
    match sending {
        Some(sending) => (&mut sending.0).await,
        None => std::future::pending().await,
    }
}

async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the call.
    if stop.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
