//! Argument rules, in `policy` and in the block of a tool.

use mimir_core::{Decision, ToolErrorCode};
use mimir_testkit::{Value, json};

use super::{among, echo, ending, goes, refused};

keys! {
    name: "policy.rules[].name" => a_name_is_said,
    name_of_a_tools: "tools.*.rules[].name" => a_name_is_said,
    tools: "policy.rules[].tools" => tools_are_chosen,
    tools_of_a_tools: "tools.*.rules[].tools" => a_tools_own_rule_names_no_tools,
    groups: "policy.rules[].groups" => groups_are_chosen,
    groups_of_a_tools: "tools.*.rules[].groups" => groups_are_chosen,
    sources: "policy.rules[].sources" => sources_are_chosen,
    sources_of_a_tools: "tools.*.rules[].sources" => sources_are_chosen,
    decision: "policy.rules[].decision" => a_decision_counts,
    decision_of_a_tools: "tools.*.rules[].decision" => a_decision_counts,
    reason: "policy.rules[].reason" => a_reason_is_said,
    reason_of_a_tools: "tools.*.rules[].reason" => a_reason_is_said,
    examples: "policy.rules[].match" => examples_are_checked,
    examples_of_a_tools: "tools.*.rules[].match" => examples_are_checked,
    counterexamples: "policy.rules[].noMatch" => counterexamples_are_checked,
    counterexamples_of_a_tools: "tools.*.rules[].noMatch" => counterexamples_are_checked,
    glob: "policy.rules[].when.*.glob" => globs_match,
    glob_of_a_tools: "tools.*.rules[].when.*.glob" => globs_match,
    regex: "policy.rules[].when.*.regex" => regexes_match,
    regex_of_a_tools: "tools.*.rules[].when.*.regex" => regexes_match,
    equals: "policy.rules[].when.*.equals" => equal_values_match,
    equals_of_a_tools: "tools.*.rules[].when.*.equals" => equal_values_match,
    min: "policy.rules[].when.*.min" => least_numbers_match,
    min_of_a_tools: "tools.*.rules[].when.*.min" => least_numbers_match,
    max: "policy.rules[].when.*.max" => most_numbers_match,
    max_of_a_tools: "tools.*.rules[].when.*.max" => most_numbers_match,
    inside: "policy.rules[].when.*.inside" => folders_match,
    inside_of_a_tools: "tools.*.rules[].when.*.inside" => folders_match,
    exists: "policy.rules[].when.*.exists" => presence_matches,
    exists_of_a_tools: "tools.*.rules[].when.*.exists" => presence_matches,
    not: "policy.rules[].when.*.not" => the_opposite_matches,
    not_of_a_tools: "tools.*.rules[].when.*.not" => the_opposite_matches,
}

/// The list of rules that contains the key, and the key's name in a rule.
fn parts(key: &str) -> (&str, &str) {
    let (_, field) = key.rsplit_once('.').unwrap();
    let (list, _) = key.split_at(key.find("[]").unwrap() + "[]".len());
    (list, field)
}

/// Settings with one rule that denies, with this key.
fn rule(key: &str, value: Value) -> Value {
    let (list, field) = parts(key);
    among(list, "echo", json!({"decision": "deny"}), field, value)
}

/// The decision about a call of `echo` under a rule with this value.
fn says(key: &str, value: Value) -> Decision {
    goes(&echo(rule(key, value)), "echo", json!({}))
}

/// The message of a denied call.
fn told(settings: Value) -> String {
    ending(
        &echo(settings),
        "echo",
        json!({}),
        ToolErrorCode::PolicyDenied,
    )
}

fn a_name_is_said(key: &str) {
    let output = told(rule(key, json!("nothing at night")));
    assert!(output.contains("nothing at night"), "{output}");
}

fn a_reason_is_said(key: &str) {
    let output = told(rule(key, json!("it is late")));
    assert!(output.contains("it is late"), "{output}");
}

