//! The kill switch, under load: all fronts and workers refuse calls soon after `mimir stop`, until `mimir start`.

use super::*;
use crate::history::{CallAttempt, TestTool};

/// Time in which the order reaches all nodes. The promise is a second; the rest is for a busy machine, on which calls that
/// notice it take long, too.
const STOP_TIME: Duration = Duration::from_secs(10);

/// Calls each front once.
fn call_each_front(
    runtime: &tokio::runtime::Runtime,
    cluster: &ClusterDeployment,
    prefix: &'static str,
    start: Instant,
) -> Vec<CallAttempt> {
    let plan = LoadPlan::single(prefix, TestTool::Effect, 4, 1);
    let mut attempts = Vec::new();
    for index in 0..cluster.fronts.len() {
        let target = cluster.front(index);
        let load = async { RunningLoad::start(&plan, &target, start).finish().await };
        attempts.extend(runtime.block_on(load).unwrap().attempts);
    }
    attempts
}

#[test]
#[ignore = "needs nats-server and caddy: .ci/cluster"]
fn switch_stops_all_calls_everywhere_until_start() {
    let plan = ClusterPlan {
        servers: 1,
        fronts: 2,
        workers: 2,
        ..ClusterPlan::default()
    };
    let mut cluster = ClusterDeployment::start(&plan, ClusterNetwork::Loopback).unwrap();
    let runtime = runtime();
    runtime.block_on(cluster.await_ready()).unwrap();
    let start = Instant::now();
    for attempt in call_each_front(&runtime, &cluster, "before", start) {
        assert!(
            matches!(attempt.answer, ClientAnswer::Done { .. }),
            "{attempt:#?}"
        );
    }
    cluster
        .admin(&["stop", "--all", "--reason", "a drill"])
        .unwrap();
    let stopped = Instant::now();
    loop {
        let attempts = call_each_front(&runtime, &cluster, "stopped", start);
        let is_refused = |attempt: &CallAttempt| {
            matches!(&attempt.answer, ClientAnswer::Failed { code, message, .. }
                if code == "UNAVAILABLE" && message.contains("a drill"))
        };
        if attempts.iter().all(is_refused) {
            break;
        }
        assert!(
            stopped.elapsed() < STOP_TIME,
            "{attempts:#?}\n{}",
            cluster.logs()
        );
    }
    println!(
        "stopped everywhere after {} ms",
        stopped.elapsed().as_millis()
    );
    let effects = cluster.effects().unwrap().len();
    for attempt in call_each_front(&runtime, &cluster, "still-stopped", start) {
        assert!(
            !matches!(attempt.answer, ClientAnswer::Done { .. }),
            "{attempt:#?}"
        );
    }
    assert_eq!(cluster.effects().unwrap().len(), effects, "a call ran");
    cluster.admin(&["start", "--yes"]).unwrap();
    let started = Instant::now();
    loop {
        let attempts = call_each_front(&runtime, &cluster, "started", start);
        if attempts
            .iter()
            .all(|attempt| matches!(attempt.answer, ClientAnswer::Done { .. }))
        {
            break;
        }
        assert!(
            started.elapsed() < STOP_TIME,
            "{attempts:#?}\n{}",
            cluster.logs()
        );
    }
}
