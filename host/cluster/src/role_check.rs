//! The check that the key of a process is the one of its role, before the process joins the cluster.

use async_nats::HeaderMap;
use bytes::Bytes;
use mimir_core::shared_state::StateArea;
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
            NodeRole::Front => {
                let keys = names::bucket_stream(StateArea::Keys);
                format!("$JS.API.STREAM.MSG.GET.{keys}")
            }
            // A reply to no server.
            NodeRole::Worker => names::call_reply("role-check", "role-check"),
            NodeRole::Admin => return Ok(()),
        };
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let answer = self.request(request, HeaderMap::new(), Bytes::new(), deadline);
        match answer.await {
            Err(RequestError::Forbidden(_)) => Err(ClusterError::Options(format!(
                "the key is not that of the role `{role}`: name the file keys/{role}.nk that `mimir cluster init` has \
                 written, with --nats-key"
            ))),
            // Other failures are reported by what needs the connection.
            _ => Ok(()),
        }
    }
}
