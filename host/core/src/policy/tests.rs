mod own_words;
mod team;

use serde_json::{Value, json};

use super::*;
use crate::decision::PolicyLayer;
use crate::pipeline::tests::tool;
use crate::tool::{ToolGroup, ToolSource, ToolTrust};

fn policy(config: serde_json::Value) -> Policy {
    let config: Config = serde_json::from_value(config).unwrap();
    Policy::new(&config, "config.yml").unwrap()
}

fn file(config: serde_json::Value) -> PolicyFile {
    let config: Config = serde_json::from_value(config).unwrap();
    PolicyFile::new(&config, "config.yml").unwrap()
}

fn of_files(files: Vec<PolicyFile>) -> Policy {
    Policy::from_files(&Config::default(), files)
}

fn decision(policy: &Policy, tool: &Tool) -> Decision {
    let mut evaluation = PolicyEvaluation::default();
    if !policy.evaluate(tool, &json!({}), &LinkResolver::none(), &mut evaluation) {
        evaluate_tool_default(tool, None, &mut evaluation);
    }
    evaluate_trust(tool, &mut evaluation);
    evaluation.decision()
}

/// Creates a tool of the group `fs` with the default `allow` and the alias `alias`.
fn sample() -> Tool {
    let mut tool = tool("sample");
    tool.aliases = vec![crate::tool::ToolName::new("alias").unwrap()];
    tool.definition.group = ToolGroup::Fs;
    tool
}

#[test]
fn policy_lists_and_tool_settings_deny_a_tool() {
    assert_eq!(decision(&policy(json!({})), &sample()), Decision::Allow);
    for denying in [
        json!({"policy": {"deny": ["sample"]}}),
        json!({"policy": {"deny": ["alias"]}}),
        json!({"policy": {"allow": ["other"]}}),
        json!({"policy": {"groups": {"deny": ["fs"]}}}),
        json!({"policy": {"groups": {"allow": ["net"]}}}),
        json!({"policy": {"allow": ["sample"], "deny": ["sample"]}}),
        json!({"tools": {"sample": {"enabled": false}}}),
        json!({"tools": {"alias": {"enabled": false}}}),
        json!({"tools": {"sample": {"approval": "always_deny"}}}),
    ] {
        assert_eq!(
            decision(&policy(denying.clone()), &sample()),
            Decision::Deny,
            "{denying}"
        );
    }
    for allowing in [
        json!({"policy": {"allow": ["alias"]}}),
        json!({"policy": {"groups": {"allow": ["fs"]}}}),
        json!({"tools": {"sample": {"enabled": true}}}),
    ] {
        assert_eq!(
            decision(&policy(allowing.clone()), &sample()),
            Decision::Allow,
            "{allowing}"
        );
    }
}

#[test]
fn user_approval_lowers_the_default_of_trusted_tools_only() {
    let mut asking = sample();
    asking.definition.approval = Decision::Ask;
    assert_eq!(decision(&policy(json!({})), &asking), Decision::Ask);
    let person = policy(json!({"tools": {"sample": {"approval": "allow"}}}));
    assert_eq!(decision(&person, &asking), Decision::Allow);

    let mut stranger = sample();
    stranger.trust = ToolTrust::Untrusted;
    assert_eq!(decision(&policy(json!({})), &stranger), Decision::Ask);
    assert_eq!(
        decision(&person, &stranger),
        Decision::Ask,
        "a setting for the name grants the needs of an untrusted component"
    );
}

#[test]
fn limits_and_paths_are_per_tool() {
    let policy = policy(json!({
        "limits": {"timeMs": 1000, "fuel": 7_000},
        "tools": {"sample": {"limits": {"timeMs": 50}, "deny": ["private/**"]}},
    }));
    let (ours, other) = (policy.limits(&sample()), policy.limits(&tool("other")));
    assert_eq!((ours.wall.as_millis(), ours.fuel), (50, 7_000));
    assert_eq!(other.wall.as_millis(), 1000);
    assert!(
        policy
            .paths(&sample())
            .check("private/key")
            .against_reading()
            .is_some()
    );
    assert!(
        policy
            .paths(&tool("other"))
            .check("private/key")
            .against_reading()
            .is_none()
    );
}

