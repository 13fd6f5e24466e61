//! Calls whose outcome could be lost: their worker is stopped after others have closed it, or no server is reachable.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mimir_core::ToolErrorCode;
use mimir_core::remote_pipeline::RemotePipeline as _;
use serde_json::json;

use crate::PATIENCE;
use crate::kit::{Front, Worker, call, eventually, read_audit};
use crate::nats_server::NatsServer;

/// Time limit of a refusal. A worker that does not answer is given up after 20 seconds.
const REFUSAL_LIMIT: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn stopped_call_of_a_closed_worker_runs_elsewhere() {
    let server = NatsServer::start();
    let first = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let gated = call("gate", json!({}));
    let id = gated.context.request_id.to_string();
    let pool = front.pool.clone();
    let calling = tokio::spawn(async move { pool.call(gated, None).await });
    first
        .wait_for("the call runs", |runner| {
            runner.runs.load(Ordering::Relaxed) == 1
        })
        .await;
    let second = Worker::start(&server, 4).await;
    let pool = front.pool.clone();
    eventually("the server knows both workers", || pool.workers() == 2).await;
    front.node.close_writer(&first.node.id()).await.unwrap();
    // The outcome cannot be recorded under the closed id, so the client must not be told that the call was cancelled.
    assert_eq!(first.worker.drain(Duration::ZERO).await, 1);
    second.runner.open_gate();
    let outcome = tokio::time::timeout(PATIENCE, calling).await;
    let outcome = outcome.unwrap().unwrap().unwrap();
    assert_eq!(outcome.text(), "passed");
    let lines = read_audit(&server).await;
    let outcomes: Vec<_> = lines.iter().filter(|line| line["tool"] == "gate").collect();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    // The first run may have left files that are named by its id.
    assert_ne!(outcomes[0]["id"], json!(id));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn calls_are_refused_and_never_sent_while_no_server_is_reachable() {
    let mut server = NatsServer::start();
    let worker = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let pool = front.pool.clone();
    eventually("the server knows the worker", || pool.workers() == 1).await;
    server.kill();
    // A call that is sent before the loss is noticed may have run.
    eventually("the loss is noticed", || !front.connection.is_connected()).await;
    for _ in 0..3 {
        let refused = front
            .pool
            .call(call("noted", json!({"text": "lost"})), None);
        let refused = tokio::time::timeout(REFUSAL_LIMIT, refused).await;
        let error = refused.expect("it does not wait").unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable);
        let details = error.details.unwrap_or_default();
        assert!(details.get("mayHaveRun").is_none(), "{details}");
    }
    eventually("no worker is known to be ready", || pool.workers() == 0).await;
    server.restart();
    eventually("the worker is ready again", || pool.workers() == 1).await;
    let noted = front
        .pool
        .call(call("noted", json!({"text": "back"})), None)
        .await;
    assert_eq!(noted.unwrap().text(), "back");
    assert_eq!(worker.runner.runs.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn calls_with_many_reports_run_on_and_are_stopped_while_no_server_is_reachable() {
    let mut server = NatsServer::start();
    let worker = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let pool = front.pool.clone();
    eventually("the server knows the worker", || pool.workers() == 1).await;
    let calling: Vec<_> = (0..2)
        .map(|_| {
            let pool = front.pool.clone();
            tokio::spawn(async move { pool.call(call("flood", json!({})), None).await })
        })
        .collect();
    worker
        .wait_for("the calls run", |runner| {
            runner.runs.load(Ordering::Relaxed) == 2
        })
        .await;
    server.kill();
    eventually("the loss is noticed", || !front.connection.is_connected()).await;
    let before = worker.runner.reports.load(Ordering::Relaxed);
    // More than the client's queue and those of both calls have space for.
    worker
        .wait_for("the calls run on", |runner| {
            runner.reports.load(Ordering::Relaxed) > before + 10_000
        })
        .await;
    for ended in calling {
        let ended = tokio::time::timeout(REFUSAL_LIMIT, ended).await;
        let outcome = ended.expect("the call ends").unwrap().unwrap();
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable);
    }
    let drained = tokio::time::timeout(PATIENCE, worker.worker.drain(Duration::ZERO));
    assert_eq!(drained.await.expect("the calls are stopped"), 2);
    assert_eq!(worker.runner.dropped.load(Ordering::Relaxed), 2);
    assert_eq!(worker.load().calls, 0);
}
