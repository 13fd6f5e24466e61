//! Components with `wasi:keyvalue`, `wasi:config` and `wasi:logging`.

use mimir_core::ToolErrorCode;
use mimir_testkit::{Approve, json};

use super::{failure, kit, result};

#[test]
fn keyvalue_is_the_storage_of_the_tool() {
    let kit = kit("key_value");
    assert_eq!(kit.quarantined().len(), 0, "{:?}", kit.quarantined());
    let key = |key: &str| json!({ "bucket": "default", "key": key });
    assert_eq!(result(&kit, "get", key("a"))["result"], json!(null));
    kit.call(
        "put",
        json!({ "bucket": "default", "key": "a", "value": "Grüße" }),
    );
    // The values survive the instance.
    assert_eq!(result(&kit, "get", key("a"))["result"], "Grüße");
    let other = json!({ "bucket": "other", "key": "a" });
    assert_eq!(result(&kit, "get", other)["result"], json!(null));
    for number in 0..120 {
        let name = format!("n{number:03}");
        kit.call("put", json!({ "bucket": "many", "key": name, "value": "" }));
    }
    let listed = result(&kit, "list_all", json!({ "bucket": "many" }));
    let listed = listed["result"].as_array().unwrap();
    assert_eq!(
        (listed.len(), &listed[0], &listed[119]),
        (120, &json!("n000"), &json!("n119"))
    );
}

#[test]
fn keyvalue_counts_and_swaps_atomically() {
    let kit = kit("key_value");
    let by = |by: i64| json!({ "bucket": "b", "key": "n", "by": by });
    assert_eq!(result(&kit, "count", by(5))["result"], 5);
    assert_eq!(result(&kit, "count", by(-7))["result"], -2);
    // The first draft has no negative numbers.
    let (_, message) = failure(&kit, "count_first", by(1));
    assert!(message.contains("not a number"), "{message}");
    let calls: Vec<_> = (0..20)
        .map(|_| kit.start("count_first", json!({ "bucket": "b", "key": "m", "by": 1 })))
        .collect();
    kit.block_on(async {
        for call in calls.into_iter().map(tokio::spawn) {
            assert!(call.await.unwrap().is_ok());
        }
    });
    let total = json!({ "bucket": "b", "key": "m", "by": 0 });
    assert_eq!(result(&kit, "count_first", total)["result"], 20);
    let largest = json!({ "bucket": "b", "key": "n", "by": i64::MIN });
    let (_, message) = failure(&kit, "count", largest);
    assert!(message.contains("too large"), "{message}");

    let swap = |between: Option<&str>| json!({ "bucket": "b", "key": "s", "between": between, "value": "mine" });
    assert_eq!(result(&kit, "replace", swap(None))["result"], "swapped");
    assert_eq!(
        result(&kit, "replace", swap(Some("yours")))["result"],
        "changed to yours"
    );
}

#[test]
fn keyvalue_is_approved_like_storage() {
    let kit = kit("key_value").approve(Approve::Never);
    let (code, _) = failure(&kit, "get", json!({ "bucket": "b", "key": "k" }));
    assert_eq!(code, ToolErrorCode::ApprovalDenied);
    let tools = kit.tools();
    let proofs = &tools[0].origin.proofs;
    assert!(
        !proofs.iter().any(|proof| proof.contains("keeps nothing")),
        "{proofs:?}"
    );
    assert!(
        proofs
            .iter()
            .any(|proof| proof == "cannot reach the network"),
        "{proofs:?}"
    );
}

#[test]
fn keyvalue_handles_and_names_are_bounded() {
    let kit = kit("key_value");
    let (code, message) = failure(&kit, "flood", json!({}));
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
    // The separator of buckets and keys could reach the keys of another bucket.
    let (_, message) = failure(&kit, "get", json!({ "bucket": "a\u{1f}b", "key": "k" }));
    assert!(message.contains("U+001F"), "{message}");
    let long = "k".repeat(500);
    let (_, message) = failure(&kit, "get", json!({ "bucket": "b", "key": long }));
    assert!(message.contains("256"), "{message}");
}

#[test]
fn config_and_log_are_those_of_the_tool() {
    let kit = kit("config_and_log").approve(Approve::Never);
    let report = result(&kit, "report", json!({ "name": "color" }));
    assert_eq!(report["result"], " of 0");
    let lines: Vec<String> = kit.log().iter().map(|line| line.text.clone()).collect();
    assert_eq!(lines, ["report: reads color", "no context"]);
}
