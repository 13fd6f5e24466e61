//! Components that export resources.

use mimir_core::ToolErrorCode;
use mimir_testkit::json;

use super::{failure, kit, result};

#[test]
fn resource_is_one_tool_with_actions() {
    let kit = kit("bank_account");
    let names: Vec<String> = kit
        .tools()
        .iter()
        .map(|tool| tool.name().to_string())
        .collect();
    assert_eq!(
        names,
        ["account", "safe", "static_account_bank_name"],
        "{names:?}"
    );
    let answer = result(
        &kit,
        "account",
        json!({
            "new": { "owner": "Ada", "balance": 10 },
            "actions": [
                { "action": "deposit", "arguments": { "amount": 5 } },
                { "action": "withdraw", "arguments": { "amount": 12 } },
                { "action": "history" },
                { "action": "clear" },
                { "action": "history", "arguments": {} }
            ]
        }),
    );
    let history = json!([
        { "label": "deposit", "amount": 5 }, { "label": "withdrawal", "amount": -12 }
    ]);
    assert_eq!(answer["results"], json!([15, 3, history, null, []]));
    let dropped = kit.log();
    assert!(
        dropped.iter().any(|line| line.text == "Ada is closed"),
        "{dropped:?}"
    );
    assert_eq!(
        result(&kit, "static_account_bank_name", json!({}))["result"],
        "First"
    );
}

#[test]
fn resource_functions_that_cannot_be_called_are_named() {
    let kit = kit("bank_account");
    let reasons: Vec<String> = kit
        .quarantined()
        .iter()
        .map(|skipped| format!("{} {}", skipped.location, skipped.reason))
        .collect();
    for name in [
        "[method]account.merge",
        "#inspect",
        "[method]vault.open",
        "[static]safe.empty",
        "[static]safe.again",
    ] {
        assert!(
            reasons
                .iter()
                .any(|reason| reason.contains(name) && reason.contains("uses a resource")),
            "{name}: {reasons:?}"
        );
    }
}

#[test]
fn resource_is_created_by_a_static_function_that_returns_it() {
    let kit = kit("bank_account");
    let safe = |code: &str| json!({ "new": { "code": code }, "actions": [{ "action": "code" }] });
    assert_eq!(
        result(&kit, "safe", safe("1234"))["results"],
        json!(["1234"])
    );
    let (code, message) = failure(&kit, "safe", safe(""));
    assert_eq!(code, ToolErrorCode::ExecutionError, "{message}");
    assert_eq!(message, "a safe needs a code");
}

#[test]
fn resource_failures_name_the_action() {
    let kit = kit("bank_account");
    let call =
        |actions: serde_json::Value| json!({ "new": { "owner": "Ada" }, "actions": actions });
    let withdraw = json!({ "action": "withdraw", "arguments": { "amount": 1 } });
    let (code, message) = failure(
        &kit,
        "account",
        call(json!([{ "action": "clear" }, withdraw])),
    );
    assert_eq!(code, ToolErrorCode::ExecutionError);
    assert!(
        message.contains("action 2 (`withdraw`) failed: not enough money"),
        "{message}"
    );
    for (arguments, at) in [
        (json!({ "actions": [{ "action": "clear" }] }), "new"),
        (call(json!([])), "actions"),
        (call(json!([{ "action": "merge" }])), "actions"),
        (
            call(json!([{ "action": "deposit", "arguments": { "amount": "1" } }])),
            "actions",
        ),
    ] {
        let (code, message) = failure(&kit, "account", arguments);
        assert_eq!(code, ToolErrorCode::InvalidInput, "{message}");
        assert!(message.contains(at), "{message}");
    }
    let trap = json!({ "new": { "owner": "trap on drop" }, "actions": [{ "action": "clear" }] });
    let (code, message) = failure(&kit, "account", trap);
    assert_eq!(code, ToolErrorCode::ExecutionError, "{message}");
    // A fast machine uses up the fuel before the time.
    let (code, message) = failure(&kit, "account", call(json!([{ "action": "spin" }])));
    let is_limit = matches!(code, ToolErrorCode::Timeout | ToolErrorCode::LimitExceeded);
    assert!(is_limit, "{message}");
}
