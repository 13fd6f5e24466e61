//! `mimir worker`.

use std::sync::Arc;
use std::time::Duration;

use mimir::cluster::{self, ClusterMembership};
use mimir::deployments::NodeDeployment;
use mimir::live_setup::{CHECK_INTERVAL, LiveSetup, PipelineUpdater};
use mimir::setup::HostSetup;
use mimir::teams::spawn_refresh;
use mimir_cluster::{CallRunner, CallWorker, NodeDescription, NodeRole, PipelineRunner};
use mimir_core::command::{JobOwner, JobStatus};

use crate::args::{GlobalOptions, WorkerArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{note, stderr_queue};
use crate::serve::{WorkerStatus, connect_to_join, describe_node, restart_to_use};
use crate::terminal::cluster_approver;

use super::interrupt::InterruptListener;

/// Maximum number of background commands that a message names.
const NAMED_JOBS_MAX: usize = 10;

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
    let pipeline = setup.pipeline(live.snapshot(), cluster_approver());
    setup.share_agent_stops(&pipeline);
    let mut updater = PipelineUpdater::new(pipeline.clone(), &live);
    let commands = pipeline.clone();
    updater.refresh_teams(refresh);
    let runner = Arc::new(PipelineRunner::new(pipeline));
    let worker = CallWorker::start(
        membership.connection().clone(),
        membership.node().clone(),
        Arc::clone(&runner) as Arc<dyn CallRunner>,
        capacity,
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
            "the worker takes no further calls; {calls} still run, for at most {} s{}; a second signal ends it at once",
            args.drain_timeout.as_secs(),
            shown_jobs(&commands.running_jobs())
        ));
        let stopped = tokio::select! {
            stopped = worker.drain(args.drain_timeout) => stopped,
            _ = interrupts.wait() => worker.drain(Duration::ZERO).await,
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

/// Returns the part of a message about background commands, which end with the worker. Each is named by its program,
/// because its arguments may be secret.
fn shown_jobs(jobs: &[(JobOwner, JobStatus)]) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let named = jobs.iter().take(NAMED_JOBS_MAX).map(|(_, job)| {
        let program = job.command.split_whitespace().next().unwrap_or_default();
        let program = mimir_core::text::visible(mimir_core::text::prefix(program, 60));
        format!("{program} (job {})", job.id.0)
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match jobs.len().saturating_sub(NAMED_JOBS_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = jobs.len();
    let commands = match count {
        1 => "background command ends",
        _ => "background commands end",
    };
    format!(", and {count} {commands} with the last call: {named}{more}")
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
