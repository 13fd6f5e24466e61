use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::call::CallingTool;
use crate::command::ShellWord;
use crate::decision::{Decision, PolicyEvaluation, RuleBasis};
use crate::pipeline::tests::tool;

struct TestConsent(AtomicBool);

impl SkillConsent for TestConsent {
    fn is_in_force(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn grant(permissions: &[SkillPermission]) -> SkillGrant {
    SkillGrant {
        skill: "s".to_owned(),
        folder: ".mimir/skills/s".to_owned(),
        permissions: permissions.to_vec(),
        consent: Arc::new(TestConsent(AtomicBool::new(true))),
    }
}

fn reason(layer: PolicyLayer, source: &str) -> DecisionReason {
    DecisionReason {
        layer,
        decision: Decision::Ask,
        rule: "r".to_owned(),
        source: source.to_owned(),
        text: String::new(),
    }
}

fn built_in(name: &str) -> Tool {
    let mut tool = tool(name);
    tool.source = ToolSource::BuiltIn;
    tool
}

fn offer(command: &str, code: &[&str]) -> RuleBasis {
    let words = command
        .split(' ')
        .map(|word| ShellWord::Known(word.to_owned()));
    RuleBasis {
        offer: Some(Arc::new(ApprovalOffer {
            words: words.collect(),
            pattern: command.to_owned(),
            code: code.iter().map(|path| (*path).to_owned()).collect(),
            builds: command.starts_with("make"),
        })),
        ..RuleBasis::default()
    }
}

fn covers(grant: &SkillGrant, tool: &Tool, arguments: &Value, asks: &PolicyEvaluation) -> bool {
    grant.covers(&ApprovalLookup {
        tool,
        arguments,
        callers: &[],
        evaluation: asks,
    })
}

#[test]
fn skill_grant_answers_only_built_in_questions() {
    let grant = grant(&[SkillPermission::Tool("write_file".to_owned())]);
    let write = built_in("write_file");
    let arguments = json!({"path": "a"});
    for (layer, covered) in [
        (PolicyLayer::ToolDefault, true),
        (PolicyLayer::Assessor, true),
        (PolicyLayer::TeamPolicy, false),
        (PolicyLayer::ToolApproval, false),
        (PolicyLayer::ArgumentRule, false),
        (PolicyLayer::Condition, false),
        (PolicyLayer::Danger, false),
        (PolicyLayer::Paths, false),
        (PolicyLayer::Trust, false),
        (PolicyLayer::Taint, false),
        (PolicyLayer::Secrets, false),
        (PolicyLayer::Network, false),
        (PolicyLayer::Commands, false),
    ] {
        let mut asks = PolicyEvaluation::default();
        asks.push(reason(layer, "mimir"));
        assert_eq!(
            covers(&grant, &write, &arguments, &asks),
            covered,
            "{layer:?}"
        );
    }
    let mut asks = PolicyEvaluation::default();
    asks.push(reason(PolicyLayer::ToolDefault, ""));
    assert!(!covers(&grant, &built_in("edit_file"), &arguments, &asks));
    // Another component can have the name of a built-in tool.
    assert!(!covers(&grant, &tool("write_file"), &arguments, &asks));
    let caller = [CallingTool::from_tool(&built_in("run_code"))];
    assert!(!grant.covers(&ApprovalLookup {
        tool: &write,
        arguments: &arguments,
        callers: &caller,
        evaluation: &asks,
    }));
}

#[test]
fn skill_grant_covers_commands_by_pattern_and_own_scripts() {
    let grant = grant(&[
        SkillPermission::Command("git *".to_owned()),
        SkillPermission::Command("python *".to_owned()),
        SkillPermission::Command("make *".to_owned()),
    ]);
    let exec = built_in("exec");
    let own = ".mimir/skills/s/scripts/a.py";
    for (command, code, source, covered) in [
        ("git push", &[][..], "mimir", true),
        ("gitk", &[], "mimir", false),
        ("rm -rf .", &[], "mimir", false),
        // The Makefile of the workspace runs.
        ("make test", &[], "mimir", false),
        ("git push", &[], ".mimir/config.yml", false),
        ("python a.py", &[own], "mimir", true),
        ("python a.py", &["a.py"], "mimir", false),
        ("python a.py", &[".mimir/skills/sx/a.py"], "mimir", false),
        ("python a.py", &[""], "mimir", false),
    ] {
        let mut asks = PolicyEvaluation::default();
        asks.push(reason(PolicyLayer::ToolDefault, ""));
        asks.push_with_basis(reason(PolicyLayer::Commands, source), offer(command, code));
        let arguments = json!({"command": command});
        assert_eq!(
            covers(&grant, &exec, &arguments, &asks),
            covered,
            "{command} {code:?}"
        );
        // A second command of the script is not covered by the first one's pattern.
        asks.push_with_basis(reason(PolicyLayer::Commands, "mimir"), offer("curl x", &[]));
        assert!(!covers(&grant, &exec, &arguments, &asks), "{command}");
    }
    // A command that cannot be analyzed has no offer.
    let mut asks = PolicyEvaluation::default();
    asks.push(reason(PolicyLayer::Commands, "mimir"));
    assert!(!covers(&grant, &exec, &json!({"command": "$x"}), &asks));
    let mut asks = PolicyEvaluation::default();
    asks.push(reason(PolicyLayer::ToolDefault, ""));
    assert!(!covers(&grant, &built_in("write_file"), &json!({}), &asks));
}

#[test]
fn skill_grant_covers_requests_to_one_https_host_without_data() {
    let grant = grant(&[SkillPermission::Host("docs.example.com".to_owned())]);
    let fetch = built_in("web_fetch");
    let mut asks = PolicyEvaluation::default();
    asks.push(reason(PolicyLayer::Network, "mimir"));
    for (arguments, covered) in [
        (json!({"url": "https://docs.example.com/a?b"}), true),
        (
            json!({"url": "https://docs.example.com/a", "method": "head"}),
            true,
        ),
        (json!({"url": "http://docs.example.com/a"}), false),
        (json!({"url": "https://docs.example.com:8443/a"}), false),
        (
            json!({"url": "https://docs.example.com.evil.example/a"}),
            false,
        ),
        (
            json!({"url": "https://docs.example.com@evil.example/"}),
            false,
        ),
        (
            json!({"url": "https://docs.example.com/", "method": "POST"}),
            false,
        ),
        (
            json!({"url": "https://docs.example.com/", "body": "x"}),
            false,
        ),
        (
            json!({"url": "https://docs.example.com/", "headers": {"x": "y"}}),
            false,
        ),
        (json!({}), false),
    ] {
        assert_eq!(
            covers(&grant, &fetch, &arguments, &asks),
            covered,
            "{arguments}"
        );
    }
    let arguments = json!({"url": "https://docs.example.com/a"});
    assert!(!covers(&grant, &built_in("exec"), &arguments, &asks));
}

#[test]
fn skill_grant_ends_with_the_consent() {
    let consent = Arc::new(TestConsent(AtomicBool::new(true)));
    let grant = SkillGrant {
        consent: Arc::clone(&consent) as Arc<dyn SkillConsent>,
        ..grant(&[SkillPermission::Tool("write_file".to_owned())])
    };
    let mut asks = PolicyEvaluation::default();
    asks.push(reason(PolicyLayer::ToolDefault, ""));
    let write = built_in("write_file");
    assert!(covers(&grant, &write, &json!({}), &asks));
    consent.0.store(false, Ordering::Relaxed);
    assert!(!covers(&grant, &write, &json!({}), &asks));
}
