//! Tests of roles: which one a user has, and what calls in a role may do.

use super::*;

/// Returns the roles of the tests. `writer` comes first, so that it applies to members of both groups.
fn roles() -> Value {
    json!({"roles": {
        "writer": {"groups": ["writers", "admins"]},
        "viewer": {"groups": ["viewers"], "tools": {"allow": ["read_*"], "deny": ["read_secret"]}},
        "default": {"tools": {"deny": ["*"]}},
    }})
}

fn view(bench: &Bench, role: &'static str) -> Pipeline {
    bench.pipeline.restricted(move |full| full.in_role(role))
}

fn named_tools() -> Vec<Tool> {
    ["read_file", "read_secret", "write_file"]
        .map(tool)
        .to_vec()
}

/// Returns the message of a call that the rules refuse, or an empty text if it succeeds.
async fn refusal(pipeline: &Pipeline, tool: &str, arguments: Value) -> String {
    let outcome = pipeline.call(call(tool, arguments)).await;
    match outcome.result() {
        Ok(_) => String::new(),
        Err(error) => {
            assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{error}");
            error.message.clone()
        }
    }
}

#[test]
fn role_follows_the_groups_in_the_order_of_the_file() {
    let role = |settings: Value, groups: &[&str]| {
        let config: Config = serde_json::from_value(settings).unwrap();
        let policy = Policy::new(&config, "config.yml").unwrap();
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        policy.role_of(&groups).map(str::to_owned)
    };
    for (groups, expected) in [
        (&["viewers"][..], "viewer"),
        (&["viewers", "admins"], "writer"),
        (&["Viewers", "viewer"], "default"),
        (&[], "default"),
    ] {
        assert_eq!(
            role(roles(), groups).as_deref(),
            Some(expected),
            "{groups:?}"
        );
    }
    let without_default = json!({"roles": {"viewer": {"groups": ["viewers"]}}});
    assert_eq!(role(without_default, &["x"]), None);
    assert_eq!(role(json!({}), &["x"]), None);
}

#[tokio::test]
async fn role_lists_restrict_the_tools() {
    let bench = bench(named_tools(), roles(), ApprovalAnswer::No);
    let viewer = view(&bench, "viewer");
    assert_eq!(refusal(&viewer, "read_file", json!({})).await, "");
    // `allow` leaves out a tool, `deny` excludes one. The reason names the role and the key.
    for (name, key) in [
        ("write_file", "roles.viewer.tools.allow"),
        ("read_secret", "roles.viewer.tools.deny"),
    ] {
        let message = refusal(&viewer, name, json!({})).await;
        assert!(message.contains("role `viewer`"), "{message}");
        let event = bench.audit.events.lock().last().cloned().unwrap();
        assert_eq!(
            (&event["role"], &event["ok"]),
            (&json!("viewer"), &json!(false))
        );
        let rule = event["rule"].as_str().unwrap();
        assert!(rule.starts_with(key), "{rule}");
    }
    let snapshot = viewer.snapshot();
    let listed = snapshot.registry.tools().iter();
    let listed = listed.filter(|tool| snapshot.policy.is_listed(tool));
    let listed: Vec<&str> = listed.map(|tool| tool.name().as_str()).collect();
    assert_eq!(listed, ["read_file"]);
    let default = view(&bench, "default");
    assert_ne!(refusal(&default, "read_file", json!({})).await, "");
    // Without a role, and in a role without restrictions, everything is as before.
    for pipeline in [bench.pipeline.clone(), view(&bench, "writer")] {
        assert_eq!(refusal(&pipeline, "write_file", json!({})).await, "");
    }
    let event = bench.audit.events.lock().last().cloned().unwrap();
    assert_eq!(event["role"], "writer");
}

