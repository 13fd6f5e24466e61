//! The block of one tool.

use mimir_core::needs::HostNeed;
use mimir_core::outcome::{DataClass, TrustLevel};
use mimir_core::{Decision, ToolErrorCode};
use mimir_testkit::{Approve, Testkit, Value, json};

use super::{among, changed, echo, ending, goes, only, refused, runs, set};

keys! {
    enabled: "tools.*.enabled" => a_tool_is_switched_off,
    approval: "tools.*.approval" => a_word_counts,
    word: "approval.tools.*" => a_word_counts,
    default: "approval.default" => custom_tools_have_a_default,
    server: "tools.*.server" => a_permission_is_for_one_server,
    level: "tools.*.approval.level" => a_word_counts,
    danger: "tools.*.approval.dangerPatterns" => danger_is_asked_about,
    methods: "tools.*.approval.conditions.methodRequiresApproval" => methods_are_asked_about,
    hosts: "tools.*.approval.conditions.unknownHostRequiresApproval" => hosts_are_asked_about,
    deny: "tools.*.deny" => paths_are_out_of_reach,
    hidden: "files.deny" => files_are_out_of_reach_of_all,
    reveal: "tools.*.reveal" => secrets_files_are_in_reach,
    trust: "tools.*.labels.outputTrust" => trust_is_set,
    data_class: "tools.*.labels.outputDataClass" => a_class_is_set,
    accepts: "tools.*.labels.acceptsUntrusted" => untrusted_content_is_asked_about,
    exceptions: "tools.*.redaction.exceptions" => a_secret_is_shown,
    log_output: "tools.*.audit.logOutput" => results_are_never_kept,
}

/// The decision about a call of `echo` under a key. Asserts that `add` is not affected.
fn says(key: &str, value: Value, arguments: Value) -> Decision {
    let kit = echo(only(key, "echo", value));
    let add = goes(&kit, "add", json!({"a": 1, "b": 2}));
    assert_eq!(add, Decision::Allow);
    goes(&kit, "echo", arguments)
}

fn a_tool_is_switched_off(key: &str) {
    assert_eq!(says(key, json!(false), json!({})), Decision::Deny);
    assert_eq!(says(key, json!(true), json!({})), Decision::Allow);
}

fn a_word_counts(key: &str) {
    for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
        assert_eq!(says(key, json!(decision), json!({})), decision);
        // Overrides the tool's own decision.
        let kit = changed(echo(only(key, "echo", json!(decision))), |tool| {
            tool.definition.approval = Decision::Ask;
        });
        assert_eq!(goes(&kit, "echo", json!({})), decision);
    }
}

fn a_permission_is_for_one_server(key: &str) {
    let (block, field) = key.rsplit_once('.').unwrap();
    let allowed = json!({"approval": "allow"});
    let settings = among(block, "echo", allowed, field, json!("files"));
    let kit = changed(echo(settings), |tool| {
        tool.definition.approval = Decision::Ask;
    });
    // `echo` is a plugin: the permission is for the tool of a server.
    assert_eq!(goes(&kit, "echo", json!({})), Decision::Ask);
}

fn custom_tools_have_a_default(key: &str) {
    for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
        let kit = echo(only(key, "", json!(decision)));
        assert_eq!(goes(&kit, "echo", json!({})), decision);
    }
}

/// Asserts that a call with the first arguments needs approval, and one with the others does not.
fn asks(key: &str, value: Value, hit: Value, miss: Value) {
    assert_eq!(says(key, value.clone(), hit.clone()), Decision::Ask);
    assert_eq!(says(key, value, miss), Decision::Allow);
    assert_eq!(goes(&echo(json!({})), "echo", hit), Decision::Allow);
}

fn danger_is_asked_about(key: &str) {
    let patterns = json!(["rm\\s+-rf", "/DROP TABLE/i"]);
    let hit = json!({"list": [{"text": "drop table x"}]});
    asks(key, patterns, hit, json!({"text": "rm -r"}));
}

fn methods_are_asked_about(key: &str) {
    let methods = json!(["DELETE", "PUT"]);
    asks(
        key,
        methods,
        json!({"method": "put"}),
        json!({"method": "GET"}),
    );
}

fn hosts_are_asked_about(key: &str) {
    let settings = only(key, "echo", json!(true));
    let granted = changed(echo(settings), |tool| {
        tool.granted.hosts.push(HostNeed {
            host: "known.example".to_owned(),
            methods: vec!["GET".to_owned()],
            reason: String::new(),
        });
    });
    let url = |host: &str| json!({"url": format!("https://{host}/x")});
    assert_eq!(
        goes(&granted, "echo", url("known.example")),
        Decision::Allow
    );
    assert_eq!(goes(&granted, "echo", url("else.example")), Decision::Ask);
    asks(key, json!(true), url("known.example"), json!({"url": 1}));
    assert_eq!(
        says(key, json!(false), url("else.example")),
        Decision::Allow
    );
}

