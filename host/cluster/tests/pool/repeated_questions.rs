//! Questions that a worker repeats, because they may have been lost with a connection.

use std::sync::Arc;

use futures::StreamExt as _;
use mimir_core::ApprovalAnswer;
use mimir_core::remote_pipeline::RemotePipeline as _;
use serde_json::{Value, json};

use crate::kit::{Front, TestObserver, Worker, call};
use crate::nats_server::NatsServer;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn question_that_its_server_has_not_received_is_repeated() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut calls = client.subscribe("mimir.worker.*.call").await.unwrap();
    client.flush().await.unwrap();
    let observer = Arc::new(TestObserver::default());
    let mut asking = call("ask", json!({}));
    asking.observer = Arc::clone(&observer) as Arc<_>;
    let asking = tokio::spawn({
        let pool = front.pool.clone();
        async move { pool.call(asking, None).await }
    });
    observer.wait_until_asked().await;
    let reply = calls.next().await.unwrap().reply.unwrap();
    let mut frames = client.subscribe(reply.clone()).await.unwrap();
    client.flush().await.unwrap();
    let control = format!("mimir.worker.{}.control", worker.node.id());
    // The answers to probes in their order: to those of earlier versions, with the question, and without.
    for (asked, expected) in [
        (Some(json!([0])), None),
        (None, None),
        (Some(json!([])), Some(0)),
        (Some(json!([7])), Some(0)),
    ] {
        let mut probe = json!({"probe": {"call": reply}});
        if let Some(asked) = &asked {
            probe["probe"]["asked"] = asked.clone();
        }
        let sent = client.publish(control.clone(), format!("={probe}").into());
        sent.await.unwrap();
        let answer = tokio::time::timeout(crate::PATIENCE, frames.next());
        let answer = answer.await.unwrap().unwrap();
        let answer: Vec<Value> = serde_json::from_slice(&answer.payload[1..]).unwrap();
        assert_eq!(answer[0], "running");
        let repeated = answer.get(1).map(|frame| frame["question"]["id"].clone());
        assert_eq!(repeated, expected.map(Value::from), "{asked:?}");
    }
    observer.answer(ApprovalAnswer::Once);
    let outcome = asking.await.unwrap().unwrap();
    assert_eq!(outcome.text(), "once");
    assert_eq!(observer.asked(), 1, "a repeated question is the same one");
}
