//! Setting and removing keys, and checks that nothing else changes.

use mimir_core::ToolErrorCode;
use serde_json::json;

use super::*;

fn off(text: &str) -> String {
    apply_edits(
        text,
        &[ConfigEdit::set_key(&["tools", "git", "enabled"], false)],
    )
    .unwrap()
}

/// Asserts that all old lines are kept in order, with no insertions between them but the new keys.
fn keeps(before: &str, after: &str) {
    let mut lines = after.lines();
    for line in before.lines() {
        assert!(lines.any(|other| other == line), "{line:?} in\n{after}");
    }
}

#[test]
fn config_edit_changes_only_the_value() {
    for before in [
        "# top\n\ntools: # all\n  # of git\n  git:\n    enabled: true   # on\n    approval: ask\n  exec: {enabled: true} # flow\n\n# end\npolicy:\n  deny: [x]\n",
        "tools: {git: {enabled: true, approval: ask}, x: {}} # c\nprofile: fine\n",
        "\"tools\":\n  'git':\n    \"enabled\": true\n",
        "tools:\r\n  git:\r\n    enabled: true # x\r\npolicy: {}\r\n",
        "---\ntools:\n    git:\n        enabled: true\n...\n",
        "policy:\n  rules:\n    - reason: |\n        tools:\n          git:\n            enabled: true\ntools:\n  git:\n    enabled: true\n",
        "x: &a\n  approval: ask\ntools:\n  git:\n    <<: *a\n    enabled: true\n",
    ] {
        let (head, tail) = before.rsplit_once("enabled: true").map_or_else(
            || before.rsplit_once("\"enabled\": true").unwrap(),
            |(head, tail)| (head, tail),
        );
        let key = if before.contains("\"enabled\"") {
            "\"enabled\": false"
        } else {
            "enabled: false"
        };
        // The last match is git's, except in the first file, whose last match belongs to another tool.
        if before.starts_with("# top") {
            let expected = before.replacen("enabled: true", "enabled: false", 1);
            assert_eq!(off(before), expected);
        } else {
            assert_eq!(off(before), format!("{head}{key}{tail}"));
        }
    }
}

#[test]
fn config_unset_leaves_no_empty_blocks() {
    let template = include_str!("../config.example.yml");
    let path = ["agent", "maxToolCalls"];
    let with = apply_edits(template, &[ConfigEdit::set_key(&path, 3)]).unwrap();
    assert_eq!(
        apply_edits(&with, &[ConfigEdit::remove(&path)]).unwrap(),
        template
    );
    for (before, path, after) in [
        (
            "limits:\n  timeMs: 5\npolicy: {}\n",
            "limits.timeMs",
            "policy: {}\n",
        ),
        ("a: 1\nlimits: {timeMs: 5}\n", "limits.timeMs", "a: 1\n"),
        (
            "tools:\n  git:\n    enabled: true\n",
            "tools.git.enabled",
            "",
        ),
        (
            "tools:\n  git:\n    enabled: true\n  exec: {}\n",
            "tools.git.enabled",
            "tools:\n  exec: {}\n",
        ),
    ] {
        let path: Vec<&str> = path.split('.').collect();
        let edit = [ConfigEdit::remove(&path)];
        assert_eq!(
            apply_edits(before, &edit).unwrap().trim_end(),
            after.trim_end(),
            "{before}"
        );
    }
    let commented = "limits:\n  # a reason that somebody wrote\n  timeMs: 5\n  fuel: 7\n";
    let text = apply_edits(commented, &[ConfigEdit::remove(&["limits", "fuel"])]).unwrap();
    assert!(text.contains("a reason"), "{text}");
    let text = apply_edits(&text, &[ConfigEdit::remove(&["limits", "timeMs"])]).unwrap();
    assert!(text.contains("a reason"), "{text}");
}

#[test]
fn config_edit_toggled_repeatedly_keeps_the_file() {
    let before = include_str!("../config.example.yml");
    let mut text = off(before);
    keeps(before, &text);
    let first = text.clone();
    for toggle in 0..100 {
        let edit = ConfigEdit::set_key(&["tools", "git", "enabled"], toggle % 2 == 0);
        text = apply_edits(&text, &[edit]).unwrap();
    }
    assert_eq!(text, first);
}