/// A role restricts, and never allows: what is denied or asked about without it stays so.
#[tokio::test]
async fn role_gives_no_permission() {
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let settings = json!({
        "policy": {"deny": ["denied"]},
        "roles": {"all": {"groups": ["all"], "tools": {"allow": ["asking", "denied"]}}},
    });
    let bench = bench(vec![asking, tool("denied")], settings, ApprovalAnswer::No);
    let all = view(&bench, "all");
    let message = refusal(&all, "denied", json!({})).await;
    assert!(message.contains("deny list"), "{message}");
    let outcome = all.call(call("asking", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::ApprovalDenied));
    assert_eq!(bench.approver.1.load(Ordering::SeqCst), 1);
}

/// Calls that a tool makes are in the role of its caller.
#[tokio::test]
async fn role_restricts_nested_calls() {
    let mut outer = with(
        "outer",
        Fake {
            nested: Some("write_file"),
            ..Fake::default()
        },
    );
    outer.definition.needs.tools = vec!["write_file".into()];
    outer.granted = outer.definition.needs.clone();
    outer.trust = ToolTrust::Trusted;
    let settings =
        json!({"roles": {"viewer": {"groups": ["v"], "tools": {"deny": ["write_file"]}}}});
    let bench = bench(
        vec![outer, tool("write_file")],
        settings,
        ApprovalAnswer::Once,
    );
    let message = refusal(&view(&bench, "viewer"), "outer", json!({})).await;
    assert!(message.contains("role `viewer`"), "{message}");
    assert_eq!(refusal(&bench.pipeline, "outer", json!({})).await, "");
}

/// The role was removed from the settings while a user had it.
#[tokio::test]
async fn role_that_was_removed_has_no_tools() {
    let bench = bench(named_tools(), roles(), ApprovalAnswer::No);
    let viewer = view(&bench, "viewer");
    assert_eq!(refusal(&viewer, "read_file", json!({})).await, "");
    bench.pipeline.replace(PipelineSnapshot {
        registry: Registry::new(named_tools(), vec![]),
        policy: Policy::default(),
    });
    let outcome = viewer.call(call("read_file", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::NotFound));
}

#[tokio::test]
async fn role_budget_counts_the_calls_of_each_user() {
    let mut outer = with(
        "outer",
        Fake {
            nested: Some("read_file"),
            ..Fake::default()
        },
    );
    outer.definition.needs.tools = vec!["read_file".into()];
    outer.granted = outer.definition.needs.clone();
    outer.trust = ToolTrust::Trusted;
    let settings = json!({"roles": {
        "viewer": {"groups": ["v"], "budget": {"callsPerMinute": 3}},
        "free": {"groups": ["f"]},
    }});
    let tools = vec![outer, tool("read_file"), tool("write_file")];
    let (bench, clock) = super::repeated::paused_bench(tools, settings, ApprovalAnswer::Once);
    let by = async |role: &'static str, caller: &str, tool: &str| {
        let mut call = call(tool, json!({}));
        call.caller = Some(Arc::from(caller));
        let outcome = view(&bench, role).call(call).await;
        let error = outcome.result().err();
        error.map_or_else(String::new, |error| {
            format!("{}: {}", error.code.as_str(), error.message)
        })
    };
    // Different tools share the budget, and a nested call counts, too.
    assert_eq!(by("viewer", "alice", "outer").await, "");
    assert_eq!(by("viewer", "alice", "write_file").await, "");
    let refused = by("viewer", "alice", "read_file").await;
    assert!(refused.starts_with("LIMIT_EXCEEDED"), "{refused}");
    assert!(
        refused.contains("roles.viewer.budget.callsPerMinute"),
        "{refused}"
    );
    // Another user has a budget of the same size, and a role without a budget none.
    assert_eq!(by("viewer", "bob", "read_file").await, "");
    for _ in 0..5 {
        assert_eq!(by("free", "alice", "read_file").await, "");
    }
    clock.advance(Duration::from_secs(60));
    assert_eq!(by("viewer", "alice", "read_file").await, "");
}

