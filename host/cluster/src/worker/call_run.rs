//! A call on a worker, from its acceptance to its last frame.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
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
        worker.publish(&reply, ended).await;
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
    let (end, last) = match &hold {
        Some(hold) => {
            let (end, last) = forward.until(outcome, hold.closed(), &active).await;
            let end = match end {
                RunEnd::Stopped if !has_begun.load(Ordering::Relaxed) => RunEnd::GivenUp,
                RunEnd::Stopped => stopped_end(hold).await,
                end => end,
            };
            (end, last)
        }
        None => (RunEnd::Closed, Vec::new()),
    };
    finish(&worker, &reply, &active, end, last).await;
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

/// Sends the last frames, and stores them. Stores the outcome of a background call.
async fn finish(
    worker: &WorkerParts,
    reply: &str,
    call: &AcceptedRun,
    end: RunEnd,
    mut last: Vec<WorkerFrame>,
) {
    let (frame, ended) = match end {
        RunEnd::Done(outcome) => (WorkerFrame::Done(outcome), None),
        RunEnd::Stopped => (WorkerFrame::Stopped, Some(EndedCall::Stopped)),
        RunEnd::GivenUp => (WorkerFrame::GivenUp, Some(EndedCall::GivenUp)),
        RunEnd::Closed => (WorkerFrame::Closed, Some(EndedCall::Closed)),
    };
    last.push(frame);
    let encoded = worker.encode(&last);
    worker.publish(reply, encoded.clone()).await;
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
    /// Publishes frames until the call has ended. Returns its end, and the frames that are not published yet.
    async fn until(
        mut self,
        outcome: impl Future<Output = mimir_core::Outcome>,
        closed: impl Future<Output = ()>,
        active: &AcceptedRun,
    ) -> (RunEnd, Vec<WorkerFrame>) {
        let mut stop = active.stop.subscribe();
        let mut heartbeat = interval_at(Instant::now() + FIRST_FRAME, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closed = pin!(closed);
        // On the heap, so that it can be dropped before the last frame is sent.
        let mut outcome = Box::pin(outcome);
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
                Some(frame) = self.frames.recv() => {
                    let batch = self.batch(Some(frame));
                    active.show_progress(&batch);
                    let encoded = self.worker.encode(&batch);
                    self.worker.publish(self.reply, encoded).await;
                }
                _ = heartbeat.tick() => {
                    let encoded = self.worker.encode(&[WorkerFrame::Running]);
                    self.worker.publish(self.reply, encoded).await;
                }
            }
        };
        // Records a stopped call as cancelled.
        drop(outcome);
        let last = self.batch(None);
        (end, last)
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

async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the call.
    if stop.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
