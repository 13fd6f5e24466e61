//! Remedies for a call that is asked about or denied: the exact command to run, or the setting to write. They are for
//! the person; models never see them.

use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::grants;
use crate::tool::Tool;

use super::{OutdatedTeam, commands};

/// End of a remedy that names a setting: the settings file of the workspace, and the command that accepts it.
pub(super) const IN_CONFIG: &str = "in .mimir/config.yml, and then `mimir policy accept`";

/// The remedy if no setting can allow the call; it replaces all others.
const ONLY_BY_APPROVAL: &str = "only an approval of this call allows it; no setting does";

/// The name of the rule that denies a request to a host that was not granted.
pub(crate) const NOT_GRANTED: &str = "needs.hosts";

/// Returns the remedies for a card: the settings that allow the card's requests without a question.
pub(crate) fn widening_remedies(evaluation: &PolicyEvaluation, tool: &Tool) -> Vec<String> {
    let concerns_requests = |layer| {
        matches!(
            layer,
            PolicyLayer::Taint | PolicyLayer::Network | PolicyLayer::Secrets
        )
    };
    collect_remedies(evaluation, tool, concerns_requests)
}

/// Returns one remedy for each rule that prevents the call. All of them have to be followed.
pub(crate) fn remedies(evaluation: &PolicyEvaluation, tool: &Tool) -> Vec<String> {
    collect_remedies(evaluation, tool, |_| true)
}

/// Returns the remedies for a call that an approval allows, too: as the alternative to it, if there is one.
pub(crate) fn remedies_besides_approval(evaluation: &PolicyEvaluation, tool: &Tool) -> Vec<String> {
    let mut remedies = remedies(evaluation, tool);
    // One of several remedies alone has no effect.
    let alternative = match remedies.len() {
        0 | 1 => "or ",
        2 => "or both ",
        _ => "or all of ",
    };
    if let Some(first) = remedies.first_mut()
        && first != ONLY_BY_APPROVAL
    {
        first.insert_str(0, alternative);
    }
    remedies
}

