//! Tests of pools and workers against a NATS server: each worker has a connection, a node and a log of its own, as a
//! process has.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot run has failed"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mimir_cluster::CallRunner as _;
use mimir_core::remote_pipeline::RemotePipeline as _;
use mimir_core::{ApprovalAnswer, ToolErrorCode};
use serde_json::{Value, json};

mod forgery;
mod kept;
mod kit;
mod link_loss;
mod link_proxy;
#[path = "../../../../tests/kit/nats_server.rs"]
#[expect(dead_code, reason = "other tests stop and start the server")]
mod nats_server;
mod outages;
mod repeated_questions;

use kit::{AskingCall, Front, TestObserver, Worker, call, read_audit};
use nats_server::NatsServer;

/// Time limit of conditions that hold within seconds.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn pool_returns_results_errors_and_reports_of_workers() {
    let server = NatsServer::start();
    let _worker = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let outcome = front
        .pool
        .call(call("echo", json!({"text": "hello"})), None)
        .await
        .unwrap();
    assert_eq!(outcome.text(), "hello");
    // An error with its details and remedies.
    let outcome = front
        .pool
        .call(call("fail", json!({})), Some("dev"))
        .await
        .unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::InvalidPath);
    assert_eq!(error.details, Some(json!({"path": "../x", "role": "dev"})));
    assert_eq!(*error.remedies, ["choose another path".to_owned()]);
    // Larger than a message of the server, in both directions.
    let text = "x".repeat(5 << 20);
    let outcome = front
        .pool
        .call(call("echo", json!({"text": text})), None)
        .await
        .unwrap();
    assert!(outcome.text() == text, "{} bytes", outcome.text().len());
    // Reports arrive in order and before the result.
    let observer = Arc::new(TestObserver::default());
    let mut reporting = call("report", json!({}));
    reporting.observer = Arc::clone(&observer) as Arc<_>;
    front.pool.call(reporting, None).await.unwrap();
    let reports = observer.reports.lock().clone();
    let expected: Vec<String> = (0..200).map(|number| format!("{number}")).collect();
    let expected: Vec<&str> = expected
        .iter()
        .map(String::as_str)
        .chain(["out", "err", "log"])
        .collect();
    assert_eq!(reports, expected);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn question_is_answered_by_the_client_and_frees_the_slot_meanwhile() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 1).await;
    let front = Front::start(&server).await;
    let asking = AskingCall::begin(&front).await;
    // The only slot is free.
    let outcome = front
        .pool
        .call(call("echo", json!({"text": "meanwhile"})), None)
        .await
        .unwrap();
    assert_eq!(outcome.text(), "meanwhile");
    let outcome = asking.answer(ApprovalAnswer::Once).await;
    assert_eq!(outcome.text(), "once");
    // A client without a person.
    let outcome = front.pool.call(call("ask", json!({})), None).await.unwrap();
    assert_eq!(outcome.text(), "cannot ask");
    assert_eq!(worker.runner.runs.load(Ordering::Relaxed), 3);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn cancelled_call_is_stopped_at_the_worker() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let pool = front.pool.clone();
    let hanging = tokio::spawn(async move { pool.call(call("hang", json!({})), None).await });
    // A call that is cancelled before it runs is dropped at the worker without a run.
    worker
        .wait_for("the call to run", |runner| {
            runner.runs.load(Ordering::Relaxed) == 1
        })
        .await;
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    worker
        .wait_for("the run to be dropped", |runner| {
            runner.dropped.load(Ordering::Relaxed) == 1
        })
        .await;
    worker.wait_until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn busy_workers_pass_calls_on_and_refuse_them_with_a_retry_time() {
    let server = NatsServer::start();
    let first = Worker::start(&server, 1).await;
    let second = Worker::start(&server, 1).await;
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    // Each worker runs one call and queues one, whichever server sends it.
    let mut held = Vec::new();
    for number in 0..4 {
        let pool = if number % 2 == 0 {
            &front.pool
        } else {
            &other.pool
        };
        let pool = pool.clone();
        held.push(tokio::spawn(async move {
            pool.call(call("gate", json!({})), None).await
        }));
    }
    let accepted = || first.load().calls + second.load().calls;
    kit::eventually("all four are accepted", || accepted() == 4).await;
    let begun = Instant::now();
    let refused = front
        .pool
        .call(call("echo", json!({"text": "x"})), None)
        .await
        .unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::LimitExceeded, "{refused}");
    assert!(refused.details.unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
    assert!(begun.elapsed() < PATIENCE);
    first.runner.open_gate();
    second.runner.open_gate();
    for call in held {
        assert_eq!(call.await.unwrap().unwrap().text(), "passed");
    }
    let outcome = front
        .pool
        .call(call("echo", json!({"text": "x"})), None)
        .await
        .unwrap();
    assert_eq!(outcome.text(), "x");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn drained_worker_finishes_its_calls_and_gets_no_new_ones() {
    let server = NatsServer::start();
    let first = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let pool = front.pool.clone();
    let held = tokio::spawn(async move { pool.call(call("gate", json!({})), None).await });
    kit::eventually("the call is accepted", || first.load().calls == 1).await;
    let draining = tokio::spawn({
        let worker = first.worker.clone();
        async move { worker.drain(PATIENCE).await }
    });
    kit::eventually("the front sees it", || front.pool.workers() == 0).await;
    let refused = front
        .pool
        .call(call("echo", json!({"text": "x"})), None)
        .await
        .unwrap_err();
    assert!(refused.message.contains("draining"), "{refused}");
    let second = Worker::start(&server, 4).await;
    let outcome = front
        .pool
        .call(call("echo", json!({"text": "x"})), None)
        .await
        .unwrap();
    assert_eq!(outcome.text(), "x");
    assert_eq!(second.load().accepted, 1);
    first.runner.open_gate();
    assert_eq!(held.await.unwrap().unwrap().text(), "passed");
    assert_eq!(draining.await.unwrap(), 0, "no call was stopped");
    // A call that does not end in time is stopped, and the client learns it.
    let pool = front.pool.clone();
    let held = tokio::spawn(async move { pool.call(call("hang", json!({})), None).await });
    kit::eventually("the call is accepted", || second.load().calls == 1).await;
    assert_eq!(second.worker.drain(Duration::from_millis(200)).await, 1);
    let outcome = held.await.unwrap().unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Cancelled);
    assert_eq!(error.details.as_ref().unwrap()["mayHaveRun"], true);
}

