//! Planted violations: the checker finds them in the history of a real cluster.

use serde_json::Value;

use super::*;
use crate::checker::Promise;
use crate::history::TestTool;
use crate::nats::{AUDIT_STREAM, NatsMessage};

/// Promises that a history breaks.
fn broken_promises(history: &RunHistory) -> Vec<Promise> {
    let mut promises: Vec<_> = check(history).iter().map(|broken| broken.promise).collect();
    promises.sort_unstable();
    promises.dedup();
    promises
}

/// Returns the calls that arrive at workers while a load runs.
fn capture_calls(
    runtime: &tokio::runtime::Runtime,
    cluster: &ClusterDeployment,
    plan: &LoadPlan,
    start: Instant,
) -> (LoadRecord, Vec<NatsMessage>) {
    let mut tap = cluster.nats().unwrap();
    tap.subscribe("mimir.worker.*.call").unwrap();
    tap.subscribe("test.end").unwrap();
    let mut control = cluster.nats().unwrap();
    std::thread::scope(|scope| {
        let calls = scope.spawn(move || {
            let mut calls = Vec::new();
            loop {
                match tap.next_message() {
                    Ok(message) if message.subject == "test.end" => return calls,
                    Ok(message) => calls.push(message),
                    // No message for some time.
                    Err(error) if error.contains("temporarily unavailable") => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let record = run_load(runtime, cluster, plan, start);
        control.publish("test.end", "", b"").unwrap();
        (record, calls.join().unwrap())
    })
}

#[test]
#[ignore = "needs nats-server and caddy: .ci/cluster"]
fn checker_finds_planted_violations_in_a_cluster() {
    let plan = ClusterPlan {
        servers: 1,
        fronts: 1,
        workers: 2,
        ..ClusterPlan::default()
    };
    let mut cluster = ClusterDeployment::start(&plan, ClusterNetwork::Loopback).unwrap();
    let runtime = runtime();
    runtime.block_on(cluster.await_ready()).unwrap();
    let start = Instant::now();
    let load = LoadPlan::mixed("planted", 8, 160, 1);
    let (record, calls) = capture_calls(&runtime, &cluster, &load, start);
    let history = collect(&cluster, record, None);
    print_summary(&history, start.elapsed().as_secs_f64());
    assert_clean(&history, &cluster, &[]);

    // A call is delivered to a second worker, as a cluster would that sends calls again without asking what has run.
    let workers: std::collections::BTreeSet<&str> =
        calls.iter().map(|call| call.subject.as_str()).collect();
    assert_eq!(workers.len(), 2, "both workers have calls: {workers:?}");
    let is_effect = |call: &&NatsMessage| {
        String::from_utf8_lossy(&call.payload).contains(TestTool::Effect.name())
    };
    let call = calls.iter().find(is_effect).unwrap();
    let other = workers
        .iter()
        .find(|worker| **worker != call.subject)
        .unwrap();
    let mut nats = cluster.nats().unwrap();
    nats.subscribe("mimir.reply.test.>").unwrap();
    // The headers without their first line.
    let headers = call.headers.lines().skip(1).filter(|line| !line.is_empty());
    let headers: String = headers.map(|line| format!("{line}\r\n")).collect();
    nats.publish_with_headers(other, "mimir.reply.test.replay", &headers, &call.payload)
        .unwrap();
    let runs = history.effects.len();
    let deadline = Instant::now() + Duration::from_secs(20);
    while cluster.effects().unwrap().len() == runs {
        assert!(
            Instant::now() < deadline,
            "the second worker did not run the call\n{}",
            cluster.logs()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    await_outcomes(&cluster);
    let replayed = RunHistory {
        record: cluster.record().unwrap(),
        effects: cluster.effects().unwrap(),
        ..history.clone()
    };
    let promises = broken_promises(&replayed);
    assert!(promises.contains(&Promise::OneRun), "{promises:?}");
    assert!(promises.contains(&Promise::AnswerOnRecord), "{promises:?}");

    // A second outcome is written into the chain of a worker, by somebody who may write to the stream.
    let messages = nats.stream_messages(AUDIT_STREAM).unwrap();
    let (writer, line) = messages
        .iter()
        .find_map(|message| {
            let text = String::from_utf8_lossy(&message.payload).into_owned();
            let line = text
                .lines()
                .find(|line| line.contains(r#""event":"call""#))?;
            Some((message.subject.clone(), line.to_owned()))
        })
        .unwrap();
    let answer = nats.request(&writer, line.as_bytes()).unwrap();
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert!(answer["error"].is_null(), "{answer}");
    let forged = RunHistory {
        record: cluster.record().unwrap(),
        verify_errors: cluster.verify_errors(),
        ..history.clone()
    };
    let promises = broken_promises(&forged);
    assert!(
        !forged.verify_errors.is_empty(),
        "`mimir audit verify` accepts a forged line"
    );
    assert!(promises.contains(&Promise::OneOutcome), "{promises:?}");
    assert!(promises.contains(&Promise::RecordVerifies), "{promises:?}");

    // A message cannot be deleted from the stream; if it were missing, the checker would find it.
    let request = serde_json::json!({"seq": messages[0].sequence, "no_erase": false});
    let deleted = nats.api(&format!("STREAM.MSG.DELETE.{AUDIT_STREAM}"), &request);
    assert!(deleted.is_err(), "{deleted:?}");
    let mut cut = history.clone();
    let at = cut
        .record
        .iter()
        .position(|line| line.kind == RecordKind::Outcome && line.position > 1);
    cut.record.remove(at.unwrap());
    let promises = broken_promises(&cut);
    assert!(promises.contains(&Promise::RecordVerifies), "{promises:?}");
}
