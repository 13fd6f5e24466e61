//! Calls while no server can be reached.

use std::time::Duration;

use mimir_core::ToolErrorCode;
use mimir_core::audit::{AuditEvent, AuditSink as _};

use crate::kit::{TestNode, event, wait_until};
use crate::nats_server::NatsServer;

/// Time limit of a refusal: below that of an outcome, which waits for an election of the servers.
const REFUSAL_LIMIT: Duration = Duration::from_secs(9);

fn refusal(id: &str) -> AuditEvent {
    AuditEvent {
        ok: false,
        code: Some(ToolErrorCode::Unavailable),
        ..event(id)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn refusals_do_not_wait_for_servers_that_are_gone() {
    let mut nats = NatsServer::start();
    let node = TestNode::start(&nats.url()).await;
    node.announce("before").await;
    node.record("before").await;
    nats.kill();
    // The first refusals come while it is not certain yet that the servers are gone.
    for id in ["first", "second"] {
        let refused = node.sink.record_with_others(&refusal(id));
        let refused = tokio::time::timeout(REFUSAL_LIMIT, refused).await;
        assert!(refused.expect("it does not wait").is_err(), "{id}");
    }
    wait_until("the sink is not ready", || node.sink.ready().is_err()).await;
    let announced = tokio::time::timeout(REFUSAL_LIMIT, node.sink.announce(&event("third"))).await;
    assert!(announced.expect("it does not wait").is_err());
    let id = node.node.id();
    nats.restart();
    wait_until("the sink is ready again", || node.sink.ready().is_ok()).await;
    node.announce("after").await;
    node.record("after").await;
    // What was not acknowledged is recorded later, once.
    for call in ["first", "second"] {
        let found = node.wait_for_outcome(&id, call).await;
        assert!(!found.announced, "{found:?}");
    }
    let report = node.verify().await;
    assert!(report.ok, "{report:?}");
}
