//! Background calls: taken from the queue by any worker, read and cancelled by any server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mimir_cluster::ClusterJobs;
use mimir_core::background_calls::{BackgroundCalls as _, BackgroundPhase};
use mimir_core::{Outcome, ToolErrorCode};
use serde_json::json;

use crate::kit::{Front, Worker, call, read_audit};
use crate::nats_server::NatsServer;

pub const OWNER: &str = "client";

/// Waits until a background call is in a phase.
pub async fn wait_for(jobs: &ClusterJobs, id: &str, phase: BackgroundPhase) {
    let wait = async {
        loop {
            let status = jobs.status(OWNER, id).await.unwrap().unwrap();
            if status.phase == phase {
                return;
            }
            jobs.changed(id).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(40), wait).await;
    assert!(waited.is_ok(), "not {phase:?} in time");
}

pub async fn outcome(jobs: &ClusterJobs, id: &str) -> Outcome {
    wait_for(jobs, id, BackgroundPhase::Done).await;
    jobs.outcome(OWNER, id).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn background_call_waits_for_a_worker_and_is_read_by_another_server() {
    let server = NatsServer::start();
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    let (jobs, elsewhere) = (front.jobs(), other.jobs());
    let text = "x".repeat(2 << 20);
    let too_large = jobs
        .create(OWNER, call("echo", json!({"text": text})), None)
        .await;
    assert_eq!(too_large.unwrap_err().code, ToolErrorCode::LimitExceeded);
    let id = jobs
        .create(OWNER, call("long", json!({})), Some("dev"))
        .await
        .unwrap();
    wait_for(&elsewhere, &id, BackgroundPhase::Queued).await;
    let worker = Worker::start(&server, 2).await;
    let done = outcome(&elsewhere, &id).await;
    assert_eq!(done.text().len(), 3 << 20, "stored in parts");
    assert_eq!(worker.runner.runs.load(Ordering::Relaxed), 1);
    // Another client learns nothing of it.
    assert!(jobs.status("another", &id).await.unwrap().is_none());
    assert!(jobs.outcome("another", &id).await.unwrap().is_none());
    assert!(!jobs.cancel("another", &id).await.unwrap());
    assert!(!jobs.cancel(OWNER, &id).await.unwrap(), "it has ended");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn background_call_is_cancelled_from_another_server() {
    let server = NatsServer::start();
    let (front, other) = (Front::start(&server).await, Front::start(&server).await);
    let queued = front
        .jobs()
        .create(OWNER, call("echo", json!({})), None)
        .await
        .unwrap();
    assert!(other.jobs().cancel(OWNER, &queued).await.unwrap());
    let worker = Worker::start(&server, 2).await;
    wait_for(&front.jobs(), &queued, BackgroundPhase::Cancelled).await;
    assert_eq!(worker.runner.runs.load(Ordering::Relaxed), 0);
    let running = front
        .jobs()
        .create(OWNER, call("hang", json!({})), None)
        .await
        .unwrap();
    wait_for(&front.jobs(), &running, BackgroundPhase::Running).await;
    assert!(other.jobs().cancel(OWNER, &running).await.unwrap());
    let cancelled = outcome(&front.jobs(), &running).await;
    assert_eq!(
        cancelled.result().unwrap_err().code,
        ToolErrorCode::Cancelled
    );
    worker
        .wait_for("the run to be dropped", |runner| {
            runner.dropped.load(Ordering::Relaxed) == 1
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn background_call_of_a_lost_worker_runs_again_unless_it_was_announced() {
    let server = NatsServer::start();
    let front = Front::start(&server).await;
    let jobs = Arc::new(front.jobs());
    let first = Worker::start(&server, 4).await;
    let writing = call("write", json!({}));
    let request_id = writing.context.request_id.to_string();
    let written = jobs.create(OWNER, writing, None).await.unwrap();
    let read = jobs
        .create(OWNER, call("gate", json!({})), None)
        .await
        .unwrap();
    first
        .wait_for("both to run", |runner| {
            runner.runs.load(Ordering::Relaxed) == 2
        })
        .await;
    first.lose();
    let second = Worker::start(&server, 4).await;
    second.runner.open_gate();
    let written = outcome(&jobs, &written).await;
    let error = written.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert_eq!(error.details, Some(json!({"mayHaveRun": true})));
    assert_eq!(outcome(&jobs, &read).await.text(), "passed");
    assert_eq!(
        second.runner.writes.load(Ordering::Relaxed),
        0,
        "no second run"
    );
    let lines = read_audit(&server).await;
    let outcomes = lines
        .iter()
        .filter(|line| line["event"] == "call" && line["id"] == request_id);
    assert_eq!(outcomes.count(), 1, "{lines:#?}");
}