/// A call whose worker is lost before it announces the call runs at another worker. `lose` ends all that the worker does
/// without a word, as SIGKILL does.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn call_of_a_lost_worker_runs_again_unless_it_was_announced() {
    let server = NatsServer::start();
    let first = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let start = |tool: &'static str| {
        let pool = front.pool.clone();
        let call = call(tool, json!({}));
        let id = call.context.request_id.to_string();
        (id, tokio::spawn(async move { pool.call(call, None).await }))
    };
    // Announced, and waiting at the gate.
    let (write_id, write) = start("write");
    let (_, read) = start("gate");
    first
        .wait_for("both calls to run", |runner| {
            runner.runs.load(Ordering::Relaxed) == 2
        })
        .await;
    let second = Worker::start(&server, 4).await;
    second.runner.open_gate();
    first.lose();
    let outcome = write.await.unwrap().unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert_eq!(error.details, Some(json!({"mayHaveRun": true})));
    assert_eq!(read.await.unwrap().unwrap().text(), "passed");
    assert_eq!(
        second.runner.writes.load(Ordering::Relaxed),
        0,
        "no second run"
    );
    // The outcome is on record, once.
    let lines = read_audit(&server).await;
    let outcomes: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"] == "call" && line["id"] == write_id)
        .collect();
    assert_eq!(outcomes.len(), 1, "{lines:#?}");
    assert_eq!(outcomes[0]["code"], "UNAVAILABLE");
    assert_eq!(outcomes[0]["mayHaveRun"], true);
}

