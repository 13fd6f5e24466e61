use serde_json::json;

use super::*;
use crate::pipeline::tests::tool;
use crate::tool::Group;

fn policy(config: serde_json::Value) -> Policy {
    let config: Config = serde_json::from_value(config).unwrap();
    Policy::new(&config, "config.yml").unwrap()
}

fn decision(policy: &Policy, tool: &Tool) -> Decision {
    let mut evaluation = Evaluation::default();
    if !policy.evaluate(tool, &json!({}), &Links::none(), &mut evaluation) {
        own_word(tool, None, &mut evaluation);
    }
    trust(tool, &mut evaluation);
    evaluation.decision()
}

/// A tool of the group `fs` that allows itself and answers to `alias` too.
fn sample() -> Tool {
    let mut tool = tool("sample");
    tool.aliases = vec![crate::tool::ToolName::new("alias").unwrap()];
    tool.definition.group = Group::Fs;
    tool
}

#[test]
fn every_key_refuses() {
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
fn a_person_may_lower_a_default_and_a_stranger_may_not() {
    let mut asking = sample();
    asking.definition.approval = Decision::Ask;
    assert_eq!(decision(&policy(json!({})), &asking), Decision::Ask);
    let person = policy(json!({"tools": {"sample": {"approval": "allow"}}}));
    assert_eq!(decision(&person, &asking), Decision::Allow);

    let mut stranger = sample();
    stranger.trust = Trust::Untrusted;
    assert_eq!(decision(&policy(json!({})), &stranger), Decision::Ask);
    assert_eq!(
        decision(&person, &stranger),
        Decision::Ask,
        "a name in a config grants no component what it needs"
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
fn an_alias_counts_beside_the_name() {
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
fn what_one_file_denies_no_other_lifts() {
    let file = |config| policy(config);
    let user = file(json!({"tools": {"alias": {"deny": ["secret.txt"]}}}));
    let workspace = file(json!({"tools": {"sample": {"deny": ["other.txt"]}}}));
    let together = Policy::of_files(&Config::default(), vec![user, workspace]).unwrap();
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
fn an_operation_is_known_by_the_tool_that_does_only_that() {
    let mut compact = tool("file_operations");
    compact.source = crate::tool::Source::BuiltIn;
    assert_eq!(
        same_as(&compact, &json!({"operation": "delete"})),
        Some("delete_file")
    );
    assert_eq!(same_as(&compact, &json!({"operation": "dance"})), None);
    compact.source = crate::tool::Source::Custom;
    assert_eq!(same_as(&compact, &json!({"operation": "delete"})), None);
}

#[test]
fn a_team_stands_above_every_file_and_is_named() {
    let team = policy(json!({"tools": {"sample": {"approval": "deny"}}})).of_team();
    let own = policy(json!({"tools": {"sample": {"approval": "allow"}}}));
    let both = Policy::of_files(&Config::default(), vec![team, own]).unwrap();
    let mut evaluation = Evaluation::default();
    both.evaluate(&sample(), &json!({}), &Links::none(), &mut evaluation);
    assert_eq!(evaluation.decision(), Decision::Deny);
    assert_eq!(evaluation.decisive().unwrap().layer, Layer::TeamPolicy);
}

#[test]
fn what_nobody_has_accepted_forbids_and_allows_nothing() {
    let file = |config| policy(config).unaccepted();
    let mut asking = sample();
    asking.definition.approval = Decision::Ask;
    for lowering in [
        json!({"tools": {"sample": {"approval": "allow"}}}),
        json!({"policy": {"rules": [{"decision": "allow"}]}}),
    ] {
        let alone = Policy::of_files(&Config::default(), vec![file(lowering.clone())]).unwrap();
        assert_eq!(decision(&alone, &asking), Decision::Ask, "{lowering}");
    }
    let mut closed = sample();
    closed.definition.approval = Decision::Deny;
    let asked = file(json!({"tools": {"sample": {"approval": "ask"}}}));
    let asked = Policy::of_files(&Config::default(), vec![asked]).unwrap();
    assert_eq!(
        decision(&asked, &closed),
        Decision::Deny,
        "asking lowers a denial"
    );
    let denying = file(json!({"policy": {"deny": ["sample"]}}));
    let denying = Policy::of_files(&Config::default(), vec![denying]).unwrap();
    assert_eq!(decision(&denying, &sample()), Decision::Deny);
    let reveal = file(json!({"tools": {"sample": {"reveal": [".env"], "deny": ["x"]}}}));
    let reveal = Policy::of_files(&Config::default(), vec![reveal]).unwrap();
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
fn lists_take_globs_and_refuse_what_is_neither_name_nor_glob() {
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
    let idle = policy.idle_denials(&[&tool("read_file"), &tool("git_push")]);
    assert_eq!(idle.len(), 2, "{idle:?}");
    assert!(idle[0].contains("Did you mean `read_file`"), "{idle:?}");
}