fn a_decision_counts(key: &str) {
    for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
        assert_eq!(says(key, json!(decision)), decision);
    }
    // A rule can also relax a decision: a call that the tool itself would ask about is allowed.
    let kit = super::changed(echo(rule(key, json!("allow"))), |tool| {
        tool.definition.approval = Decision::Ask;
    });
    assert_eq!(goes(&kit, "echo", json!({})), Decision::Allow);
    let kit = super::changed(echo(json!({})), |tool| {
        tool.definition.approval = Decision::Ask;
    });
    assert_eq!(goes(&kit, "echo", json!({})), Decision::Ask);
}

fn tools_are_chosen(key: &str) {
    let kit = echo(rule(key, json!(["echo"])));
    assert_eq!(goes(&kit, "echo", json!({})), Decision::Deny);
    let add = goes(&kit, "add", json!({"a": 1, "b": 2}));
    assert_eq!(add, Decision::Allow);
}

fn a_tools_own_rule_names_no_tools(key: &str) {
    let output = refused(rule(key, json!(["echo"])));
    assert!(output.contains("leave `tools` out"), "{output}");
    assert_eq!(says(key, json!([])), Decision::Deny);
}

fn groups_are_chosen(key: &str) {
    assert_eq!(says(key, json!(["system", "net"])), Decision::Deny);
    assert_eq!(says(key, json!(["net"])), Decision::Allow);
}

fn sources_are_chosen(key: &str) {
    assert_eq!(says(key, json!(["custom"])), Decision::Deny);
    assert_eq!(says(key, json!(["built-in", "mcp"])), Decision::Allow);
}

/// Settings with a rule about `path`, and examples of it.
fn example(key: &str, path: &str) -> Value {
    let (list, field) = parts(key);
    let rule = json!({"decision": "deny", "when": {"path": {"glob": "*.key"}}});
    among(list, "echo", rule, field, json!([{"path": path}]))
}

fn examples_are_checked(key: &str) {
    let output = refused(example(key, "readme.md"));
    assert!(
        output.contains("`match`") && output.contains("readme.md"),
        "{output}"
    );
    echo(example(key, "my.key"));
}

fn counterexamples_are_checked(key: &str) {
    let output = refused(example(key, "my.key"));
    assert!(
        output.contains("`noMatch`") && output.contains("my.key"),
        "{output}"
    );
    echo(example(key, "readme.md"));
}

/// Asserts that a rule with this matcher for `path` matches one value and not the other; null omits the argument.
fn matches(key: &str, matcher: Value, hit: Value, miss: Value) {
    let (list, field) = parts(key);
    let when = json!({"path": {field: matcher}});
    let rule = json!({"decision": "deny"});
    let kit = echo(among(list, "echo", rule, "when", when));
    for (value, decision) in [(hit, Decision::Deny), (miss, Decision::Allow)] {
        let arguments = match &value {
            Value::Null => json!({}),
            value => json!({ "path": value }),
        };
        assert_eq!(goes(&kit, "echo", arguments), decision, "{value}");
    }
}

fn globs_match(key: &str) {
    matches(
        key,
        json!("src/*.rs"),
        json!("src/a.rs"),
        json!("src/b/a.rs"),
    );
}

fn regexes_match(key: &str) {
    matches(key, json!("^v[0-9]+$"), json!("v12"), json!("v12b"));
}

fn equal_values_match(key: &str) {
    matches(key, json!([1, "a"]), json!([1.0, "a"]), json!(["a", 1]));
}

fn least_numbers_match(key: &str) {
    matches(key, json!(10), json!(10), json!(9.9));
}

fn most_numbers_match(key: &str) {
    matches(key, json!(10), json!(10), json!(10.1));
}

fn folders_match(key: &str) {
    matches(key, json!("keys"), json!("a/../keys/x"), json!("keys.txt"));
}

fn presence_matches(key: &str) {
    matches(key, json!(true), json!("x"), Value::Null);
    matches(key, json!(false), Value::Null, json!("x"));
}

fn the_opposite_matches(key: &str) {
    matches(
        key,
        json!({"glob": "docs/**"}),
        json!("src/a"),
        json!("docs/a"),
    );
}
