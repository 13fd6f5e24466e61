//! Tests of a tool's own default against its settings, and of content with a base64 encoding.

use super::*;

#[test]
fn custom_tool_approval_default_applies_to_silent_tools() {
    let decide = |config: serde_json::Value, own: Decision, silent: bool| {
        let mut tool = sample();
        tool.source = ToolSource::Custom;
        tool.definition.approval = own;
        tool.definition.silent = silent;
        decision(&policy(json!({"approval": config})), &tool)
    };
    let yes = || json!({"default": "preApproved"});
    assert_eq!(decide(yes(), Decision::Ask, true), Decision::Allow);
    assert_eq!(
        decide(yes(), Decision::Ask, false),
        Decision::Ask,
        "the setting for all tools lowers a declared default"
    );
    assert_eq!(
        decide(json!({"default": "ask"}), Decision::Allow, true),
        Decision::Ask
    );
    assert_eq!(
        decide(json!({"default": "ask"}), Decision::Allow, false),
        Decision::Ask
    );
    let unread = of_files(vec![file(json!({"approval": yes()})).unaccepted()]);
    let mut tool = sample();
    tool.source = ToolSource::Custom;
    (tool.definition.approval, tool.definition.silent) = (Decision::Ask, true);
    assert_eq!(
        decision(&unread, &tool),
        Decision::Ask,
        "an unaccepted file lowers the default"
    );
}

#[test]
fn high_risk_tool_is_asked_by_default() {
    use crate::tool::RiskLevel;
    for (risk, expected) in [
        (RiskLevel::Low, Decision::Allow),
        (RiskLevel::Medium, Decision::Allow),
        (RiskLevel::High, Decision::Ask),
        (RiskLevel::Critical, Decision::Ask),
    ] {
        let mut tool = sample();
        tool.definition.risk = risk;
        assert_eq!(decision(&policy(json!({})), &tool), expected, "{risk:?}");
        let set = json!({"tools": {"sample": {"approval": "allow"}}});
        assert_eq!(
            decision(&policy(set), &tool),
            Decision::Allow,
            "the person's setting does not apply"
        );
    }
}

#[test]
fn base64_content_is_judged_decoded() {
    let rule = json!({"when": {"content": {"regex": "curl"}}, "decision": "deny"});
    let danger = json!({"sample": {"approval": {"dangerPatterns": ["curl"]}}});
    let hidden = json!({"content": "Y3VybCB4IHwgc2g=", "encoding": "base64"});
    for (config, expected) in [
        (json!({"policy": {"rules": [rule]}}), Decision::Deny),
        (json!({"tools": danger}), Decision::Ask),
    ] {
        let judged = |arguments: &serde_json::Value| {
            let mut evaluation = PolicyEvaluation::default();
            policy(config.clone()).evaluate(
                &sample(),
                arguments,
                &LinkResolver::none(),
                &mut evaluation,
            );
            evaluation.decision()
        };
        assert_eq!(judged(&hidden), expected);
        assert_eq!(judged(&json!({"content": "curl x"})), expected);
        let reasons = judged(&json!({"content": "Y3VybCB4IHwgc2g="}));
        assert_ne!(
            reasons,
            Decision::Deny,
            "content without an encoding is not decoded"
        );
    }
}

#[test]
fn policy_permissions_for_a_server_apply_to_its_tool_only() {
    let policy = policy(json!({"tools": {"read_file": {
        "server": "files", "approval": "allow",
        "labels": {"outputTrust": "verified", "acceptsUntrusted": true}
    }}}));
    let mut read = tool("read_file");
    read.definition.approval = Decision::Ask;
    for (source, location, applies) in [
        (ToolSource::Mcp, "mcp:files", true),
        (ToolSource::Mcp, "mcp:files2", false),
        (ToolSource::BuiltIn, "built-in", false),
        (ToolSource::Custom, "mcp:files", false),
    ] {
        read.source = source;
        Arc::make_mut(&mut read.origin).location = location.to_owned();
        // The name may also be an alias of a tool from another source.
        for name in ["read_file", "reader"] {
            read.definition.name = crate::tool::ToolName::new(name).unwrap();
            read.aliases = vec![crate::tool::ToolName::new("read_file").unwrap()];
            let expected = if applies {
                Decision::Allow
            } else {
                Decision::Ask
            };
            assert_eq!(decision(&policy, &read), expected, "{location} {name}");
            let labels = policy.labels(&read);
            assert_eq!(labels.output_trust.is_some(), applies, "{location}");
            assert_eq!(labels.accepts_untrusted.is_some(), applies, "{location}");
        }
    }
}

#[test]
fn policy_restrictions_beside_a_server_apply_to_every_tool() {
    let denied = policy(json!({"tools": {"read_file": {
        "server": "files", "approval": "deny", "labels": {"outputTrust": "untrusted"}
    }}}));
    let read = tool("read_file");
    assert_eq!(decision(&denied, &read), Decision::Deny);
    let trust = denied.labels(&read).output_trust;
    assert_eq!(trust, Some(crate::outcome::TrustLevel::Untrusted));
}
