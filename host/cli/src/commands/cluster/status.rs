//! `mimir cluster status`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::call_switch::StopNotice;
use mimir_core::shared_state::{SharedStateHandle, StateRevision};
use mimir_core::text::visible;
use serde::Serialize;

use crate::args::{ClusterStatusArgs, GlobalOptions};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{STRONG, WARN, styled};
use mimir::call_switch::ClusterStop;
use mimir::cluster::{self, cluster_error, state_error};
use mimir_cluster::{
    ClusterConnection, ComponentStore, DeploymentInForce, Deployments, NatsState, NodeClock,
    NodeEntry, NodeRole, StreamStatus, TeamBundles, live_nodes, open_writers,
};

/// Share of a stream's maximum size from which the status warns.
const FULL_PERCENT: u64 = 80;

/// Difference of clocks in milliseconds from which the status warns. Storing an entry takes a few milliseconds.
const SKEW_MAX_MS: u64 = 1000;

/// The state of a cluster.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterStatus {
    servers: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<StopNotice>,
    nodes: Vec<ListedNode>,
    /// Writers of the audit log that are not closed and have no live node.
    writers_without_node: Vec<String>,
    deployments: Vec<ListedDeployment>,
    /// The published bundles of teams.
    teams: Vec<ListedBundle>,
    streams: Vec<StreamStatus>,
}

