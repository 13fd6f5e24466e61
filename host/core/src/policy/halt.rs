//! A reason to refuse all calls until a person has acted, such as rules of a team that cannot be read.

use std::sync::Arc;

use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, RuleBasis,
};

use super::Policy;

/// A reason to refuse all calls. The tools stay listed, so that each call reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyHalt {
    /// The source of the reason, such as the name of a team.
    pub source: String,
    /// The setting or state that is the reason.
    pub rule: String,
    /// The explanation, in one clause.
    pub text: String,
    /// Steps that a person can take.
    pub remedy: String,
}

impl Policy {
    /// Returns a copy that refuses all calls.
    #[must_use]
    pub fn halted(mut self, halt: PolicyHalt) -> Self {
        self.halt = Some(Arc::new(halt));
        self
    }

    /// Returns the reason to refuse all calls, if there is one.
    pub(super) fn halt_reason(&self) -> Option<DecisionReason> {
        self.halt.as_ref().map(|halt| DecisionReason {
            layer: PolicyLayer::TeamPolicy,
            decision: Decision::Deny,
            rule: halt.rule.clone(),
            source: halt.source.clone(),
            text: halt.text.clone(),
        })
    }

    /// Adds the reason to refuse all calls, if there is one.
    pub(super) fn evaluate_halt(&self, evaluation: &mut PolicyEvaluation) {
        if let (Some(reason), Some(halt)) = (self.halt_reason(), &self.halt) {
            let basis = RuleBasis {
                reads: RuleArguments::none(),
                remedy: Some(halt.remedy.as_str().into()),
                ..RuleBasis::default()
            };
            evaluation.push_with_basis(reason, basis);
        }
    }
}
