//! The whole pipeline with real components.

use mimir_core::{Decision, ToolErrorCode};
use mimir_kit::Arena;
use mimir_testkit::{Approve, Testkit, json};

use crate::guests;

fn adder() -> Testkit {
    Testkit::new(guests::ADDER.path).unwrap()
}

#[test]
fn unknown_tool_error_names_the_nearest() {
    let outcome = adder().call("ad", json!({}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::NotFound);
    assert!(error.message.contains("`add`"), "{error}");
}

#[test]
fn bad_arguments_are_named_with_their_path() {
    let kit = adder();
    let outcome = kit.call("add", json!({"a": "one", "b": 1.5}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::InvalidInput);
    let paths: Vec<_> = error.details.as_ref().unwrap()["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["path"].clone())
        .collect();
    assert_eq!(paths, [json!("/a"), json!("/b")], "{error}");
    for bad in [
        json!([]),
        json!("text"),
        json!(null),
        json!({"a": 1}),
        json!({"a": 1, "b": 2_147_483_648_u64}),
    ] {
        assert_eq!(
            kit.call("add", bad).result().unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
    }
}

#[test]
fn plugin_with_file_access_asks_for_approval() {
    let kit = Testkit::new(guests::FILE_PROBE.path)
        .unwrap()
        .approve(Approve::Never);
    let outcome = kit.call("file_probe", json!({"steps": []}));
    assert_eq!(
        outcome.result().unwrap_err().code,
        ToolErrorCode::ApprovalDenied
    );
    let cards = kit.cards();
    assert_eq!(cards.len(), 1);
    assert!(
        cards[0]
            .grants
            .iter()
            .any(|grant| grant.contains("read and write the workspace")),
        "{cards:?}"
    );
    assert_eq!(cards[0].digest.len(), 64);
}

#[test]
fn plugin_that_only_computes_needs_no_grant() {
    let kit = adder().approve(Approve::Nobody);
    assert!(kit.call("add", json!({"a": 1, "b": 2})).is_ok());
    assert!(kit.cards().is_empty());
}

#[test]
fn approval_without_a_person_is_denied_with_a_remedy() {
    let kit = Testkit::new(guests::FILE_PROBE.path)
        .unwrap()
        .approve(Approve::Nobody);
    let outcome = kit.call("file_probe", json!({"steps": []}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
    assert!(!error.message.contains("no person to ask"), "{error}");
    let way_out = error.remedies.join("\n");
    for way in ["no person to ask", "mimir tools trust file_probe"] {
        assert!(way_out.contains(way), "{way_out}");
    }
}

#[test]
fn policy_denies_before_anything_runs() {
    for config in [
        json!({"policy": {"deny": ["infinite_loop"]}}),
        json!({"policy": {"allow": ["echo"]}}),
        json!({"policy": {"groups": {"deny": ["system"]}}}),
        json!({"tools": {"infinite_loop": {"enabled": false}}}),
        json!({"tools": {"infinite_loop": {"approval": "always_deny"}}}),
    ] {
        let kit = Testkit::new(guests::INFINITE_LOOP.path)
            .unwrap()
            .settings(config)
            .unwrap();
        let outcome = kit.call("infinite_loop", json!({}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
        assert_eq!(outcome.receipt().fuel, None, "it did not run");
        assert!(kit.cards().is_empty(), "denied calls need no approval");
        assert_eq!(kit.events().last().unwrap().decision, Some(Decision::Deny));
    }
}

#[test]
fn audit_event_of_a_call_has_its_cost() {
    let arena = Arena::new(guests::INFINITE_LOOP).limits(json!({"timeMs": 1_000}));
    let before = arena.kit().events().len();
    arena.call(json!({}));
    let events = arena.kit().events();
    let event = &events[before];
    assert_eq!(
        (event.tool.as_str(), event.code),
        ("infinite_loop", Some(ToolErrorCode::Timeout))
    );
    assert!(
        event.fuel > Some(0) && event.peak_memory > Some(0) && event.duration_ms >= Some(300.0),
        "{event:?}"
    );
    assert_eq!(event.digest.as_ref().map(String::len), Some(64));
}

#[test]
fn receipt_counts_bytes_tokens_fuel_and_memory() {
    let kit = Testkit::new(guests::ECHO.path).unwrap();
    let outcome = kit.call("echo", json!({"text": "x".repeat(1000)}));
    let receipt = outcome.receipt();
    assert!(
        receipt.bytes_in >= 1000 && receipt.bytes_out >= 1000,
        "{receipt:?}"
    );
    assert!(
        receipt.tokens >= 100 && receipt.tokens <= 1000,
        "{receipt:?}"
    );
    assert!(
        receipt.fuel > Some(1000) && receipt.peak_memory >= Some(64 << 10),
        "{receipt:?}"
    );
}

#[test]
fn output_that_is_too_long_is_cut_and_marked() {
    let kit = Testkit::new(guests::ECHO.path)
        .unwrap()
        .settings(json!({"limits": {"outputChars": 100}}))
        .unwrap();
    let outcome = kit.call("echo", json!({"text": "ä".repeat(1000)}));
    assert!(outcome.is_ok() && outcome.truncated());
    assert!(outcome.text().contains("[cut"), "{}", outcome.text());
    assert!(outcome.text().chars().count() < 200);
}

#[test]
fn output_bytes_of_a_component_are_limited_by_count() {
    let kit = |limits| {
        let kit = Testkit::new(guests::LIFTED_BYTES.path).unwrap();
        kit.settings(json!({ "limits": limits })).unwrap()
    };
    let chars = 16 << 20;
    let call = |kit: &Testkit, count: usize| kit.call("lifted_bytes", json!({ "count": count }));
    let whole = |kit: &Testkit, count: usize| {
        let outcome = call(kit, count);
        let output = outcome.result().unwrap();
        let text = output.structured.as_ref().unwrap()["result"].as_str();
        assert_eq!(text.unwrap().len(), count.div_ceil(3) * 4);
        assert!(!outcome.truncated());
    };
    let default = kit(json!({ "outputChars": chars }));
    // Parsed as values they would need more memory than the guest itself may use.
    whole(&default, 8 << 20);
    let outcome = call(&default, 16 << 20);
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
    assert!(error.message.contains("limits.outputBytes"), "{error}");

    let narrow = kit(json!({ "outputBytes": 1 << 20 }));
    for count in [1 << 20, 2 << 20] {
        let outcome = call(&narrow, count);
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
        assert!(error.message.contains("limits.outputBytes"), "{error}");
    }
}

#[test]
fn calls_per_minute_are_counted() {
    let config = json!({"tools": {"add": {"limits": {"callsPerMinute": 2}}}});
    let kit = adder().settings(config).unwrap();
    let codes: Vec<_> = (0..3)
        .map(|_| {
            kit.call("add", json!({"a": 1, "b": 1}))
                .result()
                .err()
                .map(|e| e.code)
        })
        .collect();
    assert_eq!(codes, [None, None, Some(ToolErrorCode::LimitExceeded)]);
}