/// A live node.
#[derive(Serialize)]
pub(crate) struct ListedNode {
    /// Its entry in the shared state.
    #[serde(flatten)]
    pub(crate) entry: NodeEntry,
    /// Difference of the node's clock to that of the NATS server.
    #[serde(rename = "clockSkewMs", skip_serializing_if = "Option::is_none")]
    pub(crate) clock_skew_ms: Option<i64>,
    /// The deployment that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deployment: Option<DeploymentInForce>,
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedBundle {
    org_id: String,
    version: u64,
    published_by: String,
    published_at: Option<Timestamp>,
}

/// Prints the state of a cluster.
pub(super) async fn run(globals: &GlobalOptions, args: &ClusterStatusArgs) -> CommandResult {
    let connection = cluster::connect(args.cluster.require_connection()?).await?;
    let state: SharedStateHandle = Arc::new(NatsState::new(connection.clone()));
    let status = ClusterStatus::read(&connection, &state).await?;
    globals
        .printer()
        .print_result(&status, |out| status.print(out))?;
    Ok(ExitReason::Done)
}

fn timestamp(ms: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
}

impl ClusterStatus {
    /// Reads the state of a cluster.
    pub(crate) async fn read(
        connection: &ClusterConnection,
        state: &SharedStateHandle,
    ) -> Result<Self, ToolError> {
        let failed = |error: &_| state_error(error);
        let stopped = ClusterStop::new(Arc::clone(state)).read().await;
        let nodes = live_nodes(&**state).await.map_err(|error| failed(&error))?;
        let clocks = connection.node_clocks(&nodes).await;
        let clocks = clocks.map_err(cluster_error)?;
        let writers = open_writers(&**state)
            .await
            .map_err(|error| failed(&error))?;
        let deployments =
            Deployments::new(Arc::clone(state), ComponentStore::new(connection.clone()));
        let published = deployments
            .list()
            .await
            .map_err(|error| mimir::deployments::deployment_error(&error))?;
        let in_force = deployments
            .in_force()
            .await
            .map_err(|error| mimir::deployments::deployment_error(&error))?;
        let bundles = TeamBundles::new(Arc::clone(state), ComponentStore::new(connection.clone()));
        let bundles = bundles
            .list()
            .await
            .map_err(|error| mimir::deployments::deployment_error(&error))?;
        let mut in_force: BTreeMap<String, DeploymentInForce> = in_force.into_iter().collect();
        Ok(Self {
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
                    clock_skew_ms: clocks
                        .iter()
                        .find(|clock| clock.id == entry.id)
                        .and_then(clock_skew_ms),
                    entry,
                })
                .collect(),
            deployments: published
                .into_iter()
                .map(|deployment| ListedDeployment {
                    workspace: deployment.manifest.workspace,
                    revision: deployment.revision,
                    published_by: deployment.manifest.published_by,
                    published_at: timestamp(deployment.manifest.published_at_ms),
                    files: deployment.manifest.files.len(),
                })
                .collect(),
            teams: bundles
                .into_iter()
                .map(|bundle| ListedBundle {
                    org_id: bundle.org_id,
                    version: bundle.version,
                    published_by: bundle.published_by,
                    published_at: timestamp(bundle.published_at_ms),
                })
                .collect(),
            streams: connection.stream_status().await.map_err(cluster_error)?,
        })
    }

    /// Leaves out the nodes of other workspaces. Returns their number.
    pub(crate) fn retain_workspace(&mut self, name: &str) -> usize {
        let all = self.nodes.len();
        self.nodes.retain(|node| {
            let workspace = node.entry.workspace.as_ref();
            workspace.is_none_or(|workspace| workspace.name == name)
        });
        all - self.nodes.len()
    }

    /// Returns the live nodes.
    pub(crate) fn nodes(&self) -> &[ListedNode] {
        &self.nodes
    }

    /// Returns the writers of processes that have ended and are not closed yet.
    pub(crate) fn writers_without_node(&self) -> &[String] {
        &self.writers_without_node
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for problem in self.problems() {
            writeln!(out, "{}", styled(WARN, format!("! {problem}")))?;
        }
        let headings = |one: &str, many: &str, count: usize| {
            let name = if count == 1 { one } else { many };
            styled(STRONG, format!("{count} {name}"))
        };
        writeln!(out, "{}", headings("node", "nodes", self.nodes.len()))?;
        print_rows(
            out,
            &self.nodes.iter().map(ListedNode::cells).collect::<Vec<_>>(),
        )?;
        if !self.deployments.is_empty() {
            let heading = headings("deployment", "deployments", self.deployments.len());
            writeln!(out, "{heading}")?;
            let rows = self.deployments.iter().map(ListedDeployment::cells);
            print_rows(out, &rows.collect::<Vec<_>>())?;
        }
        if !self.teams.is_empty() {
            let heading = headings("bundle of a team", "bundles of teams", self.teams.len());
            writeln!(out, "{heading}")?;
            let rows = self.teams.iter().map(ListedBundle::cells);
            print_rows(out, &rows.collect::<Vec<_>>())?;
        }
        writeln!(out, "{}", headings("stream", "streams", self.streams.len()))?;
        let rows = self.streams.iter().map(stream_cells);
        print_rows(out, &rows.collect::<Vec<_>>())
    }

    /// Returns what needs attention, most urgent first.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(notice) = &self.stopped {
            let reason = notice.reason.as_deref().unwrap_or("no reason given");
            problems.push(format!(
                "all calls are refused, by {}: {}; `mimir start` allows them again",
                visible(&notice.by),
                visible(reason)
            ));
        }
        problems.extend(missing_streams(&self.streams));
        problems.extend(self.streams.iter().filter_map(stream_problem));
        for node in &self.nodes {
            problems.extend(node.readiness_problem());
            problems.extend(node.clock_problem());
            problems.extend(node.problems(&self.teams));
        }
        problems.extend(self.workspace_problems());
        for writer in &self.writers_without_node {
            problems.push(format!(
                "the process {writer} has ended, and its writer of the audit log is not closed yet"
            ));
        }
        problems
    }

    /// Returns the differences between nodes of the same workspace.
    fn workspace_problems(&self) -> Vec<String> {
        let mut workspaces: BTreeMap<&str, Vec<&ListedNode>> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(workspace) = &node.entry.workspace {
                workspaces.entry(&workspace.name).or_default().push(node);
            }
        }
        let mut problems = Vec::new();
        for (name, nodes) in workspaces {
            let name = visible(name);
            let used = nodes.iter().filter_map(|node| node.deployment.as_ref());
            let revisions: BTreeSet<_> = used.map(|used| used.revision).collect();
            if revisions.len() > 1 {
                let shown = revisions.iter().map(|revision| shown_revision(*revision));
                problems.push(format!(
                    "nodes of the workspace {name} differ: {}; a new deployment is used within seconds",
                    shown.collect::<Vec<_>>().join(", ")
                ));
            }
            let workers = nodes
                .iter()
                .filter(|node| node.entry.role == NodeRole::Worker && !node.entry.draining);
            let facts: BTreeSet<_> = workers
                .filter_map(|node| node.entry.workspace.as_ref())
                .map(|workspace| &workspace.facts)
                .collect();
            if facts.len() > 1 {
                problems.push(format!(
                    "workers of the workspace {name} have different content, so its calls are refused, except by servers \
                     with --workspace-any-content"
                ));
            }
        }
        problems
    }
}

