//! A team's file: it ranks above the other files, and its limits are caps.

use serde_json::{Value, json};

use std::time::Duration;

use crate::config::Config;
use crate::decision::Decision;
use crate::limits::Limits;
use crate::pipeline::tests::tool;
use crate::policy::{EnforcedTools, OutdatedTeam, Policy, PolicyFile, PolicyHalt};
use crate::tool::{Tool, ToolName, ToolOrigin, ToolSource};

fn config(value: Value) -> Config {
    serde_json::from_value(value).unwrap()
}

/// Creates the tool `sample` with the alias `alias`.
fn sample() -> Tool {
    let mut sample = tool("sample");
    sample.aliases = vec![ToolName::new("alias").unwrap()];
    sample
}

/// Creates a policy with a team's file and a user's file.
fn policy(team: Value, user: Value) -> Policy {
    let (team, user) = (config(team), config(user));
    let files = vec![
        PolicyFile::new(&team, "team.yml").unwrap().as_team(),
        PolicyFile::new(&user, "config.yml").unwrap(),
    ];
    Policy::from_files(&user, files)
}

/// Returns the limits of `sample` under both files.
fn limits(team: Value, user: Value) -> Limits {
    policy(team, user).limits(&sample())
}

#[test]
fn team_limits_are_a_cap() {
    let user = json!({"limits": {"timeMs": 90_000, "fuel": 5_000, "callsPerMinute": 100}});
    let own = limits(json!({}), user.clone());
    assert_eq!(
        (own.wall, own.fuel, own.calls_per_minute),
        (Duration::from_secs(90), 5_000, Some(100))
    );
    let capped = limits(
        json!({"limits": {"timeMs": 1_000, "fuel": 9_000, "callsPerMinute": 7}}),
        user.clone(),
    );
    let expected = Limits {
        wall: Duration::from_secs(1),
        calls_per_minute: Some(7),
        ..own
    };
    assert_eq!(capped, expected, "a limit is not the smaller of the two");
    let silent = limits(json!({"limits": {"callsPerMinute": 7}}), json!({}));
    assert_eq!(silent.calls_per_minute, Some(7));
    let wider = limits(json!({"limits": {"timeMs": 600_000}}), json!({}));
    assert_eq!(
        wider.wall,
        Limits::default().wall,
        "the cap raised the limit"
    );
    let longest = limits(json!({"tools": {"maxExecutionTime": 300}}), user);
    assert_eq!(longest.wall, Duration::from_millis(300));
}

#[test]
fn team_limits_apply_under_every_tool_name() {
    let team = json!({"limits": {"timeMs": 500}, "tools": {"alias": {"limits": {"timeMs": 2_000, "fuel": 1_500}}}});
    for name in ["sample", "alias"] {
        let user = json!({"tools": {name: {"limits": {"timeMs": 90_000, "fuel": 9_000}}}});
        let limits = limits(team.clone(), user);
        // A value for the tool wins over a value for all tools, as in every file.
        assert_eq!(
            (limits.wall, limits.fuel),
            (Duration::from_secs(2), 1_500),
            "{name}"
        );
    }
    let both = json!({"tools": {"sample": {"limits": {"fuel": 3_000}}, "alias": {"limits": {"fuel": 2_000}}}});
    assert_eq!(limits(both, json!({})).fuel, 2_000);
}

#[test]
fn team_limits_of_a_compact_tool_cap_its_operations() {
    let mut read = tool("read_file");
    read.source = ToolSource::BuiltIn;
    let team = json!({"tools": {"file_operations": {"limits": {"timeMs": 500}}}});
    let user = json!({"tools": {"read_file": {"limits": {"timeMs": 90_000}}}});
    assert_eq!(
        policy(team, user).limits(&read).wall,
        Duration::from_millis(500)
    );
}

