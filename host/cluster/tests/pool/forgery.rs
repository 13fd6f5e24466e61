//! Messages that a process forges which may not send them.

use futures::StreamExt as _;
use mimir_core::ApprovalAnswer;
use serde_json::{Value, json};

use crate::kit::{AskingCall, Front, Worker};
use crate::nats_server::NatsServer;

/// The key of a worker may store questions, read them as a stream, and receive the calls of all workers.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn answers_from_a_stream_do_not_reach_the_question_of_a_worker() {
    let server = NatsServer::start();
    let worker = Worker::start(&server, 4).await;
    let front = Front::start(&server).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let (asking, call) = AskingCall::begin_observed(&front, &client).await;
    let jetstream = async_nats::jetstream::new(client.clone());
    let config = async_nats::jetstream::stream::Config {
        name: "FORGED".to_owned(),
        subjects: vec!["forged".to_owned()],
        ..Default::default()
    };
    let stream = jetstream.create_stream(config).await.unwrap();
    let answer = json!({"answer": {"call": call, "id": 0, "answer": ApprovalAnswer::Once}});
    let stored = jetstream.publish("forged", format!("={answer}").into());
    stored.await.unwrap().await.unwrap();
    let control = format!("mimir.worker.{}.control", worker.node.id());
    let config = async_nats::jetstream::consumer::push::Config {
        deliver_subject: control.clone(),
        ack_policy: async_nats::jetstream::consumer::AckPolicy::None,
        ..Default::default()
    };
    let mut consumer = stream.create_consumer(config).await.unwrap();
    let delivered = async {
        while consumer.info().await.unwrap().delivered.consumer_sequence == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, delivered)
        .await
        .unwrap();
    // The worker handles its messages in order.
    let mut tools = client.subscribe("mimir.reply.forged.1").await.unwrap();
    let list = Value::from("listTools");
    let listed =
        client.publish_with_reply(control, "mimir.reply.forged.1", format!("={list}").into());
    listed.await.unwrap();
    tokio::time::timeout(crate::PATIENCE, tools.next())
        .await
        .unwrap();
    let outcome = asking.answer(ApprovalAnswer::No).await;
    assert_eq!(outcome.text(), ApprovalAnswer::No.as_str());
}
