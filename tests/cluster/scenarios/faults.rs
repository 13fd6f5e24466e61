//! Load with faults: the test of the issue.

use std::collections::BTreeSet;
use std::time::Instant;

use super::*;

/// Calls per minute of the limited tool: fewer than the load makes.
const CALLS_PER_MINUTE: usize = 60;

#[test]
#[ignore = "needs nats-server, caddy and network namespaces: .ci/cluster"]
fn cluster_keeps_its_promises_under_faults() {
    let seed = seed();
    let plan = ClusterPlan {
        calls_per_minute: Some(CALLS_PER_MINUTE),
        ..ClusterPlan::default()
    };
    let mut cluster = ClusterDeployment::start(&plan, network(plan.servers)).unwrap();
    let runtime = runtime();
    runtime.block_on(cluster.await_ready()).unwrap();
    let start = Instant::now();
    let operations = usize::try_from(number("MIMIR_TEST_CALLS", 10_000)).unwrap();
    let load = LoadPlan::mixed("load", 64, operations, seed);
    let mut injector = FaultInjector::new(seed, start);
    let mut record = run_load_with_faults(&runtime, &mut cluster, &load, start, &mut injector);
    let seconds = start.elapsed().as_secs_f64();
    runtime.block_on(cluster.await_ready()).unwrap();

    // Healed: everything works again, at once.
    let after = LoadPlan::mixed("after", 16, 160, seed + 1);
    let healed = run_load(&runtime, &cluster, &after, start);
    let refused: Vec<_> = (healed.attempts.iter())
        .filter(|attempt| {
            !attempt.tool.has_effect() || attempt.tool == crate::history::TestTool::Effect
        })
        .filter(|attempt| !matches!(attempt.answer, ClientAnswer::Done { .. }))
        .collect();
    let is_healed = refused.is_empty();
    if !is_healed {
        println!("not answered after everything was healed: {refused:#?}");
    }
    record.attempts.extend(healed.attempts.clone());
    record.answers.extend(healed.answers);
    await_outcomes(&cluster);
    let history = collect(&cluster, record, plan.calls_per_minute);
    let [killed, paused, drained, cut_off] = injector.counts;
    println!(
        "faults: {killed} killed, {paused} paused, {drained} drained, {cut_off} cut off; {} ended by themselves",
        injector.restarted
    );
    print_summary(&history, seconds);
    assert_clean(&history, &cluster, &injector.log);
    assert!(is_healed, "calls were refused after everything was healed");

    let operations: BTreeSet<&str> = history
        .attempts
        .iter()
        .map(|attempt| attempt.operation.as_str())
        .collect();
    let done = history
        .attempts
        .iter()
        .filter(|attempt| matches!(attempt.answer, ClientAnswer::Done { .. }));
    let done: BTreeSet<&str> = done.map(|attempt| attempt.operation.as_str()).collect();
    let share = done.len() as f64 / operations.len() as f64;
    println!(
        "{:.1} % of {} operations were done",
        share * 100.0,
        operations.len()
    );
    assert!(share > 0.8, "too few operations were done");
    let hung = history.attempts.iter().filter(
        |attempt| matches!(&attempt.answer, ClientAnswer::Unknown(text) if text == "no answer in time"),
    );
    let hung: Vec<_> = hung.collect();
    assert!(hung.is_empty(), "calls without an answer: {hung:#?}");
    assert!(
        injector.undrained.is_empty(),
        "processes did not end when they were asked to: {}",
        injector.undrained.join(
            "
"
        )
    );
}