#[test]
fn config_edit_adds_missing_keys_in_the_file_style() {
    for (before, after) in [
        ("", "tools:\n  git:\n    enabled: false\n"),
        (
            "# nothing yet\n",
            "# nothing yet\ntools:\n  git:\n    enabled: false\n",
        ),
        (
            "tools:\n  # of exec\n  exec:\n    enabled: false\n\n# of policy\npolicy: {}\n",
            "tools:\n  # of exec\n  exec:\n    enabled: false\n  git:\n    enabled: false\n\n# of policy\npolicy: {}\n",
        ),
        (
            "tools: {x: {}} # c\n",
            "tools: {x: {}, git: {enabled: false}} # c\n",
        ),
    ] {
        assert_eq!(off(before), after);
    }
    for before in [
        "policy:\n    deny: [x]\ntools:\n    exec:\n        enabled: false\n",
        "tools:\r\n  exec:\r\n    enabled: true # x\r\npolicy: {}\r\n",
        "tools:\n  exec:\n    enabled: true",
        "tools:\n\npolicy:\n  deny: [x]\n",
        "policy:\n  deny: [x]\ntools: # soon\n",
        "\u{feff}tools:\n  exec: {}\n",
    ] {
        let after = off(before);
        assert!(after.contains("enabled: false"), "{after}");
        assert_eq!(
            before.contains('\r'),
            after.contains('\r'),
            "{before:?} {after:?}"
        );
        assert!(!before.contains('\r') || after.lines().count() == after.matches("\r\n").count());
    }
}

#[test]
fn config_edit_adding_and_removing_blocks_restores_the_file() {
    let block = json!({"command": "npx", "args": ["-y", "it's: #1"], "env": {"A": "${B}"}});
    for before in [
        "# mine\nmcp:\n  servers: {}\npolicy:\n  deny: [git] # no\n",
        "mcp:\n  servers:\n    # the first\n    old:\n      command: 'x'\n\npolicy: {deny: [git]}\n",
        "mcp:\n    servers:\n        old: {command: x}\n",
        "mcp: {servers: {old: {command: x}}}\n",
        "mcp:\r\n  servers:\r\n    old:\r\n      command: x\r\n",
    ] {
        let path = ["mcp", "servers", "files"];
        let after = apply_edits(before, &[ConfigEdit::set_key(&path, block.clone())]).unwrap();
        let value: serde_json::Value = serde_yaml::from_str(&after).unwrap();
        assert_eq!(value["mcp"]["servers"]["files"], block, "{after}");
        assert_eq!(
            apply_edits(&after, &[ConfigEdit::remove(&path)]).unwrap(),
            before
        );
    }
}

#[test]
fn config_edits_below_a_missing_block_are_merged() {
    let set = |path: &[&str], value: serde_json::Value| ConfigEdit::set_key(path, value);
    let edits = [
        set(&["tools", "b", "approval"], json!("allow")),
        set(&["tools", "b", "labels"], json!({"z": 1})),
        set(&["tools", "a", "approval"], json!("ask")),
        set(&["tools", "b", "approval"], json!("deny")),
        set(&["limits", "fuel"], json!(2)),
    ];
    let before: Value = serde_yaml::from_str("limits:\n  fuel: 1\n").unwrap();
    assert_eq!(merge_new_blocks(&before, &edits).len(), 2);
    assert_eq!(
        apply_edits("limits:\n  fuel: 1\n", &edits).unwrap(),
        "limits:\n  fuel: 2\ntools:\n  b:\n    approval: deny\n    labels:\n      z: 1\n  a:\n    approval: ask\n"
    );
    // A block that is there keeps its other keys.
    assert_eq!(
        apply_edits("tools:\n  a:\n    x: 1 # one\n", &edits[..3]).unwrap(),
        "tools:\n  a:\n    x: 1 # one\n    approval: ask\n  b:\n    approval: allow\n    labels:\n      z: 1\n"
    );
}

#[test]
fn config_edit_refuses_yaml_aliases_and_shows_the_fix() {
    let alias = "x: &a\n  enabled: true\n  approval: ask\ntools:\n  git: *a\n";
    let error = apply_edits(
        alias,
        &[ConfigEdit::set_key(&["tools", "git", "enabled"], false)],
    )
    .unwrap_err();
    let block = "add\ntools:\n  git:\n    enabled: false";
    assert!(error.message.ends_with(block), "{error}");
    let edits = [
        ConfigEdit::set_key(&["tools", "git", "enabled"], false),
        ConfigEdit::set_key(&["profile"], "fine"),
    ];
    let error = apply_edits(alias, &edits).unwrap_err();
    let blocks = format!("edit it by hand: {block}\n\nadd\nprofile: fine");
    assert!(error.message.ends_with(&blocks), "{error}");
    for broken in ["tools: [", "a: 1\na: 2\n", "\ttools: {}\n"] {
        let error = apply_edits(broken, &[ConfigEdit::set_key(&["x"], 1)]).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidInput, "{error}");
    }
}
