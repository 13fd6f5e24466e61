//! Calls of a pool that become background calls: their worker ends them also when their server is lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mimir_cluster::{ClusterBackgroundCalls, NatsState};
use mimir_core::background_calls::{BackgroundCalls as _, BackgroundPhase};
use mimir_core::remote_pipeline::RemotePipeline as _;
use mimir_core::shared_state::{SharedState as _, StateArea};
use mimir_core::{Outcome, RequestId, ToolError, ToolErrorCode};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::kit::{AskingCall, Front, Worker, call, eventually, read_audit};
use crate::nats_server::NatsServer;

/// Id of the background call.
const ID: &str = "0123456789abcdef0123456789abcdef";

/// Owner of the background calls.
const OWNER: &str = "client";

/// Waits until a background call is in a phase.
async fn wait_for(calls: &ClusterBackgroundCalls, id: &str, phase: BackgroundPhase) {
    let wait = async {
        while calls.status(OWNER, id).await.unwrap().unwrap().phase != phase {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(40), wait).await;
    assert!(waited.is_ok(), "not {phase:?} in time");
}

/// Waits until a worker has stored that it runs the background call.
async fn wait_for_claim(front: &Front, worker: &Worker) {
    let (state, id) = (NatsState::new(front.connection.clone()), worker.node.id());
    let claimed = async {
        loop {
            let entries = state.list(StateArea::Jobs, None).await.unwrap();
            let mut values = entries
                .iter()
                .map(|entry| String::from_utf8_lossy(&entry.value));
            if values.any(|value| value.contains(id.as_str())) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let claimed = tokio::time::timeout(crate::PATIENCE, claimed).await;
    assert!(claimed.is_ok(), "the worker has not stored the call");
}

async fn outcome(calls: &ClusterBackgroundCalls, id: &str) -> Outcome {
    wait_for(calls, id, BackgroundPhase::Done).await;
    calls.outcome(OWNER, id).await.unwrap().unwrap()
}

/// A call of a pool.
struct RunningCall {
    request_id: RequestId,
    task: JoinHandle<Result<Outcome, ToolError>>,
}

impl RunningCall {
    /// Calls a tool, and waits until a worker runs it.
    async fn begin(front: &Front, worker: &Worker, tool: &str) -> Self {
        let running = worker.runner.runs.load(Ordering::Relaxed);
        let call = call(tool, json!({}));
        let request_id = call.context.request_id.clone();
        let pool = front.pool.clone();
        let task = tokio::spawn(async move { pool.call(call, None).await });
        worker
            .wait_for("the call to run", |runner| {
                runner.runs.load(Ordering::Relaxed) == running + 1
            })
            .await;
        Self { request_id, task }
    }

    async fn keep(&self, calls: &ClusterBackgroundCalls) -> Result<(), ToolError> {
        calls.keep(OWNER, &self.request_id, "tool", ID).await
    }

    /// Loses the server of the call.
    async fn lose(self, front: Front) {
        front.background_calls().release(&self.request_id);
        self.task.abort();
        let _ = self.task.await;
        front.node.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn kept_call_of_a_lost_server_is_read_at_another() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 2).await;
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    let call = RunningCall::begin(&front, &worker, "long").await;
    call.keep(&front.background_calls()).await.unwrap();
    let again = call.keep(&front.background_calls()).await.unwrap_err();
    assert!(again.message.contains("already"), "{}", again.message);
    let node = front.node.id();
    call.lose(front).await;
    let calls = other.background_calls();
    wait_for(&calls, ID, BackgroundPhase::Running).await;
    // Without the server, the worker stops calls after three seconds.
    eventually("the lease has ended", || {
        worker.node.nodes().get(&node).is_none()
    })
    .await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(worker.runner.dropped.load(Ordering::Relaxed), 0);
    worker.runner.open_gate();
    let done = outcome(&calls, ID).await;
    assert_eq!(done.text().len(), 3 << 20, "stored in parts");
    assert!(!calls.cancel(OWNER, ID).await.unwrap(), "it has ended");
    // Another client learns nothing of it.
    assert!(calls.status("another", ID).await.unwrap().is_none());
    assert!(calls.outcome("another", ID).await.unwrap().is_none());
    assert!(!calls.cancel("another", ID).await.unwrap());
    assert_eq!(worker.runner.runs.load(Ordering::Relaxed), 1);
    worker.wait_until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn kept_call_ends_at_its_server_as_before() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 2).await;
    let front = Front::start(&server).await;
    let calls = front.background_calls();
    let unknown = call("gate", json!({})).context.request_id;
    assert!(calls.keep(OWNER, &unknown, "tool", ID).await.is_err());
    let call = RunningCall::begin(&front, &worker, "gate").await;
    call.keep(&calls).await.unwrap();
    // Another call cannot be the same background call, if its tool or owner differs.
    let second = RunningCall::begin(&front, &worker, "gate").await;
    let stolen = calls.keep("another", &second.request_id, "tool", ID).await;
    assert!(stolen.is_err());
    worker.runner.open_gate();
    assert_eq!(call.task.await.unwrap().unwrap().text(), "passed");
    assert_eq!(second.task.await.unwrap().unwrap().text(), "passed");
    assert_eq!(outcome(&calls, ID).await.text(), "passed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn kept_call_is_cancelled_by_its_server_and_by_another() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 2).await;
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    let call = RunningCall::begin(&front, &worker, "hang").await;
    call.keep(&front.background_calls()).await.unwrap();
    call.task.abort();
    wait_for(&other.background_calls(), ID, BackgroundPhase::Cancelled).await;
    assert_eq!(worker.runner.dropped.load(Ordering::Relaxed), 1);
    let call = RunningCall::begin(&front, &worker, "hang").await;
    let id = ID.replace('0', "f");
    let keep = front.background_calls();
    keep.keep(OWNER, &call.request_id, "tool", &id)
        .await
        .unwrap();
    call.lose(front).await;
    assert!(other.background_calls().cancel(OWNER, &id).await.unwrap());
    wait_for(&other.background_calls(), &id, BackgroundPhase::Cancelled).await;
    assert_eq!(worker.runner.dropped.load(Ordering::Relaxed), 2);
    assert!(!other.background_calls().cancel(OWNER, &id).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn kept_call_without_server_and_worker_may_have_run() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 2).await;
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    let call = RunningCall::begin(&front, &worker, "write").await;
    call.keep(&front.background_calls()).await.unwrap();
    let request_id = call.request_id.as_str().to_owned();
    worker.lose();
    call.lose(front).await;
    let lost = outcome(&other.background_calls(), ID).await;
    let error = lost.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert_eq!(error.details, Some(json!({"mayHaveRun": true})));
    let lines = read_audit(&server).await;
    let outcomes = lines
        .iter()
        .filter(|line| line["event"] == "call" && line["id"] == request_id.as_str());
    assert_eq!(outcomes.count(), 1, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn kept_call_of_a_lost_worker_goes_to_another_one() {
    let server = NatsServer::start();
    let first = Worker::start(&server, 2).await;
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    let call = RunningCall::begin(&front, &first, "gate").await;
    call.keep(&front.background_calls()).await.unwrap();
    let second = Worker::start(&server, 2).await;
    first.lose();
    second
        .wait_for("the call to run again", |runner| {
            runner.runs.load(Ordering::Relaxed) == 1
        })
        .await;
    // The order follows the call after its first frame.
    wait_for_claim(&other, &second).await;
    call.lose(front).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    wait_for(&other.background_calls(), ID, BackgroundPhase::Running).await;
    second.runner.open_gate();
    assert_eq!(
        outcome(&other.background_calls(), ID).await.text(),
        "passed"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn question_of_a_kept_call_without_its_server_has_no_answer() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 2).await;
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    let AskingCall {
        request_id, task, ..
    } = AskingCall::begin(&front).await;
    let call = RunningCall { request_id, task };
    call.keep(&front.background_calls()).await.unwrap();
    call.lose(front).await;
    let unattended = outcome(&other.background_calls(), ID).await;
    assert_eq!(unattended.text(), "nobody");
    worker.wait_until_idle().await;
}