#[test]
fn team_audit_setting_wins_over_the_user() {
    let log = |name: &str, logs: bool| json!({"tools": {name: {"audit": {"logArgs": logs}}}});
    let logs = |team, user| policy(team, user).logs_arguments(&sample(), None);
    assert_eq!(logs(log("sample", true), log("sample", false)), Some(true));
    assert_eq!(logs(log("alias", true), log("sample", false)), Some(true));
    assert_eq!(logs(log("sample", false), log("sample", true)), Some(false));
    assert_eq!(logs(log("other", true), log("sample", false)), Some(false));
    assert_eq!(logs(json!({}), json!({})), None);
}

/// Creates a tool of a team.
fn shared(enforced: bool) -> Tool {
    let mut shared = sample().with_enforced(enforced);
    shared.source = ToolSource::Teams;
    shared.origin = std::sync::Arc::new(ToolOrigin {
        location: "team:acme/sample.wasm".to_owned(),
        ..ToolOrigin::default()
    });
    shared
}

#[test]
fn team_tool_that_is_enforced_is_not_disabled_by_other_files() {
    for disabling in [
        json!({"tools": {"sample": {"enabled": false}}}),
        json!({"tools": {"alias": {"enabled": false}}}),
        json!({"tools": {"sample": {"approval": "deny"}}}),
        json!({"approval": {"tools": {"sample": "deny"}}}),
        json!({"policy": {"deny": ["sample"]}}),
        json!({"policy": {"deny": ["s*"]}}),
        json!({"policy": {"allow": ["other"]}}),
        json!({"policy": {"groups": {"allow": ["net"]}}}),
        json!({"enforcement": {"allowTools": ["other"]}}),
    ] {
        let by_user = policy(json!({}), disabling.clone());
        assert!(by_user.refusal(&shared(true)).is_none(), "{disabling}");
        assert!(by_user.is_enabled(&shared(true)), "{disabling}");
        // Its own default still decides.
        assert_eq!(
            super::decision(&by_user, &shared(true)),
            Decision::Allow,
            "{disabling}"
        );
        assert!(by_user.refusal(&shared(false)).is_some(), "{disabling}");
        // The team itself, and a worker's file for the worker, can switch it off.
        let by_team = policy(disabling.clone(), json!({}));
        assert!(by_team.refusal(&shared(true)).is_some(), "{disabling}");
        let file = PolicyFile::for_worker(&config(disabling.clone()), "w".into(), None).unwrap();
        let worker = policy(json!({}), json!({})).restricted_by_worker(file);
        assert!(worker.refusal(&shared(true)).is_some(), "{disabling}");
    }
}

#[test]
fn team_tool_that_is_enforced_is_not_disabled_by_another_team() {
    let denying = config(json!({"policy": {"deny": ["sample"]}}));
    for (disables, is_refused) in [
        (EnforcedTools::All, true),
        (EnforcedTools::At("team:acme/".to_owned()), true),
        (EnforcedTools::At("team:own/".to_owned()), false),
        (EnforcedTools::None, false),
    ] {
        let file = PolicyFile::new(&denying, "team").unwrap().as_team();
        let policy = Policy::from_files(&Config::default(), vec![file.disabling(disables.clone())]);
        let refusal = |tool: &Tool| policy.refusal(tool).is_some();
        assert_eq!(refusal(&shared(true)), is_refused, "{disables:?}");
        assert!(refusal(&shared(false)), "{disables:?}");
    }
}

