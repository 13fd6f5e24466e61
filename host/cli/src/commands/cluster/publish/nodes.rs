//! The nodes that a publication is for, and what it does to them.

use std::collections::{BTreeMap, BTreeSet};

use mimir_cluster::{DeploymentInForce, Deployments, NodeEntry, live_nodes};
use mimir_core::ToolError;
use mimir_core::shared_state::SharedState;
use mimir_core::text::visible;

use crate::output::{note, warn};
use mimir::cluster::state_error;
use mimir::deployments::deployment_error;

/// Maximum number of workspaces that a warning names.
const NAMED_MAX: usize = 5;

/// The running nodes of a workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WorkspaceNodes {
    /// Number of the nodes.
    count: usize,
    /// Number of the nodes that use their own files, and start again to use the first deployment.
    without_deployment: usize,
    /// The workspaces of all other nodes.
    others: BTreeSet<String>,
}

impl WorkspaceNodes {
    /// Reads the nodes of the workspace with this name.
    pub(super) async fn read(
        state: &dyn SharedState,
        deployments: &Deployments,
        name: &str,
    ) -> Result<Self, ToolError> {
        let nodes = live_nodes(state).await;
        let nodes = nodes.map_err(|error| state_error(&error))?;
        let in_force = deployments.in_force().await;
        let in_force = in_force.map_err(|error| deployment_error(&error))?;
        Ok(Self::count(&nodes, &in_force.into_iter().collect(), name))
    }

    fn count(
        nodes: &[NodeEntry],
        in_force: &BTreeMap<String, DeploymentInForce>,
        name: &str,
    ) -> Self {
        let mut found = Self {
            count: 0,
            without_deployment: 0,
            others: BTreeSet::new(),
        };
        for node in nodes {
            match &node.workspace {
                Some(workspace) if workspace.name == name => {
                    found.count += 1;
                    let used = in_force.get(&node.id);
                    if used.is_some_and(|used| used.revision.is_none()) {
                        found.without_deployment += 1;
                    }
                }
                Some(workspace) => {
                    found.others.insert(workspace.name.clone());
                }
                None => {}
            }
        }
        found
    }

    /// Tells an administrator what the publication does to the nodes.
    pub(super) fn describe(&self, name: &str) {
        let name = visible(name);
        if self.count == 0 {
            let others = match self.others.len() {
                0 => "no node is running".to_owned(),
                _ => {
                    let named = self.others.iter().take(NAMED_MAX);
                    let named: Vec<_> = named.map(|other| visible(other)).collect();
                    format!("running nodes have: {}", named.join(", "))
                }
            };
            warn(format_args!(
                "no running node has the workspace {name} and uses this; {others}. A node has the name of its folder, or \
                 that of its --workspace-name: name the same here with --workspace-name"
            ));
        } else if self.without_deployment > 0 {
            note(format_args!(
                "{} of {} nodes of the workspace {name} use this as their first deployment: workers and HTTP servers \
                 restart by themselves at the same time, so for some seconds calls are refused, and those that run may be \
                 cut off",
                self.without_deployment, self.count
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn publication_counts_the_nodes_that_restart() {
        let node = |id: &str, workspace: Option<&str>| -> NodeEntry {
            let workspace = workspace.map(|name| json!({"name": name, "facts": {}}));
            let mut entry = json!({"id": id, "role": "worker", "host": "h", "started": 1});
            if let Some(workspace) = workspace {
                entry["workspace"] = workspace;
            }
            serde_json::from_value(entry).unwrap()
        };
        let used = |revision: Option<u64>| -> DeploymentInForce {
            serde_json::from_value(json!({"workspace": "demo", "revision": revision})).unwrap()
        };
        let nodes = [
            node("a", Some("demo")),
            node("b", Some("demo")),
            node("c", Some("other")),
            node("d", None),
        ];
        let in_force = [
            ("a".to_owned(), used(None)),
            ("b".to_owned(), used(Some(3))),
            ("c".to_owned(), used(None)),
        ];
        let in_force = BTreeMap::from(in_force);
        let found = WorkspaceNodes::count(&nodes, &in_force, "demo");
        assert_eq!((found.count, found.without_deployment), (2, 1));
        assert_eq!(found.others, BTreeSet::from(["other".to_owned()]));
        let missing = WorkspaceNodes::count(&nodes, &in_force, "project");
        assert_eq!((missing.count, missing.others.len()), (0, 2));
    }
}
