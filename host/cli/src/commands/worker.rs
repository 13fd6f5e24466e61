//! `mimir worker`.

use std::sync::Arc;
use std::time::Duration;

use mimir::cluster::{self, ClusterMembership};
use mimir::deployments::NodeDeployment;
use mimir::live_setup::{CHECK_INTERVAL, LiveSetup, PipelineUpdater};
use mimir::setup::HostSetup;
use mimir::teams::spawn_refresh;
use mimir_cluster::{CallRunner, CallWorker, JobRunner, NodeDescription, NodeRole, PipelineRunner};

use crate::args::{GlobalOptions, WorkerArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{note, stderr_queue};
use crate::serve::{WorkerStatus, connect_to_join, describe_node, restart_to_use};
use crate::terminal::remote_approver;

use super::interrupt::InterruptListener;

/// Number of calls that run at a time for each CPU, because most calls wait for something else.
const CALLS_PER_CPU: u32 = 4;

/// Runs the calls of the cluster's servers until the process is stopped.
pub async fn run(globals: &GlobalOptions, args: WorkerArgs) -> CommandResult {
    let interrupts = InterruptListener::install();
    stderr_queue::detach_stderr();
    let connection = connect_to_join(args.cluster.require_connection()?).await?;
    let setup = HostSetup::find_in_cluster(globals.workspace.as_deref(), &connection).await?;
    let name = cluster::workspace_name(&setup.workspace, args.workspace_name.as_deref());
    let (setup, deployment) = NodeDeployment::for_setup(&connection, &name, setup).await?;
    let _ = setup.workspace.make_state();
    let capacity = args.capacity.unwrap_or_else(default_capacity);
    let mut description = describe_node(&setup, NodeRole::Worker, args.workspace_name.as_deref());
    description.labels = args.labels.into_iter().collect();
    description.capacity = capacity;
    let joined = ClusterMembership::join_with(connection, description.clone(), &setup.user_dirs);
    let membership = Arc::new(joined.await?);
    deployment.report_as(&membership);
    let mut interrupts =
        interrupts.with_restart(restart_to_use(&deployment, membership.workspace()));
    let mut setup = setup.in_cluster(Arc::clone(&membership));
    if args.http_status.is_some() {
        setup = setup.with_metrics();
    }
    let refresh = spawn_refresh(&setup);
    let status = WorkerStatus::start(&membership, setup.audit(), args.http_status).await?;
    // All tools are compiled before the first call.
    let mut live = tokio::select! {
        live = LiveSetup::new(setup) => live?,
        signal = interrupts.wait() => {
            membership.node().shut_down().await;
            return Ok(ended_by(signal));
        }
    };
    let setup = live.setup();
    let pipeline = setup.pipeline(live.snapshot(), remote_approver(None));
    let mut updater = PipelineUpdater::new(pipeline.clone(), &live);
    updater.refresh_teams(refresh);
    let runner = Arc::new(PipelineRunner::new(pipeline));
    let worker = CallWorker::start(
        membership.connection().clone(),
        membership.node().clone(),
        Arc::clone(&runner) as Arc<dyn CallRunner>,
        capacity,
    );
    // Background calls leave half of the capacity to those whose clients wait.
    let jobs = JobRunner::start(
        membership.connection().clone(),
        membership.node().clone(),
        Arc::clone(membership.state()),
        Arc::clone(&runner) as Arc<dyn CallRunner>,
        membership.workspace(),
        capacity.div_ceil(2),
    );
    let describe = |mut description: NodeDescription| {
        description.tools = Some(runner.tools_digest());
        membership.node().describe(description);
    };
    describe(description.clone());
    announce(&membership, &description);
    status.set_started(live.host());
    let follow = live.follow(CHECK_INTERVAL, |setup, update| {
        updater.apply_update(setup, update);
        describe(description.clone());
        CommandResult::Ok(())
    });
    let drain = async {
        let signal = interrupts.wait().await;
        status.begin_drain();
        let calls = worker.load().calls;
        note(format_args!(
            "the worker takes no further calls; {calls} still run, for at most {} s; a second signal ends it at once",
            args.drain_timeout.as_secs()
        ));
        let drain = async |timeout| tokio::join!(worker.drain(timeout), jobs.drain(timeout));
        let (stopped, ()) = tokio::select! {
            drained = drain(args.drain_timeout) => drained,
            _ = interrupts.wait() => drain(Duration::ZERO).await,
        };
        if stopped > 0 {
            note(format_args!(
                "{stopped} calls were stopped, and recorded as cancelled"
            ));
        }
        signal
    };
    let signal = tokio::select! {
        signal = drain => signal,
        followed = follow => match followed {
            Ok(()) => ExitReason::Done,
            Err(error) => return Err(error),
        },
    };
    membership.node().shut_down().await;
    Ok(ended_by(signal))
}

fn default_capacity() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cpus)
        .unwrap_or(u32::MAX)
        .saturating_mul(CALLS_PER_CPU)
}

/// Prints where the worker is connected and what it runs.
fn announce(membership: &ClusterMembership, description: &NodeDescription) {
    let labels: Vec<String> = description
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let labels = if labels.is_empty() {
        "none".to_owned()
    } else {
        mimir_core::text::visible(&labels.join(", "))
    };
    note(format_args!(
        "worker {} of the workspace `{}` in the cluster {}: {} calls at a time, labels: {labels}",
        membership.node().id(),
        membership.workspace(),
        membership.connection().servers(),
        description.capacity
    ));
}

/// Maps the signal that ended the worker to an exit reason. SIGTERM is the usual way to stop it.
fn ended_by(signal: ExitReason) -> ExitReason {
    match signal {
        ExitReason::Terminated => ExitReason::Done,
        signal => signal,
    }
}
