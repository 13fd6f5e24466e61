//! The check that the key of a process is the one of its role, before the process joins the cluster.

use mimir_core::shared_state::StateArea;
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{ACCESS_TIMEOUT, ClusterConnection, ClusterError};
use crate::names;
use crate::node::NodeRole;
use crate::request::RequestError;

impl ClusterConnection {
    /// Fails if the key belongs to another role. Otherwise, the process would look like a worker or server of the cluster
    /// and receive nothing.
    pub async fn check_role(&self, role: NodeRole) -> Result<(), ClusterError> {
        // Requests that only keys of the role may send. What they ask for need not exist.
        let request = match role {
            NodeRole::Front => format!("STREAM.MSG.GET.{}", names::bucket_stream(StateArea::Keys)),
            NodeRole::Worker => format!("CONSUMER.INFO.{}.role-check", names::JOB_STREAM),
            NodeRole::Admin => return Ok(()),
        };
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        match self.api::<Value>(&request, &Value::Null, deadline).await {
            Err(RequestError::Forbidden(_)) => Err(ClusterError::Options(format!(
                "the key is not that of the role `{role}`: name the file keys/{role}.nk that `mimir cluster init` has \
                 written, with --nats-key"
            ))),
            // Other failures are reported by what needs the connection.
            _ => Ok(()),
        }
    }
}
