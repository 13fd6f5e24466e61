//! Tests of the recorded arguments.

use super::*;

const SECRET: &str = "AKIALALEMEL33243OLIB";

/// Returns arguments with a secret at the position where the audit record is cut.
fn arguments() -> Value {
    let text = format!("{} {SECRET} {}", "x".repeat(189), "y".repeat(1000));
    json!({ "text": text })
}

fn kept(bench: &Bench) -> String {
    let events = bench.audit.events.lock();
    assert_eq!(events.len(), 1);
    events[0]["arguments"]["text"].as_str().unwrap().to_owned()
}

fn logs() -> Value {
    json!({"tools": {"sample": {"audit": {"logArgs": true}}}, "limits": {"timeMs": 60_000}})
}

#[tokio::test]
async fn audit_arguments_mask_secrets_before_the_cut() {
    let bench = bench(vec![tool("sample")], logs(), ApprovalAnswer::No);
    bench.pipeline.call(call("sample", arguments())).await;
    let kept = kept(&bench);
    assert!(
        !kept.contains("AKIA") && kept.contains("[REDACTED"),
        "{kept}"
    );
    assert!(kept.len() < 300, "{kept}");
}

#[tokio::test]
async fn audit_arguments_of_a_cancelled_call_are_masked() {
    let hanging = Fake {
        hang: true,
        ..Fake::default()
    };
    let bench = bench(vec![with("sample", hanging)], logs(), ApprovalAnswer::No);
    let work = bench.pipeline.call(call("sample", arguments()));
    let over = tokio::time::timeout(Duration::from_millis(20), work).await;
    assert!(over.is_err());
    let kept = kept(&bench);
    assert!(!kept.contains("AKIA") && kept.len() < 300, "{kept}");
}
