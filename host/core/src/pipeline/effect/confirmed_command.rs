//! Commands about which a person is asked each time, with network access to certain hosts only.

use std::sync::Arc;

use crate::backend::ToolAssessment;
use crate::command::{CommandOutput, CommandRequest};
use crate::decision::{
    BUILT_IN_SOURCE, Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleBasis,
};
use crate::error::ToolError;
use crate::needs::HostNeed;
use crate::tool::RiskLevel;

use super::{CommandEgress, EffectGate};

/// A command about which a person is asked, whatever the rules allow.
#[derive(Debug)]
pub struct ConfirmedCommand {
    /// The command.
    pub request: CommandRequest,
    /// The question.
    pub question: CommandQuestion,
    /// The network access of the command, from [`EffectGate::limited_egress`].
    pub egress: CommandEgress,
}

/// The question about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandQuestion {
    /// A summary of the command for the approver, on one line.
    pub summary: String,
    /// The facts and the possible consequences, one per line.
    pub risks: Vec<String>,
    /// The reason why a person is asked, in one sentence.
    pub reason: String,
}

impl CommandQuestion {
    /// Adds the reason to ask. An answer covers no other command.
    pub(super) fn add_reason(&self, evaluation: &mut PolicyEvaluation) {
        let reason = DecisionReason {
            layer: PolicyLayer::Danger,
            decision: Decision::Ask,
            rule: "asked each time".to_owned(),
            source: BUILT_IN_SOURCE.to_owned(),
            text: self.reason.clone(),
        };
        let basis = RuleBasis {
            each_time: true,
            ..RuleBasis::default()
        };
        evaluation.push_with_basis(reason, basis);
    }

    pub(super) fn into_assessment(self) -> ToolAssessment {
        ToolAssessment {
            approval: Decision::Ask,
            risk: RiskLevel::High,
            summary: self.summary,
            risks: self.risks,
            scope: None,
            each_time: true,
        }
    }
}

impl EffectGate {
    /// Returns a gate for requests to these hosts only, within the settings. A person is not asked whether a host may
    /// be reached that the settings do not list. Each request is checked and recorded, and its response is untrusted
    /// content.
    pub fn limited_egress(&self, hosts: Vec<HostNeed>) -> CommandEgress {
        CommandEgress::limited_to(self, hosts)
    }

    /// Asks a person about a command, whatever the rules allow, and runs it with the network access of its egress. The
    /// answer is never stored.
    pub async fn run_confirmed(
        &self,
        confirmed: ConfirmedCommand,
    ) -> Result<CommandOutput, ToolError> {
        let ConfirmedCommand {
            request,
            question,
            egress,
        } = confirmed;
        let permitted = Box::pin(self.0.permit_command(request, egress, Some(question))).await?;
        let observer = Arc::clone(&self.0.observer);
        let finished = self.0.runner().run(permitted, observer).await?;
        self.record_auto_run_files(&finished.changed_auto_run_files)?;
        Ok(finished)
    }
}
