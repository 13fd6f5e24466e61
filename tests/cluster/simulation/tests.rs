//! The simulation against known results, and the question of the issue.

use super::*;

/// The measured times.
fn measured() -> MeasuredTimes {
    serde_json::from_str(include_str!("measured.json")).unwrap()
}

fn cluster() -> SimulatedCluster {
    SimulatedCluster {
        agents: 200,
        think_ms: 6000.0,
        fronts: 8,
        workers: 100,
        cores: 8,
        servers: 3,
        duration_ms: 60_000.0,
    }
}

#[test]
fn simulation_of_one_queue_matches_the_formula() {
    // One front that takes 1 ms, and nothing else: a closed queue of two agents with a thinking time of 1 ms. With
    // exponential thinking and constant service, the front is busy for e^-1 + ... of the time: mean value analysis of
    // the same queue with exponential service gives 0.8, and constant service must be a little above.
    let mut times = measured();
    for time in [
        &mut times.pipeline_ms,
        &mut times.message_ms,
        &mut times.append_ms,
        &mut times.line_ms,
        &mut times.replication_ms,
        &mut times.state_request_ms,
        &mut times.network_ms,
    ] {
        *time = 0.0;
    }
    for tool in &mut times.tools {
        tool.cpu_ms = vec![0.0];
        tool.wait_ms = vec![0.0];
    }
    times.front_ms = 1.0;
    let cluster = SimulatedCluster {
        agents: 2,
        think_ms: 1.0,
        fronts: 1,
        duration_ms: 20_000.0,
        ..cluster()
    };
    let load = simulate(&times, cluster, 1);
    let busy = load.busy["fronts"];
    assert!((0.75..0.9).contains(&busy), "{load:?}");
    // Little's law: agents = throughput x (thinking + response).
    let mean_cycle = 2.0 / (load.calls_per_second / 1000.0);
    assert!((mean_cycle - 2.0 / busy).abs() < 0.1, "{load:?}");
}

#[test]
fn simulation_is_repeatable() {
    let times = measured();
    let load = |seed| {
        simulate(
            &times,
            SimulatedCluster {
                duration_ms: 5000.0,
                ..cluster()
            },
            seed,
        )
    };
    assert_eq!(load(7).calls_per_second, load(7).calls_per_second);
    assert_eq!(load(7).overhead_ms, load(7).overhead_ms);
}

#[test]
fn simulation_of_few_agents_has_no_queues() {
    let times = measured();
    let load = simulate(&times, cluster(), 1);
    let (name, busy) = load.bottleneck();
    assert!(busy < 0.5, "{name} is busy: {load:?}");
    // Each agent calls once in its thinking time.
    let expected = 200.0 / 6.0;
    assert!(
        (load.calls_per_second / expected - 1.0).abs() < 0.2,
        "{load:?}"
    );
}

/// Prints the table of the issue: the busiest part as agents are added, and the number at which it is full.
#[test]
#[ignore = "takes a minute: .ci/cluster simulate"]
fn simulation_of_100_workers_finds_the_next_bottleneck() {
    let times = measured();
    println!("estimates, not measured: {}", times.estimates.join(", "));
    println!(
        "| part | CPU time of a call | calls/s of a core that is busy for 70 % |\n|---|---|---|"
    );
    for (part, ms) in times.part_times() {
        println!("| {part} | {ms:.3} ms | {:.0} |", 700.0 / ms);
    }
    println!("| agents | workers | calls/s | overhead p50 | p99 | busiest | all parts |");
    println!("|---|---|---|---|---|---|---|");
    let mut last = None;
    // With more workers, the next part shows.
    for (agents, workers) in [
        (100, 100),
        (1_000, 100),
        (5_000, 100),
        (10_000, 100),
        (20_000, 100),
        (40_000, 100),
        (40_000, 400),
        (80_000, 400),
    ] {
        let cluster = SimulatedCluster {
            agents,
            workers,
            duration_ms: if agents > 10_000 { 10_000.0 } else { 20_000.0 },
            ..cluster()
        };
        let load = simulate(&times, cluster, 1);
        let (name, busy) = load.bottleneck();
        let parts = load
            .busy
            .iter()
            .map(|(name, busy)| format!("{name} {:.1} %", busy * 100.0));
        println!(
            "| {agents} | {workers} | {:.0} | {:.2} ms | {:.2} ms | {name} {:.0} % | {} |",
            load.calls_per_second,
            load.overhead_ms.0,
            load.overhead_ms.1,
            busy * 100.0,
            parts.collect::<Vec<_>>().join(", ")
        );
        last = Some((name, busy));
    }
    let (name, busy) = last.unwrap();
    println!(
        "the first part that is full: {name} ({:.0} % busy)",
        busy * 100.0
    );
    assert!(
        busy > 0.9,
        "no part is full, so that the bottleneck is not known"
    );
}
