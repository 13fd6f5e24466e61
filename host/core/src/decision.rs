//! The decision of a policy check, ordered by strictness, and its reasons.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{CommandVerdict, ShellWord};

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
pub(crate) const OURS: &str = "mimir";

/// The inputs of a rule, as far as a stored approval depends on them. Never shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleBasis {
    /// Identifies the content of the rule if its name and text do not: another rule may take its place later.
    pub(crate) content: Option<Arc<str>>,
    /// The arguments that it reads.
    pub(crate) reads: RuleArguments,
    /// True for an `allow` that does not count until a person accepts its file.
    pub(crate) withheld: bool,
    /// True if the text comes from an unaccepted (untrusted) source.
    pub(crate) untrusted_text: bool,
    /// The exact line or command that would allow it, if the rule's name alone does not tell.
    pub(crate) remedy: Option<Arc<str>>,
    /// For a question about one simple command that can be approved for all similar ones: these commands.
    pub(crate) offer: Option<Arc<ApprovalOffer>>,
    /// True if it asks about the origin and the method of a request alone, so that an approval covers every URL there.
    pub(crate) per_origin: bool,
}

/// A set of commands that a person can approve at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalOffer {
    /// The command in question.
    pub(crate) words: Vec<ShellWord>,
    /// The pattern that "always" stores; it covers the command.
    pub(crate) pattern: String,
    /// The workspace files that it executes; an empty path stands for an unknown file.
    pub(crate) code: Vec<String>,
    /// True if it runs code of the project from files that are not named anywhere.
    pub(crate) builds: bool,
}

/// The arguments that a rule looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum RuleArguments {
    /// Any of them, unless a narrower set is known.
    #[default]
    Everything,
    /// These, by name.
    Only(Arc<[String]>),
}

impl RuleArguments {
    /// No arguments: the rule is about the tool, or about the effects of the call as a whole.
    pub(crate) fn none() -> Self {
        RuleArguments::Only(Arc::default())
    }

    fn includes(&self, argument: &str) -> bool {
        match self {
            RuleArguments::Everything => true,
            RuleArguments::Only(names) => names.iter().any(|name| name == argument),
        }
    }
}

impl From<RuleArguments> for RuleBasis {
    fn from(reads: RuleArguments) -> Self {
        Self {
            reads,
            ..Self::default()
        }
    }
}

/// A decision with the reasons of all rules that applied. Without any rule it is `ask`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PolicyEvaluation {
    reasons: Vec<DecisionReason>,
    /// The verdict on each simple command, if the call runs commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<CommandVerdict>,
    /// One for each reason.
    #[serde(skip)]
    bases: Vec<RuleBasis>,
    /// Workspace files that the call executes.
    #[serde(skip)]
    code: Vec<String>,
}

impl PolicyEvaluation {
    /// Adds the reason of one rule.
    pub fn push(&mut self, reason: DecisionReason) {
        self.push_with_basis(reason, RuleBasis::default());
    }

    /// Adds the reason of one rule with its basis.
    pub(crate) fn push_with_basis(&mut self, reason: DecisionReason, basis: RuleBasis) {
        self.reasons.push(reason);
        self.bases.push(basis);
    }

    /// Adds a reason whose text is untrusted, so that a model does not read it as mimir's own.
    pub(crate) fn push_untrusted(&mut self, reason: DecisionReason) {
        self.push_untrusted_with_basis(reason, RuleBasis::default());
    }

    /// Adds a reason with untrusted text and its basis.
    pub(crate) fn push_untrusted_with_basis(&mut self, reason: DecisionReason, basis: RuleBasis) {
        let strange = true;
        self.push_with_basis(
            reason,
            RuleBasis {
                untrusted_text: strange,
                ..basis
            },
        );
    }

    /// Marks the texts of the reasons from index `from` on as untrusted.
    pub(crate) fn mark_untrusted(&mut self, from: usize) {
        for basis in self.bases.iter_mut().skip(from) {
            basis.untrusted_text = true;
        }
    }