/// A worker that is cut off for longer than its lease, and then goes on: the call that it held has no second outcome, and
/// the worker accepts calls again under a new id.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn paused_worker_records_no_second_outcome_and_returns() {
    let server = NatsServer::start();
    let first = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let pool = front.pool.clone();
    let writing = call("write", json!({}));
    let id = writing.context.request_id.to_string();
    let writing = tokio::spawn(async move { pool.call(writing, None).await });
    first
        .wait_for("the call to run", |runner| {
            runner.runs.load(Ordering::Relaxed) == 1
        })
        .await;
    let before = first.node.id();
    // Another process closes the node, as it does when the lease has ended.
    front.node.close_writer(&before).await.unwrap();
    // The paused call goes on, and cannot record its outcome.
    first.runner.open_gate();
    let outcome = writing.await.unwrap().unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert_eq!(error.details.as_ref().unwrap()["mayHaveRun"], true);
    kit::eventually("the worker has a new id", || first.node.id() != before).await;
    let outcome = front
        .pool
        .call(call("echo", json!({"text": "again"})), None)
        .await
        .unwrap();
    assert_eq!(outcome.text(), "again");
    let lines = read_audit(&server).await;
    let outcomes = lines
        .iter()
        .filter(|line| line["event"] == "call" && line["id"] == id);
    assert_eq!(outcomes.count(), 1, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn call_without_a_worker_is_refused_within_seconds() {
    let server = NatsServer::start();
    let front = Front::start(&server).await;
    let refused = front
        .pool
        .call(call("echo", json!({})), None)
        .await
        .unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::Unavailable);
    assert!(
        refused
            .message
            .contains("no worker of the workspace `main`"),
        "{refused}"
    );
    assert!(refused.remedies[0].contains("mimir worker --workspace-name main"));
    // A call that waits is sent as soon as a worker has started.
    let pool = front.pool.clone();
    let waiting = tokio::spawn(async move {
        loop {
            match pool.call(call("echo", json!({"text": "late"})), None).await {
                Ok(outcome) => return outcome,
                Err(error) => assert_eq!(error.code, ToolErrorCode::Unavailable),
            }
        }
    });
    let _worker = Worker::start(&server, 1).await;
    assert_eq!(waiting.await.unwrap().text(), "late");
}

/// Prints the latency of calls through a pool beside that of the same calls without one, and what many at a time take.
/// Meaningful with `--release`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; needs nats-server"]
async fn measure_latency_of_pool() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 64).await;
    let front = Front::start(&server).await;
    let count = 2000;
    for tool in ["echo", "noted"] {
        let (mut direct, mut pooled) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let begun = Instant::now();
            worker
                .runner
                .run(call(tool, json!({"text": "x"})), None)
                .await;
            direct.push(begun.elapsed());
            let begun = Instant::now();
            front
                .pool
                .call(call(tool, json!({"text": "x"})), None)
                .await
                .unwrap();
            pooled.push(begun.elapsed());
        }
        for (name, times) in [("direct", &mut direct), ("pool", &mut pooled)] {
            times.sort();
            println!(
                "{tool} {name}: p50 {:?}, p99 {:?}",
                times[count / 2],
                times[count * 99 / 100]
            );
        }
    }
    for through_pool in [false, true] {
        let begun = Instant::now();
        let tasks = (0..64).map(|_| {
            let (pool, runner) = (front.pool.clone(), Arc::clone(&worker.runner));
            tokio::spawn(async move {
                for _ in 0..100 {
                    let call = call("echo", json!({"text": "x"}));
                    if through_pool {
                        pool.call(call, None).await.unwrap();
                    } else {
                        runner.run(call, None).await;
                    }
                }
            })
        });
        futures::future::join_all(tasks).await;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "64 at a time, pool {through_pool}: {:.0} calls/s",
            6400.0 / seconds
        );
    }
}
