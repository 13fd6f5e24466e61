//! The decision of a policy check, and the reasons for it.

mod evaluation;
mod rule_basis;

use serde::{Deserialize, Serialize};

pub use evaluation::PolicyEvaluation;
pub(crate) use rule_basis::{ApprovalOffer, RuleArguments, RuleBasis};

/// The decision of a policy check, ordered by strictness: the strictest decision wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call may run.
    #[serde(alias = "auto", alias = "preApproved")]
    Allow,
    /// A person must approve the call first.
    Ask,
    /// The call may not run.
    #[serde(alias = "always_deny", alias = "blocked")]
    Deny,
}

impl Decision {
    /// Returns the name used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// The layer of the policy that a reason comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyLayer {
    /// A rule of a team's policy.
    TeamPolicy,
    /// `tools.NAME.enabled`.
    Enabled,
    /// The allow and deny lists of tools and groups.
    ToolPolicy,
    /// The approval that a person set for this tool in the config.
    ToolApproval,
    /// The command rules: `execApprovals`, and the built-in rules about commands.
    Commands,
    /// The rules for files that no tool may reach or change.
    Paths,
    /// `policy.rules` and `tools.NAME.rules`.
    ArgumentRule,
    /// `tools.NAME.approval.dangerPatterns`.
    Danger,
    /// `tools.NAME.approval.conditions`.
    Condition,
    /// The tool's own assessment of this call.
    Assessor,
    /// The tool's own default.
    ToolDefault,
    /// The grant of the plugin: missing or outdated.
    Trust,
    /// The taint of the session: untrusted content or sensitive data that the session has read.
    Taint,
    /// The settings and the grants for network hosts.
    Network,
    /// Outgoing data that looks like a secret.
    Secrets,
}

impl PolicyLayer {
    /// Returns true if the layer is about the tool or the session, and not about the arguments.
    pub(crate) fn is_tool_wide(self) -> bool {
        matches!(
            self,
            PolicyLayer::ToolApproval
                | PolicyLayer::ToolDefault
                | PolicyLayer::Trust
                | PolicyLayer::Taint
        )
    }

    /// Returns the rank of a reason of this layer for people, the most telling first: what others may have caused, then
    /// secrets, then rules about this call, then rules about the tool.
    fn rank(self) -> u8 {
        match self {
            PolicyLayer::Taint => 0,
            PolicyLayer::Secrets => 1,
            PolicyLayer::Danger => 2,
            PolicyLayer::Commands => 3,
            PolicyLayer::Network => 4,
            PolicyLayer::Paths => 5,
            PolicyLayer::ArgumentRule => 6,
            PolicyLayer::TeamPolicy => 7,
            PolicyLayer::Enabled | PolicyLayer::ToolPolicy => 8,
            PolicyLayer::ToolApproval => 9,
            PolicyLayer::Condition => 10,
            PolicyLayer::Trust => 11,
            PolicyLayer::Assessor => 12,
            PolicyLayer::ToolDefault => 13,
        }
    }
}

/// The decision of one rule that applied, with an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionReason {
    /// The layer of the rule.
    pub layer: PolicyLayer,
    /// The decision of this rule alone.
    pub decision: Decision,
    /// The rule as written, such as `deny: [browser]`, or its name.
    pub rule: String,
    /// The source of the rule: the file, such as `.mimir/config.yml`, or empty.
    pub source: String,
    /// The explanation, in one plain clause.
    pub text: String,
}

impl DecisionReason {
    /// Sorts reasons for people: the strictest decisions first, and among these, the most telling reasons first. Everything
    /// that shows one reason shows the first one.
    pub fn sort_for_people(reasons: &mut [Self]) {
        // Stable, so that reasons of one layer stay in the order of the files.
        reasons.sort_by_key(|reason| (std::cmp::Reverse(reason.decision), reason.layer.rank()));
    }

    /// Returns the source of the rule, or the rule's name if it has no source.
    pub fn location(&self) -> &str {
        match self.source.as_str() {
            "" => &self.rule,
            source => source,
        }
    }

    /// Returns a copy without untrusted text.
    fn without_untrusted_text(&self) -> Self {
        let text = match self.layer {
            PolicyLayer::Assessor => "the tool could not judge this call".to_owned(),
            PolicyLayer::Trust => "this plugin has no grant for its current needs".to_owned(),
            _ => format!(
                "this project's settings decide {}; the reason in the file is not shown before the file is accepted",
                self.decision.as_str()
            ),
        };
        let mut cleaned = self.without_file_name();
        cleaned.text = text;
        // Keeps only the key: the name, pattern or list after it is untrusted.
        let end = cleaned.rule.find([' ', ':']).unwrap_or(cleaned.rule.len());
        if !cleaned.is_from_tool() {
            cleaned.rule.truncate(end);
        }
        cleaned
    }

    /// Returns a copy without the tool's file name, which the author of the component chose.
    fn without_file_name(&self) -> Self {
        let mut cleaned = self.clone();
        if self.is_from_tool() {
            cleaned.source = "the tool".to_owned();
        }
        cleaned
    }

    fn is_from_tool(&self) -> bool {
        matches!(
            self.layer,
            PolicyLayer::Assessor | PolicyLayer::ToolDefault | PolicyLayer::Trust
        )
    }
}

/// Reason why an `allow` of a file does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithheldCause {
    /// The `allow` counts once a person accepts the file.
    Unaccepted,
    /// The `allow` never counts: a worker's file can only restrict.
    Narrowed,
}

impl WithheldCause {
    fn explanation(self) -> &'static str {
        match self {
            Self::Unaccepted => "this does not count until a person accepts the file",
            Self::Narrowed => "a worker may do nothing that its caller may not",
        }
    }
}

/// Source name of mimir's built-in rules. It is not a valid file name in a policy.
pub(crate) const BUILT_IN_SOURCE: &str = "mimir";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_reasons_are_sorted_by_what_they_tell_a_person() {
        let reason = |layer, decision| DecisionReason {
            layer,
            decision,
            rule: String::new(),
            source: String::new(),
            text: String::new(),
        };
        let mut reasons = vec![
            reason(PolicyLayer::ToolDefault, Decision::Ask),
            reason(PolicyLayer::Taint, Decision::Allow),
            reason(PolicyLayer::Assessor, Decision::Ask),
            reason(PolicyLayer::Commands, Decision::Ask),
            reason(PolicyLayer::Secrets, Decision::Ask),
            reason(PolicyLayer::ToolPolicy, Decision::Deny),
            reason(PolicyLayer::Taint, Decision::Ask),
        ];
        DecisionReason::sort_for_people(&mut reasons);
        let layers: Vec<_> = reasons.iter().map(|reason| reason.layer).collect();
        assert_eq!(
            layers,
            [
                PolicyLayer::ToolPolicy,
                PolicyLayer::Taint,
                PolicyLayer::Secrets,
                PolicyLayer::Commands,
                PolicyLayer::Assessor,
                PolicyLayer::ToolDefault,
                PolicyLayer::Taint,
            ]
        );
    }

    #[test]
    fn decision_alias_spellings_are_read() {
        for (text, decision) in [
            ("auto", Decision::Allow),
            ("preApproved", Decision::Allow),
            ("ask", Decision::Ask),
            ("always_deny", Decision::Deny),
            ("blocked", Decision::Deny),
        ] {
            let read: Decision = serde_json::from_value(text.into()).unwrap();
            assert_eq!(read, decision);
        }
    }
}
