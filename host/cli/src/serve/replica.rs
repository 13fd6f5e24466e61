//! A server as one of several in a cluster, whose calls may run on workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mimir::cluster::{self, ClusterMembership, cluster_error, workspace_name};
use mimir::deployments::NodeDeployment;
use mimir::process_identity::machine_name;
use mimir::setup::HostSetup;
use mimir::workspace::WorkspaceFolder;
use mimir::workspace_facts::workspace_facts;
use mimir_cluster::{
    ClusterBackgroundCalls, ClusterConnection, ConnectionOptions, NatsPeers, NodeDescription,
    NodeRole, NodeWorkspace, PoolOptions, RemoteTools, WorkerPool,
};
use mimir_core::config::WorkerRoutes;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::remote_pipeline::RemotePipeline;
use mimir_core::{Pipeline, ToolError};
use mimir_mcp::{ReadinessCheck, ReplicaSet};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::args::ReplicaArgs;
use crate::exit::{CommandFailure, CommandResult};
use crate::output::note;

use super::{node_readiness, report_readiness};

/// Maximum time for which the start of a server waits for the tools of the workers.
const TOOLS_TIMEOUT: Duration = Duration::from_secs(2);

/// The membership of a server in a cluster.
#[derive(Clone)]
pub struct ServerReplica {
    membership: Arc<ClusterMembership>,
    pool: Option<WorkerPool>,
    /// The labels that tools need.
    routes: Arc<RwLock<WorkerRoutes>>,
    /// Follows the published deployment while the server runs.
    deployment: Arc<NodeDeployment>,
}

fn worker_routes(setup: &HostSetup) -> WorkerRoutes {
    WorkerRoutes::new(setup.settings.config.cluster.as_ref())
}

/// Connects to a cluster in order to join it, and says so if its streams are not ready yet.
pub async fn connect_to_join(options: ConnectionOptions) -> CommandResult<ClusterConnection> {
    let connected = cluster::connect_to_join(options, || {
        note(format_args!(
            "waiting for the streams of the cluster: its servers may have just started"
        ));
    });
    Ok(connected.await?)
}

/// Returns the description of this process for a cluster, without labels, capacity and tools.
pub fn describe_node(setup: &HostSetup, role: NodeRole, name: Option<&str>) -> NodeDescription {
    let workspace = &setup.workspace;
    let repository = workspace.repository_root().unwrap_or(workspace.root());
    NodeDescription {
        role,
        host: machine_name(),
        workspace: Some(NodeWorkspace {
            name: workspace_name(workspace, name),
            facts: workspace_facts(Some(repository)),
        }),
        labels: BTreeMap::new(),
        capacity: 0,
        tools: None,
    }
}

/// Completes when the first deployment of the workspace is published, if none was when this process started.
pub fn restart_to_use(
    deployment: &NodeDeployment,
    workspace: &str,
) -> impl Future<Output = ()> + Send + use<> {
    let published = deployment.first_published();
    let workspace = workspace.to_owned();
    async move {
        published.await;
        note(format_args!(
            "a deployment of the workspace `{}` was published for the first time: this process ends its calls and starts again to use it",
            mimir_core::text::visible(&workspace)
        ));
    }
}

impl ServerReplica {
    /// Connects to the cluster that the options name. `None` if they name none.
    pub async fn connect(args: &ReplicaArgs) -> CommandResult<Option<ClusterConnection>> {
        if let Some(options) = args.cluster.connection()? {
            return connect_to_join(options).await.map(Some);
        }
        let option = match (args.pool, &args.workspace_name) {
            (true, _) => "--pool",
            (false, Some(_)) => "--workspace-name",
            (false, None) => return Ok(None),
        };
        Err(CommandFailure::usage(format!(
            "{option} needs a cluster: name its servers with --nats URL, or set MIMIR_NATS"
        )))
    }

    /// Joins the cluster of this connection, if there is one. Returns the setup for the server.
    pub async fn join(
        setup: HostSetup,
        connection: Option<ClusterConnection>,
        args: &ReplicaArgs,
    ) -> CommandResult<(HostSetup, Option<Self>)> {
        let Some(connection) = connection else {
            return Ok((setup, None));
        };
        let name = workspace_name(&setup.workspace, args.workspace_name.as_deref());
        let (setup, deployment) = NodeDeployment::for_setup(&connection, &name, setup).await?;
        let description = describe_node(&setup, NodeRole::Front, args.workspace_name.as_deref());
        let joined = ClusterMembership::join_with(connection, description, &setup.user_dirs);
        let membership = Arc::new(joined.await?);
        deployment.report_as(&membership);
        let deployment = Arc::new(deployment);
        let setup = setup.in_cluster(Arc::clone(&membership));
        if !args.pool {
            let replica = Self {
                membership,
                pool: None,
                routes: Arc::default(),
                deployment,
            };
            replica.announce("runs its calls itself");
            return Ok((setup, Some(replica)));
        }
        let routes = Arc::new(RwLock::new(worker_routes(&setup)));
        let options = PoolOptions {
            workspace: membership.workspace().to_owned(),
            allow_any_content: args.workspace_any_content,
            labels: Arc::new({
                let routes = Arc::clone(&routes);
                move |tool| routes.read().labels(tool)
            }),
        };
        let (connection, node) = (membership.connection(), membership.node());
        let pool = WorkerPool::start(connection.clone(), node.clone(), options).await;
        let replica = Self {
            pool: Some(pool.map_err(cluster_error)?),
            membership,
            routes,
            deployment,
        };
        replica.announce("runs its calls on workers");
        replica.wait_for_tools().await;
        Ok((setup.without_tools(), Some(replica)))
    }

