//! The state of a cluster, for people.

use mimir_core::shared_state::{SharedState, SharedStateError, StateArea, StateEntry};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::audit::WriterName;
use crate::connection::{ACCESS_TIMEOUT, ClusterConnection, ClusterError};
use crate::names;
use crate::node::{NodeEntry, node_keys, writer_keys};
use crate::request::code;
use crate::streams::{StreamAnswer, all_streams};

/// Returns the live nodes, sorted by id.
pub async fn live_nodes(state: &dyn SharedState) -> Result<Vec<NodeEntry>, SharedStateError> {
    let prefix = node_keys();
    let entries = state.list(StateArea::Nodes, Some(&prefix)).await?;
    Ok(entries.iter().filter_map(parse_node).collect())
}

/// Reads the entry of a node. `None` if it names another node than its key, or no valid one: any process of the cluster can
/// store entries.
fn parse_node(entry: &StateEntry) -> Option<NodeEntry> {
    let node: NodeEntry = serde_json::from_slice(&entry.value).ok()?;
    let is_valid = NodeEntry::key(&node.id) == entry.key && WriterName::parse(&node.id).is_ok();
    is_valid.then_some(node)
}

/// Returns the writers of the audit log that are not closed. One without a live node is closed by another node soon.
pub async fn open_writers(state: &dyn SharedState) -> Result<Vec<String>, SharedStateError> {
    let prefix = writer_keys();
    let entries = state.list(StateArea::Nodes, Some(&prefix)).await?;
    let names = entries
        .iter()
        .filter_map(|entry| entry.key.as_str().split_once('.'));
    Ok(names.map(|(_, name)| name.to_owned()).collect())
}

/// The clock of a node, compared with that of the NATS server that stores its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClock {
    /// The id of the node.
    pub id: String,
    /// Time of the node's clock just before the entry was sent, in milliseconds since 1970.
    pub node_ms: u64,
    /// Time of the server's clock when the entry was stored, in RFC 3339.
    pub server_time: String,
}

/// The state of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamStatus {
    /// The name.
    pub name: String,
    /// True if the stream exists.
    pub exists: bool,
    /// Number of messages.
    pub messages: u64,
    /// Size of the messages in bytes.
    pub bytes: u64,
    /// Maximum size in bytes. A full stream refuses further messages.
    pub max_bytes: u64,
    /// Number of servers with a replica.
    pub replicas: usize,
    /// The server that answers for the stream. `None` while the servers elect one, and at a server that runs alone.
    pub leader: Option<String>,
    /// Servers whose replica is missing or behind.
    pub behind: Vec<String>,
}

impl ClusterConnection {
    /// Returns the clocks of nodes. A node that has ended meanwhile is left out.
    pub async fn node_clocks(&self, nodes: &[NodeEntry]) -> Result<Vec<NodeClock>, ClusterError> {
        let stream = names::bucket_stream(StateArea::Nodes);
        let mut clocks = Vec::new();
        for node in nodes {
            let key = NodeEntry::key(&node.id);
            let subject = names::state_subject(StateArea::Nodes, key.as_str());
            let deadline = Instant::now() + ACCESS_TIMEOUT;
            let query = json!({ "last_by_subj": subject });
            let message = self.read_message(&stream, &query, deadline).await;
            let Some(message) = message.map_err(|error| self.error(error))? else {
                continue;
            };
            let payload = message.payload().unwrap_or_default();
            let Ok(entry) = serde_json::from_slice::<NodeEntry>(&payload) else {
                continue;
            };
            clocks.push(NodeClock {
                id: entry.id,
                node_ms: entry.clock,
                server_time: message.time,
            });
        }
        Ok(clocks)
    }

    /// Returns the state of all streams of the cluster.
    pub async fn stream_status(&self) -> Result<Vec<StreamStatus>, ClusterError> {
        let mut streams = Vec::new();
        for config in all_streams() {
            let name = config.name;
            let request = format!("STREAM.INFO.{name}");
            let deadline = Instant::now() + ACCESS_TIMEOUT;
            let info: Option<StreamAnswer> = match self.api(&request, &Value::Null, deadline).await
            {
                Ok(info) => Some(info),
                Err(error) if error.code() == Some(code::STREAM_NOT_FOUND) => None,
                Err(error) => return Err(self.error(error)),
            };
            let max_bytes = info
                .as_ref()
                .map_or(config.max_bytes, |info| info.config.max_bytes);
            streams.push(describe(name, max_bytes, info));
        }
        Ok(streams)
    }
}

fn describe(name: String, max_bytes: i64, info: Option<StreamAnswer>) -> StreamStatus {
    let exists = info.is_some();
    let (state, cluster) = match info {
        Some(info) => (Some(info.state), info.cluster),
        None => (None, None),
    };
    let followers = cluster.iter().flat_map(|cluster| &cluster.replicas);
    let behind = followers
        .clone()
        .filter(|peer| peer.offline || !peer.current);
    StreamStatus {
        name,
        exists,
        messages: state.as_ref().map_or(0, |state| state.messages),
        bytes: state.as_ref().map_or(0, |state| state.bytes),
        max_bytes: u64::try_from(max_bytes).unwrap_or(0),
        replicas: if exists {
            followers.clone().count() + 1
        } else {
            0
        },
        behind: behind.map(|peer| peer.name.clone()).collect(),
        leader: cluster.and_then(|cluster| cluster.leader),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_entries_name_the_node_of_their_key() {
        let parsed = |key: &str, id: &str| {
            let value = json!({"id": id, "role": "worker", "host": "h", "started": 1});
            let entry = StateEntry {
                key: NodeEntry::key(key),
                value: value.to_string().into_bytes(),
                revision: 1,
            };
            parse_node(&entry).map(|node| node.id)
        };
        assert_eq!(parsed("0a1b", "0a1b").as_deref(), Some("0a1b"));
        assert_eq!(parsed("0a1b", "0a1c"), None);
        for id in ["", "x.y", "\u{1b}]0;t\u{7}", "*"] {
            assert_eq!(parsed(id, id), None, "{id:?}");
        }
    }
}