#[test]
fn limits_of_compact_tools_apply_to_their_operations() {
    for (compact, operation) in [
        ("file_operations", "read_file"),
        ("browser", "browser_click"),
    ] {
        let built_in = |name: &str| {
            let mut tool = tool(name);
            tool.source = ToolSource::BuiltIn;
            tool
        };
        let operation = built_in(operation);
        let wall =
            |settings: serde_json::Value| policy(settings).limits(&operation).wall.as_millis();
        // A value above the default is applied, too, and so to both forms of a call.
        for millis in [50, 500_000] {
            let settings =
                json!({"tools": {compact: {"limits": {"timeMs": millis, "fuel": 7_000}}}});
            assert_eq!(wall(settings.clone()), millis, "{compact}");
            let policy = policy(settings);
            assert_eq!(policy.limits(&operation).fuel, 7_000);
            assert_eq!(policy.limits(&built_in(compact)).wall.as_millis(), millis);
            assert_ne!(policy.limits(&built_in("git")).wall.as_millis(), millis);
            // Another tool of this name is not an operation.
            let mut custom = operation.clone();
            custom.source = ToolSource::Custom;
            assert_ne!(policy.limits(&custom).wall.as_millis(), millis);
        }
        let own = json!({"tools": {
            compact: {"limits": {"timeMs": 50}},
            operation.name().as_str(): {"limits": {"timeMs": 70}},
        }});
        assert_eq!(wall(own), 70, "{compact}");
    }
}

#[test]
fn limits_name_the_setting_of_the_wall_clock() {
    let key = |settings: serde_json::Value| {
        let limits = policy(settings).limits(&sample());
        (limits.wall.as_millis(), limits.wall_setting.key())
    };
    let execution = |timeout: u64| json!({"execution": {"timeout": timeout}});
    for (settings, expected) in [
        (json!({}), (60_000, "limits.timeMs")),
        (
            json!({"tools": {"sample": execution(1500)}}),
            (1500, "execution.timeout"),
        ),
        (
            json!({"tools": {"sample": execution(90_000)}}),
            (60_000, "limits.timeMs"),
        ),
        (
            json!({"tools": {"maxExecutionTime": 2000, "sample": execution(3000)}}),
            (2000, "tools.maxExecutionTime"),
        ),
        (
            json!({"tools": {"maxExecutionTime": 2000, "sample": {"limits": {"timeMs": 1000}}}}),
            (1000, "limits.timeMs"),
        ),
    ] {
        assert_eq!(key(settings.clone()), expected, "{settings}");
    }
}

#[test]
fn fuel_follows_the_wall_clock_unless_it_is_set() {
    let fuel = |settings: serde_json::Value, tool: &crate::Tool| policy(settings).limits(tool).fuel;
    let second = crate::Limits::FUEL_PER_SECOND;
    assert_eq!(fuel(json!({}), &sample()), 60 * second);
    let mut runs_code = tool("runs_code");
    runs_code
        .definition
        .needs
        .commands
        .push(crate::needs::CommandNeed {
            pattern: "*".to_owned(),
            reason: String::new(),
        });
    assert_eq!(fuel(json!({}), &runs_code), 600 * second);
    let longer = json!({"tools": {"sample": {"limits": {"timeMs": 90_500}}}});
    assert_eq!(fuel(longer, &sample()), 91 * second);
    let longest = json!({"tools": {"maxExecutionTime": 3_000}});
    assert_eq!(fuel(longest, &runs_code), 3 * second);
    for set in [
        json!({"limits": {"fuel": 5_000, "timeMs": 90_000}}),
        json!({"limits": {"timeMs": 90_000}, "tools": {"sample": {"limits": {"fuel": 5_000}}}}),
    ] {
        assert_eq!(fuel(set, &sample()), 5_000);
    }
}

#[test]
fn tool_alias_settings_are_combined_with_the_name() {
    let both = policy(json!({"tools": {
        "sample": {"approval": "allow", "deny": ["a.txt"]},
        "alias": {"enabled": false, "deny": ["b.txt"], "limits": {"fuel": 7_000}},
    }}));
    assert_eq!(decision(&both, &sample()), Decision::Deny);
    let paths = both.paths(&sample());
    for path in ["a.txt", "b.txt"] {
        assert!(paths.check(path).against_reading().is_some(), "{path}");
    }
    assert_eq!(both.limits(&sample()).fuel, 7_000);
}

#[test]
fn denied_paths_are_not_lifted_by_another_file() {
    let user = file(json!({"tools": {"alias": {"deny": ["secret.txt"]}}}));
    let workspace = file(json!({"tools": {"sample": {"deny": ["other.txt"]}}}));
    let together = of_files(vec![user, workspace]);
    assert!(
        together
            .paths(&sample())
            .check("secret.txt")
            .against_reading()
            .is_some()
    );
    let lifting: Config =
        serde_json::from_value(json!({"tools": {"sample": {"deny": ["!secret.txt"]}}})).unwrap();
    assert!(matches!(
        Policy::new(&lifting, "x"),
        Err(PolicyError::Exception { .. })
    ));
}

