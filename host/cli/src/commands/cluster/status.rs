//! `mimir cluster status`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use jiff::Timestamp;
use mimir_core::call_switch::StopNotice;
use mimir_core::shared_state::SharedStateHandle;
use mimir_core::text::visible;
use serde::Serialize;

use crate::args::{ClusterStatusArgs, GlobalOptions};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{STRONG, WARN, styled};
use mimir::call_switch::ClusterStop;
use mimir::cluster::{self, cluster_error, state_error};
use mimir_cluster::{
    ComponentStore, DeploymentInForce, Deployments, NatsState, NodeEntry, StreamStatus, live_nodes,
    open_writers,
};

/// Share of a stream's maximum size from which the status warns.
const FULL_PERCENT: u64 = 80;

/// The state of a cluster.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterStatus {
    servers: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<StopNotice>,
    nodes: Vec<ListedNode>,
    /// Writers of the audit log that are not closed and have no live node.
    writers_without_node: Vec<String>,
    deployments: Vec<ListedDeployment>,
    streams: Vec<StreamStatus>,
}

#[derive(Serialize)]
struct ListedNode {
    #[serde(flatten)]
    entry: NodeEntry,
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<DeploymentInForce>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedDeployment {
    workspace: String,
    revision: u64,
    published_by: String,
    published_at: Option<Timestamp>,
    files: usize,
}

/// Prints the state of a cluster.
pub(super) async fn run(globals: &GlobalOptions, args: &ClusterStatusArgs) -> CommandResult {
    let connection = cluster::connect(args.cluster.require_connection()?).await?;
    let state: SharedStateHandle = Arc::new(NatsState::new(connection.clone()));
    let failed = |error: &_| state_error(error);
    let stopped = ClusterStop::new(Arc::clone(&state)).read().await;
    let nodes = live_nodes(&*state).await.map_err(|error| failed(&error))?;
    let writers = open_writers(&*state)
        .await
        .map_err(|error| failed(&error))?;
    let deployments = Deployments::new(Arc::clone(&state), ComponentStore::new(connection.clone()));
    let published = deployments
        .list()
        .await
        .map_err(|error| mimir::deployments::deployment_error(&error))?;
    let in_force = deployments
        .in_force()
        .await
        .map_err(|error| mimir::deployments::deployment_error(&error))?;
    let mut in_force: BTreeMap<String, DeploymentInForce> = in_force.into_iter().collect();
    let status = ClusterStatus {
        servers: connection.servers().to_owned(),
        stopped: stopped.map_err(|error| failed(&error))?,
        writers_without_node: writers
            .into_iter()
            .filter(|writer| !nodes.iter().any(|node| node.id == *writer))
            .collect(),
        nodes: nodes
            .into_iter()
            .map(|entry| ListedNode {
                deployment: in_force.remove(&entry.id),
                entry,
            })
            .collect(),
        deployments: published
            .into_iter()
            .map(|deployment| ListedDeployment {
                workspace: deployment.manifest.workspace,
                revision: deployment.revision,
                published_by: deployment.manifest.published_by,
                published_at: i64::try_from(deployment.manifest.published_at_ms)
                    .ok()
                    .and_then(|ms| Timestamp::from_millisecond(ms).ok()),
                files: deployment.manifest.files.len(),
            })
            .collect(),
        streams: connection.stream_status().await.map_err(cluster_error)?,
    };
    globals
        .printer()
        .print_result(&status, |out| status.print(out))?;
    Ok(ExitReason::Done)
}

impl ClusterStatus {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(notice) = &self.stopped {
            let reason = notice.reason.as_deref().unwrap_or("no reason given");
            let text = format!(
                "all calls are refused, by {}: {}",
                visible(&notice.by),
                visible(reason)
            );
            writeln!(
                out,
                "{}; `mimir start` allows them again",
                styled(WARN, text)
            )?;
        }
        writeln!(
            out,
            "{}",
            styled(STRONG, format!("{} nodes", self.nodes.len()))
        )?;
        for node in &self.nodes {
            writeln!(out, "  {}", node.line())?;
        }
        for writer in &self.writers_without_node {
            let text = format!("writer {writer} has no node and is not closed yet");
            writeln!(out, "  {}", styled(WARN, text))?;
        }
        if !self.deployments.is_empty() {
            writeln!(out, "{}", styled(STRONG, "deployments"))?;
        }
        for deployment in &self.deployments {
            let at = deployment
                .published_at
                .map_or_else(String::new, |at| format!(", {at:.0}"));
            writeln!(
                out,
                "  {} revision {}: {} files, published by {}{at}",
                visible(&deployment.workspace),
                deployment.revision,
                deployment.files,
                visible(&deployment.published_by)
            )?;
        }
        writeln!(out, "{}", styled(STRONG, "streams"))?;
        for stream in &self.streams {
            let (line, is_bad) = stream_line(stream);
            if is_bad {
                writeln!(out, "  {}", styled(WARN, line))?;
            } else {
                writeln!(out, "  {line}")?;
            }
        }
        Ok(())
    }
}

impl ListedNode {
    fn line(&self) -> String {
        let entry = &self.entry;
        let mut line = format!("{} {} on {}", entry.id, entry.role, visible(&entry.host));
        if let Some(workspace) = &entry.workspace {
            line += &format!(", workspace {}", visible(&workspace.name));
        }
        if entry.capacity > 0 {
            line += &format!(", {} of {} calls", entry.in_flight, entry.capacity);
        }
        for (key, value) in &entry.labels {
            line += &format!(", {}={}", visible(key), visible(value));
        }
        if entry.draining {
            line += ", draining";
        }
        if let Some(deployment) = &self.deployment {
            match deployment.revision {
                Some(revision) => line += &format!(", deployment {revision}"),
                None => line += ", own settings",
            }
            if let Some(error) = &deployment.error {
                line += &format!(", newer deployment not used: {}", visible(error));
            }
        }
        line
    }
}

/// Returns the line of a stream, and whether it needs attention.
fn stream_line(stream: &StreamStatus) -> (String, bool) {
    let name = &stream.name;
    if !stream.exists {
        return (
            format!("{name} does not exist; create it with `mimir cluster setup`"),
            true,
        );
    }
    let percent = stream
        .bytes
        .saturating_mul(100)
        .checked_div(stream.max_bytes)
        .unwrap_or(0);
    let mut line = format!(
        "{name}: {} messages, {} KiB ({percent} % of the maximum), {} replicas",
        stream.messages,
        stream.bytes.div_ceil(1024),
        stream.replicas
    );
    let mut is_bad = percent >= FULL_PERCENT;
    if !stream.behind.is_empty() {
        is_bad = true;
        line += &format!(", behind: {}", visible(&stream.behind.join(", ")));
    }
    if stream.replicas > 1 && stream.leader.is_none() {
        is_bad = true;
        line += ", no leader";
    }
    (line, is_bad)
}
