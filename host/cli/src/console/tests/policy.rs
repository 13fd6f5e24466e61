//! Rules and settings: their rows, edits as YAML, edits at the console of a server, and calls without arguments on record.

use std::time::Instant;

use super::*;

fn yaml_edit(key: &str, yaml: &str) -> PolicyEdit {
    PolicyEdit {
        file: PolicyEditFile::User,
        changes: vec![PolicyChange {
            key: key.to_owned(),
            value: Value::Null,
            yaml: Some(yaml.to_owned()),
        }],
    }
}

impl ConsoleFixture {
    async fn propose(&self, edit: PolicyEdit) -> Value {
        self.get(ConsoleRequest::ProposeEdit { edit }).await
    }

    /// Applies an edit to the file as it is now.
    async fn apply(&self, edit: PolicyEdit) -> Result<Value, ToolError> {
        let policy = self.get(ConsoleRequest::Policy).await;
        let mut files = policy["files"].as_array().unwrap().iter();
        let file = files.find(|file| file["name"] == "user").unwrap();
        let digest = file["digest"].as_str().unwrap().to_owned();
        self.try_get(ConsoleRequest::ApplyEdit { edit, digest })
            .await
    }

    fn settings_text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("config/config.yml")).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn console_policy_has_a_row_for_every_setting_that_decides() {
    let settings = "network:
  allowedHosts: [docs.rs, crates.io]
  hosts: {db.example: 192.0.2.1}
files: {deny: [private/**]}
limits:
  timeMs: 9000
secrets: {KEY: {env: HOME}}
sandbox: process
tools:
  read_file:
    approval: {level: ask, conditions: {methodRequiresApproval: [POST]}}
    limits: {timeMs: 5}
policy:
  rules:
    - {decision: ask, tools: [exec]}
providers: {mine: {api: openai, url: 'https://m.example'}}
";
    let console = ConsoleFixture::with_settings(settings);
    let policy = console.get(ConsoleRequest::Policy).await;
    let rows = policy["layers"][0]["rules"].as_array().unwrap();
    let row = |key: &str| {
        let found = rows.iter().find(|row| row["rule"] == key);
        found.unwrap_or_else(|| panic!("{key}: {policy}"))
    };
    for (key, text, line, yaml) in [
        (
            "network.allowedHosts",
            "docs.rs, crates.io",
            2,
            Some("- docs.rs\n- crates.io"),
        ),
        ("network.hosts.db.example", "192.0.2.1", 3, None),
        (
            "files.deny",
            "tools cannot access private/**",
            4,
            Some("- private/**"),
        ),
        ("limits.timeMs", "9000", 6, Some("9000")),
        ("secrets.KEY.env", "HOME", 7, Some("HOME")),
        ("sandbox", "process", 8, Some("process")),
        (
            "tools.read_file.approval.level",
            "all calls",
            11,
            Some("ask"),
        ),
        (
            "tools.read_file.approval.conditions.methodRequiresApproval",
            "POST",
            11,
            Some("- POST"),
        ),
        ("tools.read_file.limits.timeMs", "5", 12, Some("5")),
        (
            "policy.rules[0]",
            "all calls",
            15,
            Some("- decision: ask\n  tools:\n  - exec"),
        ),
    ] {
        let row = row(key);
        assert_eq!(
            (&row["text"], &row["line"]),
            (&json!(text), &json!(line)),
            "{row}"
        );
        assert_eq!(row["edit"]["yaml"].as_str(), yaml, "{row}");
    }
    assert_eq!(row("limits.timeMs")["kind"], "setting");
    assert_eq!(
        row("tools.read_file.limits.timeMs")["tools"],
        json!(["read_file"])
    );
    assert_eq!(row("policy.rules[0]")["edit"]["key"], "policy.rules");
    assert!(
        !policy["layers"].to_string().contains("m.example"),
        "{policy}"
    );
    let keys = policy["keys"].as_array().unwrap();
    let key = keys
        .iter()
        .find(|key| key["key"] == "limits.timeMs")
        .unwrap();
    assert_eq!(key["expected"], "a whole number");
}

#[tokio::test(flavor = "multi_thread")]
async fn console_policy_has_the_built_in_rules_that_refusals_name() {
    let console = ConsoleFixture::new();
    let names = async || -> Vec<String> {
        let policy = console.get(ConsoleRequest::Policy).await;
        let layer = policy["layers"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(layer["name"], "built-in");
        let rules = layer["rules"].as_array().unwrap().iter();
        rules
            .map(|rule| rule["rule"].as_str().unwrap().to_owned())
            .collect()
    };
    let explain = async |tool: &str, arguments: Value| {
        let request = ConsoleRequest::ExplainCall {
            tool: tool.to_owned(),
            arguments,
            edit: None,
        };
        let explained = console.get(request).await;
        let reasons = explained["reasons"].as_array().unwrap().iter();
        reasons
            .filter(|reason| reason["decision"] != "allow")
            .map(|reason| reason["rule"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let shown = names().await;
    for (tool, arguments) in [
        ("write_file", json!({"path": ".env", "content": "x"})),
        ("exec", json!({"command": "unknown-program"})),
    ] {
        let rules = explain(tool, arguments).await;
        assert!(
            rules.iter().any(|rule| shown.contains(rule)),
            "{tool}: {rules:?}"
        );
    }
    let private = "network.blockPrivateIPs".to_owned();
    assert!(shown.contains(&private));
    let edit = yaml_edit("network.blockPrivateIPs", "false");
    console.apply(edit).await.unwrap();
    assert!(!names().await.contains(&private));
}

#[tokio::test(flavor = "multi_thread")]
async fn console_policy_edit_takes_yaml_and_names_the_field_that_is_wrong() {
    let console = ConsoleFixture::new();
    for (key, yaml, field, expected) in [
        ("limits.timems", "5", "key", None),
        ("limits.timeMs", "soon", "value", Some("a whole number")),
        ("policy.deny", "{a: b}", "value", Some("a list of texts")),
        ("policy.deny", "[a", "value", Some("a list of texts")),
        (
            "network.mode",
            "never",
            "value",
            Some("one of none, allowlist, any"),
        ),
    ] {
        let proposed = console.propose(yaml_edit(key, yaml)).await;
        let fault = &proposed["fault"];
        assert_eq!(fault["field"], field, "{key}: {proposed}");
        assert_eq!(fault["expected"].as_str(), expected, "{key}: {proposed}");
        assert_eq!(proposed["problems"].as_array().unwrap().len(), 1);
    }
    for yaml in [
        "[web_fetch, exec]",
        "- web_fetch\n- exec",
        r#"["web_fetch", "exec"]"#,
    ] {
        let proposed = console.propose(yaml_edit("policy.deny", yaml)).await;
        let lines = proposed["diff"][0]["lines"].to_string();
        assert!(lines.contains("web_fetch"), "{proposed}");
    }
    console
        .apply(yaml_edit(" policy.deny ", "[web_fetch]"))
        .await
        .unwrap();
    assert!(console.settings_text().contains("web_fetch"));
    let both = PolicyEdit {
        changes: vec![PolicyChange {
            key: "profile".to_owned(),
            value: json!("x"),
            yaml: Some("y".to_owned()),
        }],
        file: PolicyEditFile::User,
    };
    assert_eq!(
        console.apply(both).await.unwrap_err().code,
        ToolErrorCode::InvalidInput
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn console_of_a_server_edits_rules_only() {
    let settings = "tools:
  edit_file: &shared
    limits: {timeMs: 9000}
  other: *shared
network: {allowedHosts: [docs.rs, 192.0.2.7]}
";
    let console = ConsoleFixture::create(settings, EditScope::RulesOnly);
    for (key, yaml) in [
        ("mcp.servers.x.command", "/bin/sh"),
        ("mcp.servers", "{x: {command: sh}}"),
        ("console.roles.admin", "[subject:me]"),
        ("roles", "{admin: {groups: [mine]}}"),
        ("roles", "{default: ~}"),
        ("roles.default", "{}"),
        ("browser", "{}"),
        ("sandbox", "none"),
        ("sandbox.mode", "none"),
        ("teams", "[{source: 'r.example/t:1'}]"),
        ("trust", "[{registry: '*', keys: [k]}]"),
        ("secrets.KEY.env", "HOME"),
        ("providers.mine.url", "https://m.example"),
        ("browser.program", "/tmp/x"),
        ("execApprovals.mode", "full"),
        ("network.mode", "any"),
        ("network.blockPrivateIPs", "false"),
        ("network.hosts", "{docs.rs: 10.0.0.1}"),
        ("network", "{allowedHosts: [a.example], mode: any}"),
        ("network.allowedHosts", "[docs.rs, 127.0.0.1]"),
        ("network.allowedHosts", "[docs.rs, 10.0.0.0/8]"),
        ("network.allowedHosts", "[docs.rs, 'localhost:8080']"),
        ("network.allowedHosts", "[docs.rs, '*.localhost']"),
        ("tools.exec.network.allowedHosts", "['[::1]:80']"),
        ("tools.exec.reveal", "[.env]"),
        ("tools.exec", "{approval: allow, reveal: [.env]}"),
        ("tools.exec.redaction.exceptions", "[x]"),
        ("tools.autoLoadCustomTools", "true"),
        ("enforcement.requireSignature", "false"),
        ("audit.logArgs", "true"),
        ("approvals.unattended", "wait"),
    ] {
        let proposed = console.propose(yaml_edit(key, yaml)).await;
        let problem = proposed["problems"][0].as_str().unwrap_or_default();
        assert!(!problem.is_empty(), "{key}: {proposed}");
        assert_eq!(proposed["diff"], json!([]), "{key}");
        let error = console.apply(yaml_edit(key, yaml)).await.unwrap_err();
        assert!(error.message.ends_with(problem), "{key}: {error}");
        if error.code == ToolErrorCode::PermissionDenied {
            assert!(
                problem.contains("the server's operator can edit"),
                "{problem}"
            );
        } else {
            // Not a valid setting at all.
            assert_eq!(error.code, ToolErrorCode::InvalidInput, "{key}: {error}");
        }
    }
    assert_eq!(console.settings_text(), settings, "nothing was written");
    // One of two changes is refused, so that both are.
    let mut mixed = yaml_edit("policy.deny", "[exec]");
    mixed.changes.extend(yaml_edit("sandbox", "none").changes);
    assert_eq!(
        console.apply(mixed).await.unwrap_err().code,
        ToolErrorCode::PermissionDenied
    );
    let stale = ConsoleRequest::ApplyEdit {
        edit: yaml_edit("policy.deny", "[exec]"),
        digest: "00".to_owned(),
    };
    assert_eq!(
        console.try_get(stale).await.unwrap_err().code,
        ToolErrorCode::Unavailable
    );
    for (key, yaml) in [
        ("policy.deny", "[exec]"),
        ("tools.exec.approval", "allow"),
        ("tools.read_file.deny", "[private/**]"),
        (
            "network.allowedHosts",
            "[docs.rs, 192.0.2.7, 'crates.io:443']",
        ),
        ("limits.timeMs", "5000"),
        ("execApprovals.approvals", "[{pattern: 'cargo test *'}]"),
    ] {
        console
            .apply(yaml_edit(key, yaml))
            .await
            .unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    let policy = console.get(ConsoleRequest::Policy).await;
    assert_eq!(policy["rulesOnly"], true);
    let keys = policy["keys"].as_array().unwrap();
    assert!(keys.iter().all(|key| key["key"] != "sandbox.mode"));
    let rows = policy["layers"][0]["rules"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["edit"]["key"] == "limits.timeMs"));
}

/// Records two calls of `read_file` and one of `list_directory`, without their arguments.
async fn record_three_calls(console: &ConsoleFixture) {
    std::fs::write(console.root().join("a.txt"), "x").unwrap();
    let pipeline = console.pipeline().await;
    for _ in 0..2 {
        let read = call("read_file", json!({"path": "a.txt"}));
        assert!(pipeline.call(read).await.is_ok());
    }
    pipeline.call(call("list_directory", json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn console_what_if_judges_calls_without_arguments_by_their_tool() {
    let console = ConsoleFixture::with_settings("tools: {write_file: {approval: ask}}\n");
    record_three_calls(&console).await;
    let judge = async |key: &str, yaml: &str| {
        let edit = yaml_edit(key, yaml);
        console.get(ConsoleRequest::WhatIf { edit, days: 7 }).await
    };
    // Another tool's setting changes nothing for these calls, and that is certain.
    let judged = judge("tools.write_file.approval", "deny").await;
    assert_eq!(
        (&judged["checked"], &judged["unjudged"]),
        (&json!(3), &json!(0)),
        "{judged}"
    );
    assert_eq!(judged["changes"], json!([]));
    let judged = judge("tools.read_file.approval", "deny").await;
    assert_eq!(judged["unjudged"], 0, "{judged}");
    let change = &judged["changes"][0];
    assert_eq!(
        (&change["after"], &change["count"], &change["approximate"]),
        (&json!("deny"), &json!(2), &json!(0)),
        "{judged}"
    );
    // Whether a rule about arguments matches is not known.
    let rule = "[{decision: deny, when: {path: {glob: 'b*'}}}]";
    let judged = judge("tools.read_file.rules", rule).await;
    assert_eq!(judged["unjudged"], 2, "{judged}");
    assert_eq!(judged["unjudgedBy"][0]["tool"], "read_file");
    assert_eq!(
        judged["unjudgedBy"][0]["why"],
        "its arguments are not on record"
    );
    assert_eq!(judged["recordsArguments"], false);
    assert_eq!(judged["toRecordArguments"]["key"], "audit.logArgs");
}

#[tokio::test(flavor = "multi_thread")]
async fn console_what_if_judges_commands_whose_tool_assesses_each_call() {
    for logs in [false, true] {
        let settings = |rules: &str| format!("audit: {{logArgs: {logs}}}\n{rules}");
        let console = ConsoleFixture::with_settings(&settings(""));
        let run = async || {
            let listing = call("exec", json!({"command": "ls -la"}));
            console.pipeline().await.call(listing).await
        };
        run().await;
        let judge = async |level: Value| {
            let edit = edit(PolicyEditFile::User, "tools.exec.approval", level);
            console.get(ConsoleRequest::WhatIf { edit, days: 7 }).await
        };
        for expected in ["ask", "deny"] {
            let judged = judge(json!(expected)).await;
            let change = &judged["changes"][0];
            assert_eq!(
                (&change["before"], &change["after"], &change["count"]),
                (&json!("allow"), &json!(expected), &json!(1)),
                "{judged}"
            );
        }
        // The other way round.
        let asking = settings("tools: {exec: {approval: ask}}\n");
        std::fs::write(console.folder.path().join("config/config.yml"), asking).unwrap();
        assert!(!run().await.is_ok());
        let judged = judge(Value::Null).await;
        let change = &judged["changes"][0];
        if logs {
            assert_eq!(
                (&change["before"], &change["after"], &change["count"]),
                (&json!("ask"), &json!("allow"), &json!(2)),
                "{judged}"
            );
        } else {
            assert_eq!(judged["changes"], json!([]), "{judged}");
            let why = judged["unjudgedBy"][0]["why"].as_str().unwrap();
            assert!(why.starts_with("its arguments decide"), "{judged}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn console_what_if_judges_calls_of_tools_that_no_changed_rule_names() {
    let settings =
        "policy: {rules: [{decision: ask, tools: [list_directory], when: {path: {glob: 'x*'}}}]}\n";
    let console = ConsoleFixture::with_settings(settings);
    record_three_calls(&console).await;
    let kept = "{decision: ask, tools: [list_directory], when: {path: {glob: 'x*'}}}";
    let judge = async |rules: &str| {
        let edit = yaml_edit("policy.rules", rules);
        let judged = console.get(ConsoleRequest::WhatIf { edit, days: 7 }).await;
        let changes = judged["changes"].as_array().unwrap().iter();
        let changes = changes.map(|change| format!("{} {}", change["after"], change["count"]));
        let changes: Vec<String> = changes.collect();
        (judged["unjudged"].as_u64().unwrap(), changes.join(", "))
    };
    let nothing = |unjudged| (unjudged, String::new());
    for (rule, expected) in [
        ("{decision: deny, tools: [write_file]}", nothing(0)),
        (
            "{decision: deny, tools: [write_file], when: {path: {glob: 'y*'}}}",
            nothing(0),
        ),
        (
            "{decision: deny, tools: [read_file]}",
            (0, "\"deny\" 2".to_owned()),
        ),
        ("{decision: deny, when: {path: {glob: 'y*'}}}", nothing(3)),
        (
            "{decision: deny, tools: [read_file], when: {path: {glob: 'y*'}}}",
            nothing(2),
        ),
        (
            "{decision: deny, groups: [fs], when: {path: {glob: 'y*'}}}",
            nothing(3),
        ),
        ("{decision: allow, tools: [read_file]}", nothing(2)),
    ] {
        let judged = judge(&format!("[{kept}, {rule}]")).await;
        assert_eq!(judged, expected, "{rule}");
    }
    // Without the old rule.
    let judged = judge("[{decision: deny, tools: [write_file]}]").await;
    assert_eq!(judged, nothing(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn console_edited_arguments_are_those_on_record() {
    let console = ConsoleFixture::new();
    let pipeline = console.pipeline().await;
    let request = call("write_file", json!({"path": "a.txt", "content": "old"}));
    let id = request.context.request_id.to_string();
    let calling = tokio::spawn(async move { pipeline.call(request).await });
    let question = console.wait_for_question().await;
    let first_seen = Instant::now();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let edited = QuestionAnswer {
        arguments: Some(json!({"path": "b.txt", "content": "new"})),
        ..answer_to(&question, QuestionAnswerKind::Edit)
    };
    let first_wait = first_seen.elapsed();
    console.answer(&question, edited).await.unwrap();
    // The edited call is asked about as well.
    let again = loop {
        let open = console.wait_for_question().await;
        if open["card"]["fingerprint"] != question["card"]["fingerprint"] {
            break open;
        }
    };
    assert!(
        again["card"]["arguments"]
            .as_str()
            .unwrap()
            .contains("b.txt")
    );
    let second_seen = Instant::now();
    let again = console.with_preview(&again).await;
    let second_wait = second_seen.elapsed();
    let yes = answer_to(&again, QuestionAnswerKind::Once);
    console.answer(&again, yes).await.unwrap();
    assert!(calling.await.unwrap().is_ok());
    assert!(!console.root().join("a.txt").exists());
    let story = console.get(ConsoleRequest::CallStory { id }).await;
    let entries = story["entries"].as_array().unwrap();
    let recorded = entries.iter().find(|entry| entry["event"] == "call");
    let recorded = recorded.unwrap();
    assert_eq!(recorded["arguments"]["path"], "b.txt", "{story}");
    // The call has waited for both answers.
    let waited = Duration::from_millis(recorded["waitedMs"].as_u64().unwrap() + 1);
    assert!(waited >= first_wait + second_wait, "{waited:?}");
}