#[test]
fn equivalent_tool_name_is_known_for_every_browser_action() {
    let mut compact = tool("browser");
    compact.source = ToolSource::BuiltIn;
    for name in BROWSER_TOOLS {
        let action = name.trim_start_matches("browser_");
        assert_eq!(
            equivalent_tool_name(&compact, &json!({ "action": action })),
            Some(name)
        );
    }
    assert_eq!(
        equivalent_tool_name(&compact, &json!({"action": "fly"})),
        None
    );
}

#[test]
fn compact_tools_stand_for_their_operations_in_lists_and_settings() {
    let built_in = |name: &str| {
        let mut tool = tool(name);
        tool.source = ToolSource::BuiltIn;
        tool
    };
    for (compact, operation) in [
        ("file_operations", "delete_file"),
        ("browser", "browser_click"),
    ] {
        for (config, expected) in [
            (json!({}), Decision::Allow),
            (json!({"policy": {"deny": [compact]}}), Decision::Deny),
            (json!({"policy": {"allow": [compact]}}), Decision::Allow),
            (json!({"policy": {"allow": ["git"]}}), Decision::Deny),
            (
                json!({"tools": {compact: {"enabled": false}}}),
                Decision::Deny,
            ),
            (
                json!({"tools": {compact: {"approval": "deny"}}}),
                Decision::Deny,
            ),
            (
                json!({"tools": {compact: {"approval": "ask"}}}),
                Decision::Ask,
            ),
        ] {
            let policy = policy(config.clone());
            assert_eq!(
                decision(&policy, &built_in(operation)),
                expected,
                "{config}"
            );
            let is_on = !config.to_string().contains("enabled");
            assert_eq!(policy.is_enabled(&built_in(operation)), is_on, "{config}");
            // A tool of another source with that name is not an operation.
            let other = tool(operation);
            let expected = if config["policy"]["allow"].is_array() {
                Decision::Deny
            } else {
                Decision::Allow
            };
            assert_eq!(decision(&policy, &other), expected, "{config}");
        }
    }
    let allowing = policy(json!({"tools": {"file_operations": {"approval": "allow"}}}));
    let mut asking = built_in("delete_file");
    asking.definition.approval = Decision::Ask;
    assert_eq!(decision(&allowing, &asking), Decision::Ask);
}

#[test]
fn equivalent_tool_name_is_known_for_built_in_operations() {
    let mut compact = tool("file_operations");
    compact.source = crate::tool::ToolSource::BuiltIn;
    assert_eq!(
        equivalent_tool_name(&compact, &json!({"operation": "delete"})),
        Some("delete_file")
    );
    assert_eq!(
        equivalent_tool_name(&compact, &json!({"operation": "dance"})),
        None
    );
    compact.source = crate::tool::ToolSource::Custom;
    assert_eq!(
        equivalent_tool_name(&compact, &json!({"operation": "delete"})),
        None
    );
}

#[test]
fn team_policy_overrides_files_and_is_named() {
    let team = file(json!({"tools": {"sample": {"approval": "deny"}}})).as_team();
    let own = file(json!({"tools": {"sample": {"approval": "allow"}}}));
    let both = of_files(vec![team, own]);
    let mut evaluation = PolicyEvaluation::default();
    both.evaluate(
        &sample(),
        &json!({}),
        &LinkResolver::none(),
        &mut evaluation,
    );
    assert_eq!(evaluation.decision(), Decision::Deny);
    assert_eq!(
        evaluation.decisive().unwrap().layer,
        PolicyLayer::TeamPolicy
    );
}