    /// Waits for the tools of the workers for a limited time, because a client lists the tools as soon as it has connected.
    async fn wait_for_tools(&self) {
        let Some(mut tools) = self.tools() else {
            return;
        };
        let listed = tokio::time::timeout(TOOLS_TIMEOUT, tools.wait_for(Option::is_some)).await;
        if listed.is_err() {
            note(format_args!(
                "no worker of the workspace `{}` is running yet; start one: mimir worker --workspace-name {0}",
                self.membership.workspace()
            ));
        }
    }

    fn announce(&self, manner: &str) {
        note(format_args!(
            "server {} of the workspace `{}` in the cluster {} {manner}",
            self.membership.node().id(),
            self.membership.workspace(),
            self.membership.connection().servers()
        ));
    }

    /// Completes when this process has to start again.
    pub fn restart_required(&self) -> impl Future<Output = ()> + Send + use<> {
        restart_to_use(&self.deployment, self.membership.workspace())
    }

    /// Completes with the workspace of the first deployment, if none was published when this process started.
    pub fn first_deployment(
        &self,
        setup: &HostSetup,
    ) -> impl Future<Output = WorkspaceFolder> + Send + use<> {
        let deployed = self.deployment.first_workspace(&setup.workspace);
        let workspace = self.membership.workspace().to_owned();
        async move {
            let deployed = deployed.await;
            note(format_args!(
                "a deployment of the workspace `{}` was published for the first time, and is used from now on",
                mimir_core::text::visible(&workspace)
            ));
            deployed
        }
    }

    /// Returns the pool, for the pipeline.
    pub fn remote(&self) -> Option<Arc<dyn RemotePipeline>> {
        let pool = self.pool.clone()?;
        Some(Arc::new(pool))
    }

    /// Applies changed settings.
    pub fn apply_settings(&self, setup: &HostSetup) {
        *self.routes.write() = worker_routes(setup);
    }

    /// Returns the messages to the other servers of the cluster.
    pub async fn join_replicas(&self) -> CommandResult<Arc<ReplicaSet>> {
        let (connection, node) = (self.membership.connection(), self.membership.node());
        let peers = NatsPeers::start(connection.clone(), node.clone()).await;
        let peers = Arc::new(peers.map_err(cluster_error)?);
        let joined = ReplicaSet::join(peers, Arc::clone(self.membership.state())).await;
        let replicas = joined.map_err(ToolError::unavailable)?;
        if let Some(pool) = &self.pool {
            let calls = ClusterBackgroundCalls::new(node.clone(), pool.clone());
            replicas.keep_tasks(Arc::new(calls));
        }
        Ok(replicas)
    }

    /// Puts the tools of the workers into a snapshot, if calls run on workers.
    pub fn apply_tools(&self, snapshot: &mut PipelineSnapshot) {
        if let Some(pool) = &self.pool {
            let tools = pool.tools();
            let tools = tools.borrow();
            snapshot.registry = tools
                .as_ref()
                .map(RemoteTools::registry)
                .unwrap_or_default();
        }
    }

    /// Returns the tools of the workers, and their changes. `None` if this process runs the calls.
    pub fn tools(&self) -> Option<watch::Receiver<Option<RemoteTools>>> {
        Some(self.pool.as_ref()?.tools())
    }

    /// Replaces the tools of a pipeline by the current ones of the workers.
    pub fn update_tools(&self, pipeline: &Pipeline) {
        let mut snapshot = PipelineSnapshot {
            policy: pipeline.snapshot().policy.clone(),
            ..PipelineSnapshot::default()
        };
        self.apply_tools(&mut snapshot);
        pipeline.replace(snapshot);
    }

    /// Returns the conditions under which the server can take calls.
    pub fn readiness(&self, setup: &HostSetup) -> Vec<ReadinessCheck> {
        let mut checks = node_readiness(&self.membership, setup.audit());
        if let Some(pool) = self.pool.clone() {
            checks.push(ReadinessCheck::new("workers", move || {
                let has_workers = pool.workers() > 0;
                has_workers.then_some(()).ok_or("no worker is running")
            }));
        }
        report_readiness(&self.membership, &checks);
        checks
    }

    /// Tells the other processes that this one takes no further calls.
    pub fn begin_drain(&self) {
        self.membership.node().set_draining(true);
    }

    /// Leaves the cluster, after the last call has ended.
    pub async fn leave(&self) {
        self.membership.node().shut_down().await;
    }
}
