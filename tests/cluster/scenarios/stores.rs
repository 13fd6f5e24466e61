//! Stores that are full, slow or gone: calls are refused with a code in bounded time, and work again afterwards.

use serde_json::{Value, json};

use super::*;
use crate::history::{CallAttempt, TestTool};
use crate::http::HttpTarget;
use crate::load::ATTEMPTS_MAX;
use crate::nats::AUDIT_STREAM;

/// Longest time until a call is refused, in milliseconds.
const REFUSAL_MAX_MS: u64 = 25_000;

/// A cluster, and the calls that were made in it.
struct StoreRun {
    cluster: ClusterDeployment,
    runtime: tokio::runtime::Runtime,
    start: Instant,
    record: LoadRecord,
}

impl StoreRun {
    fn start(plan: &ClusterPlan) -> Self {
        let mut cluster = ClusterDeployment::start(plan, ClusterNetwork::Loopback).unwrap();
        let runtime = runtime();
        runtime.block_on(cluster.await_ready()).unwrap();
        Self {
            cluster,
            runtime,
            start: Instant::now(),
            record: LoadRecord::default(),
        }
    }

    /// Calls a tool once from some clients at once, at one front, so that the proxy's own answers are not seen.
    fn call(&mut self, prefix: &'static str, tool: TestTool) -> Vec<CallAttempt> {
        self.run(&LoadPlan::single(prefix, tool, 8, 1))
    }

    fn run(&mut self, plan: &LoadPlan) -> Vec<CallAttempt> {
        let target: HttpTarget = self.cluster.front(0);
        let start = self.start;
        let load = async { RunningLoad::start(plan, &target, start).finish().await };
        let load = self.runtime.block_on(load).unwrap();
        self.record.attempts.extend(load.attempts.clone());
        load.attempts
    }

    /// Checks that all calls were refused in time, with a code.
    fn assert_refused(&mut self, prefix: &'static str, tool: TestTool) {
        for attempt in self.call(prefix, tool) {
            let took = attempt.end_ms - attempt.start_ms;
            let is_code = matches!(&attempt.answer, ClientAnswer::Failed { code, .. } if code == "UNAVAILABLE");
            // A server that is not ready may refuse the request as such, but not the call of a client without an answer.
            let is_status = matches!(&attempt.answer, ClientAnswer::Rejected(text) if text.starts_with("HTTP 503"));
            assert!(
                is_code || is_status,
                "{attempt:#?}\n{}",
                self.cluster.logs()
            );
            assert!(
                took < REFUSAL_MAX_MS,
                "{attempt:#?}\n{}",
                self.cluster.logs()
            );
        }
    }

    /// Checks that clients that try again for some seconds have all calls done.
    fn assert_recovered(&mut self, prefix: &'static str, tool: TestTool) {
        let plan = LoadPlan {
            attempts: ATTEMPTS_MAX,
            ..LoadPlan::single(prefix, tool, 8, 1)
        };
        let attempts = self.run(&plan);
        let is_done = |attempt: &&CallAttempt| matches!(attempt.answer, ClientAnswer::Done { .. });
        let done = attempts.iter().filter(is_done).count();
        assert_eq!(done, 8, "{attempts:#?}\n{}", self.cluster.logs());
    }

    fn await_ready(&mut self) {
        self.runtime.block_on(self.cluster.await_ready()).unwrap();
    }

    /// Checks that nothing was half done.
    fn finish(self) {
        await_outcomes(&self.cluster);
        let history = collect(&self.cluster, self.record, None);
        print_summary(&history, self.start.elapsed().as_secs_f64());
        assert_clean(&history, &self.cluster, &[]);
    }
}

#[test]
#[ignore = "needs nats-server and caddy: .ci/cluster"]
fn stores_without_quorum_refuse_calls_until_they_are_back() {
    let mut run = StoreRun::start(&ClusterPlan::default());
    run.assert_recovered("before", TestTool::Effect);
    for index in [1, 2] {
        run.cluster.servers[index].kill();
    }
    run.assert_refused("minority", TestTool::Effect);
    run.assert_refused("minority-read", TestTool::Read);
    run.cluster.start_all().unwrap();
    run.await_ready();
    run.assert_recovered("quorum", TestTool::Effect);

    for server in &mut run.cluster.servers {
        server.kill();
    }
    run.assert_refused("none", TestTool::Effect);
    run.cluster.start_all().unwrap();
    run.await_ready();
    run.assert_recovered("back", TestTool::Effect);
    run.finish();
}

#[test]
#[ignore = "needs nats-server and caddy: .ci/cluster"]
fn stores_that_are_slow_answer_or_refuse_in_bounded_time() {
    let mut run = StoreRun::start(&ClusterPlan::default());
    // Each server runs a tenth of the time, at times of its own.
    let done = std::sync::atomic::AtomicBool::new(false);
    let servers = std::mem::take(&mut run.cluster.servers);
    std::thread::scope(|scope| {
        let is_done = &done;
        for (index, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                let millis = Duration::from_millis;
                while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                    server.pause();
                    std::thread::sleep(millis(90 + 7 * index as u64));
                    server.resume();
                    std::thread::sleep(millis(10));
                }
            });
        }
        for prefix in ["slow-1", "slow-2", "slow-3"] {
            for attempt in run.call(prefix, TestTool::Effect) {
                let is_answered = matches!(
                    attempt.answer,
                    ClientAnswer::Done { .. } | ClientAnswer::Failed { .. }
                );
                if !is_answered || attempt.end_ms - attempt.start_ms > 2 * REFUSAL_MAX_MS {
                    is_done.store(true, std::sync::atomic::Ordering::SeqCst);
                    panic!("{attempt:#?}\n{}", run.cluster.logs());
                }
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    run.cluster.servers = servers;
    run.await_ready();
    run.assert_recovered("fast", TestTool::Effect);
    run.finish();
}

#[test]
#[ignore = "needs nats-server and caddy: .ci/cluster"]
fn stores_that_are_full_refuse_calls_until_there_is_space() {
    let mut run = StoreRun::start(&ClusterPlan::default());
    run.assert_recovered("before", TestTool::Effect);
    let mut nats = run.cluster.nats().unwrap();
    let mut set_size = |size: Option<i64>| {
        let info = nats
            .api(&format!("STREAM.INFO.{AUDIT_STREAM}"), &Value::Null)
            .unwrap();
        let mut config = info["config"].clone();
        let before = config["max_bytes"].as_i64().unwrap();
        config["max_bytes"] =
            json!(size.unwrap_or_else(|| info["state"]["bytes"].as_i64().unwrap()));
        nats.api(&format!("STREAM.UPDATE.{AUDIT_STREAM}"), &config)
            .unwrap();
        before
    };
    let before = set_size(None);
    run.assert_refused("full", TestTool::Effect);
    run.assert_refused("full-read", TestTool::Read);
    set_size(Some(before));
    run.await_ready();
    run.assert_recovered("space", TestTool::Effect);
    run.finish();
}