/// The file tools in a workspace with a plain file and a file of secrets.
fn files() -> Testkit {
    let kit = Testkit::with_bundled(mimir_kit::builtins()).unwrap();
    kit.approve(Approve::Never).workspace(|root| {
        std::fs::write(root.join("notes.txt"), "notes").unwrap();
        std::fs::write(root.join(".env"), "NAME=value").unwrap();
    })
}

fn paths_are_out_of_reach(key: &str) {
    let call = |kit: &Testkit, path: &str, code: Option<ToolErrorCode>| {
        let arguments = json!({ "path": path });
        match code {
            Some(code) => assert!(ending(kit, "read_file", arguments, code).contains(path)),
            None => drop(runs(kit, "read_file", arguments)),
        }
    };
    call(&files(), "notes.txt", None);
    let denied = set(files(), only(key, "read_file", json!(["*.txt"])));
    call(&denied, "notes.txt", Some(ToolErrorCode::PermissionDenied));
    runs(&denied, "file_info", json!({"path": "notes.txt"}));
}

fn files_are_out_of_reach_of_all(key: &str) {
    let kit = set(files(), only(key, "", json!(["*.txt"])));
    for tool in ["read_file", "file_info"] {
        let arguments = json!({"path": "notes.txt"});
        assert!(
            ending(&kit, tool, arguments, ToolErrorCode::PermissionDenied).contains("notes.txt")
        );
    }
    let moved = json!({"from": "notes.txt", "to": "notes.md"});
    ending(&kit, "move_file", moved, ToolErrorCode::PermissionDenied);
    let search = json!({"mode": "glob", "query": "*", "path": "."});
    assert!(
        !runs(&kit, "file_search", search)
            .text()
            .contains("notes.txt")
    );
}

fn secrets_files_are_in_reach(key: &str) {
    let arguments = || json!({"path": ".env"});
    ending(
        &files(),
        "read_file",
        arguments(),
        ToolErrorCode::PermissionDenied,
    );
    let kit = set(files(), only(key, "read_file", json!([".env"])));
    runs(&kit, "read_file", arguments());
    let search = json!({"mode": "grep", "query": "NAME", "path": ".env"});
    ending(&kit, "file_search", search, ToolErrorCode::PermissionDenied);
}

fn trust_is_set(key: &str) {
    let trust = |settings| runs(&echo(settings), "echo", json!({})).label().trust;
    assert_eq!(trust(json!({})), TrustLevel::Untrusted);
    for (word, level) in [
        ("user", TrustLevel::User),
        ("verified", TrustLevel::Verified),
        ("untrusted", TrustLevel::Untrusted),
    ] {
        assert_eq!(trust(only(key, "echo", json!(word))), level);
    }
    let output = refused(only(key, "echo", json!("system")));
    assert!(output.contains("system"), "{output}");
}

fn a_class_is_set(key: &str) {
    let class = |settings| runs(&echo(settings), "echo", json!({})).label().data_class;
    assert_eq!(class(json!({})), DataClass::Internal);
    for (word, level) in [
        ("public", DataClass::Public),
        ("sensitive", DataClass::Sensitive),
        ("secret", DataClass::Secret),
    ] {
        assert_eq!(class(only(key, "echo", json!(word))), level);
    }
}

fn untrusted_content_is_asked_about(key: &str) {
    let later = |settings| {
        let kit = echo(settings);
        // Output of a plugin that is not trusted is untrusted content.
        let first = goes(&kit, "echo", json!({}));
        assert_eq!(first, Decision::Allow);
        goes(&kit, "echo", json!({}))
    };
    assert_eq!(later(json!({})), Decision::Allow);
    assert_eq!(later(only(key, "echo", json!(false))), Decision::Ask);
    assert_eq!(later(only(key, "echo", json!(true))), Decision::Allow);
}

fn a_secret_is_shown(key: &str) {
    // A made-up value in the form of a GitHub token.
    let token = "ghp_8aZq2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";
    let shows = |settings| {
        let outcome = runs(&echo(settings), "echo", json!({ "note": token }));
        outcome.text().contains(token)
    };
    assert!(!shows(json!({})));
    assert!(shows(only(key, "echo", json!(["github-pat"]))));
    assert!(!shows(only(key, "echo", json!(["aws-access-token"]))));
    let output = refused(only(key, "echo", json!(["github-patt"])));
    assert!(output.contains("github-pat"), "{output}");
}

fn results_are_never_kept(key: &str) {
    let output = refused(only(key, "echo", json!(true)));
    assert!(
        output.contains("never recorded in the audit log"),
        "{output}"
    );
    echo(only(key, "echo", json!(false)));
}