#[test]
fn untrusted_file_may_deny_but_not_allow() {
    let file = |config| file(config).unaccepted();
    let mut asking = sample();
    asking.definition.approval = Decision::Ask;
    for lowering in [
        json!({"tools": {"sample": {"approval": "allow"}}}),
        json!({"policy": {"rules": [{"decision": "allow"}]}}),
    ] {
        let alone = of_files(vec![file(lowering.clone())]);
        assert_eq!(decision(&alone, &asking), Decision::Ask, "{lowering}");
    }
    let mut closed = sample();
    closed.definition.approval = Decision::Deny;
    let asked = file(json!({"tools": {"sample": {"approval": "ask"}}}));
    let asked = of_files(vec![asked]);
    assert_eq!(
        decision(&asked, &closed),
        Decision::Deny,
        "the setting `ask` lowers the tool's own denial"
    );
    let denying = file(json!({"policy": {"deny": ["sample"]}}));
    let denying = of_files(vec![denying]);
    assert_eq!(decision(&denying, &sample()), Decision::Deny);
    let reveal = file(json!({"tools": {"sample": {"reveal": [".env"], "deny": ["x"]}}}));
    let reveal = of_files(vec![reveal]);
    for hidden in [".env", "x"] {
        assert!(
            reveal
                .paths(&sample())
                .check(hidden)
                .against_reading()
                .is_some(),
            "{hidden}"
        );
    }
}

#[test]
fn policy_lists_accept_names_and_globs_only() {
    let denied = |list: &str, entries: Value| {
        let config = json!({"policy": {list: entries}});
        let config: Config = serde_json::from_value(config).unwrap();
        let policy = Policy::new(&config, "config.yml").unwrap();
        let of = |name: &str| policy.refusal(&tool(name)).is_some();
        [of("git_push"), of("git"), of("read_file")]
    };
    assert_eq!(denied("deny", json!(["git_*"])), [true, false, false]);
    assert_eq!(denied("deny", json!(["git*"])), [true, true, false]);
    assert_eq!(denied("deny", json!(["*"])), [true; 3]);
    assert_eq!(
        denied("deny", json!(["{git,read_file}"])),
        [false, true, true]
    );
    assert_eq!(denied("allow", json!(["git_*"])), [false, true, true]);
    for list in ["deny", "allow"] {
        for bad in [
            "",
            "delete file",
            "Read_File",
            "[",
            "a/*",
            "tools.git",
            "git_*\n",
        ] {
            let config = json!({"policy": {list: ["git", bad]}});
            let config: Config = serde_json::from_value(config).unwrap();
            let why = Policy::new(&config, "config.yml").unwrap_err().to_string();
            assert!(why.contains(&format!("policy.{list}[1]")), "{why}");
        }
    }
    let config = json!({"policy": {"deny": ["read_file", "raed_file", "nothing_*", "git*"]}});
    let config: Config = serde_json::from_value(config).unwrap();
    let policy = Policy::new(&config, "config.yml").unwrap();
    let idle = policy.unused_denials(&[&tool("read_file"), &tool("git_push")]);
    assert_eq!(idle.len(), 2, "{idle:?}");
    assert!(idle[0].contains("Did you mean `read_file`"), "{idle:?}");
}

#[test]
fn redaction_exception_misspelt_names_the_nearest_rule() {
    let config = json!({"tools": {"exec": {"redaction": {"exceptions": ["github-pta"]}}}});
    let config: Config = serde_json::from_value(config).unwrap();
    let error = Policy::new(&config, "config.yml").unwrap_err().to_string();
    assert!(error.contains("Did you mean `github-pat`"), "{error}");
}

#[test]
fn custom_tool_approval_has_a_default_and_tool_entries() {
    let decide = |config: Value, tool: &Tool| {
        let mut evaluation = PolicyEvaluation::default();
        let policy = policy(json!({ "approval": config }));
        if !policy.evaluate(tool, &json!({}), &LinkResolver::none(), &mut evaluation) {
            evaluate_tool_default(tool, None, &mut evaluation);
        }
        evaluation.decision()
    };
    let free = tool("free");
    let mut wary = tool("wary");
    wary.definition.approval = Decision::Ask;
    let mut built_in = tool("built_in");
    built_in.source = ToolSource::BuiltIn;
    let config = json!({"default": "ask", "tools": {"wary": "preApproved", "other": "blocked"}});
    assert_eq!(decide(config.clone(), &free), Decision::Ask);
    assert_eq!(decide(config.clone(), &wary), Decision::Allow);
    assert_eq!(decide(config.clone(), &tool("other")), Decision::Deny);
    assert_eq!(decide(config, &built_in), Decision::Allow);
    let loose = json!({"default": "preApproved"});
    assert_eq!(decide(loose, &wary), Decision::Ask);
    let bad: Config =
        serde_json::from_value(json!({"approval": {"tools": {"no name": "ask"}}})).unwrap();
    let why = Policy::new(&bad, "config.yml").unwrap_err().to_string();
    assert!(
        why.contains("approval.tools") && why.contains("not a valid tool name"),
        "{why}"
    );
}

