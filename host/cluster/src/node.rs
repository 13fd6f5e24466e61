//! The processes of a cluster: each is a node with an entry in the shared state that ends shortly after the process.
//!
//! The id of a node is also the name of its writer, so of its chain in the audit log. A node whose writer was closed by
//! another process continues under a new id: the old id never records a call again. So a call that was sent to a node
//! and is not on its closed chain has not run, and never will.

use std::collections::BTreeMap;
use std::fmt;

use mimir_core::shared_state::StateKey;
use serde::{Deserialize, Serialize};

mod call_hold;
pub(crate) mod lease;
pub(crate) mod view;

pub use call_hold::CallHold;
pub(crate) use call_hold::{HeldCall, HeldCalls, OutcomeRecord};
pub use lease::ClusterNode;
pub use view::NodeView;
pub(crate) use view::{node_keys, writer_keys};

/// The role of a process in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Serves clients.
    Front,
    /// Runs calls for fronts.
    Worker,
    /// Runs a command of an administrator.
    Admin,
}

impl NodeRole {
    /// Returns the spelling in entries and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            NodeRole::Front => "front",
            NodeRole::Worker => "worker",
            NodeRole::Admin => "admin",
        }
    }
}

impl fmt::Display for NodeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The workspace of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeWorkspace {
    /// The name by which calls select it.
    pub name: String,
    /// Facts about the content, such as the commit: nodes with the same name should have the same facts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// The facts about a node that other processes need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDescription {
    /// The role.
    pub role: NodeRole,
    /// The name of the machine, for people.
    pub host: String,
    /// The workspace, if the node has one.
    pub workspace: Option<NodeWorkspace>,
    /// Labels that select the node for tools.
    pub labels: BTreeMap<String, String>,
    /// Maximum number of calls at the same time; 0 for nodes that run no calls of others.
    pub capacity: u32,
    /// Digest of the tools that the node runs.
    pub tools: Option<String>,
}

/// The entry of a node in the shared state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEntry {
    /// The id, which is also the name of the node's writer.
    pub id: String,
    /// The role.
    pub role: NodeRole,
    /// The name of the machine.
    pub host: String,
    /// Start of the process, in milliseconds since 1970.
    pub started: u64,
    /// The workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<NodeWorkspace>,
    /// Labels that select the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Maximum number of calls at the same time.
    #[serde(default)]
    pub capacity: u32,
    /// Number of running calls at the last renewal.
    #[serde(default)]
    pub in_flight: u32,
    /// True if the node takes no further calls.
    #[serde(default)]
    pub draining: bool,
    /// True if people can answer questions at a console of the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub console: bool,
    /// False while the node cannot write the audit log, so that it refuses calls.
    #[serde(default = "default_ready")]
    pub ready: bool,
    /// The reasons why the node takes no calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready: Vec<String>,
    /// Time of the node's clock at the last renewal, in milliseconds since 1970.
    #[serde(default)]
    pub clock: u64,
    /// Digest of the tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// Stream sequence of the last line of the node's writer at the last renewal. A call that is sent to the node later
    /// is recorded after it: the start for [`ClusterNode::find_call`].
    #[serde(default)]
    pub recorded: u64,
}

fn default_ready() -> bool {
    true
}

impl NodeEntry {
    /// Returns the key of a node's entry in [`StateArea::Nodes`]. The entry exists while the node has a lease.
    ///
    /// [`StateArea::Nodes`]: mimir_core::shared_state::StateArea::Nodes
    pub fn key(node: &str) -> StateKey {
        view::node_key(node)
    }

    fn new(id: String, started: u64, description: &NodeDescription) -> Self {
        let description = description.clone();
        Self {
            id,
            role: description.role,
            host: description.host,
            started,
            workspace: description.workspace,
            labels: description.labels,
            capacity: description.capacity,
            in_flight: 0,
            draining: false,
            console: false,
            ready: true,
            not_ready: Vec::new(),
            clock: 0,
            tools: description.tools,
            recorded: 0,
        }
    }
}
