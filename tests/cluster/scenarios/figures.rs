//! Figures of a cluster on this machine, each compared with the same cores without NATS in the same run.
//!
//! They mean something only with an optimized program: set MIMIR_TEST_PROGRAM.

use serde_json::{Value, json};

use super::*;
use crate::client::{ClientGeneration, McpClient, ToolRequest};
use crate::history::TestTool;
use crate::http::HttpTarget;

/// The plan of all figures: with the default limits, since a limit of all processes together costs messages of its own.
fn measured_plan() -> ClusterPlan {
    ClusterPlan {
        has_default_limits: true,
        ..ClusterPlan::default()
    }
}

/// Calls that the figures are made of: name, tool, arguments.
fn measured_calls() -> [(&'static str, TestTool, Value); 3] {
    [
        ("read_file", TestTool::Read, json!({"path": "notes.md"})),
        (
            "a script, announced",
            TestTool::Work,
            json!({"rounds": 1000}),
        ),
        (
            "a script that computes",
            TestTool::Work,
            json!({"rounds": 300_000}),
        ),
    ]
}

fn request(tool: TestTool, arguments: &Value, count: u64) -> ToolRequest {
    ToolRequest {
        tool,
        arguments: arguments.clone(),
        trace: format!("{:032x}", count + 1),
    }
}

/// Times of calls of one client, one after the other, in milliseconds.
async fn call_times(
    client: &mut McpClient,
    tool: TestTool,
    arguments: &Value,
    calls: u64,
) -> Vec<f64> {
    let mut times = Vec::new();
    for count in 0..calls {
        let start = Instant::now();
        let response = client.call(&request(tool, arguments, count)).await;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        assert!(
            matches!(response.answer, ClientAnswer::Done { .. }),
            "{response:?}"
        );
    }
    times
}

/// Calls per second of some clients at once, spread over all fronts.
async fn call_rate(
    targets: &[HttpTarget],
    clients: usize,
    tool: TestTool,
    arguments: &Value,
    duration: Duration,
) -> f64 {
    let start = Instant::now();
    let tasks = (0..clients).map(|number| {
        let mut client = McpClient::new(
            targets[number % targets.len()].clone(),
            ClientGeneration::Sessions,
        );
        let arguments = arguments.clone();
        tokio::spawn(async move {
            client.initialize().await.unwrap();
            let mut done = 0u64;
            while start.elapsed() < duration {
                let response = client.call(&request(tool, &arguments, done)).await;
                assert!(
                    matches!(response.answer, ClientAnswer::Done { .. }),
                    "{response:?}"
                );
                done += 1;
            }
            done
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    done as f64 / start.elapsed().as_secs_f64()
}

fn percentile(times: &mut [f64], part: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    let at = (times.len() as f64 * part) as usize;
    times[at.min(times.len() - 1)]
}

fn start(plan: &ClusterPlan, runtime: &tokio::runtime::Runtime) -> ClusterDeployment {
    let mut cluster = ClusterDeployment::start(plan, ClusterNetwork::Loopback).unwrap();
    runtime.block_on(cluster.await_ready()).unwrap();
    cluster
}

fn targets(cluster: &ClusterDeployment) -> Vec<HttpTarget> {
    (0..cluster.fronts.len())
        .map(|index| cluster.front(index))
        .collect()
}

/// The latency that front, NATS and worker add to a call.
#[test]
#[ignore = "figures: .ci/cluster figures"]
fn figures_latency_added_by_front_nats_and_worker() {
    let runtime = runtime();
    let local = start(
        &ClusterPlan {
            servers: 0,
            fronts: 1,
            workers: 0,
            ..measured_plan()
        },
        &runtime,
    );
    println!(
        "| call | servers | local p50 | p99 | pool p50 | p99 | added p50 | p99 |\n|---|---|---|---|---|---|---|---|"
    );
    for servers in [1, 3] {
        let pool = start(
            &ClusterPlan {
                servers,
                fronts: 1,
                workers: 1,
                ..measured_plan()
            },
            &runtime,
        );
        for (name, tool, arguments) in measured_calls() {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            runtime.block_on(async {
                let client = |cluster: &ClusterDeployment| {
                    McpClient::new(cluster.front(0), ClientGeneration::Stateless)
                };
                let (mut here, mut there) = (client(&local), client(&pool));
                call_times(&mut here, tool, &arguments, 50).await;
                call_times(&mut there, tool, &arguments, 50).await;
                // In turns, so that the noise of the machine meets both.
                for _ in 0..20 {
                    one.extend(call_times(&mut here, tool, &arguments, 50).await);
                    other.extend(call_times(&mut there, tool, &arguments, 50).await);
                }
            });
            let mut at = |part: f64| (percentile(&mut one, part), percentile(&mut other, part));
            let ((local50, pool50), (local99, pool99)) = (at(0.5), at(0.99));
            println!(
                "| {name} | {servers} | {local50:.2} ms | {local99:.2} ms | {pool50:.2} ms | {pool99:.2} ms | {:.2} ms | {:.2} ms |",
                pool50 - local50,
                pool99 - local99
            );
        }
    }
}

/// Four fronts and four workers, compared with four servers on the same cores.
#[test]
#[ignore = "figures: .ci/cluster figures"]
fn figures_throughput_of_four_fronts_and_four_workers() {
    let runtime = runtime();
    let plan = |servers, workers| ClusterPlan {
        servers,
        fronts: 4,
        workers,
        ..measured_plan()
    };
    println!(
        "| call | NATS servers | without NATS | replicas | pool | replicas, share | pool, share |\n|---|---|---|---|---|---|---|"
    );
    let alone = start(&plan(0, 0), &runtime);
    for servers in [1, 3] {
        let replicas = start(&plan(servers, 0), &runtime);
        let pool = start(&plan(servers, 4), &runtime);
        for (name, tool, arguments) in measured_calls() {
            let rate = |cluster: &ClusterDeployment| {
                let targets = targets(cluster);
                let duration = Duration::from_secs(2);
                runtime.block_on(call_rate(&targets, 32, tool, &arguments, duration))
            };
            let mut rates = [0.0; 3];
            // In turns.
            for _ in 0..3 {
                for (sum, cluster) in rates.iter_mut().zip([&alone, &replicas, &pool]) {
                    *sum += rate(cluster) / 3.0;
                }
            }
            let [alone, replicas, pool] = rates;
            println!(
                "| {name} | {servers} | {alone:.0}/s | {replicas:.0}/s | {pool:.0}/s | {:.2} | {:.2} |",
                replicas / alone,
                pool / alone
            );
        }
    }
}

/// One and two workers, each on a CPU of its own.
#[test]
#[ignore = "figures: .ci/cluster figures"]
fn figures_scaling_with_workers() {
    let runtime = runtime();
    println!("| call | 1 worker | 2 workers | ratio |\n|---|---|---|---|");
    let plan = |workers| ClusterPlan {
        servers: 1,
        fronts: 1,
        workers,
        pinned: true,
        ..measured_plan()
    };
    let (one, two) = (start(&plan(1), &runtime), start(&plan(2), &runtime));
    for (name, tool, arguments) in [
        ("20 ms", TestTool::Work, json!({"rounds": 300_000})),
        ("200 ms", TestTool::Work, json!({"rounds": 3_000_000})),
    ] {
        let rate = |cluster: &ClusterDeployment| {
            let targets = targets(cluster);
            let duration = Duration::from_secs(5);
            runtime.block_on(call_rate(&targets, 16, tool, &arguments, duration))
        };
        let (mut single, mut double) = (0.0, 0.0);
        for _ in 0..2 {
            single += rate(&one) / 2.0;
            double += rate(&two) / 2.0;
        }
        println!(
            "| {name} | {single:.1}/s | {double:.1}/s | {:.2} |",
            double / single
        );
    }
}

/// CPU time of each part for a call: the inputs of the simulation.
#[test]
#[ignore = "figures: .ci/cluster figures"]
fn figures_cpu_time_of_each_part() {
    let runtime = runtime();
    println!("| call | front | worker | NATS, leader | NATS, all three |\n|---|---|---|---|---|");
    let cluster = start(
        &ClusterPlan {
            fronts: 1,
            workers: 1,
            ..measured_plan()
        },
        &runtime,
    );
    let targets = targets(&cluster);
    let used = || {
        let total = |processes: &[crate::processes::ManagedProcess]| -> Vec<f64> {
            processes
                .iter()
                .map(crate::processes::ManagedProcess::cpu_ms)
                .collect()
        };
        [
            total(&cluster.fronts),
            total(&cluster.workers),
            total(&cluster.servers),
        ]
    };
    for (name, tool, arguments) in measured_calls() {
        let before = used();
        let duration = Duration::from_secs(10);
        let rate = runtime.block_on(call_rate(&targets, 8, tool, &arguments, duration));
        let calls = rate * duration.as_secs_f64();
        let after = used();
        let spent = |part: usize| -> Vec<f64> {
            let pairs = before[part].iter().zip(&after[part]);
            pairs
                .map(|(before, after)| (after - before) / calls)
                .collect()
        };
        let (front, worker, servers) = (spent(0), spent(1), spent(2));
        let busiest = servers.iter().copied().fold(0.0, f64::max);
        println!(
            "| {name} | {:.3} ms | {:.3} ms | {busiest:.3} ms | {:.3} ms |",
            front[0],
            worker[0],
            servers.iter().sum::<f64>()
        );
    }
}

/// Time and CPU time of messages that the audit stream stores.
#[test]
#[ignore = "figures: .ci/cluster figures"]
fn figures_stored_messages() {
    println!("| servers | message | p50 | p99 | CPU of the leader |\n|---|---|---|---|---|");
    for servers in [1, 3] {
        let plan = ClusterPlan {
            servers,
            fronts: 0,
            workers: 0,
            ..measured_plan()
        };
        let cluster = ClusterDeployment::start(&plan, ClusterNetwork::Loopback).unwrap();
        let mut nats = cluster.nats().unwrap();
        let stream = json!({"name": "TEST", "subjects": ["test.x"], "storage": "file",
            "num_replicas": servers});
        nats.api("STREAM.CREATE.TEST", &stream).unwrap();
        nats.await_streams(SETTLE_TIMEOUT).unwrap();
        for size in [1 << 10, 16 << 10] {
            let message = vec![b'x'; size];
            let before: Vec<f64> = cluster
                .servers
                .iter()
                .map(|server| server.cpu_ms())
                .collect();
            let mut times = Vec::new();
            for _ in 0..2000 {
                let start = Instant::now();
                nats.request("test.x", &message).unwrap();
                times.push(start.elapsed().as_secs_f64() * 1000.0);
            }
            let used = cluster
                .servers
                .iter()
                .zip(before)
                .map(|(server, before)| server.cpu_ms() - before);
            let leader = used.fold(0.0, f64::max) / times.len() as f64;
            println!(
                "| {servers} | {size} bytes | {:.3} ms | {:.3} ms | {leader:.3} ms |",
                percentile(&mut times, 0.5),
                percentile(&mut times, 0.99)
            );
        }
    }
}