/// Prints rows of cells in aligned columns. The last cell of a row is as long as it is.
fn print_rows(out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Columns that are empty everywhere take no space.
            if *width > 0 {
                line += &format!("  {cell:<width$}");
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn shown_revision(revision: Option<StateRevision>) -> String {
    revision.map_or_else(
        || "own settings".to_owned(),
        |revision| format!("deployment {revision}"),
    )
}

fn shown_teams(used: &DeploymentInForce) -> String {
    let teams = used.teams.iter().map(|(org_id, team)| {
        let version = team.version;
        let version = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        format!("team {} {version}", visible(org_id))
    });
    teams.collect::<Vec<_>>().join(", ")
}

impl ListedBundle {
    fn cells(&self) -> Vec<String> {
        let at = self.published_at;
        vec![
            visible(&self.org_id),
            format!("version {}", self.version),
            at.map_or_else(String::new, |at| format!("{at:.0}")),
            format!("by {}", visible(&self.published_by)),
        ]
    }
}

impl ListedNode {
    /// Returns whether the node takes calls.
    pub(crate) fn readiness(&self) -> &'static str {
        if self.entry.draining {
            "draining"
        } else if self.entry.ready && self.entry.not_ready.is_empty() {
            "ready"
        } else {
            "not ready"
        }
    }

    /// Returns the reasons why the node takes no calls, except that it is about to end.
    fn readiness_problem(&self) -> Option<String> {
        if self.readiness() != "not ready" {
            return None;
        }
        let reasons = match &*self.entry.not_ready {
            [] => "the audit log cannot be written".to_owned(),
            reasons => visible(&reasons.join(", ")),
        };
        Some(format!("node {} is not ready: {reasons}", self.entry.id))
    }

    /// Returns the message about a clock that differs.
    fn clock_problem(&self) -> Option<String> {
        let skew = self
            .clock_skew_ms
            .filter(|skew| skew.unsigned_abs() > SKEW_MAX_MS)?;
        let direction = if skew > 0 { "ahead of" } else { "behind" };
        let seconds = skew.unsigned_abs() as f64 / 1000.0;
        Some(format!(
            "the clock of node {} on {} is {seconds:.1} s {direction} that of the NATS server, so limits per minute and \
             the times of the audit log are wrong: synchronize the clocks",
            self.entry.id,
            visible(&self.entry.host)
        ))
    }

    /// Returns what needs attention about the settings that the node uses.
    fn problems(&self, published: &[ListedBundle]) -> Vec<String> {
        let id = &self.entry.id;
        let Some(used) = &self.deployment else {
            return Vec::new();
        };
        let mut problems = Vec::new();
        if let Some(error) = &used.error {
            let error = visible(error);
            problems.push(format!(
                "node {id} does not use the newest deployment: {error}"
            ));
        }
        if !used.needs_restart.is_empty() {
            let keys = visible(&used.needs_restart.join(", "));
            problems.push(format!(
                "node {id} needs a restart to use the changes of: {keys}"
            ));
        }
        for left_out in &used.left_out {
            problems.push(format!(
                "node {id} cannot use a tool: {}",
                visible(left_out)
            ));
        }
        for (org_id, team) in &used.teams {
            let newest = published.iter().find(|bundle| bundle.org_id == *org_id);
            let is_older = newest.is_some_and(|newest| team.version < Some(newest.version));
            let why = match &team.error {
                Some(error) => visible(error),
                None if is_older => "it is put in force within seconds".to_owned(),
                None => continue,
            };
            problems.push(format!(
                "node {id} does not use the newest bundle of the team {}: {why}",
                visible(org_id)
            ));
        }
        problems
    }

    fn cells(&self) -> Vec<String> {
        let entry = &self.entry;
        let workspace = entry.workspace.as_ref();
        let calls = match entry.capacity {
            0 => String::new(),
            capacity => format!("{} of {capacity} calls", entry.in_flight),
        };
        let labels = entry.labels.iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| visible(&format!("{key}={value}")))
            .collect();
        let deployment = self.deployment.as_ref();
        vec![
            entry.id.clone(),
            entry.role.to_string(),
            visible(&entry.host),
            workspace.map_or_else(String::new, |workspace| visible(&workspace.name)),
            calls,
            deployment.map_or_else(String::new, |used| shown_revision(used.revision)),
            deployment.map_or_else(String::new, shown_teams),
            labels.join(", "),
            self.readiness().to_owned(),
        ]
    }
}

