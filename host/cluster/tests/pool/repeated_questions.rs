//! Questions that a worker repeats, because they may have been lost with a connection.

use std::sync::Arc;

use futures::StreamExt as _;
use mimir_core::ApprovalAnswer;
use serde_json::{Value, json};

use crate::kit::{AskingCall, Front, Worker};
use crate::link_proxy::{LinkKind, LinkProxy};
use crate::nats_server::NatsServer;

/// Waits for a message to `subject` with this text.
async fn wait_for_message(messages: &mut async_nats::Subscriber, text: &str) {
    let found = async {
        while let Some(message) = messages.next().await {
            if String::from_utf8_lossy(&message.payload).contains(text) {
                return;
            }
        }
        panic!("the connection has ended");
    };
    let found = tokio::time::timeout(crate::PATIENCE, found).await;
    assert!(found.is_ok(), "no message with {text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn answer_lost_in_a_short_interruption_of_the_worker_is_repeated() {
    let server = NatsServer::start();
    let proxy = LinkProxy::start(&server).await;
    let _worker = Worker::start_at(proxy.url(), 4).await;
    let front = Front::start(&server).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut control = client.subscribe("mimir.worker.*.control").await.unwrap();
    client.flush().await.unwrap();
    let asking = AskingCall::begin(&front).await;
    let observer = Arc::clone(&asking.observer);
    proxy.cut(LinkKind::Main);
    let answered = tokio::spawn(asking.answer(ApprovalAnswer::Once));
    wait_for_message(&mut control, r#"{"answer""#).await;
    proxy.restore();
    let outcome = tokio::time::timeout(crate::PATIENCE, answered).await;
    let outcome = outcome.expect("the answer arrives").unwrap();
    assert_eq!(outcome.text(), "once");
    assert_eq!(observer.asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn question_lost_in_a_short_interruption_of_its_server_is_repeated() {
    let server = NatsServer::start();
    let proxy = LinkProxy::start(&server).await;
    let worker = Worker::start(&server, 4).await;
    let front = Front::start_at(proxy.url()).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut calls = client.subscribe("mimir.worker.*.call").await.unwrap();
    client.flush().await.unwrap();
    let asking = AskingCall::begin_tool(&front, "askLater");
    let reply = calls.next().await.unwrap().reply.unwrap();
    let mut frames = client.subscribe(reply).await.unwrap();
    client.flush().await.unwrap();
    // The server of the client knows that the call runs.
    wait_for_message(&mut frames, "running").await;
    proxy.cut(LinkKind::Calls);
    worker.runner.open_gate();
    wait_for_message(&mut frames, r#"{"question""#).await;
    proxy.restore();
    let asked = tokio::time::timeout(crate::PATIENCE, asking.observer.wait_until_asked());
    asked.await.expect("the question arrives");
    let outcome = asking.answer(ApprovalAnswer::Once).await;
    assert_eq!(outcome.text(), "once");
}

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
