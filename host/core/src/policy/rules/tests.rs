use serde_json::json;

use super::*;
use crate::config::Config;
use crate::pipeline::tests::tool;
use crate::policy::Policy;

fn book(rules: Value) -> Result<Policy, PolicyError> {
    let config = json!({"policy": {"rules": rules}});
    let config: Config = serde_json::from_value(config).unwrap();
    Policy::new(&config, "config.yml")
}

/// Returns true if one rule with this decision and `when` matches the arguments.
fn speaks(decision: &str, when: Value, arguments: Value) -> bool {
    let policy = book(json!([{"when": when, "decision": decision}])).unwrap();
    let mut evaluation = PolicyEvaluation::default();
    policy.evaluate(
        &tool("sample"),
        &arguments,
        &LinkResolver::none(),
        &mut evaluation,
    );
    !evaluation.is_empty()
}

#[test]
fn rule_matchers_match_their_values() {
    for (when, yes, no) in [
        (
            json!({"path": {"glob": "src/*.rs"}}),
            json!({"path": "src/a.rs"}),
            json!({"path": "src/b/a.rs"}),
        ),
        (
            json!({"url": {"regex": "^http:"}}),
            json!({"url": "http://x"}),
            json!({"url": "https://x"}),
        ),
        (
            json!({"n": {"equals": 1}}),
            json!({"n": 1.0}),
            json!({"n": "1"}),
        ),
        (
            json!({"o": {"equals": {"a": 1, "b": ["x"]}}}),
            json!({"o": {"b": ["x"], "a": 1}}),
            json!({"o": {"a": 1}}),
        ),
        (
            json!({"n": {"min": 2, "max": 4}}),
            json!({"n": 3}),
            json!({"n": 5}),
        ),
        (json!({"n": {"min": 2}}), json!({"n": 2}), json!({"n": "3"})),
        (
            json!({"path": {"inside": "docs"}}),
            json!({"path": "docs/a/b"}),
            json!({"path": "docs2/a"}),
        ),
        (
            json!({"path": {"inside": "."}}),
            json!({"path": "any/where"}),
            json!({"path": "/etc/passwd"}),
        ),
        (
            json!({"force": {"exists": true}}),
            json!({"force": null}),
            json!({}),
        ),
        (
            json!({"force": {"exists": false}}),
            json!({}),
            json!({"force": 1}),
        ),
        (
            json!({"path": {"not": {"inside": "docs"}}}),
            json!({"path": "src"}),
            json!({"path": "docs"}),
        ),
        (
            json!({"a": {"exists": true}, "b.c": {"equals": true}}),
            json!({"a": 1, "b": {"c": true}}),
            json!({"a": 1}),
        ),
    ] {
        for decision in ["deny", "ask", "allow"] {
            assert!(
                speaks(decision, when.clone(), yes.clone()),
                "{decision} {when} {yes}"
            );
            assert!(
                !speaks(decision, when.clone(), no.clone()),
                "{decision} {when} {no}"
            );
        }
    }
}

#[test]
fn rule_deny_matches_any_spelling_and_allow_is_exact() {
    let secrets = json!({"path": {"glob": "secrets/**"}});
    for path in [
        "./secrets/a",
        "secrets//a",
        "x/../secrets/a",
        "SECRETS/a",
        "secrets/./a",
    ] {
        let arguments = json!({"path": path});
        assert!(speaks("deny", secrets.clone(), arguments.clone()), "{path}");
        assert!(
            speaks("deny", json!({"path": {"inside": "secrets"}}), arguments),
            "{path}"
        );
    }
    // A rule that allows is exact: other spellings and other cases do not match.
    let docs = json!({"path": {"glob": "docs/**"}});
    for path in ["docs/../src/a", "./docs/a", "DOCS/a", "docs/../../etc"] {
        assert!(
            !speaks("allow", docs.clone(), json!({"path": path})),
            "{path}"
        );
    }
    assert!(!speaks(
        "allow",
        json!({"path": {"inside": "docs"}}),
        json!({"path": "DOCS/a"})
    ));
    assert!(!speaks(
        "allow",
        json!({"path": {"not": {"inside": "docs"}}}),
        json!({})
    ));
    assert!(speaks(
        "deny",
        json!({"path": {"not": {"inside": "docs"}}}),
        json!({})
    ));
}

#[test]
fn rule_deny_needs_any_value_and_allow_needs_all() {
    let when = json!({"paths[*]": {"inside": "docs"}});
    let mixed = json!({"paths": ["docs/a", "src/b"]});
    assert!(speaks("deny", when.clone(), mixed.clone()));
    assert!(!speaks("allow", when.clone(), mixed));
    assert!(speaks(
        "allow",
        when.clone(),
        json!({"paths": ["docs/a", "docs/b"]})
    ));
    assert!(!speaks("allow", when, json!({"paths": []})));
    // A text with control characters does not equal a list.
    let when = json!({"a": {"equals": ["x", "y"]}});
    assert!(!speaks("allow", when, json!({"a": ["x\",\"y"]})));
}

