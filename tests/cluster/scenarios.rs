//! The runs with processes: faults under load, stores that fail, and planted violations that the checker must find.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::checker::check;
use crate::deployment::{ClusterDeployment, ClusterPlan};
use crate::faults::FaultInjector;
use crate::history::{ClientAnswer, RecordKind, RunHistory};
use crate::load::{LoadPlan, LoadRecord, RunningLoad};
use crate::network::ClusterNetwork;

mod approvals;
mod faults;
mod figures;
mod harness;
mod planted;
mod stores;
mod switch;

/// Time until the writers of lost nodes are closed, and until processes answer again.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the number of a variable, or a default.
fn number(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

/// Returns the seed of the run.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number("MIMIR_TEST_SEED", now.map_or(1, |since| since.as_secs()));
    println!("seed {seed}: repeat with MIMIR_TEST_SEED={seed}");
    seed
}

/// Creates the network of the run, and says what is left out without namespaces.
fn network(machines: usize) -> ClusterNetwork {
    let network = ClusterNetwork::create(machines).unwrap();
    if network == ClusterNetwork::Loopback {
        println!(
            "NOT RUN: machines that are cut off, since network namespaces are missing (run .ci/cluster as root)"
        );
    }
    network
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Runs a load without faults to its end.
fn run_load(
    runtime: &tokio::runtime::Runtime,
    cluster: &ClusterDeployment,
    plan: &LoadPlan,
    start: Instant,
) -> LoadRecord {
    let target = cluster.target();
    runtime
        .block_on(async { RunningLoad::start(plan, &target, start).finish().await })
        .unwrap()
}

/// Runs a load while an injector works.
fn run_load_with_faults(
    runtime: &tokio::runtime::Runtime,
    cluster: &mut ClusterDeployment,
    plan: &LoadPlan,
    start: Instant,
    injector: &mut FaultInjector,
) -> LoadRecord {
    let target = cluster.target();
    let load = runtime.block_on(async { RunningLoad::start(plan, &target, start) });
    let mut shown = 0;
    while !load.is_finished() {
        injector.step(cluster).unwrap();
        let ended = load.ended_operations();
        if ended >= shown + 1000 {
            shown = ended - ended % 1000;
            println!("{:6} ms: {ended} operations", start.elapsed().as_millis());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    injector.heal_all(cluster).unwrap();
    runtime.block_on(load.finish()).unwrap()
}

/// Waits until all writers of lost nodes are closed: each announced call has an outcome.
fn await_outcomes(cluster: &ClusterDeployment) {
    let start = Instant::now();
    loop {
        let record = cluster.record().unwrap();
        let mut open: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for line in &record {
            let is_open = match line.kind {
                RecordKind::Announced => true,
                RecordKind::Outcome => false,
                RecordKind::Closed | RecordKind::Other => continue,
            };
            open.insert((&line.writer, &line.id), is_open);
        }
        let open = open.values().filter(|is_open| **is_open).count();
        if open == 0 {
            return;
        }
        // The checker names the calls.
        if start.elapsed() > SETTLE_TIMEOUT {
            println!("{open} announced calls have no outcome after {SETTLE_TIMEOUT:?}");
            return;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Collects the history of a run whose cluster is quiet.
fn collect(
    cluster: &ClusterDeployment,
    load: LoadRecord,
    calls_per_minute: Option<usize>,
) -> RunHistory {
    RunHistory {
        attempts: load.attempts,
        record: cluster.record().unwrap(),
        effects: cluster.effects().unwrap(),
        answers: load.answers,
        calls_per_minute,
        verify_errors: cluster.verify_errors(),
    }
}

/// Checks a history, and shows everything that helps to explain a violation.
fn assert_clean(history: &RunHistory, cluster: &ClusterDeployment, faults: &[String]) {
    let broken = check(history);
    if broken.is_empty() {
        return;
    }
    for fault in faults {
        println!("{fault}");
    }
    for one in broken.iter().take(20) {
        println!("{one}");
    }
    if let Some(folder) = std::env::var_os("MIMIR_TEST_REPORT") {
        let folder = std::path::PathBuf::from(folder);
        let mut lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
        lines.extend(faults.iter().cloned());
        lines.extend(
            history
                .attempts
                .iter()
                .map(|attempt| format!("{attempt:?}")),
        );
        lines.extend(history.record.iter().map(|line| format!("{line:?}")));
        lines.extend(history.effects.iter().map(|effect| format!("{effect:?}")));
        let text = lines.join("\n");
        let _ = std::fs::create_dir_all(&folder);
        let _ = std::fs::write(folder.join("history.txt"), text);
        cluster.copy_logs(&folder);
    }
    println!("{}", cluster.logs());
    panic!("{} promises were broken", broken.len());
}

/// Prints what clients have seen.
fn print_summary(history: &RunHistory, seconds: f64) {
    let mut results: BTreeMap<String, usize> = BTreeMap::new();
    for attempt in &history.attempts {
        let result = match &attempt.answer {
            ClientAnswer::Done { .. } => "done".to_owned(),
            ClientAnswer::Failed {
                code, may_have_run, ..
            } => match may_have_run {
                true => format!("{code}, may have run"),
                false => code.clone(),
            },
            ClientAnswer::Rejected(text) => text.chars().take(60).collect(),
            ClientAnswer::Unknown(text) => text.chars().take(60).collect(),
        };
        *results.entry(result).or_default() += 1;
    }
    let mut times: Vec<u64> = (history.attempts.iter())
        .filter(|attempt| matches!(attempt.answer, ClientAnswer::Done { .. }))
        .map(|attempt| attempt.end_ms - attempt.start_ms)
        .collect();
    times.sort_unstable();
    let at = |part: f64| {
        let index = (times.len() as f64 * part) as usize;
        times
            .get(index.min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    };
    println!(
        "{} attempts in {seconds:.1} s ({:.0}/s); done in ms: p50 {}, p99 {}, max {}",
        history.attempts.len(),
        history.attempts.len() as f64 / seconds,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let mut by_tool: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for attempt in &history.attempts {
        let time = attempt.end_ms - attempt.start_ms;
        let tool = by_tool.entry(attempt.tool.name()).or_default();
        *tool = (tool.0 + 1, tool.1.max(time));
    }
    for (tool, (count, max)) in by_tool {
        println!("  {count:6} {tool}, at most {max} ms");
    }
    for (result, count) in results {
        println!("  {count:6} {result}");
    }
    let count = |kind: RecordKind| {
        history
            .record
            .iter()
            .filter(|line| line.kind == kind)
            .count()
    };
    let writers: std::collections::BTreeSet<&str> = history
        .record
        .iter()
        .map(|line| line.writer.as_str())
        .collect();
    println!(
        "record: {} writers, {} announced, {} outcomes, {} closed; {} effects, {} approvals",
        writers.len(),
        count(RecordKind::Announced),
        count(RecordKind::Outcome),
        count(RecordKind::Closed),
        history.effects.len(),
        history.answers.len()
    );
}