#[test]
fn team_allow_tools_name_tools_globs_and_sources() {
    let refusal = |allow: &[&str], tool: &Tool| {
        let team = json!({"enforcement": {"allowTools": allow}});
        policy(team, json!({})).refusal(tool)
    };
    for allow in [
        &["sample"][..],
        &["x", "alias"],
        &["s*"],
        &["source:built-in", "source:custom"],
        &[],
    ] {
        assert!(refusal(allow, &sample()).is_none(), "{allow:?}");
    }
    for denied in [&["other"][..], &["source:teams"], &["o*", "source:mcp"]] {
        let reason = refusal(denied, &sample()).unwrap();
        assert_eq!(reason.layer, crate::decision::PolicyLayer::TeamPolicy);
        assert!(
            reason.text.ends_with("that team.yml allows"),
            "{}",
            reason.text
        );
    }
    assert!(refusal(&["source:teams"], &shared(false)).is_none());
    for (bad, wanted) in [
        ("source:web", "is not a source"),
        ("Sample", "neither a tool name"),
    ] {
        let bad = config(json!({"enforcement": {"allowTools": [bad]}}));
        let error = PolicyFile::new(&bad, "team.yml").unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let bad = config(json!({"enforcement": {"models": ["a/["]}}));
    let error = PolicyFile::new(&bad, "team.yml").unwrap_err().to_string();
    assert!(error.contains("enforcement.models[0]"), "{error}");
}

#[test]
fn team_that_is_outdated_refuses_its_own_tools_only() {
    let file = PolicyFile::new(&config(json!({})), "team Acme").unwrap();
    let file = file.as_team().with_outdated_team(OutdatedTeam {
        locations: "team:acme/".to_owned(),
        limit: "teams.maxAgeHours: 1".to_owned(),
        text: "run `mimir team sync`".to_owned(),
    });
    let outdated = Policy::from_files(&Config::default(), vec![file]);
    for enforced in [true, false] {
        let reason = outdated.refusal(&shared(enforced)).unwrap();
        assert_eq!(
            (reason.source.as_str(), reason.rule.as_str()),
            ("team Acme", "teams.maxAgeHours: 1")
        );
    }
    assert!(outdated.refusal(&sample()).is_none());
    let mut other = shared(true);
    other.origin = std::sync::Arc::new(ToolOrigin {
        location: "team:acme-2/sample.wasm".to_owned(),
        ..ToolOrigin::default()
    });
    assert!(outdated.refusal(&other).is_none());
}

#[test]
fn team_tool_that_is_enforced_is_not_disabled_by_rules_for_every_call() {
    let mut enforced = shared(true);
    let schema = json!({"type": "object", "properties": {"mode": {"type": "string"}, "query": {"type": "string"}},
        "required": ["mode"], "additionalProperties": false});
    enforced.definition.input_schema = crate::Schema::parse(&schema.to_string()).unwrap();
    let mut optional = enforced.clone();
    optional.enforced = false;
    let arguments = json!({"mode": "glob"});
    let decide = |policy: &Policy, tool: &Tool, arguments: &Value| {
        let mut evaluation = crate::decision::PolicyEvaluation::default();
        let links = crate::policy::LinkResolver::none();
        policy.evaluate(tool, arguments, &links, &mut evaluation);
        evaluation.decision()
    };
    let rule = |when: Value| json!({"policy": {"rules": [{"decision": "deny", "when": when}]}});
    for disabling in [
        rule(json!({})),
        rule(json!({"mode": {"exists": true}})),
        rule(json!({"mode": {"glob": "**"}})),
        rule(json!({"mode": {"regex": ".*"}})),
        rule(json!({"nothing": {"exists": false}})),
        rule(json!({"nothing": {"not": {"equals": 1}}, "mode": {"exists": true}})),
        rule(json!({"[*]": {"exists": true}})),
        json!({"tools": {"sample": {"rules": [{"decision": "deny"}]}}}),
        json!({"policy": {"rules": [{"decision": "deny", "sources": ["teams"]}]}}),
    ] {
        let by_user = policy(json!({}), disabling.clone());
        assert_ne!(
            decide(&by_user, &enforced, &arguments),
            Decision::Deny,
            "{disabling}"
        );
        assert_eq!(
            decide(&by_user, &optional, &arguments),
            Decision::Deny,
            "{disabling}"
        );
        // The team itself can.
        let by_team = policy(disabling.clone(), json!({}));
        assert_eq!(
            decide(&by_team, &enforced, &arguments),
            Decision::Deny,
            "{disabling}"
        );
    }
    // Rules about certain arguments, and questions, count.
    let narrowed = policy(json!({}), rule(json!({"query": {"glob": "*.pem"}})));
    let with_query = json!({"mode": "glob", "query": "a.pem"});
    assert_eq!(decide(&narrowed, &enforced, &with_query), Decision::Deny);
    assert_ne!(decide(&narrowed, &enforced, &arguments), Decision::Deny);
    let asking = json!({"policy": {"rules": [{"decision": "ask"}]}});
    let asking = policy(json!({}), asking);
    assert_eq!(decide(&asking, &enforced, &arguments), Decision::Ask);
}

#[test]
fn team_tool_that_is_enforced_is_not_disabled_by_the_mode_of_commands() {
    let deny = json!({"execApprovals": {"mode": "deny"}});
    let mut enforced = shared(true);
    enforced.definition.group = crate::ToolGroup::Runtime;
    assert_eq!(
        super::decision(&policy(json!({}), deny.clone()), &enforced),
        Decision::Allow
    );
    assert_eq!(
        super::decision(&policy(deny, json!({})), &enforced),
        Decision::Deny
    );
}

#[test]
fn team_source_means_the_teams_of_the_file() {
    let only = config(json!({"enforcement": {"allowTools": ["source:teams"]},
        "policy": {"rules": [{"decision": "allow", "sources": ["teams"]}]}}));
    let file = |locations: &[&str]| {
        let file = PolicyFile::new(&only, "team.yml").unwrap().as_team();
        let locations = locations.iter().map(|it| (*it).to_owned()).collect();
        Policy::from_files(&Config::default(), vec![file.covering_teams(locations)])
    };
    for enforced in [true, false] {
        assert!(file(&["team:acme/"]).refusal(&shared(enforced)).is_none());
        for locations in [&["team:own/"][..], &[]] {
            let reason = file(locations).refusal(&shared(enforced)).unwrap();
            assert!(
                reason
                    .text
                    .contains("of a team that team.yml does not require"),
                "{}",
                reason.text
            );
        }
    }
    // Without locations, all teams are meant, as in a file of the user.
    let all = PolicyFile::new(&only, "config.yml").unwrap();
    let all = Policy::from_files(&Config::default(), vec![all]);
    assert!(all.refusal(&shared(false)).is_none());
    // A rule that allows means the same teams; one that denies means all.
    let rule = |decision: &str| {
        let rules = json!({"policy": {"rules": [{"decision": decision, "sources": ["teams"]}]}});
        let file = PolicyFile::new(&config(rules), "team.yml").unwrap();
        let file = file.as_team().covering_teams(vec!["team:own/".to_owned()]);
        Policy::from_files(&Config::default(), vec![file])
    };
    let mut asking = shared(false);
    asking.definition.approval = Decision::Ask;
    assert_eq!(super::decision(&rule("allow"), &asking), Decision::Ask);
    assert_eq!(super::decision(&rule("deny"), &asking), Decision::Deny);
}

#[test]
fn policy_check_names_settings_without_effect_because_of_a_team() {
    let lines = |team: Value, user: Value, tool: &Tool| {
        let team = PolicyFile::new(&config(team), "team Acme")
            .unwrap()
            .as_team()
            .disabling(EnforcedTools::At("team:acme/".to_owned()));
        let user = config(user);
        let own = PolicyFile::new(&user, "config.yml").unwrap();
        let policy = Policy::from_files(&user, vec![team, own]);
        policy.unused_rules(&[tool])
    };
    for (user, key) in [
        (
            json!({"tools": {"sample": {"enabled": false}}}),
            "tools.sample.enabled: false",
        ),
        (
            json!({"tools": {"sample": {"approval": "deny"}}}),
            "tools.sample.approval: deny",
        ),
        (
            json!({"approval": {"tools": {"alias": "deny"}}}),
            "approval.tools.alias: deny",
        ),
        (
            json!({"policy": {"deny": ["sample"]}}),
            "policy.deny: [sample]",
        ),
        (
            json!({"enforcement": {"allowTools": ["source:mcp"]}}),
            "enforcement.allowTools: [source:mcp]",
        ),
        (
            json!({"tools": {"sample": {"rules": [{"decision": "deny"}]}}}),
            "tools.sample.rules[0]",
        ),
    ] {
        let wanted = format!("{key} does not count for `sample`: team Acme enforces this tool.");
        let found = lines(json!({}), user.clone(), &shared(true));
        assert!(
            found.iter().any(|line| line.ends_with(&wanted)),
            "{found:?}"
        );
        let found = lines(json!({}), user, &shared(false));
        assert!(
            !found.iter().any(|line| line.contains("enforces")),
            "{found:?}"
        );
    }
    for team in [
        json!({"policy": {"deny": ["sample"]}}),
        json!({"tools": {"sample": {"approval": "ask"}}}),
    ] {
        let user = json!({"tools": {"sample": {"approval": "allow"}}});
        let found = lines(team, user, &shared(false));
        let is_wanted = |line: &String| {
            line.starts_with("config.yml: tools.sample.approval changes nothing: team Acme ")
        };
        assert!(found.iter().any(is_wanted), "{found:?}");
    }
    assert_eq!(
        lines(
            json!({}),
            json!({"tools": {"sample": {"approval": "allow"}}}),
            &shared(true)
        ),
        Vec::<String>::new()
    );
}

#[test]
fn team_tool_that_is_enforced_keeps_the_default_limits() {
    let policy = |team: Value, user: Value| {
        let (team, user) = (config(team), config(user));
        let mut merged = user.clone();
        merged.under_team(&team, |_| true);
        let team = PolicyFile::new(&team, "team Acme").unwrap();
        let team = team
            .as_team()
            .disabling(EnforcedTools::At("team:acme/".to_owned()));
        let own = PolicyFile::new(&user, "config.yml").unwrap();
        Policy::from_files(&merged, vec![team, own])
    };
    let default = policy(json!({}), json!({})).limits(&shared(true));
    for (user, key) in [
        (json!({"limits": {"memoryMb": 1}}), "limits.memoryMb: 1"),
        (json!({"limits": {"fuel": 1000}}), "limits.fuel: 1000"),
        (
            json!({"limits": {"callsPerMinute": 1}}),
            "limits.callsPerMinute: 1",
        ),
        (
            json!({"tools": {"alias": {"limits": {"outputBytes": 1}}}}),
            "tools.alias.limits.outputBytes: 1",
        ),
        (
            json!({"tools": {"sample": {"execution": {"timeout": 1}}}}),
            "tools.sample.execution.timeout: 1",
        ),
        (
            json!({"tools": {"maxExecutionTime": 1}}),
            "tools.maxExecutionTime: 1",
        ),
    ] {
        let policy = policy(json!({}), user);
        assert_eq!(policy.limits(&shared(true)), default, "{key}");
        // They count for other tools.
        assert_ne!(policy.limits(&shared(false)), default, "{key}");
        let found = policy.unused_rules(&[&shared(true)]);
        let wanted = format!("{key} does not count for `sample`: team Acme enforces this tool.");
        assert!(
            found.iter().any(|line| line.ends_with(&wanted)),
            "{found:?}"
        );
        assert_eq!(policy.unused_rules(&[&shared(false)]), [""; 0]);
    }
    // The team's own limits count, and higher ones of the user.
    let team = json!({
        "limits": {"memoryMb": 10},
        "tools": {"sample": {"execution": {"timeout": 2000}}},
    });
    let user = json!({"limits": {"memoryMb": 1, "outputBytes": 100_000_000}});
    let limits = policy(team, user).limits(&shared(true));
    assert_eq!(limits.memory, 10 << 20);
    assert_eq!(limits.wall, Duration::from_secs(2));
    assert_eq!(limits.output_bytes, 100_000_000);
}

#[test]
fn policy_halt_refuses_every_call_and_keeps_tools_listed() {
    let user = json!({"tools": {"sample": {"approval": "allow"}}});
    let policy = policy(json!({}), user);
    assert_eq!(super::decision(&policy, &sample()), Decision::Allow);
    let halted = policy.halted(PolicyHalt {
        source: "team Acme".to_owned(),
        rule: "sandbox".to_owned(),
        text: "restart mimir".to_owned(),
        remedy: "restart it".to_owned(),
    });
    assert_eq!(super::decision(&halted, &sample()), Decision::Deny);
    assert!(halted.refusal(&sample()).is_some());
    assert!(halted.is_listed(&sample()));
}
