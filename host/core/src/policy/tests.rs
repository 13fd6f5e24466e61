use serde_json::json;

use super::*;
use crate::pipeline::tests::tool;

fn policy(config: serde_json::Value) -> Policy {
    let config: Config = serde_json::from_value(config).unwrap();
    Policy::new(&config, "config.yml").unwrap()
}

fn decision(policy: &Policy, tool: &Tool) -> Decision {
    let mut evaluation = Evaluation::default();
    if !policy.evaluate(tool, &mut evaluation) {
        own_word(tool, None, &mut evaluation);
    }
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
        assert_eq!(decision(&policy(denying.clone()), &sample()), Decision::Deny, "{denying}");
    }
    for allowing in [
        json!({"policy": {"allow": ["alias"]}}),
        json!({"policy": {"groups": {"allow": ["fs"]}}}),
        json!({"tools": {"sample": {"enabled": true}}}),
    ] {
        assert_eq!(decision(&policy(allowing.clone()), &sample()), Decision::Allow, "{allowing}");
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
}

#[test]
fn limits_and_paths_are_per_tool() {
    let policy = policy(json!({
        "limits": {"timeMs": 1000, "fuel": 7},
        "tools": {"sample": {"limits": {"timeMs": 50}, "deny": ["private/**"]}},
    }));
    let (ours, other) = (policy.limits(&sample()), policy.limits(&tool("other")));
    assert_eq!((ours.wall.as_millis(), ours.fuel), (50, 7));
    assert_eq!(other.wall.as_millis(), 1000);
    assert!(policy.paths(&sample()).check("private/key").against_reading().is_some());
    assert!(policy.paths(&tool("other")).check("private/key").against_reading().is_none());
}