/// Each key of an argument rule has its effect in a role, too.
#[tokio::test]
async fn role_rules_have_every_key() {
    // The key and its value in a rule that denies, arguments that it matches, and some that it does not.
    for (key, value, matching, other) in [
        ("tools", json!(["read_file"]), json!({}), None),
        ("groups", json!(["system"]), json!({}), None),
        ("sources", json!(["custom"]), json!({}), None),
        (
            "glob",
            json!({"n": {"glob": "a*"}}),
            json!({"n": "ab"}),
            Some(json!({"n": "b"})),
        ),
        (
            "regex",
            json!({"n": {"regex": "^a+$"}}),
            json!({"n": "aa"}),
            Some(json!({"n": "ab"})),
        ),
        (
            "equals",
            json!({"n": {"equals": 3}}),
            json!({"n": 3}),
            Some(json!({"n": 4})),
        ),
        (
            "min",
            json!({"n": {"min": 3}}),
            json!({"n": 3}),
            Some(json!({"n": 2})),
        ),
        (
            "max",
            json!({"n": {"max": 3}}),
            json!({"n": 3}),
            Some(json!({"n": 4})),
        ),
        (
            "inside",
            json!({"n": {"inside": "src"}}),
            json!({"n": "src/a"}),
            Some(json!({"n": "lib/a"})),
        ),
        (
            "exists",
            json!({"n": {"exists": true}}),
            json!({"n": 1}),
            Some(json!({})),
        ),
        (
            "not",
            json!({"n": {"not": {"equals": 3}}}),
            json!({"n": 4}),
            Some(json!({"n": 3})),
        ),
    ] {
        let mut rule = json!({"decision": "deny", "name": "a night rule", "reason": "it is late"});
        let field = if value.is_object() { "when" } else { key };
        rule[field] = value;
        let settings = json!({"roles": {"viewer": {"groups": ["v"], "rules": [rule]}}});
        let mut any = tool("read_file");
        any.definition.input_schema = Schema::parse(r#"{"type": "object"}"#).unwrap();
        let bench = bench(vec![any], settings, ApprovalAnswer::No);
        let viewer = view(&bench, "viewer");
        let message = refusal(&viewer, "read_file", matching.clone()).await;
        assert!(message.contains("it is late"), "{key}: {message}");
        let rule = bench.audit.events.lock().last().unwrap()["rule"].clone();
        assert!(
            rule.as_str().unwrap().contains("a night rule"),
            "{key}: {rule}"
        );
        if let Some(other) = other {
            assert_eq!(refusal(&viewer, "read_file", other).await, "", "{key}");
        }
        assert_eq!(
            refusal(&bench.pipeline, "read_file", matching).await,
            "",
            "{key}"
        );
    }
    // A rule with other tools, groups and sources does not match.
    for key in ["tools", "groups", "sources"] {
        let other = match key {
            "tools" => json!(["write_file"]),
            "groups" => json!(["fs"]),
            _ => json!(["mcp"]),
        };
        let rule = json!({"decision": "deny", key: other});
        let settings = json!({"roles": {"viewer": {"groups": ["v"], "rules": [rule]}}});
        let bench = bench(named_tools(), settings, ApprovalAnswer::No);
        assert_eq!(
            refusal(&view(&bench, "viewer"), "read_file", json!({})).await,
            "",
            "{key}"
        );
    }
    // Examples that contradict the rule, and decisions that a role cannot make, are refused with the file.
    for (rule, key) in [
        (
            json!({"decision": "deny", "when": {"n": {"equals": 3}}, "match": [{"n": 4}]}),
            "match",
        ),
        (
            json!({"decision": "deny", "when": {"n": {"equals": 3}}, "noMatch": [{"n": 3}]}),
            "noMatch",
        ),
        (json!({"decision": "allow"}), "rules[0]"),
    ] {
        let config = json!({"roles": {"viewer": {"groups": ["v"], "rules": [rule]}}});
        let config: Config = serde_json::from_value(config).unwrap();
        let error = Policy::new(&config, "config.yml").unwrap_err().to_string();
        assert!(
            error.contains("roles.viewer.rules[0]") && error.contains(key),
            "{error}"
        );
    }
}
