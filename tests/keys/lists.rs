//! Keys for the lists of tools and of commands.

use mimir_core::{Decision, ToolGroup};
use mimir_testkit::{Testkit, Value, json};

use super::{among, changed, echo, goes, only, refused};

keys! {
    allow: "policy.allow" => only_these_tools,
    deny: "policy.deny" => not_these_tools,
    allowed_groups: "policy.groups.allow" => only_these_groups,
    denied_groups: "policy.groups.deny" => not_these_groups,
    mode: "execApprovals.mode" => commands_by_mode,
    pattern: "execApprovals.approvals[].pattern" => commands_by_pattern,
    last_used: "execApprovals.approvals[].lastUsed" => times_are_checked,
    added_by: "execApprovals.approvals[].addedBy" => what_a_program_added_is_asked_about,
}

/// The decisions of the lists about `echo` and `add`.
fn both(settings: Value) -> [Decision; 2] {
    let kit = echo(settings);
    [
        goes(&kit, "echo", json!({})),
        goes(&kit, "add", json!({"a": 1, "b": 2})),
    ]
}

const FREE: [Decision; 2] = [Decision::Allow; 2];

fn only_these_tools(key: &str) {
    assert_eq!(both(json!({})), FREE);
    assert_eq!(
        both(only(key, "", json!(["add"]))),
        [Decision::Deny, Decision::Allow]
    );
}

fn not_these_tools(key: &str) {
    assert_eq!(
        both(only(key, "", json!(["echo"]))),
        [Decision::Deny, Decision::Allow]
    );
}

fn only_these_groups(key: &str) {
    assert_eq!(both(only(key, "", json!(["fs"]))), [Decision::Deny; 2]);
    assert_eq!(both(only(key, "", json!(["fs", "system"]))), FREE);
}

fn not_these_groups(key: &str) {
    assert_eq!(both(only(key, "", json!(["system"]))), [Decision::Deny; 2]);
    assert_eq!(both(only(key, "", json!(["fs"]))), FREE);
}

/// A kit with a tool that runs commands and asks about each by default.
fn shell(settings: Value) -> Testkit {
    changed(echo(settings), |tool| {
        tool.definition.group = ToolGroup::Runtime;
        tool.definition.approval = Decision::Ask;
    })
}

fn commands_by_mode(key: &str) {
    let mode = |settings| goes(&shell(settings), "echo", json!({"command": "ls"}));
    assert_eq!(mode(json!({})), Decision::Ask);
    for (word, decision) in [
        ("full", Decision::Allow),
        ("allowlist", Decision::Deny),
        ("deny", Decision::Deny),
    ] {
        assert_eq!(mode(only(key, "", json!(word))), decision, "{word}");
    }
}

/// Settings with a list of one command, with this key.
fn listed(key: &str, value: Value) -> Value {
    let (list, field) = key.rsplit_once('.').unwrap();
    let approval = json!({"pattern": "git status"});
    let mut settings = among(list, "", approval, field, value);
    settings["execApprovals"]["mode"] = json!("allowlist");
    settings
}

fn commands_by_pattern(key: &str) {
    let kit = shell(listed(key, json!("git log *")));
    for (command, decision) in [
        ("git log -1", Decision::Allow),
        ("git log; rm x", Decision::Deny),
        ("git log; $x", Decision::Ask),
        ("git status", Decision::Deny),
    ] {
        let output = goes(&kit, "echo", json!({ "command": command }));
        assert_eq!(output, decision, "{command}");
    }
}

fn times_are_checked(key: &str) {
    // The value is shown to people, and an invalid time would mislead them.
    let output = refused(listed(key, json!("yesterday")));
    assert!(output.contains("lastUsed must be a time"), "{output}");
    shell(listed(key, json!("2026-01-31T12:00:00Z")));
    // A date without a time is valid.
    shell(listed(key, json!("2026-01-31")));
}

fn what_a_program_added_is_asked_about(key: &str) {
    for (word, decision) in [("user", Decision::Allow), ("auto", Decision::Ask)] {
        let kit = shell(listed(key, json!(word)));
        let output = goes(&kit, "echo", json!({"command": "git status"}));
        assert_eq!(output, decision, "{word}");
    }
}
