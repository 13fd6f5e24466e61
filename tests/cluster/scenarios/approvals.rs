//! Approvals that are asked in one replica and answered from a terminal: one answer wins, and counts for one call.

use serde_json::{Value, json};

use super::*;
use crate::client::{ClientGeneration, McpClient, ToolRequest};
use crate::history::{CallAttempt, TestTool};

/// Number of calls that wait at the same time.
const CALLS: usize = 6;

#[test]
#[ignore = "needs nats-server and caddy: .ci/cluster"]
fn approvals_are_answered_once_from_the_terminal() {
    let plan = ClusterPlan {
        servers: 1,
        fronts: 2,
        workers: 2,
        waits_for_answers: true,
        ..ClusterPlan::default()
    };
    let mut cluster = ClusterDeployment::start(&plan, ClusterNetwork::Loopback).unwrap();
    let runtime = runtime();
    runtime.block_on(cluster.await_ready()).unwrap();
    let start = Instant::now();
    let calls = (0..CALLS).map(|number| {
        let target = cluster.front(number % 2);
        let generation = match number % 3 {
            0 => ClientGeneration::Sessions,
            _ => ClientGeneration::Stateless,
        };
        runtime.spawn(call_without_forms(number, target, generation, start))
    });
    let calls: Vec<_> = calls.collect();
    let mut answers = BTreeMap::new();
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    while answers.len() < CALLS {
        assert!(
            Instant::now() < deadline,
            "only {answers:?} were asked\n{}",
            cluster.logs()
        );
        let shown = cluster.admin(&["approvals", "pending", "--json"]).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        for question in shown["questions"].as_array().unwrap() {
            let text = question.to_string();
            let operation = (0..CALLS)
                .map(operation_of)
                .find(|operation| text.contains(operation));
            let operation = operation.unwrap_or_else(|| panic!("an unknown question: {text}"));
            let id = question["id"].as_str().unwrap();
            // Two people answer at the same time.
            let results = std::thread::scope(|scope| {
                let people = ["once", "once"].map(|answer| {
                    let cluster = &cluster;
                    scope
                        .spawn(move || cluster.admin(&["approvals", "answer", id, answer, "--yes"]))
                });
                people.map(|person| person.join().unwrap())
            });
            let accepted = results.iter().filter(|result| result.is_ok()).count();
            assert_eq!(accepted, 1, "one answer wins: {results:?}");
            answers.insert(operation, 1);
        }
    }
    let mut attempts = Vec::new();
    for call in calls {
        attempts.push(runtime.block_on(call).unwrap());
    }
    for attempt in &attempts {
        assert!(
            matches!(attempt.answer, ClientAnswer::Done { .. }),
            "{attempt:#?}\n{}",
            cluster.logs()
        );
    }
    let record = LoadRecord {
        attempts,
        answers,
        ..LoadRecord::default()
    };
    let history = collect(&cluster, record, None);
    assert_eq!(history.effects.len(), CALLS);
    assert_clean(&history, &cluster, &[]);
}

fn operation_of(number: usize) -> String {
    format!("asked-{number}-end")
}

/// Makes a call whose client has no forms, so that it waits for an answer from elsewhere.
async fn call_without_forms(
    number: usize,
    target: crate::http::HttpTarget,
    generation: ClientGeneration,
    start: Instant,
) -> CallAttempt {
    let mut client = McpClient::without_forms(target, generation);
    client.initialize().await.unwrap();
    let operation = operation_of(number);
    let request = ToolRequest {
        tool: TestTool::Approved,
        arguments: json!({"operation": operation}),
        trace: format!("{:032x}", 0xa000 + number),
    };
    let response = client.call(&request).await;
    CallAttempt {
        client: number,
        session: client.session().to_owned(),
        tool: TestTool::Approved,
        operation,
        trace: request.trace,
        start_ms: 0,
        end_ms: u64::try_from(start.elapsed().as_millis()).unwrap(),
        answer: response.answer,
    }
}