impl ListedDeployment {
    fn cells(&self) -> Vec<String> {
        let files = if self.files == 1 { "file" } else { "files" };
        let at = self.published_at;
        vec![
            visible(&self.workspace),
            format!("deployment {}", self.revision),
            format!("{} {files}", self.files),
            at.map_or_else(String::new, |at| format!("{at:.0}")),
            format!("by {}", visible(&self.published_by)),
        ]
    }
}

/// Returns the difference of a node's clock to that of the NATS server, positive if it is ahead.
fn clock_skew_ms(clock: &NodeClock) -> Option<i64> {
    if clock.node_ms == 0 {
        return None;
    }
    let server: Timestamp = clock.server_time.parse().ok()?;
    i64::try_from(clock.node_ms)
        .ok()?
        .checked_sub(server.as_millisecond())
}

/// Returns the used share of a stream's maximum size, in percent.
fn used_percent(stream: &StreamStatus) -> u64 {
    let used = stream.bytes.saturating_mul(100);
    used.checked_div(stream.max_bytes).unwrap_or(0)
}

fn stream_cells(stream: &StreamStatus) -> Vec<String> {
    if !stream.exists {
        return vec![stream.name.clone(), "missing".to_owned()];
    }
    let replicas = match stream.replicas {
        1 => "1 replica".to_owned(),
        replicas => format!("{replicas} replicas"),
    };
    vec![
        stream.name.clone(),
        format!("{:>8} messages", stream.messages),
        format!("{:>8} KiB", stream.bytes.div_ceil(1024)),
        format!("{:>3} %", used_percent(stream)),
        replicas,
    ]
}

/// Returns the message about streams that do not exist.
fn missing_streams(streams: &[StreamStatus]) -> Option<String> {
    let missing: Vec<&str> = streams
        .iter()
        .filter(|stream| !stream.exists)
        .map(|stream| stream.name.as_str())
        .collect();
    let subject = match *missing {
        [] => return None,
        [name] => format!("stream {name} does not exist"),
        _ if missing.len() == streams.len() => "the streams do not exist".to_owned(),
        _ => format!("these streams do not exist: {}", missing.join(", ")),
    };
    Some(format!("{subject}: run `mimir cluster setup`"))
}