    /// A copy whose text can be given to a model as mimir's own. A person reads the original.
    #[must_use]
    pub fn without_untrusted_text(&self) -> Self {
        let told = |(reason, basis): (&DecisionReason, &RuleBasis)| match basis.untrusted_text {
            true => reason.without_untrusted_text(),
            false => reason.without_place(),
        };
        Self {
            reasons: self.reasons.iter().zip(&self.bases).map(told).collect(),
            bases: self.bases.clone(),
            commands: self.commands.clone(),
            code: self.code.clone(),
        }
    }

    /// Adds workspace files that the call executes, by path; an empty path stands for an unknown file.
    pub(crate) fn add_executed_files(&mut self, code: &[String]) {
        self.code.extend_from_slice(code);
    }

    /// The workspace files that the call executes.
    pub(crate) fn executed_files(&self) -> impl Iterator<Item = &String> {
        self.code.iter()
    }

    /// Disables each `allow` from index `from` on, for the given reason.
    pub(crate) fn withhold(&mut self, from: usize, why: WithheldCause) {
        let both = self.reasons.iter_mut().zip(&mut self.bases);
        for (reason, basis) in both.skip(from) {
            if reason.decision == Decision::Allow {
                reason.text = format!("{} ({})", reason.text, why.words());
                basis.withheld = why == WithheldCause::Unaccepted;
            }
        }
    }

    /// Appends a later evaluation.
    pub(crate) fn append(&mut self, mut later: PolicyEvaluation) {
        self.reasons.append(&mut later.reasons);
        self.bases.append(&mut later.bases);
        self.commands.append(&mut later.commands);
        self.code.append(&mut later.code);
    }

    /// Appends the reasons of a later evaluation that are not present yet.
    pub(crate) fn append_new(&mut self, later: PolicyEvaluation) {
        for (reason, basis) in later.reasons.into_iter().zip(later.bases) {
            if !self.reasons.contains(&reason) {
                self.push_with_basis(reason, basis);
            }
        }
    }

    /// Removes the questions that have been answered.
    pub(crate) fn remove_answered(&mut self, answered: impl Fn(&DecisionReason) -> bool) {
        let both = self.reasons.drain(..).zip(self.bases.drain(..));
        let left = both
            .filter(|(reason, _)| reason.decision != Decision::Ask || !answered(reason))
            .collect::<Vec<_>>();
        (self.reasons, self.bases) = left.into_iter().unzip();
    }

    /// Attributes the reasons from index `from` on to a team.
    pub(crate) fn attribute_to_team(&mut self, from: usize) {
        for reason in self.reasons.iter_mut().skip(from) {
            reason.layer = PolicyLayer::TeamPolicy;
        }
    }

    /// Masks secrets in the texts.
    pub(crate) fn mask(&mut self, redactor: &crate::redact::Redactor) {
        for reason in &mut self.reasons {
            // In most reasons only the text can hold foreign words, and a long script has many reasons.
            if reason.source == OURS {
                redactor.mask_text(&mut reason.text);
                redactor.mask_text(&mut reason.rule);
            } else {
                redactor.mask_texts([&mut reason.text, &mut reason.rule, &mut reason.source]);
            }
        }
        for verdict in &mut self.commands {
            redactor.mask_texts([&mut verdict.command, &mut verdict.rule, &mut verdict.why]);
        }
    }

    /// Adds the verdict on one simple command.
    pub(crate) fn add_command_verdict(&mut self, verdict: CommandVerdict) {
        match self
            .commands
            .iter_mut()
            .find(|one| one.span == verdict.span && one.command == verdict.command)
        {
            Some(known) if known.decision >= verdict.decision => {}
            Some(known) => *known = verdict,
            None => self.commands.push(verdict),
        }
    }

