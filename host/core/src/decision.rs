//! The decision of a policy check, ordered by strictness, and its reasons.

mod evaluation;
mod rule_basis;

use serde::{Deserialize, Serialize};

pub use evaluation::PolicyEvaluation;
pub(crate) use rule_basis::{ApprovalOffer, RuleArguments, RuleBasis};

/// The decision of a policy check. The order matters: the strictest one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may run.
    #[serde(alias = "auto", alias = "preApproved")]
    Allow,
    /// A person must say yes first.
    Ask,
    /// It may not run.
    #[serde(alias = "always_deny", alias = "blocked")]
    Deny,
}

impl Decision {
    /// The spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// The layer of the policy that a reason comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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
    /// `execApprovals`: which commands may run.
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
    /// The taint of the session: untrusted content that it has read.
    Taint,
    /// The settings and the grant for a host.
    Network,
    /// Secrets: data that leaves the machine and has the form of a secret.
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
}

/// One rule that applied: its decision and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionReason {
    /// The layer.
    pub layer: PolicyLayer,
    /// The decision of this rule alone.
    pub decision: Decision,
    /// The rule in its own spelling, such as `deny: [browser]`.
    pub rule: String,
    /// The file of the rule, such as `.mimir/config.yml`.
    pub source: String,
    /// One plain sentence.
    pub text: String,
}

impl DecisionReason {
    /// The file of the rule, or its name if the rule does not come from a file.
    pub fn place(&self) -> &str {
        match self.source.as_str() {
            "" => &self.rule,
            source => source,
        }
    }

    /// A copy without untrusted text.
    fn without_untrusted_text(&self) -> Self {
        let text = match self.layer {
            PolicyLayer::Assessor => "the tool could not judge this call".to_owned(),
            PolicyLayer::Trust => "this plugin has no grant for its current needs".to_owned(),
            _ => format!(
                "this project's settings say {}; the reason in the file is not shown before the file is accepted",
                self.decision.as_str()
            ),
        };
        let mut told = self.without_place();
        told.text = text;
        // The key is followed by a name, a pattern or a list.
        let end = told.rule.find([' ', ':']).unwrap_or(told.rule.len());
        if !told.is_from_tool() {
            told.rule.truncate(end);
        }
        told
    }

    /// Removes the location: the author of a component chooses its file name.
    fn without_place(&self) -> Self {
        let mut told = self.clone();
        if self.is_from_tool() {
            told.source = "the tool".to_owned();
        }
        told
    }

    fn is_from_tool(&self) -> bool {
        matches!(
            self.layer,
            PolicyLayer::Assessor | PolicyLayer::ToolDefault | PolicyLayer::Trust
        )
    }
}

/// The reason why an `allow` of a file does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithheldCause {
    /// It counts once a person accepts the file.
    Unaccepted,
    /// It never counts: the file of a worker only restricts.
    Narrowed,
}

impl WithheldCause {
    fn words(self) -> &'static str {
        match self {
            Self::Unaccepted => "it does not count until a person accepts the file",
            Self::Narrowed => "a worker may do nothing that its caller may not",
        }
    }
}

/// The source of mimir's own findings about commands: not a valid file name in a policy.
pub(crate) const BUILT_IN_SOURCE: &str = "mimir";

#[cfg(test)]
mod tests {
    use super::*;

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
