//! The check that the key of a process is the one of its role, before the process joins the cluster.

use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{ACCESS_TIMEOUT, ClusterConnection, ClusterError};
use crate::names;
use crate::node::NodeRole;

/// Node whose messages are subscribed to for the check. Ids of nodes are hexadecimal, so that it does not exist.
const PROBE_NODE: &str = "role-check";

impl ClusterConnection {
    /// Fails if the key belongs to another role. Otherwise, the process would look like a worker or server of the cluster
    /// and receive nothing.
    pub async fn check_role(&self, role: NodeRole) -> Result<(), ClusterError> {
        let subject = match role {
            NodeRole::Front => names::front_messages(PROBE_NODE),
            NodeRole::Worker => names::worker_control(PROBE_NODE),
            NodeRole::Admin => return Ok(()),
        };
        let mut violations = self.violations();
        let Ok(probe) = self.client().subscribe(subject.clone()).await else {
            // The connection is lost: its users report that.
            return Ok(());
        };
        // The servers report a violation before they answer the next request of the connection. Whether that request
        // succeeds does not matter.
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let _ = self.api::<Value>("INFO", &Value::Null, deadline).await;
        drop(probe);
        while let Ok(violation) = violations.try_recv() {
            if violation.subject == subject {
                return Err(ClusterError::Options(format!(
                    "the key is not that of the role `{role}`: name the file keys/{role}.nk that `mimir cluster init` \
                     has written, with --nats-key"
                )));
            }
        }
        Ok(())
    }
}