#[test]
fn exec_approvals_deny_mode_covers_every_command_form() {
    let policy = policy(json!({"execApprovals": {"mode": "deny"}}));
    let denied = |tool: &Tool, arguments: Value| {
        let mut evaluation = PolicyEvaluation::default();
        policy.evaluate(tool, &arguments, &LinkResolver::none(), &mut evaluation);
        !evaluation.is_empty()
    };
    let mut runtime = tool("exec");
    runtime.definition.group = ToolGroup::Runtime;
    for arguments in [
        json!({"command": "ls"}),
        json!({"code": "1"}),
        json!({"command": ["ls"]}),
        json!({}),
    ] {
        assert!(denied(&runtime, arguments.clone()), "{arguments}");
    }
    let mut needy = tool("build");
    assert!(!denied(&needy, json!({"command": "ls"})));
    needy
        .definition
        .needs
        .commands
        .push(crate::needs::CommandNeed {
            pattern: "make *".into(),
            reason: String::new(),
        });
    assert!(denied(&needy, json!({})));
}

#[test]
fn method_condition_uses_the_schema_default() {
    let policy = policy(json!({"tools": {"fetch": {"approval": {
        "conditions": {"methodRequiresApproval": ["POST"]},
    }}}}));
    let asked = |default: &str, arguments: Value| {
        let mut fetch = tool("fetch");
        let schema = json!({"type": "object", "properties": {"method": {"default": default}}});
        fetch.definition.input_schema = crate::schema::Schema::parse(&schema.to_string()).unwrap();
        let mut evaluation = PolicyEvaluation::default();
        policy.evaluate(&fetch, &arguments, &LinkResolver::none(), &mut evaluation);
        !evaluation.is_empty()
    };
    assert!(asked("POST", json!({})));
    assert!(!asked("GET", json!({})));
    assert!(!asked("POST", json!({"method": "GET"})));
}

