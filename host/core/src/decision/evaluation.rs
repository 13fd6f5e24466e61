//! The reasons of all rules that applied to a call, and the resulting decision.

use serde::Serialize;
use serde_json::{Value, json};

use super::{BUILT_IN_SOURCE, Decision, DecisionReason, PolicyLayer, RuleBasis, WithheldCause};
use crate::command::CommandVerdict;
use crate::redact::Redactor;

/// One rule that applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
struct Finding {
    reason: DecisionReason,
    #[serde(skip)]
    basis: RuleBasis,
}

impl Finding {
    fn both(&self) -> (&DecisionReason, &RuleBasis) {
        (&self.reason, &self.basis)
    }
}

/// The reasons of all rules that applied to a call. The decision is the strictest of theirs, or `ask` without any.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PolicyEvaluation {
    #[serde(rename = "reasons")]
    findings: Vec<Finding>,
    /// The verdict on each simple command, if the call runs commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<CommandVerdict>,
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
        self.findings.push(Finding { reason, basis });
    }

    /// Adds a reason whose text is untrusted and must not be shown to a model as mimir's own words.
    pub(crate) fn push_untrusted(&mut self, reason: DecisionReason) {
        self.push_untrusted_with_basis(reason, RuleBasis::default());
    }

    /// Adds a reason with untrusted text and its basis.
    pub(crate) fn push_untrusted_with_basis(&mut self, reason: DecisionReason, basis: RuleBasis) {
        let basis = RuleBasis {
            untrusted_text: true,
            ..basis
        };
        self.push_with_basis(reason, basis);
    }

    /// Marks the texts of the reasons from index `from` on as untrusted.
    pub(crate) fn mark_untrusted(&mut self, from: usize) {
        for finding in self.findings.iter_mut().skip(from) {
            finding.basis.untrusted_text = true;
        }
    }

    /// Returns a copy without untrusted text, which is safe to show to a model. A person sees the original.
    #[must_use]
    pub fn without_untrusted_text(&self) -> Self {
        let mut cleaned = self.clone();
        for Finding { reason, basis } in &mut cleaned.findings {
            *reason = if basis.untrusted_text {
                reason.without_untrusted_text()
            } else {
                reason.without_file_name()
            };
        }
        cleaned
    }

    /// Adds paths of workspace files that the call executes. An empty path means an unknown file.
    pub(crate) fn add_executed_files(&mut self, code: &[String]) {
        self.code.extend_from_slice(code);
    }

    /// Returns the paths of the workspace files that the call executes. An empty path means an unknown file.
    pub(crate) fn executed_files(&self) -> impl Iterator<Item = &String> {
        self.code.iter()
    }

    /// Notes in each `allow` from index `from` on the cause why it does not count. Its decision stays `allow`, so the
    /// caller must not let it replace the tool's own default.
    pub(crate) fn withhold(&mut self, from: usize, why: WithheldCause) {
        for Finding { reason, basis } in self.findings.iter_mut().skip(from) {
            if reason.decision == Decision::Allow {
                reason.text = format!("{} ({})", reason.text, why.explanation());
                basis.withheld = why == WithheldCause::Unaccepted;
            }
        }
    }

    /// Appends a later evaluation.
    pub(crate) fn append(&mut self, mut later: PolicyEvaluation) {
        self.findings.append(&mut later.findings);
        self.commands.append(&mut later.commands);
        self.code.append(&mut later.code);
    }

    /// Appends the reasons of a later evaluation that this evaluation does not have yet.
    pub(crate) fn append_new(&mut self, later: PolicyEvaluation) {
        for finding in later.findings {
            if !self.reasons().any(|reason| *reason == finding.reason) {
                self.findings.push(finding);
            }
        }
    }

    /// Removes the `ask` reasons for which `answered` returns true.
    pub(crate) fn remove_answered(&mut self, answered: impl Fn(&DecisionReason) -> bool) {
        self.findings
            .retain(|Finding { reason, .. }| reason.decision != Decision::Ask || !answered(reason));
    }

    /// Attributes the reasons from index `from` on to a team.
    pub(crate) fn attribute_to_team(&mut self, from: usize) {
        for finding in self.findings.iter_mut().skip(from) {
            finding.reason.layer = PolicyLayer::TeamPolicy;
        }
    }

    /// Masks secrets in the texts.
    pub(crate) fn mask(&mut self, redactor: &Redactor) {
        for Finding { reason, .. } in &mut self.findings {
            // Built-in rules have a constant source, and a long script has many such reasons.
            if reason.source == BUILT_IN_SOURCE {
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

    /// Adds the verdict on one simple command. Of several verdicts on one command, the strictest is kept.
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

    /// Returns the verdict on each simple command, in the order of the script. Empty if the call runs no commands.
    pub fn commands(&self) -> &[CommandVerdict] {
        &self.commands
    }

    /// Returns true if a danger pattern matched.
    pub(crate) fn is_dangerous(&self) -> bool {
        self.asking()
            .any(|reason| reason.layer == PolicyLayer::Danger)
    }

    /// The rule that asks because the session has read untrusted content.
    pub(crate) const UNTRUSTED_CONTENT_RULE: &str = "taint: untrusted content";

    /// Returns true if untrusted content that the session has read is one of the reasons.
    pub(crate) fn is_tainted(&self) -> bool {
        self.reasons()
            .any(|reason| reason.rule == Self::UNTRUSTED_CONTENT_RULE)
    }

    /// Returns true if no rule applied.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns the strictest decision of all rules, or `ask` if no rule applied.
    pub fn decision(&self) -> Decision {
        let decisions = self.reasons().map(|reason| reason.decision);
        decisions.max().unwrap_or(Decision::Ask)
    }

    /// Returns the reasons of all rules that applied, in the order of evaluation.
    pub fn reasons(&self) -> impl ExactSizeIterator<Item = &DecisionReason> {
        self.findings.iter().map(|finding| &finding.reason)
    }

    /// Returns the reasons as the details of an error.
    pub(crate) fn error_details(&self) -> Value {
        json!({ "reasons": self.findings })
    }

    /// Returns the reasons that require an approval.
    pub fn asking(&self) -> impl Iterator<Item = &DecisionReason> {
        self.reasons()
            .filter(|reason| reason.decision == Decision::Ask)
    }

    /// Returns the reasons that require an approval, each with its basis.
    pub(crate) fn asking_reasons_with_basis(
        &self,
    ) -> impl Iterator<Item = (&DecisionReason, &RuleBasis)> {
        self.reasons_with_decision(Decision::Ask)
    }

    /// Returns the reasons with the given decision, each with its basis.
    pub(crate) fn reasons_with_decision(
        &self,
        decision: Decision,
    ) -> impl Iterator<Item = (&DecisionReason, &RuleBasis)> {
        let both = self.findings.iter().map(Finding::both);
        both.filter(move |(reason, _)| reason.decision == decision)
    }

    /// Returns true if there are `ask` reasons, and all of them concern only the origin and the method of a request.
    pub(crate) fn asks_per_origin(&self) -> bool {
        let mut asking = self.asking_reasons_with_basis().peekable();
        asking.peek().is_some() && asking.all(|(_, basis)| basis.per_origin)
    }

    /// Returns an evaluation with only the `ask` reasons about an unlisted host.
    pub(crate) fn unlisted_host_questions(&self) -> Self {
        let mut about = Self::default();
        for (reason, basis) in self.asking_reasons_with_basis() {
            if basis.per_origin && reason.layer == PolicyLayer::Network {
                about.push_with_basis(reason.clone(), basis.clone());
            }
        }
        about
    }

    /// Returns true if an `ask` reason may depend on this argument.
    pub(crate) fn asks_about(&self, argument: &str) -> bool {
        let mut asking = self.asking_reasons_with_basis();
        asking.any(|(_, basis)| basis.reads.includes(argument))
    }

    /// Returns the `allow` reasons that do not count until a person accepts their file.
    pub(crate) fn withheld(&self) -> impl Iterator<Item = &DecisionReason> {
        let withheld = self.findings.iter().filter(|one| one.basis.withheld);
        withheld.map(|finding| &finding.reason)
    }

    /// Returns the first reason with the final decision. `None` if no rule applied.
    pub fn decisive(&self) -> Option<&DecisionReason> {
        let decision = self.decision();
        self.reasons().find(|reason| reason.decision == decision)
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
        assert_eq!(evaluation.decision(), Decision::Ask, "no rule applies");
        evaluation.push(reason(Decision::Allow));
        assert_eq!(evaluation.decision(), Decision::Allow);
        evaluation.push(reason(Decision::Deny));
        evaluation.push(reason(Decision::Ask));
        assert_eq!(evaluation.decision(), Decision::Deny);
        assert_eq!(evaluation.decisive().map(|r| r.text.as_str()), Some("deny"));
    }
}
