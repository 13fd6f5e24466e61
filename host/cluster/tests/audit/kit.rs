//! Nodes and events for the tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mimir_cluster::{
    ClusterAuditSink, ClusterConnection, ClusterLog, ClusterNode, ClusterVerifyReport,
    ConnectionOptions, NatsState, NodeDescription, NodeRole, RecordedCall,
};
use mimir_core::audit::{AuditEvent, AuditSink as _, EventKind};
use mimir_core::config::AuditSettings;

/// Time limit of conditions that hold within seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A node with its sink.
pub struct TestNode {
    pub node: ClusterNode,
    pub sink: Arc<ClusterAuditSink>,
    pub connection: ClusterConnection,
}

pub async fn connect(url: &str) -> ClusterConnection {
    let options = ConnectionOptions {
        servers: url.to_owned(),
        ..ConnectionOptions::default()
    };
    ClusterConnection::connect_node(options)
        .await
        .expect("the server accepts connections")
}

impl TestNode {
    pub async fn start(url: &str) -> Self {
        Self::start_as(url, NodeRole::Worker).await
    }

    /// Starts two nodes, one after the other.
    pub async fn start_two(url: &str) -> [Self; 2] {
        [Self::start(url).await, Self::start(url).await]
    }

    pub async fn start_as(url: &str, role: NodeRole) -> Self {
        let connection = connect(url).await;
        let description = NodeDescription {
            role,
            host: "test".to_owned(),
            workspace: None,
            labels: BTreeMap::new(),
            capacity: 4,
            tools: None,
        };
        let node = ClusterNode::start(connection.clone(), description)
            .await
            .expect("the node joins the cluster");
        let sink = Arc::new(node.audit_sink(AuditSettings::default()));
        Self {
            node,
            sink,
            connection,
        }
    }

    pub async fn announce(&self, id: &str) {
        let announced = self.sink.announce(&event(id)).await;
        announced.expect("the call is announced");
    }

    pub async fn record(&self, id: &str) {
        let recorded = self.sink.record_with_others(&event(id)).await;
        recorded.expect("the call is recorded");
    }

    pub async fn find(&self, writer: &str, id: &str) -> RecordedCall {
        let found = self.node.find_call(writer, id, 0).await;
        found.expect("the log is readable")
    }

    /// Waits until a call on a writer's chain has an outcome.
    pub async fn wait_for_outcome(&self, writer: &str, id: &str) -> RecordedCall {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let call = self.find(writer, id).await;
            if call.outcome.is_some() {
                return call;
            }
            assert!(
                Instant::now() < deadline,
                "call {id} has no outcome: {call:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn verify(&self) -> ClusterVerifyReport {
        let state = NatsState::new(self.connection.clone());
        let log = ClusterLog::new(self.connection.clone());
        log.verify(&state, None).await.expect("the log is readable")
    }
}

/// Returns the event of a call that has succeeded.
pub fn event(id: &str) -> AuditEvent {
    AuditEvent {
        id: id.to_owned(),
        session: "session".to_owned(),
        tool: "write_file".to_owned(),
        ..AuditEvent::new(EventKind::Call, SystemTime::now())
    }
}

/// Waits until a condition holds.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