#[test]
fn unused_rules_finds_conditions_that_never_match() {
    let schema = json!({
        "type": "object", "required": ["path"],
        "properties": {
            "path": {"type": "string"}, "n": {"type": "integer", "maximum": 9},
            "mode": {"type": "string", "enum": ["read", "write"]}, "list": {"type": "array", "items": {"type": "string"}},
        },
    });
    let mut sample = tool("sample");
    sample.definition.input_schema = crate::schema::Schema::parse(&schema.to_string()).unwrap();
    let idle = |config: Value| policy(config).unused_rules(&[&sample, &tool("other")]);
    let of_rule = |when: Value| {
        idle(json!({"policy": {"rules": [{"tools": ["sample"], "when": when, "decision": "ask"}]}}))
    };
    for (when, why) in [
        (json!({"n": {"glob": "a*"}}), "is not of type string"),
        (json!({"n": {"regex": "a"}}), "is not of type string"),
        (json!({"n": {"inside": "a"}}), "is not of type string"),
        (json!({"path": {"min": 1}}), "is not of type number"),
        (json!({"path": {"equals": 1}}), "is not of type number"),
        (json!({"n": {"min": 10}}), "is never such a number"),
        (
            json!({"mode": {"equals": "delete"}}),
            "has none of the values",
        ),
        (json!({"mode": {"glob": "del*"}}), "has none of the values"),
        (json!({"mode": {"regex": "^x"}}), "has none of the values"),
        (json!({"path": {"exists": false}}), "is always there"),
        (json!({"list[*]": {"min": 1}}), "is not of type number"),
        (
            json!({"path": {"glob": "*", "not": {"glob": "*"}}}),
            "contradict",
        ),
        (
            json!({"path": {"glob": "a", "not": {"glob": "**"}}}),
            "matches everything",
        ),
        (
            json!({"path": {"inside": "a/b", "not": {"inside": "a"}}}),
            "contradict",
        ),
        (json!({"n": {"min": 3, "exists": false}}), "contradict"),
        (
            json!({"path": {"glob": "**"}}),
            "glob that matches everything",
        ),
        (
            json!({"path": {"regex": ".*"}}),
            "regex that matches everything",
        ),
        (
            json!({"path": {"regex": "a?"}}),
            "regex that matches everything",
        ),
    ] {
        let lines = of_rule(when.clone());
        assert!(
            lines.iter().any(|line| line.contains(why)),
            "{when}: {lines:?}"
        );
    }
    // A path rule can be bypassed through other spellings, so a hint names `files.deny`.
    for when in [
        json!({"path": {"glob": "a*"}}),
        json!({"path": {"inside": "a", "not": {"inside": "a/b"}}}),
    ] {
        let lines = of_rule(when.clone());
        assert!(
            matches!(lines.as_slice(), [line] if line.contains("`files.deny`")),
            "{when}: {lines:?}"
        );
    }
    for when in [
        json!({"n": {"min": 9}}),
        json!({"n": {"exists": false}}),
        json!({"mode": {"glob": "re*"}}),
        json!({"mode": {"equals": "read"}}),
        json!({"list[*]": {"glob": "a", "not": {"glob": "a"}}}),
        json!({"path": {"regex": "^$"}}),
    ] {
        assert_eq!(of_rule(when.clone()), Vec::<String>::new(), "{when}");
    }
    for (config, why) in [
        (
            json!({"policy": {"deny": ["sample"], "rules": [{"tools": ["sample"], "decision": "allow"}]}}),
            "every call of its tools is denied",
        ),
        (json!({"policy": {"deny": ["*"]}}), "refuses every tool"),
        (
            json!({"policy": {"allow": ["**"]}}),
            "lets every tool be called",
        ),
        (
            json!({"tools": {"sample": {"approval": {"dangerPatterns": [""]}}}}),
            "matches everything",
        ),
        (
            json!({"policy": {"rules": [{"tools": ["sample"], "decision": "deny"}, {"tools": ["sample"], "decision": "allow"}]}}),
            "policy.rules[0] (config.yml) denies every call",
        ),
        (
            json!({"tools": {"sample": {"approval": {"level": "deny", "dangerPatterns": ["x"]}}}}),
            "dangerPatterns change nothing",
        ),
        (
            json!({"execApprovals": {"mode": "full", "approvals": [{"pattern": "ls"}]}}),
            "`mode: full` runs every command",
        ),
        (
            json!({"execApprovals": {"mode": "allowlist", "approvals": [{"pattern": "ls ; rm"}]}}),
            "can never match",
        ),
        (
            json!({"approval": {"tools": {"smaple": "ask"}}}),
            "Did you mean `sample`",
        ),
    ] {
        let lines = idle(config.clone());
        assert!(
            lines.iter().any(|line| line.contains(why)),
            "{config}: {lines:?}"
        );
    }
    let fine = json!({
        "tools": {"sample": {"approval": {"dangerPatterns": ["x"]}}}, "execApprovals": {"mode": "allowlist", "approvals": [{"pattern": "git log *"}]},
        "policy": {"rules": [{"tools": ["sample"], "when": {"mode": {"equals": "read"}}, "decision": "deny"}, {"tools": ["sample"], "decision": "allow"}]},
    });
    assert_eq!(idle(fine), Vec::<String>::new());
}

#[test]
fn policy_decision_by_tool_tells_a_setting_from_arguments() {
    let of = |config: Value, tool: &Tool| {
        let found = policy(config).decision_by_tool(tool);
        (found.decision, found.by_arguments)
    };
    let mut assessed = sample();
    assessed.assessed = true;
    assessed.definition.approval = Decision::Ask;
    let ask = json!({"tools": {"sample": {"approval": "ask"}}});
    assert_eq!(of(json!({}), &assessed), (None, true));
    assert_eq!(of(ask.clone(), &assessed), (Some(Decision::Ask), false));
    let mut commands = sample();
    (commands.source, commands.definition.group) = (ToolSource::BuiltIn, ToolGroup::Runtime);
    assert_eq!(of(json!({}), &commands), (None, true));
    assert_eq!(of(ask.clone(), &commands), (Some(Decision::Ask), false));
    assert_eq!(of(json!({}), &sample()), (Some(Decision::Allow), false));
    assert_eq!(of(ask, &sample()), (Some(Decision::Ask), false));
}

#[test]
fn policy_decision_by_trust_denies_a_tool_of_a_server_that_has_changed() {
    let rules = policy(json!({}));
    assert_eq!(rules.decision_by_trust(&sample()), None);
    let mut custom = sample();
    custom.trust = ToolTrust::Untrusted;
    assert_eq!(rules.decision_by_trust(&custom), Some(Decision::Ask));
    custom.source = ToolSource::Mcp;
    assert_eq!(rules.decision_by_trust(&custom), Some(Decision::Ask));
    custom.changes = Some(crate::grants::GrantChanges {
        lines: vec!["another description".to_owned()],
        ..Default::default()
    });
    assert_eq!(rules.decision_by_trust(&custom), Some(Decision::Deny));
}
