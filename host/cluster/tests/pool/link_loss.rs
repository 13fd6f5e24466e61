//! A process of which only one of its two network connections is lost.

use std::sync::atomic::Ordering;

use mimir_core::ToolErrorCode;
use mimir_core::remote_pipeline::RemotePipeline as _;
use serde_json::json;

use crate::PATIENCE;
use crate::kit::{Front, Worker, call, eventually, read_audit};
use crate::link_proxy::{LinkKind, LinkProxy};
use crate::nats_server::NatsServer;

/// A call that has begun on a worker behind a proxy, with the worker's processes.
struct CutWorkerCall {
    server: NatsServer,
    proxy: LinkProxy,
    worker: Worker,
    front: Front,
    id: String,
    calling: tokio::task::JoinHandle<Result<mimir_core::Outcome, mimir_core::ToolError>>,
}

impl CutWorkerCall {
    /// Starts a call that is announced, and waits for its gate.
    async fn start() -> Self {
        let server = NatsServer::start();
        let proxy = LinkProxy::start(&server).await;
        let worker = Worker::start_at(proxy.url(), 4).await;
        let front = Front::start(&server).await;
        let pool = front.pool.clone();
        eventually("the server knows the worker", || pool.workers() == 1).await;
        let write = call("write", json!({}));
        let id = write.context.request_id.to_string();
        let calling = tokio::spawn(async move { pool.call(write, None).await });
        worker
            .wait_for("the call runs", |runner| {
                runner.runs.load(Ordering::Relaxed) == 1
            })
            .await;
        Self {
            server,
            proxy,
            worker,
            front,
            id,
            calling,
        }
    }

    async fn outcome(&mut self) -> mimir_core::Outcome {
        let ended = tokio::time::timeout(PATIENCE, &mut self.calling).await;
        ended.unwrap().unwrap().unwrap()
    }

    /// Returns the outcomes of the call that are on record.
    async fn recorded(&self) -> Vec<serde_json::Value> {
        let lines = read_audit(&self.server).await;
        let is_outcome = |line: &serde_json::Value| {
            line["id"] == json!(self.id) && line["event"] != json!("announced")
        };
        lines.into_iter().filter(is_outcome).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn worker_without_its_connection_for_calls_takes_none_and_keeps_its_lease() {
    let mut running = CutWorkerCall::start().await;
    let node = running.worker.node.id();
    running.proxy.cut(LinkKind::Calls);
    let pool = running.front.pool.clone();
    eventually("the worker is not ready", || pool.workers() == 0).await;
    assert!(running.front.node.nodes().get(&node).is_some());
    let refused = pool
        .call(call("noted", json!({"text": "lost"})), None)
        .await;
    let error = refused.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    // The outcome waits until it can be recorded.
    running.worker.runner.open_gate();
    running.proxy.restore();
    let outcome = running.outcome().await;
    assert_eq!(outcome.text(), "passed");
    assert_eq!(running.recorded().await.len(), 1);
    assert_eq!(running.worker.node.id(), node, "the node was not closed");
    eventually("the worker is ready again", || pool.workers() == 1).await;
    let noted = pool.call(call("noted", json!({"text": "back"})), None);
    assert_eq!(noted.await.unwrap().text(), "back");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn worker_without_its_lease_is_fenced_although_its_calls_are_connected() {
    let mut running = CutWorkerCall::start().await;
    let node = running.worker.node.id();
    running.proxy.cut(LinkKind::Main);
    let nodes = running.front.node.nodes();
    eventually("the lease has ended", || nodes.get(&node).is_none()).await;
    running.front.node.close_writer(&node).await.unwrap();
    // The call has the outcome that the server has recorded for it, and no other one.
    running.worker.runner.open_gate();
    let outcome = running.outcome().await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert_eq!(error.details.clone().unwrap()["mayHaveRun"], json!(true));
    running.worker.wait_until_idle().await;
    let recorded = running.recorded().await;
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0]["code"], json!("UNAVAILABLE"));
    running.proxy.restore();
    let pool = running.front.pool.clone();
    eventually("the worker is back", || pool.workers() == 1).await;
    assert_ne!(running.worker.node.id(), node);
}
