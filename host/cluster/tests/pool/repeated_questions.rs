//! Questions that a worker repeats, because they may have been lost with a connection.

use std::sync::Arc;

use futures::StreamExt as _;
use mimir_core::ApprovalAnswer;
use serde_json::{Value, json};

use crate::kit::{AskingCall, Front, Worker};
use crate::nats_server::NatsServer;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn question_that_its_server_has_not_received_is_repeated() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let (asking, reply) = AskingCall::begin_observed(&front, &client).await;
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
    let observer = Arc::clone(&asking.observer);
    let outcome = asking.answer(ApprovalAnswer::Once).await;
    assert_eq!(outcome.text(), "once");
    assert_eq!(observer.asked(), 1, "a repeated question is the same one");
}
