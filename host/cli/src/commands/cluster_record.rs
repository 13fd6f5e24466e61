//! Records of commands in the audit log of a cluster.

use std::collections::BTreeMap;

use mimir_cluster::{ClusterConnection, ClusterNode, NodeDescription, NodeRole};
use mimir_core::audit::{AuditEvent, AuditSink as _};
use mimir_core::config::AuditSettings;

use crate::output::warn;
use mimir::process_identity::machine_name;

/// Records an event. It has happened already, so a failure only causes a warning.
pub async fn record_in_cluster(connection: &ClusterConnection, event: &AuditEvent) {
    let description = NodeDescription {
        role: NodeRole::Admin,
        host: machine_name(),
        workspace: None,
        labels: BTreeMap::new(),
        capacity: 0,
        tools: None,
    };
    let node = match ClusterNode::start(connection.clone(), description).await {
        Ok(node) => node,
        Err(error) => return warn(format_args!("not recorded: {error}")),
    };
    let sink = node.audit_sink(AuditSettings::default());
    if let Err(error) = sink.record_with_others(event).await {
        warn(format_args!("not recorded: {error}"));
    }
    node.shut_down().await;
}
