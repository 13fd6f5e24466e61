//! Closing of writers, and writers that go on after that.

use mimir_cluster::{NatsState, NodeEntry, NodeRole};
use mimir_core::audit::AuditSink as _;
use mimir_core::shared_state::{SharedState as _, StateArea};

use crate::kit::{PATIENCE, TestNode, event, wait_until};
use crate::nats_server::NatsServer;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn closed_writer_gets_one_outcome_for_each_open_call() {
    let server = NatsServer::start();
    let [first, second] = TestNode::start_two(&server.url()).await;
    let id = first.node.id();
    for call in ["c1", "c2", "c3"] {
        first.announce(call).await;
    }
    first.record("c2").await;
    // Two processes and two tasks close at the same time.
    let (a, b, c) = tokio::join!(
        first.node.close_writer(&id),
        second.node.close_writer(&id),
        second.node.close_writer(&id)
    );
    let closed = [a.unwrap(), b.unwrap(), c.unwrap()];
    let mut ended: Vec<_> = closed
        .iter()
        .flat_map(|closed| &closed.ended_calls)
        .collect();
    ended.sort();
    assert_eq!(ended, ["c1", "c3"]);
    assert!(closed.iter().all(|one| one.sequence == closed[0].sequence));
    for call in ["c1", "c3"] {
        let found = second.find(&id, call).await;
        let outcome = found.outcome.unwrap();
        assert!(found.announced && !outcome.ok && outcome.may_have_run);
        assert_eq!(outcome.code.as_deref(), Some("UNAVAILABLE"));
    }
    let found = second.find(&id, "c2").await;
    assert!(found.outcome.unwrap().ok);
    assert_eq!(second.find(&id, "c4").await, Default::default());
    let report = second.verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!((report.announced_calls, report.running_calls), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn fenced_writer_records_no_second_outcome_and_continues_under_a_new_id() {
    let server = NatsServer::start();
    let [first, second] = TestNode::start_two(&server.url()).await;
    let id = first.node.id();
    let hold = first.node.accept_call(&id, "held").unwrap();
    first.announce("c1").await;
    second.node.close_writer(&id).await.unwrap();
    // The outcome is on record already.
    let error = first
        .sink
        .record_with_others(&event("c1"))
        .await
        .unwrap_err();
    assert!(error.is_taken_over(), "{error}");
    // A call that was sent to the old id can be neither announced nor recorded, even under the new id.
    hold.closed().await;
    wait_until("the node has a new id", || first.node.id() != id).await;
    let error = first.sink.announce(&event("held")).await.unwrap_err();
    assert!(error.is_taken_over(), "{error}");
    let error = first.sink.record(&event("held")).unwrap_err();
    assert!(error.is_taken_over(), "{error}");
    drop(hold);
    assert!(first.node.accept_call(&id, "late").is_none());
    // Other calls go on.
    first.announce("c2").await;
    first.record("c2").await;
    let next = first.node.id();
    assert!(second.find(&next, "c2").await.outcome.unwrap().ok);
    wait_until("others see the new id", || {
        second.node.nodes().get(&next).is_some() && second.node.nodes().get(&id).is_none()
    })
    .await;
    let report = second.verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!((report.writers, report.closed_writers), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn writer_that_never_wrote_can_be_closed() {
    let server = NatsServer::start();
    let [first, second] = TestNode::start_two(&server.url()).await;
    let id = first.node.id();
    let hold = first.node.accept_call(&id, "c1").unwrap();
    second.node.close_writer(&id).await.unwrap();
    assert!(!second.find(&id, "c1").await.announced);
    // The call was sent to another worker meanwhile.
    let error = first.sink.announce(&event("c1")).await.unwrap_err();
    assert!(error.is_taken_over(), "{error}");
    drop(hold);
    first.record("c2").await;
    assert!(second.verify().await.ok);
    for bad in ["", "a.b", "*", ">", "../x", "A"] {
        assert!(second.node.close_writer(bad).await.is_err(), "{bad:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn node_that_leaves_closes_its_writer() {
    let server = NatsServer::start();
    let (first, second) = (
        TestNode::start_as(&server.url(), NodeRole::Admin).await,
        TestNode::start(&server.url()).await,
    );
    let id = first.node.id();
    wait_until("others see the node", || {
        second.node.nodes().get(&id).is_some()
    })
    .await;
    first.announce("c1").await;
    first.record("c1").await;
    first.node.shut_down().await;
    wait_until("others see that it has left", || {
        second.node.nodes().get(&id).is_none()
    })
    .await;
    assert!(first.sink.record(&event("c2")).is_err());
    let report = second.verify().await;
    assert!(report.ok && report.closed_writers == 1, "{report:?}");
}

/// After a crash of a server, entries of ended nodes can be there again, and the server no longer knows their lifetime.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn node_ends_without_renewal_even_if_the_server_keeps_its_entry() {
    let server = NatsServer::start();
    let [first, second] = TestNode::start_two(&server.url()).await;
    let id = first.node.id();
    first.announce("c1").await;
    let state = NatsState::new(second.connection.clone());
    let key = NodeEntry::key(&id);
    drop(first);
    let entry = loop {
        let entry = state.get(StateArea::Nodes, &key).await.unwrap().unwrap();
        let (value, revision) = (entry.value.clone(), entry.revision);
        // The last renewal may still be on its way.
        let kept = state.update(StateArea::Nodes, &key, value, revision, None);
        if kept.await.is_ok() {
            break entry;
        }
    };
    let seen_and_ended = async || {
        let nodes = second.node.nodes();
        wait_until("others see the entry", || nodes.get(&id).is_some()).await;
        let ended = tokio::time::timeout(PATIENCE, nodes.ended(&id));
        ended.await.unwrap();
    };
    seen_and_ended().await;
    assert_eq!(state.get(StateArea::Nodes, &key).await, Ok(None));
    let found = second.wait_for_outcome(&id, "c1").await;
    assert!(found.outcome.unwrap().may_have_run);
    // It can come back at any time, after its log was closed, too.
    let again = state.create(StateArea::Nodes, &key, entry.value, None);
    again.await.unwrap();
    seen_and_ended().await;
    // The node that lives has renewed its entry all the time.
    let living = NodeEntry::key(&second.node.id());
    let living = state.get(StateArea::Nodes, &living).await.unwrap();
    assert!(living.is_some());
    let report = second.verify().await;
    assert!(report.ok && report.closed_writers == 1, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn closing_many_open_calls_takes_several_messages() {
    let server = NatsServer::start();
    let [first, second] = TestNode::start_two(&server.url()).await;
    let id = first.node.id();
    let ids: Vec<String> = (0..3000).map(|number| format!("call-{number}")).collect();
    let announced = ids.iter().map(|id| first.announce(id));
    futures::future::join_all(announced).await;
    let closed = second.node.close_writer(&id).await.unwrap();
    assert_eq!(closed.ended_calls.len(), ids.len());
    let report = second.verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!(report.announced_calls, 3000);
}