#[test]
fn rule_applies_to_tools_groups_and_sources() {
    let denied = |rule: Value| {
        let policy = book(json!([rule])).unwrap();
        let mut evaluation = PolicyEvaluation::default();
        policy.evaluate(
            &tool("sample"),
            &json!({}),
            &LinkResolver::none(),
            &mut evaluation,
        );
        evaluation.decision() == Decision::Deny
    };
    assert!(denied(json!({"decision": "deny"})));
    assert!(denied(
        json!({"tools": ["sample"], "groups": ["system"], "sources": ["custom"], "decision": "blocked"})
    ));
    assert!(!denied(json!({"tools": ["other"], "decision": "deny"})));
    assert!(!denied(json!({"groups": ["net"], "decision": "deny"})));
    assert!(!denied(
        json!({"sources": ["built-in"], "decision": "deny"})
    ));
}

#[test]
fn rule_failing_example_rejects_the_file() {
    let rule = |key: &str, example: Value| {
        let mut rule = json!({"name": "no secrets", "when": {"path": {"inside": "secrets"}}, "decision": "deny"});
        rule[key] = json!([example]);
        book(json!([rule]))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(rule("match", json!({"path": "secrets/a"})), Ok(()));
    assert_eq!(rule("noMatch", json!({"path": "src"})), Ok(()));
    assert_eq!(
        rule("match", json!({"path": "src"})).unwrap_err(),
        r#"config.yml: policy.rules[0] (no secrets) does not match its `match` example: {"path":"src"}"#
    );
    assert!(
        rule("noMatch", json!({"path": "secrets"}))
            .unwrap_err()
            .contains("`noMatch`")
    );
    assert!(
        rule("match", json!("secrets"))
            .unwrap_err()
            .contains("not a JSON object")
    );
}

#[test]
fn rule_invalid_matcher_is_rejected_with_a_reason() {
    for (when, why) in [
        (
            json!({"path": {"regex": "(a{1000}){1000}"}}),
            "more than 512 KB",
        ),
        (
            json!({"path": {"regex": "("}}),
            "not a valid regular expression",
        ),
        (json!({"path": {"glob": "a[", }}), "not a valid glob"),
        (
            json!({"path": {"min": 2, "max": 1}}),
            "must not be greater than `max`",
        ),
        (json!({"path": {}}), "a condition is missing"),
        (json!({"a..b": {"equals": 1}}), "a name is missing"),
        (json!({"path": {"inside": "../x"}}), "leads out"),
        (
            json!({"path": {"not": {"glob": "a", "equals": 1}}}),
            "exactly one",
        ),
        (
            json!({"path": {"not": {"not": {"equals": 1}}}}),
            "supports only",
        ),
    ] {
        let error = book(json!([{"when": when, "decision": "ask"}])).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let twice = json!({"tools": {"a": {"rules": [{"tools": ["b"], "decision": "ask"}]}}});
    let twice: Config = serde_json::from_value(twice).unwrap();
    assert!(Policy::new(&twice, "x").is_err());
    assert!(book(json!([{"tools": ["no-name"], "decision": "ask"}])).is_err());
}

#[test]
fn rule_that_never_matches_is_reported() {
    let mut closed = tool("sample");
    closed.definition.input_schema = crate::schema::Schema::parse(
        r#"{"type":"object","properties":{"path":{}},"additionalProperties":false}"#,
    )
    .unwrap();
    let policy = book(json!([
        {"tools": ["smaple"], "decision": "deny"},
        {"tools": ["sample"], "when": {"file": {"exists": true}}, "decision": "deny"},
        {"tools": ["sample"], "when": {"path": {"exists": true}}, "decision": "deny"},
    ]))
    .unwrap();
    let idle = policy.unused_rules(&[&closed]);
    assert_eq!(idle.len(), 2, "{idle:?}");
    assert!(idle[0].contains("Did you mean `sample`?"));
    assert!(idle[1].contains("none of its tools takes an argument `file`"));
}

#[test]
fn rule_that_misses_some_tools_names_them() {
    let with = |name: &str, schema: &str| {
        let mut tool = tool(name);
        tool.definition.input_schema = crate::schema::Schema::parse(schema).unwrap();
        tool
    };
    let path =
        r#"{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}"#;
    let ends = r#"{"type":"object","properties":{"from":{},"to":{}},"additionalProperties":false}"#;
    let number = r#"{"type":"object","properties":{"path":{"type":"integer"}},"additionalProperties":false}"#;
    let (read, moves, odd) = (
        with("read_file", path),
        with("move_file", ends),
        with("odd", number),
    );
    let tools = [&read, &moves, &odd];
    for (decision, hints) in [("deny", 1), ("ask", 1), ("allow", 0)] {
        let policy = book(json!([{
            "tools": ["read_file", "move_file", "odd"], "when": {"path": {"inside": "keys"}}, "decision": decision,
        }]))
        .unwrap();
        let lines = policy.unused_rules(&tools);
        let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        assert_eq!(count("does not apply to"), 2, "{lines:?}");
        assert_eq!(
            count("`move_file`, which takes no argument `path`"),
            1,
            "{lines:?}"
        );
        assert_eq!(
            count("`odd`, where `path` is not of type string"),
            1,
            "{lines:?}"
        );
        assert_eq!(count("`files.deny`"), hints, "{decision}: {lines:?}");
    }
    // A rule about a group names none of its tools.
    let policy = book(json!([
        {"groups": ["system"], "when": {"path": {"inside": "keys"}}, "decision": "deny"},
    ]))
    .unwrap();
    let lines = policy.unused_rules(&tools);
    assert!(
        !lines.iter().any(|line| line.contains("does not apply")),
        "{lines:?}"
    );
}

/// Rules match effects of a call by the effect's arguments, not by those of the tool.
#[test]
fn rule_about_effects_is_unused_without_matching_tools() {
    let when = |name: &str| json!({"tools": ["sample"], "when": {name: {"glob": "x**"}}, "decision": "deny"});
    let mut closed = tool("sample");
    closed.definition.input_schema = crate::schema::Schema::parse(
        r#"{"type":"object","properties":{"path":{}},"additionalProperties":false}"#,
    )
    .unwrap();
    let mut sends = closed.clone();
    sends.definition.needs.hosts = vec![crate::needs::HostNeed {
        host: "*".to_owned(),
        methods: vec!["GET".to_owned()],
        reason: String::new(),
    }];
    for (name, dead, of_sender) in [
        ("url", 1, 0),
        ("method", 1, 0),
        ("host", 1, 0),
        ("file", 1, 1),
        ("command", 1, 1),
    ] {
        let policy = book(json!([when(name)])).unwrap();
        assert_eq!(policy.unused_rules(&[&closed]).len(), dead, "{name}");
        assert_eq!(policy.unused_rules(&[&sends]).len(), of_sender, "{name}");
    }
    // With an argument that requests do not have, the rule is only about calls.
    let both = json!({"tools": ["sample"], "when": {"url": {"glob": "x"}, "file": {"glob": "y"}}, "decision": "deny"});
    assert_eq!(
        book(json!([both])).unwrap().unused_rules(&[&sends]).len(),
        1
    );
}

#[test]
fn rule_path_that_can_never_match_is_rejected() {
    for (matcher, way) in [
        (json!({"glob": "./keys/*"}), "write `keys/*`"),
        (json!({"glob": "keys//*"}), "write `keys/*`"),
        (json!({"equals": "keys/k/"}), "write `keys/k`"),
        (json!({"equals": "./keys/../k"}), "write `k`"),
        (json!({"not": {"glob": "./*"}}), "write `*`"),
        (json!({"glob": "../x"}), "leads out"),
        (json!({"equals": "./"}), "`**`"),
    ] {
        for decision in ["allow", "deny"] {
            let rule = json!([{"when": {"path": matcher}, "decision": decision}]);
            let error = book(rule).unwrap_err().to_string();
            assert!(error.contains(way), "{matcher}: {error}");
        }
    }
    for fine in [
        json!({"path": {"glob": "keys/*"}}),
        json!({"path": {"glob": "/v1/*"}}),
        json!({"path": {"glob": "https://x/**"}}),
        json!({"content": {"glob": "./*"}}),
    ] {
        book(json!([{"when": fine, "decision": "deny"}])).unwrap();
    }
}

#[test]
fn rule_that_guards_less_than_expected_is_reported() {
    let told = |rule: Value| {
        let policy = book(json!([rule])).unwrap();
        let mut reader = tool("sample");
        let schema = r#"{"type": "object", "properties": {"path": {"type": "string"}, "mode": {"enum": ["a", "b"]}}}"#;
        reader.definition.input_schema = crate::schema::Schema::parse(schema).unwrap();
        let unused = policy.files[0].rules.unused_rules(&[&reader], &|_| None);
        let reasons: Vec<String> = unused.into_iter().map(|unused| unused.reason).collect();
        reasons.join("\n")
    };
    for guard in [
        json!({"when": {"path": {"inside": "keys"}}, "decision": "deny"}),
        json!({"tools": ["sample"], "when": {"path": {"inside": "keys"}}, "decision": "deny"}),
        json!({"when": {"path": {"glob": "keys/**"}, "mode": {"equals": "a"}}, "decision": "ask"}),
    ] {
        let said = told(guard.clone());
        assert!(said.contains("`files.deny`"), "{guard}: {said}");
    }
    for quiet in [
        json!({"when": {"path": {"inside": "keys"}}, "decision": "allow"}),
        json!({"when": {"mode": {"equals": "a"}}, "decision": "deny"}),
    ] {
        assert_eq!(told(quiet.clone()), "", "{quiet}");
    }
    for never in [
        json!({"when": {"mode": {"equals": "nosuch"}}, "decision": "deny"}),
        json!({"when": {"path": {"equals": "a", "regex": "^b"}}, "decision": "deny"}),
        json!({"when": {"path": {"equals": "a", "glob": "b*"}}, "decision": "ask"}),
    ] {
        assert!(told(never.clone()).contains("can never match"), "{never}");
    }
}