    /// The verdict on each simple command, in the order of the text; empty if the call runs no commands.
    pub fn commands(&self) -> &[CommandVerdict] {
        &self.commands
    }

    /// Returns true if a danger pattern matched.
    pub(crate) fn is_dangerous(&self) -> bool {
        self.asking()
            .any(|reason| reason.layer == PolicyLayer::Danger)
    }

    /// The strictest decision of all rules.
    pub fn decision(&self) -> Decision {
        self.reasons
            .iter()
            .map(|reason| reason.decision)
            .max()
            .unwrap_or(Decision::Ask)
    }

    /// The reasons of all rules that applied, in the order of the layers.
    pub fn reasons(&self) -> &[DecisionReason] {
        &self.reasons
    }

    /// The reasons that require an approval.
    pub fn asking(&self) -> impl Iterator<Item = &DecisionReason> {
        let reasons = self.reasons.iter();
        reasons.filter(|reason| reason.decision == Decision::Ask)
    }

    /// The reasons that require an approval, each with its basis.
    pub(crate) fn asking_reasons_with_basis(
        &self,
    ) -> impl Iterator<Item = (&DecisionReason, &RuleBasis)> {
        let both = self.reasons.iter().zip(&self.bases);
        both.filter(|(reason, _)| reason.decision == Decision::Ask)
    }

    /// The reasons with the given decision, each with its basis.
    pub(crate) fn reasons_with_decision(
        &self,
        decision: Decision,
    ) -> impl Iterator<Item = (&DecisionReason, &RuleBasis)> {
        let both = self.reasons.iter().zip(&self.bases);
        both.filter(move |(reason, _)| reason.decision == decision)
    }

    /// Returns true if all questions are about the origin and the method of a request.
    pub(crate) fn asks_per_origin(&self) -> bool {
        let mut asking = self.asking_reasons_with_basis().peekable();
        asking.peek().is_some() && asking.all(|(_, basis)| basis.per_origin)
    }

    /// The evaluation reduced to the questions about a host that is on no list.
    pub(crate) fn unlisted_host_questions(&self) -> Self {
        let mut about = Self::default();
        for (reason, basis) in self.asking_reasons_with_basis() {
            if basis.per_origin && reason.layer == PolicyLayer::Network {
                about.push_with_basis(reason.clone(), basis.clone());
            }
        }
        about
    }

    /// Returns true if a question may concern this argument.
    pub(crate) fn asks_about(&self, argument: &str) -> bool {
        let mut asking = self.asking_reasons_with_basis();
        asking.any(|(_, basis)| basis.reads.includes(argument))
    }

    /// The `allow` reasons that do not count until a person accepts their file.
    pub(crate) fn withheld(&self) -> impl Iterator<Item = &DecisionReason> {
        let both = self.reasons.iter().zip(&self.bases);
        let withheld = both.filter(|(_, basis)| basis.withheld);
        withheld.map(|(reason, _)| reason)
    }

    /// The first reason with the final decision.
    pub fn decisive(&self) -> Option<&DecisionReason> {
        let decision = self.decision();
        self.reasons
            .iter()
            .find(|reason| reason.decision == decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(decision: Decision) -> DecisionReason {
        DecisionReason {
            layer: PolicyLayer::ToolDefault,
            decision,
            rule: String::new(),
            source: String::new(),
            text: decision.as_str().to_owned(),
        }
    }

    #[test]
    fn decision_is_the_strictest_in_any_order() {
        let mut evaluation = PolicyEvaluation::default();
        assert_eq!(evaluation.decision(), Decision::Ask, "silence asks");
        evaluation.push(reason(Decision::Allow));
        assert_eq!(evaluation.decision(), Decision::Allow);
        evaluation.push(reason(Decision::Deny));
        evaluation.push(reason(Decision::Ask));
        assert_eq!(evaluation.decision(), Decision::Deny);
        assert_eq!(evaluation.decisive().map(|r| r.text.as_str()), Some("deny"));
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