/// Returns what needs attention about a stream that exists.
fn stream_problem(stream: &StreamStatus) -> Option<String> {
    let name = &stream.name;
    if !stream.exists {
        return None;
    }
    if stream.replicas > 1 && stream.leader.is_none() {
        return Some(format!(
            "stream {name} has no leader, so it answers nothing: a majority of its {} servers has to run",
            stream.replicas
        ));
    }
    if !stream.behind.is_empty() {
        return Some(format!(
            "stream {name} is missing or behind on {}",
            visible(&stream.behind.join(", "))
        ));
    }
    let percent = used_percent(stream);
    (percent >= FULL_PERCENT).then(|| {
        format!(
            "stream {name} has {percent} % of its maximum size: a full stream refuses what is new"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_status_aligns_columns_and_skips_empty_ones() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "worker", "", "x"]), row(["bcd", "front", "", ""])];
        let mut out = Vec::new();
        print_rows(&mut out, &rows).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "  a    worker  x\n  bcd  front\n"
        );
    }

    fn node(change: impl FnOnce(&mut NodeEntry)) -> ListedNode {
        let entry = r#"{"id": "n1", "role": "worker", "host": "h", "started": 1}"#;
        let mut entry: NodeEntry = serde_json::from_str(entry).unwrap();
        change(&mut entry);
        ListedNode {
            entry,
            clock_skew_ms: None,
            deployment: None,
        }
    }

    #[test]
    fn cluster_status_shows_whether_nodes_are_ready() {
        assert_eq!(node(|_| {}).readiness(), "ready");
        assert_eq!(node(|_| {}).readiness_problem(), None);
        let draining = node(|entry| entry.draining = true);
        assert_eq!(draining.readiness(), "draining");
        let waiting = node(|entry| entry.not_ready = vec!["no worker is running".to_owned()]);
        assert_eq!(waiting.readiness(), "not ready");
        let problem = waiting.readiness_problem().unwrap();
        assert!(problem.contains("no worker is running"), "{problem}");
        let full = node(|entry| entry.ready = false).readiness_problem();
        assert!(full.unwrap().contains("audit log"));
    }

    #[test]
    fn cluster_status_warns_of_clocks_that_differ_by_more_than_a_second() {
        let skew = |node_ms, server_time: &str| {
            clock_skew_ms(&NodeClock {
                id: "n1".to_owned(),
                node_ms,
                server_time: server_time.to_owned(),
            })
        };
        let server = "1970-01-01T00:00:10.5Z";
        assert_eq!(skew(10_500, server), Some(0));
        assert_eq!(skew(12_501, server), Some(2001));
        assert_eq!(skew(8_000, server), Some(-2500));
        assert_eq!(skew(0, server), None);
        assert_eq!(skew(1, ""), None);
        for (ms, part) in [
            (1001, Some("1.0 s ahead of")),
            (-2500, Some("2.5 s behind")),
            (999, None),
        ] {
            let mut listed = node(|_| {});
            listed.clock_skew_ms = Some(ms);
            let problem = listed.clock_problem();
            assert_eq!(problem.is_some(), part.is_some(), "{problem:?}");
            assert!(part.is_none_or(|part| problem.unwrap().contains(part)));
        }
    }

    #[test]
    fn cluster_status_names_streams_that_need_attention() {
        let good = StreamStatus {
            name: "S".to_owned(),
            exists: true,
            messages: 1,
            bytes: 79,
            max_bytes: 100,
            replicas: 3,
            leader: Some("a".to_owned()),
            behind: Vec::new(),
        };
        assert_eq!(stream_problem(&good), None);
        let mut missing = good.clone();
        missing.exists = false;
        assert_eq!(stream_problem(&missing), None);
        assert_eq!(missing_streams(std::slice::from_ref(&good)), None);
        for (streams, part) in [
            (vec![missing.clone(), good.clone()], "stream S does not"),
            (vec![missing.clone(), missing], "the streams do not"),
        ] {
            let problem = missing_streams(&streams).unwrap();
            assert!(problem.contains(part), "{problem}");
        }
        let mut leaderless = good.clone();
        leaderless.leader = None;
        let mut behind = good.clone();
        behind.behind = vec!["nats-1".to_owned()];
        let mut full = good;
        full.bytes = 80;
        for (stream, part) in [
            (leaderless, "no leader"),
            (behind, "nats-1"),
            (full, "80 %"),
        ] {
            let problem = stream_problem(&stream).unwrap();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
