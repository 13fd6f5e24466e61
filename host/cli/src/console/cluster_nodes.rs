//! The nodes of the cluster, for the list of workers.

use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use mimir_audit::AuditEntry;
use mimir_cluster::{NodeEntry, NodeRole};
use mimir_core::ToolError;
use serde_json::{Value, json};

use super::record_source::ClusterSource;
use super::workspace::blocking;
use crate::commands::cluster::ClusterStatus;
use mimir::cluster::ClusterMembership;

/// Period for which nodes are listed that were lost, and their maximum number.
const LOST_HOURS: i64 = 24;
const LOST_MAX: usize = 50;

/// Returns the number of other servers of the workspace.
pub fn other_servers(cluster: &ClusterMembership) -> usize {
    let (nodes, own) = (cluster.node().nodes().list(), cluster.node().id());
    let is_other = |node: &&Arc<NodeEntry>| {
        let workspace = node.workspace.as_ref();
        node.role == NodeRole::Front
            && node.id != own
            && workspace.is_some_and(|workspace| workspace.name == cluster.workspace())
    };
    nodes.iter().filter(is_other).count()
}

/// Returns the live nodes of the workspace and of commands, those that were lost in the last day, and what needs attention.
pub async fn cluster_nodes(cluster: &Arc<ClusterMembership>) -> Result<Value, ToolError> {
    let mut status = ClusterStatus::read(cluster.connection(), cluster.state()).await?;
    let hidden = status.retain_workspace(cluster.workspace());
    let own = cluster.node().id();
    let nodes: Vec<Value> = status
        .nodes()
        .iter()
        .map(|node| {
            let mut value = serde_json::to_value(node).unwrap_or_default();
            value["state"] = node.readiness().into();
            value["isSelf"] = (node.entry.id == own).into();
            value
        })
        .collect();
    let source = ClusterSource::new(cluster);
    let lost = blocking(move || lost_nodes(&source)).await?;
    Ok(json!({
        "nodes": nodes,
        "lost": lost,
        "otherNodes": hidden,
        "closing": status.writers_without_node(),
        "problems": status.problems(),
    }))
}

/// Returns the nodes whose log another node has closed, because they had ended or could not be reached.
fn lost_nodes(source: &ClusterSource) -> Result<Vec<Value>, ToolError> {
    let since = Timestamp::now().checked_sub(SignedDuration::from_hours(LOST_HOURS));
    let since = since.unwrap_or(Timestamp::MIN);
    let mut lost = Vec::new();
    source.recent(|line| {
        let text = std::str::from_utf8(&line).unwrap_or_default();
        let is_closed = text.contains("\"event\":\"closed\"");
        // The line of a call has the time at which the call arrived.
        let is_dated = is_closed || text.contains("\"event\":\"opened\"");
        if !is_dated {
            return ControlFlow::Continue(());
        }
        let Some(entry) = AuditEntry::read(&line) else {
            return ControlFlow::Continue(());
        };
        let time = entry.text("time").parse::<Timestamp>();
        if time.is_ok_and(|time| time < since) {
            return ControlFlow::Break(());
        }
        // A process that ends closes its own log.
        if is_closed && entry.text("event") == "closed" && entry.text("detail").contains(" by ") {
            let mut value = line.shown(&entry)["node"].take();
            value["at"] = entry.text("time").into();
            value["detail"] = entry.text("detail").into();
            lost.push(value);
        }
        if lost.len() < LOST_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(lost)
}