fn collect_remedies(
    evaluation: &PolicyEvaluation,
    tool: &Tool,
    is_included: impl Fn(PolicyLayer) -> bool,
) -> Vec<String> {
    let decision = evaluation.decision();
    if decision == Decision::Allow {
        return Vec::new();
    }
    // Agents run mimir too and read its output: it must contain no untrusted text.
    let evaluation = &evaluation.without_untrusted_text();
    let mut remedies = Vec::new();
    let reasons = evaluation.reasons_with_decision(decision);
    for (reason, basis) in reasons.filter(|(reason, _)| is_included(reason.layer)) {
        let waiting = evaluation.withheld().next();
        let remedy = match (reason.layer, waiting) {
            // A person has already written the setting that replaces the tool's default.
            (PolicyLayer::ToolDefault | PolicyLayer::Assessor, Some(waiting)) => format!(
                "`mimir policy accept` puts {} in force",
                with_source(&waiting.rule, &waiting.source)
            ),
            // A refusal by the settings carries its own remedy.
            (PolicyLayer::Network, _) if denies(reason) && reason.rule != NOT_GRANTED => continue,
            // Listing the host settles both questions.
            (PolicyLayer::Taint, _)
                if basis
                    .remedy
                    .as_ref()
                    .is_some_and(|remedy| remedies.contains(&remedy.to_string())) =>
            {
                continue;
            }
            (PolicyLayer::Taint, _) => {
                let effect = "then reading it is not asked about";
                let host_remedy = basis.remedy.iter();
                let host_remedy = host_remedy.map(|remedy| format!("{remedy} ({effect}); or "));
                host_remedy.chain([reason_remedy(reason, tool)]).collect()
            }
            _ if basis.remedy.is_some() => basis.remedy.iter().map(ToString::to_string).collect(),
            _ => reason_remedy(reason, tool),
        };
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    if remedies.iter().any(|remedy| remedy == ONLY_BY_APPROVAL) {
        remedies = vec![ONLY_BY_APPROVAL.to_owned()];
    }
    let remedies = remedies.iter().map(|remedy| crate::text::visible(remedy));
    // Alternatives may precede these, so the text shows which remedies belong together.
    let lines = remedies.enumerate().map(|(at, remedy)| match at {
        0 => remedy,
        _ => format!("and {remedy}"),
    });
    lines.collect()
}

fn denies(reason: &DecisionReason) -> bool {
    reason.decision == Decision::Deny
}

fn reason_remedy(reason: &DecisionReason, tool: &Tool) -> String {
    let name = tool.name();
    let rule = with_source(&reason.rule, &reason.source);
    let denies = denies(reason);
    match reason.layer {
        PolicyLayer::TeamPolicy => match OutdatedTeam::remedy(&reason.rule) {
            Some(remedy) => remedy.to_owned(),
            None => format!("the owner of your team's policy can change {rule}"),
        },
        PolicyLayer::Trust => {
            let changes = tool.changes.iter().flat_map(|changes| &changes.lines);
            let changes: Vec<&str> = changes.map(String::as_str).collect();
            let changes = if changes.is_empty() {
                String::new()
            } else {
                format!(" ({})", changes.join("; "))
            };
            let name = tool.trust_argument();
            format!("`mimir tools trust {name}` shows what the plugin needs{changes}, and grants it")
        }
        PolicyLayer::ToolDefault | PolicyLayer::Assessor => {
            format!("`mimir config set tools.{name}.approval allow`")
        }
        PolicyLayer::ToolPolicy => list_remedy(reason, tool, &rule),
        PolicyLayer::Commands if reason.rule.ends_with("mode: allowlist") && denies => format!(
            "a pattern for the command in `execApprovals.approvals` lets it run: see {rule}"
        ),
        PolicyLayer::Commands if reason.rule.ends_with("mode: allowlist") => format!(
            "a pattern with `addedBy: user` in `execApprovals.approvals` lets the command run: see {rule}"
        ),
        PolicyLayer::Commands if reason.rule == commands::DEFAULT_LIST => format!(
            "`execApprovals: {{mode: allowlist, approvals: [{{pattern: …}}]}}` {IN_CONFIG}, lists the commands that run without a question"
        ),
        PolicyLayer::Commands if reason.source == commands::BUILT_IN_SOURCE && denies => {
            "no setting lifts this; use a path that tools may reach".to_owned()
        }
        PolicyLayer::Commands if reason.source == commands::BUILT_IN_SOURCE => {
            "write the command without variables and wrappers, with paths inside the workspace only; or approve it".to_owned()
        }
        PolicyLayer::Danger if reason.source == commands::BUILT_IN_SOURCE => {
            ONLY_BY_APPROVAL.to_owned()
        }
        // A new session would read the page again.
        PolicyLayer::Taint
            if reason.rule.ends_with("untrusted content")
                && tool.definition.group == crate::tool::ToolGroup::Browser =>
        {
            format!("for all pages, `tools.{name}.labels.acceptsUntrusted: true` {IN_CONFIG}")
        }
        PolicyLayer::Taint if reason.rule.ends_with("untrusted content") => format!(
            "start a new session, which has read no untrusted content; for every session, `tools.{name}.labels.acceptsUntrusted: true` {IN_CONFIG}"
        ),
        PolicyLayer::Network if reason.rule != NOT_GRANTED => {
            ONLY_BY_APPROVAL.to_owned()
        }
        PolicyLayer::Network if grants::takes_hosts(tool) => format!(
            "`mimir tools trust {} --host HOST` grants it a host; the tool cannot request one itself",
            tool.trust_argument()
        ),
        PolicyLayer::Network => format!(
            "the plugin must name the host and the method among its needs; or `tools.{name}.approval.conditions.unknownHostRequiresApproval: true` {IN_CONFIG}, asks you about each other host"
        ),
        PolicyLayer::Taint => "start a new session, which has read nothing sensitive".to_owned(),
        PolicyLayer::Secrets => {
            let rule = reason.rule.strip_prefix("secrets: ").unwrap_or(&reason.rule);
            format!(
                "`mimir secrets set NAME` stores the secret, and a tool or server that was granted NAME sends it by that name; if the text is not a secret, `tools.{name}.redaction.exceptions: [{rule}]` {IN_CONFIG}"
            )
        }
        PolicyLayer::Enabled => {
            // Another form of the tool may be disabled.
            let disabled = reason.rule.strip_prefix("tools.");
            let disabled = disabled.and_then(|rule| rule.split_once(".enabled"));
            let disabled = disabled.map_or(name.as_str(), |(disabled, _)| disabled);
            format!("change or remove {rule}, or `mimir tools enable {disabled}`")
        }
        PolicyLayer::ToolApproval
        | PolicyLayer::Commands
        | PolicyLayer::ArgumentRule
        | PolicyLayer::Danger
        | PolicyLayer::Paths
        | PolicyLayer::Condition => format!("change or remove {rule}"),
    }
}

/// Returns the remedy for a list of tools: remove the entry that denies, or add one that allows.
fn list_remedy(reason: &DecisionReason, tool: &Tool, rule: &str) -> String {
    let group = tool.definition.group.as_str();
    match reason.rule.split(':').next().unwrap_or_default() {
        "policy.allow" => format!("add `{}` to {rule}", tool.name()),
        role if role.starts_with("roles.") && role.ends_with(".allow") => {
            format!("add `{}` to {rule}", tool.name())
        }
        "policy.groups.allow" => format!("add `{group}` to {rule}"),
        "policy.groups.deny" => format!("take `{group}` out of {rule}"),
        _ => format!("remove it from {rule}"),
    }
}

/// Formats a rule with its source.
fn with_source(rule: &str, source: &str) -> String {
    match source {
        "" => format!("`{rule}`"),
        source => format!("`{rule}` ({source})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::decision::{RuleArguments, RuleBasis};
    use crate::pipeline::tests::tool;
    use crate::policy::{LinkResolver, Policy, PolicyFile, evaluate_tool_default};
    use serde_json::{Value, json};

    /// Returns the remedies for a call of `sample` under these settings.
    fn remedies_for(config: Value, accepted: bool) -> Vec<String> {
        let config: Config = serde_json::from_value(config).unwrap();
        let mut file = PolicyFile::new(&config, "config.yml").unwrap();
        if !accepted {
            file = file.unaccepted();
        }
        let policy = Policy::from_files(&config, vec![file]);
        let mut sample = tool("sample");
        sample.definition.approval = Decision::Ask;
        let mut evaluation = PolicyEvaluation::default();
        if !policy.evaluate(
            &sample,
            &json!({"n": 1}),
            &LinkResolver::none(),
            &mut evaluation,
        ) {
            evaluate_tool_default(&sample, None, &mut evaluation);
        }
        remedies(&evaluation, &sample)
    }

    #[test]
    fn remedies_name_each_rule_and_how_to_change_it() {
        let set = "`mimir config set tools.sample.approval allow`";
        let rule = json!([{"when": {"n": {"min": 0}}, "decision": "ask"}]);
        for (config, remedy) in [
            (json!({}), set),
            (
                json!({"tools": {"sample": {"approval": "allow", "rules": rule}}}),
                "change or remove `tools.sample.rules[0]` (config.yml)",
            ),
            (
                json!({"tools": {"sample": {"approval": {"level": "allow", "dangerPatterns": ["n"]}}}}),
                "change or remove `tools.sample.approval.dangerPatterns[0]` (config.yml)",
            ),
            (
                json!({"tools": {"sample": {"approval": "deny"}}}),
                "change or remove `tools.sample.approval: deny` (config.yml)",
            ),
            (
                json!({"tools": {"sample": {"enabled": false}}}),
                "change or remove `tools.sample.enabled: false` (config.yml), or `mimir tools enable sample`",
            ),
            (
                json!({"policy": {"deny": ["sample"]}}),
                "remove it from `policy.deny: [sample]` (config.yml)",
            ),
            (
                json!({"policy": {"allow": ["other"]}}),
                "add `sample` to `policy.allow: [other]` (config.yml)",
            ),
            (
                json!({"policy": {"groups": {"deny": ["system"]}}}),
                "take `system` out of `policy.groups.deny: [system]` (config.yml)",
            ),
        ] {
            assert_eq!(remedies_for(config.clone(), true), [remedy], "{config}");
        }
        let both = json!({"policy": {"rules": rule}});
        assert_eq!(
            remedies_for(both, true),
            [
                "change or remove `policy.rules[0]` (config.yml)".to_owned(),
                format!("and {set}")
            ]
        );
    }

    #[test]
    fn remedies_name_a_host_once() {
        let mut evaluation = PolicyEvaluation::default();
        for (layer, rule) in [
            (PolicyLayer::Network, "network.allowedHosts"),
            (PolicyLayer::Taint, "taint: untrusted content"),
        ] {
            let reason = DecisionReason {
                layer,
                decision: Decision::Ask,
                rule: rule.to_owned(),
                source: String::new(),
                text: "a text".to_owned(),
            };
            let basis = RuleBasis {
                remedy: Some("list the host".into()),
                ..RuleArguments::none().into()
            };
            evaluation.push_with_basis(reason, basis);
        }
        assert_eq!(remedies(&evaluation, &tool("sample")), ["list the host"]);
    }

    #[test]
    fn remedies_name_settings_that_await_acceptance() {
        assert_eq!(
            remedies_for(json!({"tools": {"sample": {"approval": "allow"}}}), false),
            ["`mimir policy accept` puts `tools.sample.approval` (config.yml) in force"]
        );
    }

    #[test]
    fn remedies_besides_an_approval_are_alternatives() {
        let evaluation_by = |layer| {
            let mut evaluation = PolicyEvaluation::default();
            evaluation.push(DecisionReason {
                layer,
                decision: Decision::Ask,
                rule: "a rule".to_owned(),
                source: commands::BUILT_IN_SOURCE.to_owned(),
                text: "a text".to_owned(),
            });
            remedies_besides_approval(&evaluation, &tool("sample"))
        };
        assert_eq!(
            evaluation_by(PolicyLayer::ToolDefault),
            ["or `mimir config set tools.sample.approval allow`"]
        );
        assert_eq!(evaluation_by(PolicyLayer::Danger), [ONLY_BY_APPROVAL]);
        let mut evaluation = PolicyEvaluation::default();
        for layer in [PolicyLayer::ToolDefault, PolicyLayer::Trust] {
            evaluation.push(DecisionReason {
                layer,
                decision: Decision::Ask,
                rule: "a rule".to_owned(),
                source: "a source".to_owned(),
                text: "a text".to_owned(),
            });
        }
        let both = remedies_besides_approval(&evaluation, &tool("sample"));
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both[0].starts_with("or both `"), "{both:?}");
        assert!(both[1].starts_with("and `"), "{both:?}");
    }
}
